# SPDX-License-Identifier: Apache-2.0
"""Drivers whose packages have other names: another branch, Ubuntu's own flavour, precompiled modules."""

from __future__ import annotations

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Policy
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_leftovers import leftovers, observe_installed
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_packages import driver_packages
from ansible_collections.bedplate.metal.plugins.module_utils.packages import PackageState
from fixtures_gpu import refused, run_driver
from simulated_gpu import KERNEL, NEW, Machine, gpu_host, h100, load

from recorded_host import Package, RecordedHost

OLDER = "570.172.08"
DRAINED = Policy(allow=frozenset({"drain", "reboot"}))
UBUNTU = "ubuntu-24.04"


def ubuntu_570(machine: Machine) -> RecordedHost:
    """A host with NVIDIA's driver of branch 570, set up by its role, whose repository has 580 as well."""
    host = gpu_host(machine, (OLDER, NEW), UBUNTU)
    assert run_driver(host, version=OLDER).changed
    host.commands.clear()
    return host


def carrying(host: RecordedHost, branch: str) -> list[str]:
    return sorted(n for n in host.packages if f"-{branch}" in n)


class TestBranchChange:
    def test_the_old_branch_goes_whole_in_the_same_transaction(self) -> None:
        host = ubuntu_570(h100())
        host.packages["libnvidia-encode-570"] = Package(f"{OLDER}-0ubuntu1")
        outcome = run_driver(host, DRAINED)
        assert carrying(host, "570") == [] and host.packages["nvidia-dkms-580-open"].version == f"{NEW}-1ubuntu1"
        gone = [c for c in outcome.changes if c.after is None]
        assert {"package libnvidia-compute-570", "package libnvidia-encode-570"} <= {c.what for c in gone}
        assert outcome.reboot

    def test_in_service_it_waits_as_a_whole(self) -> None:
        host = ubuntu_570(h100())
        before = host.snapshot()
        outcome = run_driver(host, Policy(in_service=True))
        assert host.snapshot() == before
        assert {"package nvidia-dkms-570-open", "package nvidia-dkms-580-open"} <= {c.what for c in outcome.deferred}

    def test_the_old_branch_is_put_back_when_the_new_one_does_not_compile(self) -> None:
        machine = h100()
        host = ubuntu_570(machine)
        before = {n: p.version for n, p in host.packages.items()}
        machine.builds = False
        with pytest.raises(BedplateError, match=f"Put back: driver packages {OLDER}"):
            run_driver(host, DRAINED)
        assert {n: p.version for n, p in host.packages.items()} == before
        assert host.packages["libnvidia-compute-570"].held

    def test_an_old_package_somebody_else_holds_is_named(self) -> None:
        host = ubuntu_570(h100())
        host.packages["libnvidia-gl-570"] = Package(f"{OLDER}-0ubuntu1", held=True)
        assert "apt-mark unhold libnvidia-gl-570" in refused(host, DRAINED)

    def test_a_downgrade_is_one_whichever_name_carries_the_newer_driver(self) -> None:
        machine = h100()
        host = gpu_host(machine, (OLDER, NEW), UBUNTU)
        run_driver(host)
        said = refused(host, DRAINED, version=OLDER)
        assert "GPU driver" in said and NEW in said and "allow_downgrade" in said
        for name in [n for n in host.packages if "nvidia" in n]:
            del host.packages[name]
        assert "allow_downgrade" in refused(host, DRAINED, version=OLDER), "loaded, though no package carries it"
        load(host, machine, OLDER)
        assert run_driver(host, DRAINED, version=OLDER).changed


def going(installed: list[str], distribution: str, version: str, modules: str = "open", **options: object) -> set[str]:
    states = {name: PackageState("1", False, "install ok installed") for name in installed}
    return set(leftovers(states, driver_packages(distribution, version, modules, **options), modules))  # type: ignore[arg-type]


