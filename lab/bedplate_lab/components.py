# SPDX-License-Identifier: Apache-2.0
"""Build the components' programs from their pinned Go modules into the cache.

Each directory under lab/components pins one module (go.mod, go.sum); the recipes below say what is built from it. A build is
kept under a key of all that goes into it, so that a changed version rebuilds only what it touches.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache as remember
from pathlib import Path

from bedplate_lab import versions
from bedplate_lab.errors import LabError
from bedplate_lab.paths import COMPONENTS, cache, new_dir
from bedplate_lab.report import Report
from bedplate_lab.run import run

CNI_PLUGINS = "github.com/containernetworking/plugins"
KUBERNETES = "k8s.io/kubernetes"
NVIDIA = "github.com/NVIDIA"


@dataclass(frozen=True)
class Recipe:
    """How one row of versions.yml is built.

    `programs` maps the names of the binaries to their packages; `symbols` maps linker symbols to values, in which `{v}` is the
    version. `module` is the module whose version in go.mod (with a `v` before it) must be that of the row `pinned_by`. `nvml` is
    set for programs that load NVIDIA's management library when they run.
    """

    component: str
    module: str
    programs: Mapping[str, str]
    directory: str = ""
    pinned_by: str = ""
    cgo: bool = False
    nvml: bool = False
    symbols: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The directory that holds go.mod and go.sum."""
        return COMPONENTS / (self.directory or self.component)

    @property
    def version(self) -> str:
        """The version of the row, without a leading `v`."""
        return versions.load()[self.component].version


