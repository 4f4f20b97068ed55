# SPDX-License-Identifier: Apache-2.0
"""Site data of the GPU path: a pool's driver, and how the whole site's GPUs are shown to Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_packages import parse_version
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import load_table
from pydantic import AfterValidator, BeforeValidator, Field

from .types import DnsName, Label, LabelValue, Shape, Text, Url, matching

Modules = Literal["auto", "open", "proprietary"]
Exposure = Literal["operator", "device-plugin", "dra", "none"]
Sharing = Literal["full-gpu", "mig", "time-slicing"]


def _driver_version(text: str) -> str:
    rule = "must be a driver version in NVIDIA's form, for example 580.126.09"
    if not text.isascii():  # parse_version takes the digits of every script
        raise ValueError(rule)
    try:
        parse_version(text)
    except ValueError:
        raise ValueError(rule) from None
    return text


def _one_model(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    names = [str(name) for name in value]
    known = [model for name in names if (model := load_table().accelerators.get(name))]
    rule = f"the hosts of a pool are alike: one accelerator per pool, so make a pool for each of {', '.join(names)}"
    if len(known) == len(names) and not set.intersection(*(set(model.modules) for model in known)):
        kinds = "; ".join(f"{model.name}: {', '.join(model.modules)}" for model in known)
        rule += f" (no kind of kernel modules drives them all: {kinds})"
    raise ValueError(rule)


DriverVersion = Annotated[str, AfterValidator(_driver_version)]
OperatorVersion = Annotated[
    str,
    AfterValidator(matching(r"v?[0-9]+\.[0-9]+\.[0-9]+", "must be a full version of NVIDIA's GPU Operator, for example v26.7.0")),
]
CudaVersion = Annotated[
    str, AfterValidator(matching(r"[0-9]+(\.[0-9]+){1,2}", 'must be a version of the CUDA toolkit in quotes, for example "13.0"'))
]
MigProfileName = Annotated[
    str,
    AfterValidator(
        matching(
            r"[1-9]g\.[0-9]+gb([+-][a-z]+(\.[a-z]+)?)?",
            "must be a MIG profile as nvidia-smi mig -lgip names it, for example 1g.10gb",
        )
    ),
]
AcceleratorName = Annotated[LabelValue, BeforeValidator(_one_model)]


class Driver(Shape):
    """The NVIDIA driver on the pool's hosts."""

    branch: Annotated[str, Field(pattern="^[0-9]{3}$")]
    """Driver branch, in quotes, for example "580"."""
    version: DriverVersion
    """Exact driver version, in quotes; fabric manager is held at the same."""
    modules: Modules = "auto"
    """Kind of kernel modules; auto takes the kind the compatibility table prefers for the GPU: open from Turing on."""
    source: Literal["nvidia", "distribution"] = "nvidia"
    """Whose packages: NVIDIA's repository (or a mirror of it), or the distribution's own archive."""
    build: Literal["dkms", "precompiled"] = "dkms"
    """Modules compiled on the host, or precompiled and signed (Ubuntu's own archive)."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse a version of another branch."""
        if self.version.split(".")[0] != self.branch:
            yield "version", f"version {self.version} is not of branch {self.branch}"


class ChartSource(Shape):
    """Where a Helm chart comes from, and what a site sets beyond what Bedplate derives."""

    repository: Url | None = None
    """Address of an HTTP chart repository; null where chart is an OCI reference or a directory on the controller."""
    chart: Text
    """Name of the chart in the repository, an OCI reference, or a directory on the controller."""
    version: Text | None = None
    """Version of the chart; left out, the compatibility table's."""
    values: dict[str, Any] = Field(default={})
    """Chart values that win over Bedplate's."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse two places for one chart."""
        if self.repository is not None and ("/" in self.chart or self.chart.startswith((".", "~"))):
            kind = "an OCI reference" if self.chart.startswith("oci://") else "a directory"
            yield "chart", f"is {kind}, and repository names another place ({self.repository}): write repository: null beside it"


class GpuOperator(ChartSource):
    """NVIDIA's GPU Operator, for pools with exposure operator; driver and toolkit stay on the host."""

    repository: Url | None = "https://helm.ngc.nvidia.com/nvidia"
    """Address of an HTTP chart repository; null where chart is an OCI reference or a directory on the controller."""
    chart: Text = "gpu-operator"
    """Name of the chart in the repository, an OCI reference, or a directory on the controller."""
    version: OperatorVersion | None = None
    """Version of the chart, for example v26.7.0; left out, the compatibility table's."""
    namespace: Label = "gpu-operator"
    """Namespace of the operator and its operands."""
    node_feature_discovery: bool = True
    """Run the chart's node feature discovery, which publishes what GPU feature discovery finds; without it Bedplate sets
    the labels the operator needs."""


class DevicePlugin(Shape):
    """NVIDIA's device plugin by itself, for pools with exposure device-plugin."""

    namespace: Label = "nvidia-device-plugin"
    """Namespace of the device plugin."""
    feature_discovery: bool = True
    """Run GPU feature discovery beside it; its labels reach the nodes where node feature discovery runs."""


class Dra(ChartSource):
    """A DRA driver, for pools with exposure dra."""

    repository: Url | None = "https://helm.ngc.nvidia.com/nvidia"
    """Address of an HTTP chart repository; null where chart is an OCI reference or a directory on the controller."""
    chart: Text = "nvidia-dra-driver-gpu"
    """Name of the chart in the repository, an OCI reference, or a directory on the controller."""
    version: Text | None = "25.12.0"
    """Version of the chart; null where the chart is a directory."""
    namespace: Label = "nvidia-dra-driver-gpu"
    """Namespace of the driver."""
    driver: DnsName = "gpu.nvidia.com"
    """Name of the driver, which is also that of the device class its chart makes."""


class Gpu(Shape):
    """How GPUs are shown to Kubernetes; each pool chooses one way (exposure)."""

    operator: GpuOperator = GpuOperator()
    """NVIDIA's GPU Operator."""
    device_plugin: DevicePlugin = DevicePlugin()
    """NVIDIA's device plugin by itself."""
    dra: Dra = Dra()
    """Dynamic resource allocation."""
