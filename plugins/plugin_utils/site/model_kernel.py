# SPDX-License-Identifier: Apache-2.0
"""Site data of the kernel: of all hosts, and of one pool's on top."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from ansible_collections.bedplate.metal.plugins.module_utils.kernel_command_line import key
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_parameters import HUGEPAGES, check_parameters
from pydantic import BeforeValidator, Field, field_validator

from .types import Shape, Text
from .types_host import JournalSize, KernelModule, KernelPackage, KernelParameter, Limit, PackageName, PackageVersion, SysctlKey

LimitItem = Literal[
    "as",
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "maxlogins",
    "maxsyslogins",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nonewprivs",
    "nproc",
    "priority",
    "rss",
    "rtprio",
    "sigpending",
    "stack",
]
"""Items of limits.conf(5)."""
Pages = Annotated[int, Field(ge=1)]


class KernelSettings(Shape):
    """What may be said of all hosts' kernel and of one pool's."""

    package: KernelPackage | None = None
    """Package of the kernel, held: one that follows a flavour (linux-image-amd64, linux-image-generic) or one kernel's
    (linux-image-6.8.0-60-generic). Left out, the kernel stays as it is; with version, the flavour that is installed is meant."""
    version: PackageVersion | None = None
    """Exact version of that package, in quotes; left out, any."""
    command_line: list[KernelParameter] = Field(default=[])
    """Parameters of the kernel's command line, for example [mitigations=auto, console=ttyS0]. Each replaces those of its name
    that the host has; a console is added. Everybody on a host can read them."""
    iommu: Literal["passthrough", "translated", "disabled"] | None = None
    """passthrough: devices reach memory directly (intel_iommu=on iommu=pt), translated: through the IOMMU, disabled: there is
    none. Left out, as the kernel was built."""
    hugepages: dict[Literal["2M", "1G"], Pages] = Field(default={})
    """Huge pages kept per host, by size, for example {1G: 64}. Those of 1G are reserved at boot, those of 2M at once; kubelet
    sees them after its next start."""
    transparent_hugepages: Literal["always", "madvise", "never"] | None = None
    """When memory is given in huge pages without being asked for; left out, as the kernel was built."""
    numa_balancing: bool | None = None
    """Whether the kernel moves memory towards the CPU that uses it; false where work is pinned. Left out, as the kernel was
    built."""
    cpu_governor: Literal["performance", "powersave", "schedutil", "ondemand", "conservative"] | None = None
    """Frequency governor of every CPU; left out, as the kernel was built."""
    disable_acs: bool | None = None
    """true: PCI access control services are off on every bridge, so that GPUs and network cards reach each other directly. Not
    for hosts that give devices to virtual machines."""
    modules: list[KernelModule] = Field(default=[])
    """More modules to load, now and at boot (overlay and br_netfilter are loaded anyway)."""
    blacklist: list[KernelModule] = Field(default=[])
    """Modules that are not loaded by themselves at boot."""
    sysctl: dict[SysctlKey, int | Text] = Field(default={})
    """More kernel parameters of sysctl.d; they win over Bedplate's."""
    limits: dict[LimitItem, Limit] = Field(default={})
    """Limits of login sessions (limits.conf items), for example {memlock: unlimited}."""

    @field_validator("command_line")
    @classmethod
    def _command_line(cls, value: list[str]) -> list[str]:
        check_parameters(value)
        pages = [parameter for parameter in value if key(parameter) in HUGEPAGES]
        if pages:
            raise ValueError(f"{pages[0]}: huge pages are said in kernel.hugepages")
        return value

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse settings that contradict each other."""
        for module in sorted({m.replace("-", "_") for m in self.modules} & {m.replace("-", "_") for m in self.blacklist}):
            yield "blacklist", f"module {module} stands in modules and in blacklist"
        if self.iommu is not None and any("iommu" in key(parameter) for parameter in self.command_line):
            yield "iommu", "iommu and such parameters of command_line do not go together: say it in one of them"


class Kernel(KernelSettings):
    """The hosts' kernel."""

    swap: Literal["off", "keep"] = "off"
    """off (in quotes): no swap, now and after a reboot."""
    packages: list[PackageName] = Field(default=[])
    """More packages every host gets."""
    journal_max_size: JournalSize | None = None
    """Most disk space of the system's journal, for example 2G; left out, systemd's own limit."""


def _version_alone(value: Any) -> Any:
    if isinstance(value, (int, float)):
        raise ValueError("must be a version in quotes, or a mapping")
    return {"version": value} if isinstance(value, str) else value


PoolKernel = Annotated[KernelSettings, BeforeValidator(_version_alone, json_schema_input_type=KernelSettings | str)]
"""A text is short for {version: text}."""