# Kubernetes first: most others share dependencies with it and then come out of Go's build cache.
RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "kubernetes",
        KUBERNETES,
        {
            name: f"{KUBERNETES}/cmd/{name}"
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-proxy",
                "kube-scheduler",
                "kubeadm",
                "kubectl",
                "kubelet",
            )
        },
        symbols={
            "k8s.io/component-base/version.gitVersion": "v{v}",
            "k8s.io/component-base/version.gitMajor": "{major}",
            "k8s.io/component-base/version.gitMinor": "{minor}",
            "k8s.io/component-base/version.gitTreeState": "clean",
        },
    ),
    Recipe(
        "agnhost",
        KUBERNETES,
        {"agnhost": f"{KUBERNETES}/test/images/agnhost"},
        directory="kubernetes",
        pinned_by="kubernetes",
    ),
    Recipe(
        "etcd",
        "go.etcd.io/etcd/server/v3",
        {
            "etcd": "go.etcd.io/etcd/server/v3",
            "etcdctl": "go.etcd.io/etcd/etcdctl/v3",
            "etcdutl": "go.etcd.io/etcd/etcdutl/v3",
        },
    ),
    Recipe(
        "containerd",
        "github.com/containerd/containerd/v2",
        {name: f"github.com/containerd/containerd/v2/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
        symbols={"github.com/containerd/containerd/v2/version.Version": "v{v}"},
    ),
    Recipe(
        "cni-plugins",
        CNI_PLUGINS,
        {
            name.rpartition("/")[2]: f"{CNI_PLUGINS}/plugins/{name}"
            for name in (
                *("ipam/dhcp", "ipam/host-local", "ipam/static"),
                *("main/bridge", "main/host-device", "main/ipvlan", "main/loopback", "main/macvlan", "main/ptp", "main/vlan"),
                *("meta/bandwidth", "meta/firewall", "meta/portmap", "meta/sbr", "meta/tuning", "meta/vrf"),
            )
        },
        symbols={f"{CNI_PLUGINS}/pkg/utils/buildversion.BuildVersion": "v{v}"},
    ),
    Recipe("flannel-cni-plugin", CNI_PLUGINS, {"flannel": f"{CNI_PLUGINS}/plugins/meta/flannel"}),
    Recipe(
        "cri-tools",
        "sigs.k8s.io/cri-tools",
        {"crictl": "sigs.k8s.io/cri-tools/cmd/crictl"},
        symbols={"sigs.k8s.io/cri-tools/pkg/version.Version": "v{v}"},
    ),
    Recipe(
        "flannel",
        "github.com/flannel-io/flannel",
        {"flanneld": "github.com/flannel-io/flannel"},
        cgo=True,
        symbols={"github.com/flannel-io/flannel/pkg/version.Version": "v{v}"},
    ),
    Recipe(
        "registry",
        "github.com/distribution/distribution/v3",
        {"registry": "github.com/distribution/distribution/v3/cmd/registry"},
        symbols={"github.com/distribution/distribution/v3/version.version": "v{v}"},
    ),
    Recipe("coredns", "github.com/coredns/coredns", {"coredns": "github.com/coredns/coredns"}),
    Recipe(
        "kube-network-policies",
        "sigs.k8s.io/kube-network-policies",
        {"netpol": "sigs.k8s.io/kube-network-policies/cmd"},
    ),
    Recipe("helm", "helm.sh/helm/v4", {"helm": "helm.sh/helm/v4/cmd/helm"}),
    Recipe(
        "nvidia-container-toolkit",
        f"{NVIDIA}/nvidia-container-toolkit",
        {
            name: f"{NVIDIA}/nvidia-container-toolkit/cmd/{name}"
            for name in (
                *("nvidia-cdi-hook", "nvidia-container-runtime", "nvidia-container-runtime.cdi"),
                *("nvidia-container-runtime.legacy", "nvidia-ctk"),
            )
        },
        nvml=True,
        symbols={f"{NVIDIA}/nvidia-container-toolkit/internal/info.version": "{v}"},
    ),
    Recipe(
        "nvidia-device-plugin",
        f"{NVIDIA}/k8s-device-plugin",
        {
            name: f"{NVIDIA}/k8s-device-plugin/cmd/{name}"
            for name in ("config-manager", "gpu-feature-discovery", "nvidia-device-plugin")
        },
        nvml=True,
        symbols={f"{NVIDIA}/k8s-device-plugin/internal/info.version": "v{v}"},
    ),
    Recipe(
        "gpu-operator",
        f"{NVIDIA}/gpu-operator",
        {"gpu-operator": f"{NVIDIA}/gpu-operator/cmd/gpu-operator", "nvidia-validator": f"{NVIDIA}/gpu-operator/validator"},
        nvml=True,
        symbols={f"{NVIDIA}/gpu-operator/internal/info.version": "v{v}"},
    ),
    Recipe(
        "dra-example-driver",
        "sigs.k8s.io/dra-example-driver",
        {name: f"sigs.k8s.io/dra-example-driver/cmd/{name}" for name in ("dra-example-kubeletplugin", "dra-example-webhook")},
    ),
    Recipe(
        "dcgm-exporter",
        f"{NVIDIA}/go-nvml",
        {"dcgm-exporter": "bedplate.dev/lab/components/dcgm-exporter"},
        pinned_by="go-nvml",
        nvml=True,
    ),
)

BY_COMPONENT: dict[str, Recipe] = {recipe.component: recipe for recipe in RECIPES}
ALWAYS_BUILT = frozenset(recipe.component for recipe in RECIPES if recipe.nvml)
"""Also with --source upstream: these run on simulated GPUs, and some of upstream's images want ones that compute."""


@remember
def go_version() -> str:
    """The Go toolchain's version as `go env GOVERSION` gives it. Raises LabError without a Go in PATH."""
    if shutil.which("go") is None:
        raise LabError(
            "go not found in PATH; Go 1.26 or newer builds the components: start the lab with scripts/lab, which finds one"
        )
    return run(["go", "env", "GOVERSION"], cwd=COMPONENTS).stdout.strip()


def key(recipe: Recipe) -> str:
    """The cache key of a build: its version and a hash of the recipe, go.mod, go.sum and the toolchain."""
    digest = hashlib.sha256(f"{recipe!r} {go_version()} {_flags(recipe)}".encode())
    for path in (recipe.path / "go.mod", recipe.path / "go.sum", *sorted(recipe.path.glob("*.go"))):
        digest.update(path.read_bytes())
    return f"{recipe.version}-{digest.hexdigest()[:12]}"


