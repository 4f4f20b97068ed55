# SPDX-License-Identifier: Apache-2.0
"""The driver's packages: NVIDIA's names and versions as the roles ask for them, the toolkit's file names, no clashes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_packages import driver_packages

from bedplate_lab import aptrepo, debs, gpudebs, gpusim
from bedplate_lab.report import silent

VERSIONS = gpusim.driver_versions()
UNVERSIONED = {"dkms", "nvlsm"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("modules", ["open", "proprietary"])
def test_what_a_role_asks_for_is_packed(version: str, modules: str) -> None:
    packed = gpudebs.packages(version)
    for wanted in driver_packages("debian-12", version, modules, fabric=True, nvlsm=True):
        assert wanted.name in packed
        if wanted.version:
            assert packed[wanted.name].version == wanted.version


def test_nothing_else_is_packed() -> None:
    wanted = {
        package.name
        for modules in ("open", "proprietary")
        for package in driver_packages("debian-12", VERSIONS[0], modules, fabric=True, nvlsm=True)
    }
    assert set(gpudebs.packages(VERSIONS[0])) == wanted | {"dkms"}


def test_both_versions_fit_into_one_repository() -> None:
    names = [f"{package.name}_{package.version}" for package, _ in gpudebs.wanted()]
    assert len(names) == len(set(names))
    for version in VERSIONS:
        assert f"libnvidia-ml1_{version}-1" in names


@pytest.fixture
def packed(simulator: Path) -> dict[str, Path]:
    return {name: debs.pack(package, simulator, silent) for name, package in gpudebs.packages(VERSIONS[0]).items()}


def contents(deb: Path) -> dict[str, str]:
    """Paths in a package to where they lead (files: nowhere)."""
    listed = subprocess.run(["dpkg-deb", "--contents", str(deb)], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in listed.splitlines():
        path, _, target = line.split(None, 5)[5].partition(" -> ")
        if not path.endswith("/"):
            found[path.removeprefix(".")] = target
    return found


def test_libraries_bear_the_drivers_version_as_the_toolkit_looks_for_them(packed: dict[str, Path]) -> None:
    libraries = {path: target for deb in packed.values() for path, target in contents(deb).items() if "/lib/x86_64" in path}
    for name in ("libnvidia-ml", "libcuda", "libnvidia-ptxjitcompiler"):
        assert libraries[f"/usr/lib/x86_64-linux-gnu/{name}.so.{VERSIONS[0]}"] == ""
        assert libraries[f"/usr/lib/x86_64-linux-gnu/{name}.so.1"] == f"{name}.so.{VERSIONS[0]}"


def test_containers_get_the_state_by_the_firmware(packed: dict[str, Path]) -> None:
    files = contents(packed["firmware-nvidia-gsp"])
    assert files[f"/usr/lib/firmware/nvidia/{VERSIONS[0]}/gsp_sim.bin"] == "../../../../../var/lib/gpu-sim/state"


def test_no_two_packages_carry_a_file_but_the_two_kinds_of_modules(packed: dict[str, Path]) -> None:
    owners: dict[str, list[str]] = {}
    for name, deb in packed.items():
        for path in contents(deb):
            owners.setdefault(path, []).append(name)
    shared = {tuple(names) for names in owners.values() if len(names) > 1}
    assert shared == {("nvidia-kernel-dkms", "nvidia-kernel-open-dkms")}


def test_the_pin_names_the_version(packed: dict[str, Path], tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-x", str(packed[f"nvidia-driver-pinning-{VERSIONS[0]}"]), str(tmp_path)], check=True)
    text = (tmp_path / "etc/apt/preferences.d/nvidia-driver-pinning").read_text()
    assert f"Pin: version {VERSIONS[0]}-1" in text and "@" not in text


def test_headers_are_of_the_kernel_all_hosts_share(simulator: Path) -> None:
    package = gpudebs.kernel_headers()
    assert package is not None
    release = subprocess.run(["uname", "-r"], check=True, capture_output=True, text=True).stdout.strip()
    assert package.name == f"linux-headers-{release}"
    files = contents(debs.pack(package, simulator, silent))
    assert files == {f"/usr/lib/modules/{release}/build": f"/usr/src/linux-headers-{release}"}


def test_the_repository_takes_them(packed: dict[str, Path], tmp_path: Path) -> None:
    assert aptrepo.publish(list(packed.values()), tmp_path / "apt")
    index = (tmp_path / "apt/dists/bookworm/main/binary-amd64/Packages").read_text()
    assert index.count("Package: ") == len(packed)
