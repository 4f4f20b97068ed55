# SPDX-License-Identifier: Apache-2.0
"""The images the lab makes: one program on as little as it needs, under upstream's names and paths."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bedplate_lab import bases, components, oci, versions
from bedplate_lab.components import BY_COMPONENT
from bedplate_lab.errors import LabError
from bedplate_lab.paths import PACKAGING, cache, new_dir
from bedplate_lab.report import Report
from bedplate_lab.run import run


@dataclass(frozen=True)
class ImageRecipe:
    """How an image of versions.yml is made.

    `files` maps paths in the image to programs of the component, `trees` to files or directories of the component's module; what
    lies in `lab/images/NAME/root` for the name `own` is copied as it is. `base` names a base layer out of `bases`.
    """

    component: str
    repository: str
    files: Mapping[str, str]
    base: str = "empty"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    trees: Mapping[str, str] = field(default_factory=dict)
    own: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path | None:
        """The directory of files that are copied as they are."""
        return OWN / self.own / "root" if self.own else None

    @property
    def reference(self) -> str:
        """The image's full name with its tag, from versions.yml. Raises LabError when the row does not name it."""
        for image in versions.load()[self.component].images:
            if image.rpartition(":")[0] == self.repository:
                return image
        raise LabError(f"{versions.FILE.name}: {self.component} names no image {self.repository}")


OWN = PACKAGING.parent / "images"
NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""As in NVIDIA's images: no devices unless a pod asks for them."""
ALL_GPUS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
"""For programs that look at every GPU of their node."""


def _kubernetes(name: str, base: str = "empty") -> ImageRecipe:
    return ImageRecipe(
        "kubernetes", f"registry.k8s.io/{name}", {f"usr/local/bin/{name}": name}, base, entrypoint=(f"/usr/local/bin/{name}",)
    )


RECIPES: tuple[ImageRecipe, ...] = (
    ImageRecipe("pause", "registry.k8s.io/pause", {"pause": "pause"}, entrypoint=("/pause",)),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kube-proxy", "iptables"),
    ImageRecipe(
        "etcd",
        "registry.k8s.io/etcd",
        {f"usr/local/bin/{name}": name for name in ("etcd", "etcdctl", "etcdutl")},
        command=("etcd",),
        directories=("var/etcd", "var/lib/etcd"),
    ),
    ImageRecipe("coredns", "registry.k8s.io/coredns/coredns", {"coredns": "coredns"}, entrypoint=("/coredns",)),
    ImageRecipe(
        "flannel",
        "ghcr.io/flannel-io/flannel",
        {"opt/bin/flanneld": "flanneld"},
        "iptables",
        entrypoint=("/opt/bin/flanneld",),
    ),
    # Its init container copies the plugin to the host by `cp`.
    ImageRecipe("flannel-cni-plugin", "ghcr.io/flannel-io/flannel-cni-plugin", {"flannel": "flannel"}, "busybox"),
    ImageRecipe(
        "kube-network-policies",
        "registry.k8s.io/networking/kube-network-policies",
        {"bin/netpol": "netpol"},
        command=("/bin/netpol",),
    ),
    ImageRecipe(
        "agnhost",
        "registry.k8s.io/e2e-test-images/agnhost",
        {"agnhost": "agnhost"},
        "busybox",
        entrypoint=("/agnhost",),
        command=("pause",),
        links={"agnhost-2": "agnhost"},
        directories=("uploads",),
    ),
    ImageRecipe(
        "nvidia-device-plugin",
        "nvcr.io/nvidia/k8s-device-plugin",
        {f"usr/bin/{name}": name for name in ("config-manager", "gpu-feature-discovery", "nvidia-device-plugin")},
        "shell",
        entrypoint=("nvidia-device-plugin",),
        environment=ALL_GPUS,
    ),
    ImageRecipe(
        "gpu-operator",
        "nvcr.io/nvidia/gpu-operator",
        {"usr/bin/gpu-operator": "gpu-operator"},
        "shell",
        entrypoint=("/usr/bin/gpu-operator",),
        trees={
            "opt/gpu-operator": "assets",
            "opt/gpu-operator/manifests": "manifests",
            **{
                f"opt/gpu-operator/{name}": f"deployments/gpu-operator/crds/{name}"
                for name in ("nvidia.com_clusterpolicies.yaml", "nvidia.com_nvidiadrivers.yaml")
            },
        },
        environment=NVIDIA,
    ),
    ImageRecipe(
        "gpu-operator",
        "nvcr.io/nvidia/cloud-native/gpu-operator-validator",
        {"usr/bin/nvidia-validator": "nvidia-validator"},
        "shell",
        entrypoint=("/bin/bash",),
        trees={
            f"var/nvidia/manifests/{name}": f"validator/{name}"
            for name in ("cuda-workload-validation.yaml", "plugin-workload-validation.yaml")
        },
        own="gpu-operator-validator",
        environment=NVIDIA,
    ),
    ImageRecipe(
        "dcgm-exporter",
        "nvcr.io/nvidia/k8s/dcgm-exporter",
        {"usr/bin/dcgm-exporter": "dcgm-exporter"},
        "shell",
        entrypoint=("/usr/bin/dcgm-exporter",),
        environment=ALL_GPUS,
    ),
    ImageRecipe(
        "dra-example-driver",
        "registry.k8s.io/dra-example-driver/dra-example-driver",
        {f"usr/bin/{name}": name for name in ("dra-example-kubeletplugin", "dra-example-webhook")},
        entrypoint=("/usr/bin/dra-example-kubeletplugin",),
    ),
)


