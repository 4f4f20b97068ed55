# SPDX-License-Identifier: Apache-2.0
"""What is refused before the old driver is touched, and how it is put back when a transaction fails."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Policy
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.packages import UNFINISHED
from fixtures_gpu import driver_desired, refused, run_driver, with_driver
from simulated_gpu import KERNEL, LIBRARY, NEW, OLD, Machine, gpu_host, h100, secure

from recorded_host import RecordedHost

FABRIC = "nvidia-fabricmanager"
IN_SERVICE = Policy(in_service=True)
DRAINED = Policy(allow=frozenset({"drain", "reboot"}))


class TestRefusedBeforeTheOldDriverIsTouched:
    def test_c19_a_fabric_manager_of_another_patch_level_in_the_same_branch(self) -> None:
        host = with_driver(h100())
        host.repository[FABRIC] = [f"{OLD}-1"]
        said = refused(host, DRAINED)
        assert FABRIC in said and OLD in said and f"{NEW}, exactly the driver's" in said

    def test_c19_declared_by_the_site(self) -> None:
        with pytest.raises(ValueError, match=r"580\.105\.08.*exactly"):
            driver_desired(fabric_manager_version="580.105.08")

    def test_a_version_absent_from_the_repository(self) -> None:
        host = with_driver(h100())
        said = refused(host, DRAINED, version="580.159.03")
        assert f"versions {OLD}-1, {NEW}-1" in said and "580.159.03" in said

    def test_a_package_somebody_else_holds(self) -> None:
        host = with_driver(h100())
        record = host.files["/var/lib/bedplate/nvidia_driver.json"]
        host.files["/var/lib/bedplate/nvidia_driver.json"] = record.replace('"libcuda1",', "")
        assert "apt-mark unhold libcuda1" in refused(host, DRAINED)

    def test_our_own_holds_do_not_stop_an_upgrade(self) -> None:
        assert run_driver(with_driver(h100()), DRAINED).changed

    def test_a_half_installed_package_of_somebody_else(self) -> None:
        host = with_driver(h100())
        host.packages["libcuda1"].status = "install ok half-configured"
        assert "dpkg --configure -a" in refused(host, DRAINED)
        host.files[UNFINISHED] = "{}"
        assert run_driver(host, DRAINED).changed

    def test_no_space_for_the_build(self) -> None:
        host = with_driver(h100())
        host.files["/usr/bin/true"] = ""
        host.disk_free = "1000000000 1000000 2000000"
        assert "953 MiB" in refused(host, DRAINED)

    def test_headers_that_no_repository_has(self) -> None:
        host = gpu_host(h100())
        del host.repository[f"linux-headers-{KERNEL}"]
        assert f"linux-headers-{KERNEL}" in refused(host)

    def test_a_driver_of_nvidias_run_file(self) -> None:
        host = gpu_host(h100())
        host.files["/usr/bin/nvidia-uninstall"] = ""
        assert "/usr/bin/nvidia-uninstall" in refused(host)

    def test_c23_secure_boot_and_unsigned_modules(self) -> None:
        host = gpu_host(h100())
        secure(host)
        said = refused(host)
        assert "Secure Boot" in said and "mokutil --import" in said and "precompiled" in said

    def test_c23_with_an_enrolled_key_or_ubuntus_signed_modules_it_goes_on(self) -> None:
        host = gpu_host(h100())
        secure(host, enrolled=True)
        assert run_driver(host).observed.state.loaded == NEW
        host = gpu_host(h100(), distribution="ubuntu-24.04")
        secure(host)
        outcome = run_driver(host, Policy(check=True), source="distribution", build="precompiled")
        assert "Secure Boot" not in "".join(map(str, outcome.problems))

    def test_c21_modules_that_cannot_drive_the_gpus(self) -> None:
        with pytest.raises(ValueError, match="Blackwell GPUs work with open kernel modules only"):
            driver_desired(accelerators=["b200-180gb"], modules="proprietary")
        with pytest.raises(ValueError, match="pools of their own"):
            driver_desired(accelerators=["v100-32gb", "b200-180gb"])
        assert driver_desired(accelerators=["b200-180gb"]).modules == "open"
        assert driver_desired(accelerators=["v100-32gb"]).modules == "proprietary"


class TestStaleIndex:
    """A repository that got the driver after the host last fetched its index."""

    def host(self) -> RecordedHost:
        host = with_driver(h100())
        complete = {name: list(versions) for name, versions in host.repository.items()}
        for versions in host.repository.values():
            if f"{NEW}-1" in versions:
                versions.remove(f"{NEW}-1")
        apt = host.handlers["apt-get"]

        def call(host: RecordedHost, argv: Any, stdin: str | None) -> Any:
            if "update" in argv:
                host.repository = complete
            return apt(host, argv, stdin)

        host.on("apt-get", call)
        return host

    def updates(self, host: RecordedHost) -> int:
        return len([c for c in host.ran("apt-get") if "update" in c])

    def test_it_is_fetched_once_before_anything_is_refused(self) -> None:
        host = self.host()
        assert run_driver(host, DRAINED).changed and self.updates(host) == 1
        assert host.packages["libcuda1"].version == f"{NEW}-1"

    def test_check_mode_fetches_nothing_and_says_that_it_may_be_old(self) -> None:
        host = self.host()
        said = refused(host, Policy(check=True, allow=DRAINED.allow))
        assert self.updates(host) == 0 and "may be older than the repository" in said

    def test_a_version_that_is_not_there_then_either_is_refused_after_one_fetch(self) -> None:
        host = self.host()
        said = refused(host, DRAINED, version="580.159.03")
        assert self.updates(host) == 1 and "fetched just now" in said

    def test_a_fetch_that_fails_is_named_and_other_refusals_fetch_nothing(self) -> None:
        host = self.host()
        host.on("apt-get", lambda h, argv, stdin: Result(100, "", "E: Failed to fetch"))
        assert "fetching it again failed" in refused(host, DRAINED)
        host = with_driver(h100())
        host.disk_free = "1000000000 1000000 2000000"
        host.files["/usr/bin/true"] = ""
        refused(host, DRAINED)
        assert self.updates(host) == 0


class TestFailedTransaction:
    def failing(self, machine: Machine) -> RecordedHost:
        """A host where the new driver's module does not compile, and dpkg says so halfway."""
        host = with_driver(machine)
        machine.builds = False
        apt = host.handlers["apt-get"]

        def call(host: RecordedHost, argv: Any, stdin: str | None) -> Any:
            result = apt(host, argv, stdin)
            if any(a == f"nvidia-kernel-open-dkms={NEW}-1" for a in argv):
                host.packages["nvidia-kernel-open-dkms"].status = "install ok half-configured"
                return type(result)(100, "", "E: Sub-process /usr/bin/dpkg returned an error code (1)\n")
            machine.builds = True
            return result

        host.on("apt-get", call)
        return host

    def test_the_old_driver_is_put_back_and_works(self) -> None:
        host = self.failing(h100())
        before = {n: p.version for n, p in host.packages.items()}
        with pytest.raises(BedplateError, match=rf"Put back: driver packages {OLD}"):
            run_driver(host, DRAINED)
        assert {n: p.version for n, p in host.packages.items()} == before
        assert LIBRARY + OLD in host.files and host.packages["libcuda1"].held
        host.handlers.pop("apt-get")
        assert run_driver(host, IN_SERVICE, version=OLD).observed.state.probe.state == "ok"

    def test_nvidias_pin_is_changed_before_and_put_back_before_the_rest(self) -> None:
        host = self.failing(h100())
        with pytest.raises(BedplateError, match="Put back"):
            run_driver(host, DRAINED)
        installs = [c for c in host.ran("apt-get") if "install" in c]
        pins = [[a for a in c if "pinning" in a] for c in installs]
        there, back = f"nvidia-driver-pinning-{NEW}", f"nvidia-driver-pinning-{OLD}"
        assert pins == [[f"{there}={NEW}-1", f"{back}-"], [], [f"{back}={OLD}-1", f"{there}-"], []]
        assert not any("libcuda1" in a for c in (installs[0], installs[2]) for a in c)

    def test_a_fabric_manager_alone_leaves_the_driver_as_it_was(self) -> None:
        host = gpu_host(h100())
        apt = host.handlers["apt-get"]

        def call(host: RecordedHost, argv: Any, stdin: str | None) -> Any:
            result = apt(host, argv, stdin)
            if not any(a.startswith(f"{FABRIC}=") for a in argv):
                return result
            host.packages[FABRIC].status = "install ok half-configured"
            return Result(100, "", "E: Sub-process /usr/bin/dpkg returned an error code (1)\n")

        host.on("apt-get", call)
        with pytest.raises(BedplateError, match="The driver is as it was; what is half-installed"):
            run_driver(host)

    def test_a_missing_module_after_a_silent_build_counts_as_a_failure(self) -> None:
        machine = h100()
        host = with_driver(machine)
        machine.builds = False
        with pytest.raises(BedplateError, match=rf"found {OLD} for kernel {KERNEL} after the installation"):
            run_driver(host, DRAINED)
        assert host.packages["nvidia-kernel-open-dkms"].version == f"{OLD}-1"

    def test_apt_refusing_leaves_everything_as_it_was(self) -> None:
        host = with_driver(h100())
        host.apt_error = "E: GPG error: http://depot stable InRelease: NO_PUBKEY\n"
        with pytest.raises(BedplateError, match=r"repository signature.*\nThe installed packages are as they were"):
            run_driver(host, DRAINED)
