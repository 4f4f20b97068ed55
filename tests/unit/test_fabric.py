# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Policy
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.fabric import MODULES_FILE, public_fabric
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_devices import Nic, Traffic, lower_devices, parse_port
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_network import SERVICE, path_of
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_roce import (
    SCRIPT,
    UNIT_FILE,
    WANTED_BY,
    parse_dscp,
    parse_pfc,
)
from ansible_collections.bedplate.metal.plugins.module_utils.network import Address
from fixtures_fabric import (
    IB,
    MLX5,
    ROCE,
    SOFT,
    Machine,
    adapter,
    card,
    configured,
    infiniband_machine,
    roce_machine,
    soft_machine,
)

IN_SERVICE = Policy(in_service=True)


class TestSoftRoce:
    def test_tools_modules_device_and_address_now_and_at_boot(self) -> None:
        machine = soft_machine()
        outcome = machine.run(SOFT)
        host = machine.host
        assert host.packages["perftest"].version == "1.0" and "infiniband-diags" not in host.packages
        assert host.files[MODULES_FILE].splitlines()[1:] == ["ib_uverbs", "rdma_ucm", "rdma_rxe"]
        assert host.files["/sys/class/infiniband/rxe_ens4/parent"] == "ens4\n"
        assert host.modes[SCRIPT] == 0o755 and SCRIPT in host.files[UNIT_FILE] and WANTED_BY in host.files
        assert Address("ens4", "10.88.0.251", 24) in machine.network.found
        assert public_fabric(outcome.observed)["cards"]["rail0"]["state"] == "ACTIVE"
        assert not machine.run(SOFT).changed

    def test_nothing_of_it_disturbs_a_node_in_service(self) -> None:
        outcome = soft_machine().run(SOFT, policy=IN_SERVICE)
        assert outcome.changed and not outcome.deferred

    def test_a_device_made_by_hand_is_taken_as_it_is(self) -> None:
        machine = configured(soft_machine(), SOFT)
        host = machine.host
        device = {path: text for path, text in host.files.items() if "/rxe_ens4/" in path}
        for path, text in device.items():
            del host.files[path]
            host.files[path.replace("rxe_ens4", "rxe0")] = text
        assert not machine.run(SOFT).changed

    def test_no_longer_declared_leaves_nothing_to_the_next_boot(self) -> None:
        machine = configured(soft_machine(), SOFT)
        machine.run()
        ours = (SCRIPT, UNIT_FILE, WANTED_BY, MODULES_FILE, path_of(SOFT))
        assert not [path for path in ours if path in machine.host.files]


class TestDevices:
    @pytest.mark.parametrize("device", ["enp193s0", "mlx5_1", "0000:C1:00.0", "52:54:00:00:00:05"])
    def test_a_card_is_found_by_each_form(self, device: str) -> None:
        outcome = roce_machine().run(replace(ROCE, device=device))
        assert outcome.observed.found["rail1"].netdev == "enp193s0"

    @pytest.mark.parametrize(
        ("device", "match"),
        [
            ("enp193s0", "Name=enp193s0"),
            ("mlx5_1", "Path=pci-0000:c1:00.0\nType=ether"),
            ("52:54:00:00:00:05", "MACAddress=52:54:00:00:00:05\nType=ether"),
        ],
    )
    def test_networkd_finds_it_by_what_was_declared(self, device: str, match: str) -> None:
        machine = roce_machine()
        machine.run(replace(ROCE, device=device))
        assert f"[Match]\n{match}\n" in machine.host.files[path_of(ROCE)]

    def test_an_absent_card_names_those_that_are_there(self) -> None:
        outcome = roce_machine().run(replace(ROCE, device="enp7s0"))
        assert not outcome.changed
        assert str(outcome.problems[0]).startswith(
            "card rail1: found enp193s0/mlx5_1/0000:c1:00.0, ens3/0000:00:03.0; wanted one card"
        )

    def test_of_a_bond_and_its_member_the_card_counts(self) -> None:
        machine = roce_machine()
        machine.host.files.update({"/sys/class/net/bond0/address": "52:54:00:00:00:05\n", "/sys/class/net/bond0/mtu": "1500\n"})
        assert machine.run(replace(ROCE, device="52:54:00:00:00:05")).observed.found["rail1"].netdev == "enp193s0"


