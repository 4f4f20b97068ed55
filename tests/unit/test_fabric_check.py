# SPDX-License-Identifier: Apache-2.0
"""The measurement between two hosts: what the tools print, what is bounded, who measures against whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_check import (
    Pair,
    measure,
    parse_bandwidth,
    parse_devinfo,
    parse_pings,
    serve,
    stop,
)
from ansible_collections.bedplate.metal.plugins.module_utils.host import TIMED_OUT, Result
from ansible_collections.bedplate.metal.plugins.plugin_utils import fabric_ring
from fixtures_fabric import SOFT, Machine, configured, soft_machine

from recorded_host import RecordedHost

# The form of github.com/linux-rdma/perftest's report (issue 273 shows one of a test by duration, whose peak is 0).
GBITS = """\
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : rxe_ens4
 Mtu             : 1024[B]
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      664644           0.00               0.48   \t\t   0.000915
---------------------------------------------------------------------------------------
"""
DEVINFO = """\
hca_id:\trxe_ens4
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t0.0.0
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tsm_lid:\t\t\t0
\t\t\tlink_layer:\t\tEthernet
"""
PINGS = "".join(f"ping data: rdma-ping-{n}: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\n" for n in range(3))
PAIR = Pair(SOFT, "m2", "10.88.0.252", "10.88.0.252", 18515, 0.1)


class TestParsers:
    def test_bandwidth_in_both_units(self) -> None:
        assert parse_bandwidth(GBITS) == 0.48
        text = GBITS.replace("Gb/sec", "MB/sec").replace("0.48", "11697.68")
        assert parse_bandwidth(text) == pytest.approx(98.13, abs=0.01)

    @pytest.mark.parametrize("text", ["", "Couldn't connect to 10.88.0.252:18515", GBITS.split(" 65536")[0]])
    def test_no_result_is_none(self, text: str) -> None:
        assert parse_bandwidth(text) is None

    def test_port_and_pings(self) -> None:
        assert parse_devinfo(DEVINFO) == ("PORT_ACTIVE", 1024) and parse_devinfo("") == ("", 0)
        assert parse_pings(PINGS) == 3 and parse_pings("server ping data: rdma-ping-0: A\n") == 0


def client(answers: dict[str, list[Result]]) -> Machine:
    """A host whose tools answer in turn; the last answer stays."""
    machine = configured(soft_machine(), SOFT)
    given = {"ibv_devinfo": [Result(0, DEVINFO)], "rping": [Result(0, PINGS)], "ib_write_bw": [Result(0, GBITS)], **answers}

    def tool(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        turns = given[argv[0]]
        return turns.pop(0) if len(turns) > 1 else turns[0]

    for program in given:
        machine.host.on(program, tool)
    return machine


class TestClient:
    def test_a_healthy_pair(self) -> None:
        machine = client({})
        (result,) = measure(machine.host, machine.network, [PAIR], 5)
        assert result.public() == {
            "rail": "rail0",
            "peer": "m2",
            "device": "rxe_ens4",
            "state": "PORT_ACTIVE",
            "mtu_bytes": 1024,
            "pings": 3,
            "gbps": 0.48,
            "floor_gbps": 0.1,
            "reason": "",
            "passed": True,
        }
        assert machine.host.ran("ib_write_bw")[0][1:7] == ["-d", "rxe_ens4", "-i", "1", "-F", "--report_gbits"]
        assert machine.host.ran("ib_write_bw")[0][7:] == ["-D", "5", "-p", "18515", "10.88.0.252"]
        assert machine.host.ran("rping")[0][3:] == ["10.88.0.252", "-p", "18516", "-C", "3", "-v"]

    def test_below_the_floor(self) -> None:
        machine = client({})
        (result,) = measure(machine.host, machine.network, [Pair(SOFT, "m2", "10.88.0.252", "", 18515, 2.0)], 5)
        assert result.reason == "0.48 Gb/s, wanted at least 2" and result.pings is None

    def test_a_server_that_starts_late_is_waited_for(self) -> None:
        late = [Result(1, "", "Couldn't connect to 10.88.0.252:18515")] * 3
        machine = client({"ib_write_bw": [*late, Result(0, GBITS)]})
        (result,) = measure(machine.host, machine.network, [PAIR], 5)
        assert result.gbps == 0.48

    def test_no_server_is_given_up_in_bounded_time_with_the_tools_own_words(self) -> None:
        machine = client({"rping": [Result(1, "", "cma event RDMA_CM_EVENT_REJECTED, error 8\n")]})
        (result,) = measure(machine.host, machine.network, [PAIR], 5)
        assert result.reason == "rping: 0 of 3 answers (cma event RDMA_CM_EVENT_REJECTED, error 8)"
        assert machine.network.now <= 21 and not machine.host.ran("ib_write_bw")

    def test_a_client_that_hangs_is_not_tried_again(self) -> None:
        machine = client({"ib_write_bw": [Result(TIMED_OUT, "", "ib_write_bw: no answer within 35 s")]})
        (result,) = measure(machine.host, machine.network, [PAIR], 5)
        assert "no answer within 35 s" in result.reason and len(machine.host.ran("ib_write_bw")) == 1

    def test_a_port_that_is_down_is_said_and_not_measured(self) -> None:
        machine = client({"ibv_devinfo": [Result(0, DEVINFO.replace("PORT_ACTIVE (4)", "PORT_DOWN (1)"))]})
        (result,) = measure(machine.host, machine.network, [PAIR], 5)
        assert result.reason == "port is PORT_DOWN" and not machine.host.ran("rping")

    def test_a_card_without_a_device_does_not_keep_the_others_from_being_measured(self) -> None:
        machine = client({})
        other = Pair(SOFT.__class__("rail9", "roce", "enp9s0"), "m2", "10.88.9.2", "", 18517)
        results = measure(machine.host, machine.network, [other, PAIR], 5)
        assert "one card that is enp9s0" in results[0].reason and results[1].reason == ""


class TestServer:
    def test_each_is_ended_by_systemd_at_a_limit(self) -> None:
        machine = configured(soft_machine(), SOFT)
        machine.host.on("systemd-run", lambda host, argv, stdin: Result(0))
        assert serve(machine.host, [PAIR], 5) == []
        started = machine.host.ran("systemd-run")
        assert [c[1] for c in started] == ["--unit=bedplate-fabric-check-18515", "--unit=bedplate-fabric-check-18516"]
        assert all("--property=RuntimeMaxSec=115" in c for c in started)
        assert started[0][-10:] == ["-d", "rxe_ens4", "-i", "1", "-F", "--report_gbits", "-D", "5", "-p", "18515"]
        assert started[1][-8:] == ["rping", "-s", "-a", "10.88.0.251", "-p", "18516", "-C", "3"]

    def test_leftovers_of_a_killed_run_go_first(self) -> None:
        machine = configured(soft_machine(), SOFT)
        machine.host.on("systemd-run", lambda host, argv, stdin: Result(0))
        serve(machine.host, [PAIR], 5)
        programs = [c[0] for c in machine.host.commands]
        assert programs[0] == "systemctl" and machine.host.commands[0][1:] == ["stop", "bedplate-fabric-check-*.service"]
        stop(machine.host)

    def test_one_that_does_not_start_is_said_and_the_others_are_started(self) -> None:
        machine = configured(soft_machine(), SOFT)
        machine.host.on("systemd-run", lambda host, argv, stdin: Result(1, "", "Failed to find executable ib_write_bw"))
        other = Pair(SOFT.__class__("rail9", "roce", "enp9s0"), "m2", "10.88.9.2", "", 18517)
        reasons = serve(machine.host, [other, PAIR], 5)
        assert "one card that is enp9s0" in reasons[0]
        assert reasons[1].startswith("cannot start ib_write_bw: Failed to find executable")


def site(count: int, **nic: Any) -> dict[str, Any]:
    """The derived fact of a pool with one card per host."""
    declared = {"name": "rail0", "fabric": "infiniband", "speed_gbps": 400, **nic}
    names = [f"n{number}" for number in range(1, count + 1)]
    roles = {
        name: {"fabric": {"nics": [{**declared, "device": "mlx5_0", "address": f"10.88.0.{n}/24"}]}}
        for n, name in enumerate(names, 1)
    }
    return {
        "pools": {"train": {"hosts": names, "spec": {"nics": [declared]}}, "system": {"hosts": [], "spec": {}}},
        "hosts": {name: {"node_ip": None, "roles": roles[name]} for name in names},
    }


def planned(count: int, **nic: Any) -> list[fabric_ring.Round]:
    fact = site(count, **nic)
    return fabric_ring.plan(fact, list(fact["hosts"]), dict.fromkeys(fact["hosts"], "10.0.0.1"))


class TestRing:
    @pytest.mark.parametrize(("count", "rounds"), [(2, 2), (3, 3), (4, 2), (5, 3), (8, 2), (9, 3)])
    def test_every_host_sends_and_receives_once_and_is_busy_once_a_round(self, count: int, rounds: int) -> None:
        found = planned(count)
        assert len(found) == rounds
        for one in found:
            assert all(bool(sides["serve"]) != bool(sides["measure"]) for sides in one.values())
        clients = [host for one in found for host, sides in one.items() if sides["measure"]]
        servers = [host for one in found for host, sides in one.items() if sides["serve"]]
        assert sorted(clients) == sorted(servers) == sorted(site(count)["hosts"])

    def test_both_sides_agree_on_port_and_address(self) -> None:
        one = planned(2)[0]
        (measuring,), (serving,) = one["n1"]["measure"], one["n2"]["serve"]
        assert (measuring["port"], measuring["peer"], measuring["reach"]) == (serving["port"], "n2", "10.88.0.2")
        assert serving["nic"]["address"] == "10.88.0.2/24" and measuring["nic"]["address"] == "10.88.0.1/24"

    def test_floors(self) -> None:
        assert fabric_ring.floor_gbps({"fabric": "infiniband", "speed_gbps": 400}) == 360
        assert fabric_ring.floor_gbps({"fabric": "roce", "speed_gbps": 200}) == 170
        assert fabric_ring.floor_gbps({"fabric": "roce", "speed_gbps": 200, "min_gbps": 190}) == 190
        assert fabric_ring.floor_gbps({"fabric": "soft-roce", "speed_gbps": 10}) is None
        assert fabric_ring.floor_gbps({"fabric": "roce", "speed_gbps": None}) is None

    def test_a_single_host_and_a_host_that_failed_are_not_passed_over(self) -> None:
        assert planned(1) == [] and "nothing to measure with" in fabric_ring.alone(site(1), ["n1"])[0]["reason"]
        rounds = planned(2)
        lost = fabric_ring.missing(rounds, {"n1": [{"peer": "n2", "rail": "rail0"}]})
        assert [(one["host"], one["peer"], one["passed"]) for one in lost] == [("n2", "n1", False)]

    def test_table(self) -> None:
        good = {"host": "n1", "peer": "n2", "rail": "rail0", "device": "mlx5_0", "gbps": 391.2, "floor_gbps": 360.0}
        lines = fabric_ring.table(
            [
                {**good, "mtu_bytes": 4096, "passed": True, "reason": ""},
                {**good, "gbps": None, "passed": False, "reason": "rping"},
            ]
        )
        assert lines[0].split() == ["from", "to", "card", "device", "Gb/s", "at", "least", "MTU", "result"]
        assert lines[1].split() == ["n1", "n2", "rail0", "mlx5_0", "391.20", "360", "4096", "ok"]
        assert lines[2].endswith("rping")