class TestNames:
    def test_ubuntus_flavour_gives_way_to_nvidias_and_back(self) -> None:
        own = ["nvidia-driver-580-server", "libnvidia-compute-580-server", "nvidia-dkms-580-server", "nvidia-utils-580-server"]
        assert going(own, UBUNTU, NEW) == set(own)
        theirs = [
            p.name for p in driver_packages(UBUNTU, NEW, "open") if p.name not in ("nvidia-modprobe", "nvidia-persistenced")
        ]
        assert going(theirs, UBUNTU, NEW, source="distribution") == set(theirs)

    def test_names_without_a_branch_and_back(self) -> None:
        suffixed = ["libnvidia-compute-580", "nvidia-dkms-580-open", "nvidia-firmware-580-580.126.09"]
        assert going(suffixed, UBUNTU, "595.71.05") == set(suffixed)
        plain = ["libnvidia-compute", "nvidia-dkms-open", "nvidia-kernel-common"]
        assert going(plain, UBUNTU, NEW) == set(plain)

    def test_what_belongs_to_the_branch_or_to_no_driver_stays(self) -> None:
        extra = ["libnvidia-encode-580", "nvidia-driver-580-open", "cuda-drivers", "nvidia-settings", "linux-image-nvidia-64k"]
        others = ["nvidia-container-toolkit", "libnvidia-container1", "linux-modules-nvidia-fs-6.8.0-90-generic", "nvidia-prime"]
        assert going([*extra, *others], UBUNTU, NEW) == set()

    def test_two_kinds_or_sources_of_modules_never_stay_together(self) -> None:
        installed = [
            "nvidia-kernel-dkms",
            "nvidia-open-kernel-dkms",
            "nvidia-driver-pinning-570.172.08",
            "nvidia-fabricmanager-570",
        ]
        assert going(installed, "debian-12", NEW, fabric=True) == set(installed)

    def test_precompiled_modules_of_other_kernels_stay_and_of_other_kinds_go(self) -> None:
        ours = ["linux-modules-nvidia-580-server-open-6.8.0-88-generic", "linux-modules-nvidia-580-server-open-generic"]
        other = ["linux-modules-nvidia-570-server-open-generic", "linux-modules-nvidia-580-server-6.8.0-88-generic"]
        options = {"source": "distribution", "build": "precompiled", "kernel": "6.8.0-90-generic"}
        assert going([*ours, *other], UBUNTU, NEW, **options) == set(other)

    def test_modules_alone_leave_libraries_alone(self) -> None:
        assert going(["libnvidia-compute-570", "nvidia-dkms-570"], UBUNTU, NEW, userspace=False) == {"nvidia-dkms-570"}

    def test_only_what_is_installed_counts(self) -> None:
        host = gpu_host(h100())
        host.packages.update({"nvidia-dkms-570": Package("570-1", "deinstall ok config-files"), "nvidia-smi": Package("535-1")})
        assert observe_installed(host) == {}


class TestPrecompiled:
    FLAVOUR = "linux-modules-nvidia-580-server-open-"

    def host(self, carries: str = NEW) -> RecordedHost:
        """An Ubuntu host; its repository has modules for the running kernel, compiled of one driver version."""
        host = gpu_host(h100(), (), UBUNTU)
        host.packages["linux-image-virtual"] = host.packages.pop("linux-image-amd64")
        options = {"source": "distribution", "build": "precompiled", "kernel": KERNEL, "fabric": True}
        for package in driver_packages(UBUNTU, NEW, "open", **options):  # type: ignore[arg-type]
            host.repository[package.name] = [f"{NEW}-0ubuntu0.24.04.1"]
        host.repository[self.FLAVOUR + KERNEL] = ["6.8.0-90.91"]
        host.repository[self.FLAVOUR + "generic"] = ["6.8.0-90.91"]
        host.installs[self.FLAVOUR + KERNEL] = lambda h: h.files.update(
            {f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko": carries}
        )
        host.installs["libnvidia-compute-580-server"] = lambda h: h.files.update(
            {f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{NEW}": ""}
        )
        return host

    def test_they_come_with_what_brings_them_for_later_kernels_which_is_not_held(self) -> None:
        host = self.host()
        run_driver(host, source="distribution", build="precompiled")
        assert host.packages[self.FLAVOUR + KERNEL].held and not host.packages[self.FLAVOUR + "generic"].held
        assert not run_driver(host, source="distribution", build="precompiled").changed

    def test_modules_of_another_driver_version_are_not_taken_for_the_wanted_one(self) -> None:
        with pytest.raises(
            BedplateError, match=rf"found {OLDER} for kernel {KERNEL}.*precompiled modules choose the driver version"
        ):
            run_driver(self.host(OLDER), source="distribution", build="precompiled")

    def test_a_flavour_without_such_modules_is_refused(self) -> None:
        host = self.host()
        del host.repository[self.FLAVOUR + "generic"]
        assert self.FLAVOUR + "generic" in refused(host, source="distribution", build="precompiled")