class TestInfiniband:
    def test_the_interface_comes_by_ib_ipoib_in_the_same_run(self) -> None:
        machine = infiniband_machine()
        machine.run(IB)
        assert Address("ibp65s0", "10.88.0.11", 24) in machine.network.found
        assert "Path=pci-0000:41:00.0\nType=infiniband" in machine.host.files[path_of(IB)]
        assert "infiniband-diags" in machine.host.packages
        assert not machine.run(IB).changed

    def test_no_subnet_manager_is_named(self) -> None:
        port = adapter("mlx5_0", "0000:41:00.0", "InfiniBand", state="2: INIT", sm_lid="0x0")
        outcome = Machine(port, MLX5).run(replace(IB, address=None))
        assert [p.severity for p in outcome.problems] == ["warning"]
        assert "found INIT, no subnet manager; wanted ACTIVE with a subnet manager" in str(outcome.problems[0])

    def test_a_slow_link_is_a_warning_and_a_card_in_the_other_mode_an_error(self) -> None:
        slow = Machine(adapter("mlx5_0", "0000:41:00.0", "InfiniBand", rate="200 Gb/sec (4X HDR)"), MLX5)
        assert "found 200 Gb/s; wanted 400 Gb/s" in str(slow.run(replace(IB, address=None)).problems[0])
        wrong = Machine(adapter("mlx5_0", "0000:41:00.0", "Ethernet"), MLX5).run(replace(IB, address=None))
        assert not wrong.changed and "link layer Ethernet; wanted InfiniBand" in str(wrong.problems[0])

    def test_files_of_a_port_as_the_kernel_documents_them(self) -> None:
        port = parse_port("1: DOWN\n", "3: Disabled\n", "40 Gb/sec (4X QDR)\n", "InfiniBand\n", "0x0\n")
        assert (port.state, port.physical, port.rate_gbps, port.sm_lid) == ("DOWN", "Disabled", 40.0, 0)
        assert parse_port("", "", "", "", "").state == ""


class TestLossless:
    def test_pfc_dscp_mark_now_and_at_boot(self) -> None:
        machine = roce_machine()
        machine.run(ROCE)
        assert machine.pfc["enp193s0"] == [False, False, False, True, False, False, False, False]
        assert machine.dscp["enp193s0"] == {26: 3}
        assert machine.host.files["/sys/kernel/config/rdma_cm/mlx5_1/ports/1/default_roce_tos"] == "106\n"
        assert len(machine.host.ran(SCRIPT)) == 1
        assert not machine.run(ROCE).changed

    def test_lost_by_a_reset_they_are_set_again(self) -> None:
        machine = configured(roce_machine(), ROCE)
        machine.pfc.clear()
        assert [c.what for c in machine.run(ROCE).changes] == ["PFC of rail1"]
        assert machine.pfc["enp193s0"][3]

    def test_on_a_node_in_service_they_wait_and_so_does_the_script(self) -> None:
        machine = configured(roce_machine(), ROCE)
        before = machine.host.files[SCRIPT]
        outcome = machine.run(replace(ROCE, traffic=Traffic(priority=5)), policy=IN_SERVICE)
        assert not outcome.changed and machine.host.files[SCRIPT] == before
        assert {"PFC of rail1", "priority of DSCP 26 of rail1", f"file {SCRIPT}"} <= {c.what for c in outcome.deferred}

    def test_ecn_where_the_driver_has_a_switch(self) -> None:
        machine = roce_machine()
        switches = [f"/sys/class/net/enp193s0/ecn/{side}/enable/3" for side in ("roce_np", "roce_rp")]
        machine.host.files.update(dict.fromkeys(switches, "0\n"))
        machine.run(ROCE)
        assert [machine.host.files[path] for path in switches] == ["1\n", "1\n"]

    def test_a_driver_without_dcb_is_refused(self) -> None:
        machine = roce_machine()
        machine.dcb = False
        assert "a driver without DCB" in str(machine.run(ROCE).problems[0])

    def test_what_dcb_prints(self) -> None:
        assert parse_pfc('{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,true,true]}') == (2, 3)
        assert parse_dscp('{"dscp_prio":[[26,3],[48,6]]}') == {26: 3, 48: 6} and parse_dscp("") == {}


