# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Policy
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_options import build_nic
from ansible_collections.bedplate.metal.plugins.modules.fabric import build_desired
from fixtures_fabric import (
    ROCE,
    doca_host,
    roce_machine,
)

from recorded_host import Package

IN_SERVICE = Policy(in_service=True)


class TestDoca:
    def test_replacement_is_planned_for_a_drained_node_and_a_reboot(self) -> None:
        machine = doca_host(roce_machine())
        outcome = machine.run(ROCE, stack="doca", policy=IN_SERVICE)
        waiting = {c.what: c.effects for c in outcome.deferred}
        assert waiting["package doca-ofed"] == waiting["RDMA stack loaded"] == {"drain", "reboot"}
        assert "doca-ofed" not in machine.host.packages

    def test_installed_once_then_loaded_by_the_reboot(self) -> None:
        machine, allowed = doca_host(roce_machine()), Policy(allow=frozenset({"drain", "reboot"}))
        assert machine.run(ROCE, stack="doca", policy=allowed).reboot
        assert machine.host.packages["doca-ofed"].held
        machine.host.files["/sys/module/mlx_compat/version"] = "25.07-0.9.7\n"
        assert not machine.run(ROCE, stack="doca", policy=allowed).changed

    def test_modules_that_did_not_compile_are_no_reason_to_reboot_again(self) -> None:
        machine = roce_machine()
        machine.host.files["/lib/modules/6.1.0/build"] = ""
        machine.host.packages["doca-ofed"] = Package("3.1.0", held=True)
        outcome = machine.run(ROCE, stack="doca", policy=Policy(allow=frozenset({"reboot"})))
        assert not outcome.changed and "dkms autoinstall -k 6.1.0" in str(outcome.problems[0])

    def test_back_to_the_inbox_stack_is_not_done_by_the_way(self) -> None:
        machine = roce_machine()
        machine.host.packages["doca-ofed"] = Package("3.1.0")
        assert "found doca-ofed 3.1.0; wanted the distribution's own" in str(machine.run(ROCE).problems[0])

    @pytest.mark.parametrize("management", ["enp193s0", "bond0", "bond0.7"])
    def test_e41_the_card_a_host_is_reached_by_needs_another_path(self, management: str) -> None:
        machine = doca_host(roce_machine())
        machine.host.files.update(
            {
                "/proc/net/route": machine.host.files["/proc/net/route"].replace("ens3", management),
                "/sys/class/net/bond0/lower_enp193s0/x": "",
                "/sys/class/net/bond0.7/lower_bond0/x": "",
            }
        )
        nic, allowed = replace(ROCE, address=None, mtu=None), Policy(allow=frozenset({"drain", "reboot"}))
        outcome = machine.run(nic, stack="doca", policy=allowed)
        assert not outcome.changed and "doca-ofed" not in machine.host.packages
        assert "management runs over enp193s0/mlx5_1/0000:c1:00.0" in str(outcome.problems[0])
        assert machine.run(nic, stack="doca", out_of_band="bmc", policy=allowed).reboot

    def test_e41_does_not_concern_another_card_or_the_inbox_stack(self) -> None:
        allowed = Policy(allow=frozenset({"drain", "reboot"}))
        assert doca_host(roce_machine()).run(ROCE, stack="doca", policy=allowed).reboot
        machine = roce_machine()
        machine.host.files["/proc/net/route"] = machine.host.files["/proc/net/route"].replace("ens3", "enp193s0")
        assert not machine.run(replace(ROCE, address=None, mtu=None)).problems

    def test_secure_boot_with_a_key_that_is_not_enrolled_is_found_before(self) -> None:
        machine = doca_host(roce_machine())
        secure_boot = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
        machine.host.files[secure_boot] = "\x06\x00\x00\x00\x01"
        outcome = machine.run(ROCE, stack="doca", policy=Policy(allow=frozenset({"reboot"})))
        assert outcome.problems[0].what == "Secure Boot" and not outcome.changed


class TestModule:
    PARAMETERS: ClassVar[dict[str, object]] = {
        "stack": "inbox",
        "version": "",
        "out_of_band": "",
        "management_address": "",
        "lock_timeout_seconds": 5,
    }

    def given(self, **values: object) -> dict[str, object]:
        return {"name": "rail0", "fabric": "roce", "address": None, "mtu": None, "roce": None, **values}

    def test_the_name_is_the_device_where_none_is_given(self) -> None:
        assert build_nic(self.given(name="mlx5_0")).device == "mlx5_0"

    @pytest.mark.parametrize(
        ("nics", "message"),
        [
            ([{"address": "10.0.0.1"}], "no prefix length"),
            ([{"mtu": 9000}], "rail0 with an MTU alone"),
            ([{"name": "../x y"}], "nics.name"),
            ([{}, {}], "rail0 twice"),
            ([{"roce": {"priority": 8, "dscp": 26, "pfc": True, "ecn": True}}], "priority 0 to 7"),
            ([{"fabric": "infiniband", "roce": {"priority": 3, "dscp": 26, "pfc": True, "ecn": True}}], "roce settings on rail0"),
        ],
    )
    def test_cards_that_cannot_be_are_refused(self, nics: list[dict[str, object]], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            build_desired({**self.PARAMETERS, "nics": [self.given(**nic) for nic in nics]})
