# SPDX-License-Identifier: Apache-2.0
"""Compile the GPU simulator (lab/gpu-sim) into the cache, once per driver version that it stands in for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache as remember
from pathlib import Path

from bedplate_lab import components, versions
from bedplate_lab.components import Recipe
from bedplate_lab.gpustate import DIRECTORY
from bedplate_lab.paths import cache, new_dir
from bedplate_lab.report import Report
from bedplate_lab.run import run

SOURCE = DIRECTORY / "src"
DRIVERS = ("nvidia-driver", "nvidia-driver-previous")
"""Rows of versions.yml whose versions are built: the one that is deployed, and one to come from."""
NVML = Recipe("go-nvml", "github.com/NVIDIA/go-nvml", {})
"""The module that carries nvml.h; nothing of it is built."""
CUDA_VERSION = (13, 0)
"""What `nvidia-smi` of driver branch 580 shows (CUDA 13.0 release notes, table of driver versions)."""

FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g0", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-pthread")
STATE = ("state.c", "statefile.c", "statekeys.c")
LIBRARY = ("driver.c", "mig.c", *STATE)
PROGRAMS: dict[str, tuple[str, ...]] = {
    "gpu-sim": ("load.c", "driver.c", *STATE),
    "nv-fabricmanager": ("fabricmanager.c", "daemon.c", *STATE),
    "nvidia-persistenced": ("persistenced.c", "daemon.c", *STATE),
}
EMPTY_LIBRARIES = {
    "libnvidia-cfg.so": "libnvidia-cfg.so.1",
    "libnvidia-gpucomp.so": "",
    "libnvidia-nscq.so": "libnvidia-nscq.so.2",
    "libnvidia-nvvm.so": "libnvidia-nvvm.so.4",
    "libnvidia-ptxjitcompiler.so": "libnvidia-ptxjitcompiler.so.1",
}
"""Libraries that are only looked for: file names and sonames."""
LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}


def directory(version: str) -> Path:
    """Where the build for a driver version is kept; its files are in `bin/`."""
    return cache("build", "gpu-sim", f"{version}-{_key()}")


@remember
def _key() -> str:
    """A hash of the sources, of how they are compiled and of the header's version."""
    digest = hashlib.sha256(f"{FLAGS} {PROGRAMS} {LIBRARY} {EMPTY_LIBRARIES} {CUDA_VERSION} {NVML.version}".encode())
    for path in (Path(__file__), *sorted(SOURCE.iterdir())):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def build(version: str, report: Report) -> Path:
    """The directory of everything the driver packages of a version carry, compiled when missing. Raises CommandError."""
    target = directory(version)
    if not target.is_dir():
        report(f"build GPU simulator for driver {version}")
        with new_dir(target) as temporary:
            (temporary / "bin").mkdir()
            _compile(version, temporary / "bin")
    return target / "bin"


def header_directory() -> Path:
    """The directory of nvml.h in Go's module cache, downloaded when missing."""
    return components.module_directory(NVML) / "gen" / "nvml"


def driver_versions() -> list[str]:
    """The driver versions built, the deployed one first."""
    return [versions.load()[row].version for row in DRIVERS]


def _compile(version: str, target: Path) -> None:
    header = header_directory()
    major, minor = CUDA_VERSION
    defines = [
        f'-DDRIVER_VERSION="{version}"',
        f'-DCUDA_MAJOR_TEXT="{major}"',
        f"-DCUDA_VERSION_NUMBER={major * 1000 + minor * 10}",
        f"-I{header}",
        f"-ffile-prefix-map={SOURCE}=.",
    ]

    def gcc(name: str, sources: Sequence[str], *options: str) -> None:
        paths = [str(SOURCE / source) if not source.startswith("/") else source for source in sources]
        run(["gcc", *FLAGS, *defines, "-o", str(target / name), *paths, *options])

    def shared(name: str, soname: str, sources: Sequence[str]) -> None:
        named = (f"-Wl,-soname,{soname}",) if soname else ()
        gcc(name, sources, "-fPIC", "-shared", "-fvisibility=hidden", "-s", *named)

    stubs = target.parent / "stubs.c"
    stubs.write_text(_stubs((header / "nvml.h").read_text()))
    shared("libnvidia-ml.so", "libnvidia-ml.so.1", [*_sources("nvml_*.c"), *LIBRARY, str(stubs)])
    shared("libcuda.so", "libcuda.so.1", ["cuda.c", *STATE])
    for name, soname in EMPTY_LIBRARIES.items():
        shared(name, soname, ["empty.c"])
    gcc("nvidia-smi", [*_sources("smi*.c"), "driver.c", *STATE], "-ldl", "-s")
    for name, sources in PROGRAMS.items():
        gcc(name, sources, "-s")
    for flavour, license_text in LICENSES.items():
        gcc(f"nvidia-{flavour}.ko", ["module.c"], "-c", f'-DLICENSE="{license_text}"')
    (target / "firmware").write_text(f"simulated firmware of driver {version}\n")
    stubs.unlink()


def _sources(pattern: str) -> list[str]:
    return sorted(path.name for path in SOURCE.glob(pattern))


def _stubs(header: str) -> str:
    """C source of every function of nvml.h; weak, so that those the simulator has take precedence.

    NVIDIA's Go bindings look functions up when they are called and end the process when one is missing; the real library has
    them all, and so has this one.
    """
    names = sorted(set(re.findall(r"nvmlReturn_t\s+DECLDIR\s+(nvml\w+)", header)))
    attributes = '__attribute__((weak, visibility("default")))'
    return "".join(f"{attributes} int {name}(void) {{ return 3; }} /* NVML_ERROR_NOT_SUPPORTED */\n" for name in names)
