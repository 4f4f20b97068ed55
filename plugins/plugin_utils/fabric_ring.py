# SPDX-License-Identifier: Apache-2.0
"""Who measures the fabric against whom: a ring through each pool, in rounds in which no host takes part twice. Pure.

A ring has as many pairs as hosts, and every card both sends and receives once; all pairs would be n². A bad cable shows in both
pairs of its host, a bad switch port likewise; a slow path between two certain hosts may be missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.plugin_utils import measurements

FIRST_PORT = 18515
"""perftest's own default port."""
FLOOR_PERCENT = {"infiniband": 90, "roce": 85}
"""Share of a card's speed below which a pair fails. Bedplate's own figures, not a vendor's: healthy links reach more (headers
take 2 to 8 percent, most with small MTUs), a link that lost lanes or speed far less. A card's min_gbps overrides it; soft-RoCE
has no other.
"""

Round = dict[str, dict[str, list[dict[str, Any]]]]


def ring(hosts: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of client and server; none for a single host."""
    return [(host, hosts[(index + 1) % len(hosts)]) for index, host in enumerate(hosts)] if len(hosts) > 1 else []


def in_rounds(pairs: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Return the pairs in rounds: two for an even ring, three for an odd one."""
    rounds: list[list[tuple[str, str]]] = []
    for pair in pairs:
        place = next((r for r in rounds if not {host for other in r for host in other} & set(pair)), None)
        if place is None:
            rounds.append([pair])
        else:
            place.append(pair)
    return rounds


def floor_gbps(nic: Mapping[str, Any]) -> float | None:
    """Return the bandwidth a card must reach, in Gb/s; None where nothing says."""
    if nic.get("min_gbps") is not None:
        return float(nic["min_gbps"])
    percent = FLOOR_PERCENT.get(nic["fabric"])
    return nic["speed_gbps"] * percent / 100 if percent and nic.get("speed_gbps") else None


def plan(bedplate: Mapping[str, Any], hosts: Sequence[str], addresses: Mapping[str, str]) -> list[Round]:
    """Return the rounds: by host, under ``serve`` and ``measure``, what module fabric_check takes as pairs.

    bedplate: the derived fact. hosts: those that take part. addresses: at which each reaches the others, for cards without one.
    """
    rounds: list[Round] = []
    for pool in bedplate["pools"].values():
        members = _members(bedplate, pool, hosts)
        declared = {nic["name"]: nic for nic in (pool["spec"] or {}).get("nics", [])}
        for number, pairs in enumerate(in_rounds(ring(members))):
            if number == len(rounds):
                rounds.append({})
            for client, server in pairs:
                tests = _tests(bedplate, client, server, declared, addresses)
                rounds[number].setdefault(client, {"serve": [], "measure": []})["measure"] += tests["measure"]
                rounds[number].setdefault(server, {"serve": [], "measure": []})["serve"] += tests["serve"]
    return rounds


def alone(bedplate: Mapping[str, Any], hosts: Sequence[str]) -> list[dict[str, Any]]:
    """Return a failed result for each host that is the only one of its pool in this run."""
    members = {name: _members(bedplate, pool, hosts) for name, pool in bedplate["pools"].items()}
    reason = "the only host of {0} in this run: nothing to measure with"
    return [_unmeasured(some[0], "-", "-", reason.format(name)) for name, some in members.items() if len(some) == 1]


def _members(bedplate: Mapping[str, Any], pool: Mapping[str, Any], hosts: Sequence[str]) -> list[str]:
    return [host for host in pool["hosts"] if host in hosts and _cards(bedplate, host)]


def _cards(bedplate: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    nics: list[dict[str, Any]] = bedplate["hosts"][host]["roles"].get("fabric", {}).get("nics", [])
    return [nic for nic in nics if nic["fabric"] != "ethernet"]


def _tests(
    bedplate: Mapping[str, Any],
    client: str,
    server: str,
    declared: Mapping[str, Mapping[str, Any]],
    addresses: Mapping[str, str],
) -> dict[str, list[dict[str, Any]]]:
    own = {nic["name"]: nic for nic in _cards(bedplate, client)}
    tests: dict[str, list[dict[str, Any]]] = {"serve": [], "measure": []}
    for index, other in enumerate(_cards(bedplate, server)):
        name = other["name"]
        ping = str(other.get("address", "")).partition("/")[0] if own[name].get("address") else ""
        common = {"port": FIRST_PORT + 2 * index, "floor_gbps": floor_gbps(declared[name])}
        tests["serve"].append({**common, "nic": other, "peer": client, "ping": ping})
        reach = ping or addresses.get(server, "")
        tests["measure"].append({**common, "nic": own[name], "peer": server, "ping": ping, "reach": reach})
    return tests


def missing(rounds: Sequence[Round], results: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return a failed result for each pair that was planned and not measured."""
    found = {(host, r["peer"], r["rail"]) for host, some in results.items() for r in some}
    wanted = [
        (host, test["peer"], test["nic"]["name"]) for one in rounds for host, sides in one.items() for test in sides["measure"]
    ]
    return [_unmeasured(*pair, "not measured: the host failed before") for pair in wanted if pair not in found]


def _unmeasured(host: str, peer: str, rail: str, reason: str) -> dict[str, Any]:
    return {"host": host, "peer": peer, "rail": rail, "reason": reason, "passed": False}


def table(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the results as lines for a terminal."""
    header = ("from", "to", "card", "device", "Gb/s", "at least", "MTU", "result")
    return measurements.table(header, (_row(result) for result in results))


def _row(result: Mapping[str, Any]) -> tuple[str, ...]:
    gbps, floor = result.get("gbps"), result.get("floor_gbps")
    return (
        str(result["host"]),
        str(result["peer"]),
        str(result["rail"]),
        str(result.get("device") or "-"),
        "-" if gbps is None else f"{gbps:.2f}",
        "-" if floor is None else f"{floor:g}",
        str(result.get("mtu_bytes") or "-"),
        "ok" if result["passed"] else str(result["reason"]),
    )