class TestAddresses:
    def test_another_owner_of_the_interface_is_refused(self) -> None:
        machine = soft_machine()
        machine.host.files["/etc/network/interfaces.d/50-cloud-init"] = "auto ens4\niface ens4 inet dhcp\n"
        outcome = machine.run(SOFT)
        assert not outcome.changed
        assert "found configured by ifupdown (/etc/network/interfaces.d/50-cloud-init)" in str(outcome.problems[0])
        machine = soft_machine()
        machine.host.files["/run/NetworkManager/devices/3"] = "[device]\nmanaged=true\n"
        assert "configured by NetworkManager" in str(machine.run(SOFT).problems[0])

    def test_the_card_the_host_is_reached_by_keeps_its_address(self) -> None:
        machine = soft_machine()
        outcome = machine.run(replace(SOFT, device="ens3"))
        assert not outcome.changed and "the card this host is reached by" in str(outcome.problems[0])
        assert machine.run(replace(SOFT, device="ens3", address=None)).changed, "RDMA alone leaves the address as it is"

    def test_by_ansibles_own_address_too(self) -> None:
        machine = soft_machine()
        machine.network.found.append(Address("ens4", "192.168.5.4", 24))
        assert machine.run(SOFT, management_address="192.168.5.4").problems[0].what.startswith("card rail0")

    def test_a_card_that_carries_traffic_changes_on_a_drained_node(self) -> None:
        machine = configured(soft_machine(), SOFT)
        outcome = machine.run(replace(SOFT, mtu=9000), policy=IN_SERVICE)
        assert not outcome.changed
        assert {c.what for c in outcome.deferred} == {f"file {path_of(SOFT)}", "address of rail0"}
        assert machine.run(replace(SOFT, mtu=9000)).observed.found["rail0"].mtu == 9000

    def test_a_file_of_netplan_gives_way(self) -> None:
        machine = soft_machine()
        machine.host.files["/run/systemd/netif/links/3"] = "NETWORK_FILE=/run/systemd/network/10-netplan-ens4.network\n"
        machine.host.services[SERVICE] = "active"
        machine.run(SOFT)
        assert path_of(SOFT) in machine.host.files["/run/systemd/netif/links/3"]
        assert path_of(SOFT).rpartition("/")[2] < "10-netplan-ens4.network"

    def test_an_address_that_does_not_come_is_an_error_in_bounded_time(self) -> None:
        machine = soft_machine()
        machine.host.files.update(card("ens5", "0000:00:05.0", 4, virtio=True))
        del machine.host.files["/sys/class/net/ens4/address"]
        machine.host.files["/sys/class/net/ens4/address"] = "52:54:00:00:00:03\n"
        machine._configure = lambda host, path: None  # type: ignore[method-assign]
        with pytest.raises(BedplateError, match=r"address of rail0: found none on ens4 within 30 s; wanted 10\.88\.0\.251/24"):
            machine.run(SOFT)
        assert 30 <= machine.network.now < 35

    def test_rules_of_the_pod_network_survive_networkd(self) -> None:
        machine = soft_machine()
        machine.run(SOFT)
        assert "ManageForeignRoutingPolicyRules=no" in machine.host.files["/etc/systemd/networkd.conf.d/50-bedplate.conf"]


def test_an_interface_without_members_is_its_own() -> None:
    assert lower_devices(soft_machine().host, "ens4") == {"ens4"}


def test_without_cards_nothing_is_asked_of_the_host() -> None:
    machine = soft_machine()
    assert not machine.run().changed and machine.host.commands == []


def test_observation_runs_few_commands() -> None:
    machine = configured(soft_machine(), SOFT)
    machine.run(SOFT)
    assert [c[0] for c in machine.host.commands] == ["dpkg-query", "systemctl"]
    assert Nic("x").rdma is False
