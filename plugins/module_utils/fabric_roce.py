# SPDX-License-Identifier: Apache-2.0
"""What forgets itself at a reboot: soft-RoCE devices and lossless settings of RoCE cards. One script sets it, now and at boot.

PFC and the priority of a DSCP are set by dcb(8); mlx5 trusts the DSCP as soon as one has a priority (mlx5e_dcbnl_ieee_setapp).
The mark of connections made by rdma_cm is default_roce_tos in its configfs, which cma_roce_tos(8) sets; of others it is
traffic_class where the driver has that file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .core import DRAIN, Change, Problem
from .fabric_devices import ROCE, SOFT_ROCE, Device, Nic
from .host import Host
from .operations import RemoveFile, RunCommand, file_change

UNIT = "bedplate-fabric"
UNIT_FILE = f"/etc/systemd/system/{UNIT}.service"
WANTED_BY = f"/etc/systemd/system/multi-user.target.wants/{UNIT}.service"
SCRIPT = "/usr/local/sbin/bedplate-fabric"
MARKS = "/sys/kernel/config/rdma_cm"
DCB_TIMEOUT_SECONDS = 10.0
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Lossless:
    """A RoCE card's settings now. pfc: priorities paused; dscp: priority by DSCP; None where the driver knows no DCB.
    mark: type of service of rdma_cm's connections, None where it was never set. ecn: on for the priority; None: no such file.
    """

    pfc: Optional[tuple[int, ...]] = None
    dscp: Optional[Mapping[int, int]] = None
    mark: Optional[int] = None
    ecn: Optional[bool] = None


@dataclass(frozen=True)
class RoceState:
    """What is there: our files, the unit at boot, settings by card."""

    script: Optional[str] = None
    script_mode: Optional[int] = None
    unit: Optional[str] = None
    enabled: bool = False
    cards: Mapping[str, Lossless] = field(default_factory=dict)


def ecn_files(netdev: str, priority: int) -> list[str]:
    """Return the switches of ECN for a priority; only OFED's driver has them, the kernel's leaves ECN to the card's firmware."""
    return [f"/sys/class/net/{netdev}/ecn/{side}/enable/{priority}" for side in ("roce_np", "roce_rp")]


def observe_roce(host: Host, nics: Sequence[Nic], found: Mapping[str, Device]) -> RoceState:
    """Read files; two dcb commands for each card with lossless settings."""
    cards = {}
    for nic in nics:
        device = found.get(nic.name)
        if nic.fabric == ROCE and nic.traffic is not None and device is not None and device.netdev:
            cards[nic.name] = observe_lossless(host, device, nic.traffic.priority)
    return RoceState(host.read(SCRIPT), host.mode(SCRIPT), host.read(UNIT_FILE), host.exists(WANTED_BY), cards)


def observe_lossless(host: Host, device: Device, priority: int) -> Lossless:
    """Ask dcb, configfs and sysfs about a card."""
    pfc = host.run(["dcb", "-j", "pfc", "show", "dev", device.netdev, "prio-pfc"], timeout_seconds=DCB_TIMEOUT_SECONDS)
    app = host.run(["dcb", "-j", "-N", "app", "show", "dev", device.netdev, "dscp-prio"], timeout_seconds=DCB_TIMEOUT_SECONDS)
    mark = (host.read(f"{MARKS}/{device.rdma}/ports/1/default_roce_tos") or "").strip()
    switches = [text.strip() for path in ecn_files(device.netdev, priority) if (text := host.read(path)) is not None]
    return Lossless(
        pfc=parse_pfc(pfc.out) if pfc.ok else None,
        dscp=parse_dscp(app.out) if app.ok else None,
        mark=int(mark) if mark.isdigit() else None,
        ecn=all(text == "1" for text in switches) if switches else None,
    )


def parse_pfc(text: str) -> tuple[int, ...]:
    """Return the priorities that are on in ``dcb -j pfc show``: ``{"prio_pfc":[false,false,false,true,…]}``."""
    states = _json(text).get("prio_pfc") or []
    return tuple(priority for priority, on in enumerate(states) if on in (True, "on"))


def parse_dscp(text: str) -> dict[int, int]:
    """Return priority by DSCP from ``dcb -j -N app show``: ``{"dscp_prio":[[26,3]]}``; an empty table prints nothing of it."""
    return {int(dscp): int(priority) for dscp, priority in _json(text).get("dscp_prio") or []}


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def soft_device(netdev: str) -> str:
    """Return the name of an interface's soft-RoCE device."""
    return f"rxe_{netdev}"


def script_of(nics: Sequence[Nic], found: Mapping[str, Device]) -> str:
    """Return the script; "" where no card needs one."""
    lines: list[str] = []
    for nic in nics:
        device = found.get(nic.name)
        if device is None or not device.netdev:
            continue
        if nic.fabric == SOFT_ROCE:
            add = f"rdma link add {soft_device(device.netdev)} type rxe netdev {device.netdev}"
            lines += [f"# {nic.name}", f"grep -qsxF {device.netdev} /sys/class/infiniband/*/parent || {add}"]
        elif nic.fabric == ROCE and nic.traffic is not None:
            lines += [f"# {nic.name}", *_lossless_lines(nic, device)]
    if not lines:
        return ""
    return "\n".join(
        ("#!/bin/sh", f"# Written by Bedplate; changes are overwritten. {UNIT}.service runs it at boot.", "set -eu", *lines, "")
    )