def key(recipe: ImageRecipe, programs: Path) -> str:
    """The cache key of an image: its recipe, its base and the build of its programs."""
    digest = hashlib.sha256(f"{recipe!r} {recipe.reference} {bases.key(recipe.base)} {programs.parent.name}".encode())
    for path, source in sorted(_own(recipe).items()):
        digest.update(path.encode() + source.read_bytes())
    return digest.hexdigest()[:12]


def _own(recipe: ImageRecipe) -> dict[str, Path]:
    """The files of the recipe's own directory by their paths in the image."""
    return _files("", recipe.root) if recipe.root else {}


def _files(path: str, source: Path) -> dict[str, Path]:
    """A file, or those of a directory, by their paths below `path` in the image."""
    if source.is_file():
        return {path: source}
    return {str(Path(path, one.relative_to(source))): one for one in source.rglob("*") if one.is_file()}


def _carried(recipe: ImageRecipe) -> dict[str, Path]:
    """All files of the image that are no programs, by their paths in it."""
    found = _own(recipe)
    if recipe.trees:
        module = components.module_directory(BY_COMPONENT[recipe.component])
        for path, name in recipe.trees.items():
            found.update(_files(path, module / name))
    return found


def file_name(reference: str) -> str:
    """An image's name with its tag as part of a file's name."""
    return reference.replace("/", "_").replace(":", "_")


def layout(recipe: ImageRecipe, programs: Path) -> Path:
    """Where the image is kept, as a directory in the OCI layout."""
    return cache("images", f"{file_name(recipe.reference)}-{key(recipe, programs)}")


def build(recipe: ImageRecipe, programs: Path, report: Report) -> Path:
    """The image in the cache, made when missing; `programs` is the directory of the component's programs."""
    target = layout(recipe, programs)
    if not target.is_dir():
        report(f"image {recipe.reference}")
        base = bases.build(recipe.base, report)
        with new_dir(target) as temporary:
            own = temporary / "layer.tar"
            with oci.Layer(own) as layer:
                for directory in recipe.directories:
                    layer.directory(directory)
                for path, program in sorted(recipe.files.items()):
                    layer.file(path, programs / program)
                for path, source in sorted(_carried(recipe).items()):
                    layer.file(path, source, 0o755 if source.stat().st_mode & 0o100 else 0o644)
                for path, link in sorted(recipe.links.items()):
                    layer.link(path, link)
            settings = oci.Settings(
                recipe.entrypoint,
                recipe.command,
                labels={"org.opencontainers.image.version": recipe.reference.rpartition(":")[2]},
                environment=recipe.environment,
            )
            oci.write(temporary, recipe.reference, [base, own], settings)
            own.unlink()
    return target


def pause_directory() -> Path:
    """Where the build of `pause` is kept: under its version and a hash of its source in the Kubernetes module."""
    digest = hashlib.sha256(_pause_source().read_bytes()).hexdigest()[:12]
    return cache("build", "pause", f"{versions.load()['pause'].version}-{digest}")


def pause(report: Report) -> Path:
    """The directory of the `pause` program, compiled from its source in the Kubernetes module when missing."""
    target = pause_directory()
    if not target.is_dir():
        version = versions.load()["pause"].version
        report(f"build pause {version}")
        with new_dir(target) as temporary:
            (temporary / "bin").mkdir()
            flags = ["-Os", "-Wall", "-Werror", "-static", "-s", f"-DVERSION=v{version}"]
            run(["gcc", *flags, "-o", str(temporary / "bin" / "pause"), str(_pause_source())])
    return target / "bin"


def _pause_source() -> Path:
    return components.module_directory(BY_COMPONENT["kubernetes"]) / "build" / "pause" / "linux" / "pause.c"
