# SPDX-License-Identifier: Apache-2.0
"""Measures RDMA between two hosts with perftest and rping; parsers are pure.

Servers are transient units of systemd with a time limit, so that they end whatever becomes of the run, of the network or of the
client; clients are killed at theirs. Traffic is bounded by the duration of one bandwidth test per card.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .fabric_devices import Nic, find, observe_devices
from .host import NOT_FOUND, TIMED_OUT, Host, Result
from .network import Network
from .operations import last_lines

UNIT = "bedplate-fabric-check"
PINGS = 3
CONNECT_SECONDS = 20.0
"""How long a client tries again while its server starts."""
START_SECONDS = 30
"""What a test may take besides its duration: registering memory, exchanging addresses."""
MIB = 1024 * 1024


@dataclass(frozen=True)
class Pair:
    """One card of a pair of hosts. peer: the other's name; reach: its address for perftest's own exchange, on the card or else
    the node's; ping: its address on the card, "" where the cards have none. port: TCP, the next one is rping's.
    """

    nic: Nic
    peer: str
    reach: str
    ping: str
    port: int
    floor_gbps: Optional[float] = None


@dataclass(frozen=True)
class Measured:
    """A result. gbps: average of the bandwidth test; None where it did not end. reason: why it did not pass, "" where it did."""

    rail: str
    peer: str
    device: str = ""
    state: str = ""
    mtu_bytes: int = 0
    pings: Optional[int] = None
    gbps: Optional[float] = None
    floor_gbps: Optional[float] = None
    reason: str = ""

    def public(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {**asdict(self), "passed": not self.reason}


def parse_bandwidth(text: str) -> Optional[float]:
    """Return the average bandwidth in Gb/s from perftest's table; its MB are 2^20 bytes. None where there is no result."""
    unit = re.search(r"#bytes.*BW average\[(Gb|MB)/sec\]", text)
    rows = re.findall(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", text, re.MULTILINE)
    if unit is None or not rows:
        return None
    value = float(rows[-1])
    return value if unit[1] == "Gb" else value * MIB * 8 / 1e9


def parse_devinfo(text: str) -> tuple[str, int]:
    """Return state and active MTU in bytes from ``ibv_devinfo``: ``state: PORT_ACTIVE (4)``, ``active_mtu: 1024 (3)``."""
    state = re.search(r"\bstate:\s+(\w+)", text)
    mtu = re.search(r"\bactive_mtu:\s+(\d+)", text)
    return (state[1] if state else ""), (int(mtu[1]) if mtu else 0)


def parse_pings(text: str) -> int:
    """Return how often ``rping -c -v`` got its data back (lines ``ping data: rdma-ping-0: …``)."""
    return len(re.findall(r"^ping data: rdma-ping-", text, re.MULTILINE))


def bandwidth_argv(device: str, port: int, seconds: int, server: str = "") -> list[str]:
    """Return ib_write_bw's command line. -F: a CPU that changes its clock is no reason to stop."""
    argv = ["ib_write_bw", "-d", device, "-i", "1", "-F", "--report_gbits", "-D", str(seconds), "-p", str(port)]
    return [*argv, server] if server else argv


def server_argv(unit: str, limit_seconds: int, argv: Sequence[str]) -> list[str]:
    """Return the command that runs a server which systemd ends at the limit."""
    limits = [f"--property=RuntimeMaxSec={limit_seconds}", "--property=LimitMEMLOCK=infinity", "--property=KillSignal=SIGKILL"]
    return ["systemd-run", f"--unit={unit}", "--collect", "--quiet", *limits, *argv]


def serve(host: Host, pairs: Sequence[Pair], seconds: int) -> list[str]:
    """Start the servers of all pairs; return why some could not be started, which their clients will find too."""
    stop(host)
    reasons = []
    devices = observe_devices(host)
    limit = len(pairs) * (seconds + 2 * START_SECONDS + int(CONNECT_SECONDS)) + START_SECONDS
    for pair in pairs:
        device, problem = find(pair.nic, devices)
        if device is None or not device.rdma:
            reasons.append(str(problem) if problem else _no_device(pair.nic))
            continue
        commands = {f"{UNIT}-{pair.port}": bandwidth_argv(device.rdma, pair.port, seconds)}
        if pair.nic.address and pair.ping:
            own = pair.nic.address.partition("/")[0]
            commands[f"{UNIT}-{pair.port + 1}"] = ["rping", "-s", "-a", own, "-p", str(pair.port + 1), "-C", str(PINGS)]
        for unit, argv in commands.items():
            result = host.run(server_argv(unit, limit, argv))
            if not result.ok:
                reasons.append(f"cannot start {argv[0]}: {last_lines(result.err)}. Next: look at systemctl status {unit}")
    return reasons


def stop(host: Host) -> None:
    """End every server that still runs; none is fine."""
    host.run(["systemctl", "stop", f"{UNIT}-*.service"])


def measure(host: Host, network: Network, pairs: Sequence[Pair], seconds: int) -> list[Measured]:
    """Measure card after card as the client. A failure is a result, not an error: the others are measured all the same."""
    devices = observe_devices(host)
    results = []
    for pair in pairs:
        device, problem = find(pair.nic, devices)
        name = device.rdma if device else ""
        if not name:
            reason = str(problem) if problem else _no_device(pair.nic)
            results.append(Measured(pair.nic.name, pair.peer, floor_gbps=pair.floor_gbps, reason=reason))
        else:
            results.append(_measure(host, network, pair, name, seconds))
    return results


def _no_device(nic: Nic) -> str:
    return f"card {nic.name}: found no RDMA device; wanted one. Next: playbooks/site.yml sets it up"


def _measure(host: Host, network: Network, pair: Pair, device: str, seconds: int) -> Measured:
    state, mtu = parse_devinfo(host.run(["ibv_devinfo", "-d", device, "-i", "1"]).out)
    pings: Optional[int] = None
    reasons = [] if state == "PORT_ACTIVE" else [f"port is {state or 'unknown'}"]
    if not reasons and pair.ping:
        argv = ["rping", "-c", "-a", pair.ping, "-p", str(pair.port + 1), "-C", str(PINGS), "-v"]
        answer = _patiently(host, network, argv, START_SECONDS)
        pings = parse_pings(answer.out)
        if pings < PINGS:
            reasons.append(f"rping: {pings} of {PINGS} answers ({_said(answer)})")
    gbps: Optional[float] = None
    if not reasons:
        answer = _patiently(host, network, bandwidth_argv(device, pair.port, seconds, pair.reach), seconds + START_SECONDS)
        gbps = parse_bandwidth(answer.out)
        if gbps is None:
            reasons.append(f"ib_write_bw: no result ({_said(answer)})")
        elif pair.floor_gbps is not None and gbps < pair.floor_gbps:
            reasons.append(f"{gbps:.2f} Gb/s, wanted at least {pair.floor_gbps:g}")
    return Measured(pair.nic.name, pair.peer, device, state, mtu, pings, gbps, pair.floor_gbps, "; ".join(reasons))


def _patiently(host: Host, network: Network, argv: Sequence[str], timeout_seconds: float) -> Result:
    """Run a client; again, for a bounded time, while its server does not listen yet."""
    until = network.monotonic() + CONNECT_SECONDS
    while True:
        result = host.run(argv, timeout_seconds=timeout_seconds)
        if result.ok or result.rc in (NOT_FOUND, TIMED_OUT) or network.monotonic() >= until:
            return result
        network.sleep(1)


def _said(result: Result) -> str:
    return last_lines(result.err or result.out, 1) or f"return code {result.rc}"