def directory(recipe: Recipe) -> Path:
    """Where the build of the recipe is kept; its programs are in `bin/`."""
    return cache("build", recipe.component, key(recipe))


def built(recipe: Recipe) -> bool:
    """Whether the cache holds the build."""
    return directory(recipe).is_dir()


def build(recipe: Recipe, report: Report) -> Path:
    """Build the recipe's programs unless the cache holds them; the directory of the programs.

    Raises CommandError with the compiler's last lines, LabError when a program did not come out.
    """
    target = directory(recipe)
    if not target.is_dir():
        report(f"build {recipe.component} {recipe.version} ({', '.join(recipe.programs)})")
        with new_dir(target) as temporary:
            _go_build(recipe, temporary / "bin")
    return target / "bin"


def build_all(names: Iterable[str], report: Report) -> dict[str, Path]:
    """Build the named rows in the order that warms Go's build cache; their program directories by name."""
    wanted = set(names)
    return {recipe.component: build(recipe, report) for recipe in RECIPES if recipe.component in wanted}


def module_directory(recipe: Recipe) -> Path:
    """Where Go keeps the sources of the recipe's module; downloaded when missing."""
    run(["go", "mod", "download", recipe.module], cwd=recipe.path, env=_environment(recipe))
    listed = run(["go", "list", "-m", "-f", "{{.Dir}}", recipe.module], cwd=recipe.path, env=_environment(recipe))
    return Path(listed.stdout.strip())


def _flags(recipe: Recipe) -> list[str]:
    major, minor, *_ = [*recipe.version.split("."), "0"]
    linker = ["-s", "-w"]
    for symbol, value in sorted(recipe.symbols.items()):
        linker.append(f"-X {symbol}={value.replace('{v}', recipe.version).replace('{major}', major).replace('{minor}', minor)}")
    flags = ["-trimpath", "-buildvcs=false"]
    if recipe.cgo:
        linker.append("-linkmode external -extldflags -static")
        flags += ["-tags", "netgo,osusergo"]
    if recipe.nvml:
        linker.append("-extldflags=-Wl,-z,lazy")
    return [*flags, "-ldflags", " ".join(linker)]


def _environment(recipe: Recipe) -> dict[str, str]:
    environment = {"CGO_ENABLED": "1" if recipe.cgo or recipe.nvml else "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    if recipe.nvml:
        # NVIDIA's bindings look symbols up in the library that they load: the linker must leave them open, and what it calls.
        environment["CGO_CFLAGS"] = "-O2 -g -Wno-deprecated-declarations"
        environment["CGO_LDFLAGS"] = "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files"
        environment["CGO_LDFLAGS_ALLOW"] = "-Wl,--(export-dynamic|unresolved-symbols=ignore-in-object-files)"
    return environment


def _go_build(recipe: Recipe, target: Path) -> None:
    """One `go build` per recipe; Go names programs after their packages, the recipe says what they are called."""
    raw = target.parent / "raw"
    raw.mkdir(parents=True)
    target.mkdir()
    argv = ["go", "build", *_flags(recipe), "-o", f"{raw}{os.sep}", *recipe.programs.values()]
    run(argv, cwd=recipe.path, env=_environment(recipe))
    for name, package in recipe.programs.items():
        made = raw / _program_name(package)
        if not made.is_file():
            names = ", ".join(sorted(path.name for path in raw.iterdir())) or "nothing"
            raise LabError(f"{recipe.component}: go build made {names}, {made.name} was wanted for {name}")
        made.rename(target / name)
    raw.rmdir()


def _program_name(package: str) -> str:
    """The name `go build` gives a program: the last part of its package's path that is not a major version."""
    parts = package.split("/")
    last = parts[-1]
    return parts[-2] if last.startswith("v") and last[1:].isdigit() else last