def _lossless_lines(nic: Nic, device: Device) -> list[str]:
    traffic, netdev = nic.traffic, device.netdev
    if traffic is None:
        return []
    pause = f"all:off {traffic.priority}:on" if traffic.pfc else "all:off"
    lines = [
        f"dcb pfc set dev {netdev} prio-pfc {pause}",
        f"dcb app replace dev {netdev} dscp-prio {traffic.dscp}:{traffic.priority}",
    ]
    switch = int(traffic.ecn)
    lines += [f"[ ! -e {path} ] || echo {switch} > {path}" for path in ecn_files(netdev, traffic.priority)]
    if device.rdma:
        mark, driver = traffic.type_of_service, f"/sys/class/infiniband/{device.rdma}/tc/1/traffic_class"
        lines += [
            f"mkdir -p {MARKS}/{device.rdma}",
            f"echo {mark} > {MARKS}/{device.rdma}/ports/1/default_roce_tos",
            f"[ ! -e {driver} ] || echo {mark} > {driver}",
        ]
    return lines


def unit_of(netdevs: Sequence[str]) -> str:
    """Return the unit that runs the script at boot, once the interfaces are there; RDMA devices come a moment later."""
    devices = " ".join("sys-subsystem-net-devices-" + netdev.replace("-", "\\x2d") + ".device" for netdev in netdevs)
    return f"""\
# Written by Bedplate; changes are overwritten.
[Unit]
Description=Soft-RoCE devices and lossless settings of RoCE cards
Wants={devices}
After=systemd-modules-load.service {devices}
Before=kubelet.service
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={SCRIPT}
Restart=on-failure
RestartSec=5

[Install]
WantedBy=multi-user.target
"""


def plan_roce(state: RoceState, nics: Sequence[Nic], found: Mapping[str, Device]) -> tuple[list[Change], list[Problem]]:
    """Plan the script and its unit, and run it where what it sets is not so."""
    script = script_of(nics, found)
    if not script:
        ours = {UNIT_FILE: state.unit, SCRIPT: state.script}
        gone = [Change(f"file {path}", text, None, operation=RemoveFile(path)) for path, text in ours.items() if text is not None]
        if state.enabled:
            disable = RunCommand(("systemctl", "disable", "--no-reload", f"{UNIT}.service"), f"disable {UNIT}")
            gone.insert(0, Change(f"service {UNIT} enabled", True, False, operation=disable))
        return gone, []
    run = RunScript()
    settings: list[Change] = []
    problems: list[Problem] = []
    for nic in nics:
        device = found.get(nic.name)
        if device is not None and nic.fabric == SOFT_ROCE and not device.rdma:
            name = soft_device(device.netdev)
            settings.append(Change(f"soft-RoCE device on {device.netdev}", None, name, NONE, run, (f"file {SCRIPT}",)))
        elif device is not None and nic.name in state.cards:
            more, refused = _plan_lossless(nic, device, state.cards[nic.name], run)
            settings += more
            problems += refused
    # what waits for a drain must not come by a reboot in between either
    effects = NONE.union(*(change.effects for change in settings))
    netdevs = [found[nic.name].netdev for nic in nics if f"# {nic.name}\n" in script]
    changes = file_change(SCRIPT, state.script, script, mode=0o755, found_mode=state.script_mode, effects=effects)
    changes += file_change(UNIT_FILE, state.unit, unit_of(netdevs), needs=(f"file {SCRIPT}",))
    if not state.enabled:
        enable = RunCommand(("systemctl", "enable", "--no-reload", f"{UNIT}.service"), f"enable {UNIT}")
        changes.append(Change(f"service {UNIT} enabled", False, True, operation=enable, needs=(f"file {UNIT_FILE}",)))
    return changes + settings, problems


@dataclass
class RunScript:
    """Operation that several changes share: the first ``perform`` runs the script, later ones do nothing."""

    done: bool = field(default=False, compare=False)

    def perform(self, host: Host) -> None:
        """Run it; raise :class:`BedplateError` with what the failing line said."""
        if not self.done:
            step = f"run sh -x {SCRIPT} on the host to see which line fails"
            RunCommand((SCRIPT,), "set up the RDMA devices", 60, step).perform(host)
            self.done = True


def _plan_lossless(nic: Nic, device: Device, now: Lossless, run: RunScript) -> tuple[list[Change], list[Problem]]:
    traffic = nic.traffic
    if traffic is None:
        return [], []
    if now.pfc is None or now.dscp is None:
        step = "use a card whose driver has DCB, or take roce from the pool's nic and configure it by the vendor's own tool"
        found = "a driver without DCB (dcb pfc show)"
        return [], [Problem(f"lossless RoCE of {nic.name} ({device})", found, "PFC and the priority of a DSCP", step)]
    pairs: list[tuple[str, object, object]] = [
        ("PFC", list(now.pfc), [traffic.priority] if traffic.pfc else []),
        (f"priority of DSCP {traffic.dscp}", now.dscp.get(traffic.dscp), traffic.priority),
    ]
    if device.rdma:
        pairs.append(("type of service", now.mark, traffic.type_of_service))
    if now.ecn is not None:
        pairs.append(("ECN", now.ecn, traffic.ecn))
    drain = frozenset({DRAIN})  # buffers are laid out anew, and packets of running jobs are lost
    return [
        Change(f"{what} of {nic.name}", before, after, drain, run, (f"file {SCRIPT}",))
        for what, before, after in pairs
        if before != after
    ], []
