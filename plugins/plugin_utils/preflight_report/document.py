# SPDX-License-Identifier: Apache-2.0
"""The report as data (format 1): every targeted host with its rows and facts, also one that could not be looked at. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .devices import load_devices
from .judge import judge
from .row import DIFFERS, OK, UNKNOWN, VERDICTS, Row, worst

FORMAT = 1
"""Version of the report's shape; raised when a reader would have to change."""
OBSERVED, UNREACHABLE, FAILED = "observed", "unreachable", "failed"
NO_RESULT = "nothing was registered for this host: the run ended before it was looked at"


def document(bedplate: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]], made_at: str) -> dict[str, Any]:
    """Return the report. bedplate: what action site derived. results: preflight's with ``report``, by host. made_at: ISO 8601."""
    hosts = {name: host_entry(bedplate, name, result) for name, result in sorted(results.items())}
    return {
        "format": FORMAT,
        "kind": "preflight",
        "cluster": bedplate["cluster"]["name"],
        "made_at": made_at,
        "hosts_of_the_site": len(bedplate["hosts"]),
        "verdicts": count(entry["verdict"] for entry in hosts.values()),
        "hosts": hosts,
    }


def host_entry(bedplate: Mapping[str, Any], name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the report says of a host."""
    host = bedplate["hosts"][name]
    spec = with_own_disks(bedplate["pools"].get(host["pool"], {}).get("spec") or {}, host)
    observed = result.get("observed")
    if observed is None:
        refused = result.get("refused") or {"state": FAILED, "message": NO_RESULT}
        state, rows = refused["state"], [refused_row(str(refused["message"]))]
    else:
        state, rows = OBSERVED, judge(spec, observed, list(result.get("problems") or []))
    return {
        "pool": host["pool"],
        "kind": host["kind"],
        "rack": host["rack"],
        "state": state,
        "verdict": worst(row.verdict for row in rows),
        "verdicts": count(row.verdict for row in rows),
        "rows": [row.public() for row in rows],
        "facts": named(observed or {}),
    }


def with_own_disks(spec: Mapping[str, Any], host: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pool's spec with the disks that this host names for a volume in the place of the pool's."""
    if not spec.get("nvme"):
        return spec
    named = {volume["name"]: volume["serials"] for volume in host["roles"]["nvme"]["volumes"] if volume["serials"]}
    own = {name: {**spec["nvme"][name], "disks": {**spec["nvme"][name]["disks"], "serials": named[name]}} for name in named}
    return {**spec, "nvme": {**spec["nvme"], **own}}


def refused_row(message: str) -> Row:
    """Return the row of a host that could not be looked at, from a message that ends with its next step."""
    found, _next, step = message.partition("Next: ")
    return Row("looking at the host", "a look at it", found.strip().rstrip(".;"), DIFFERS, step or "see the message")


def count(verdicts: Iterable[str]) -> dict[str, int]:
    """Return how many there are of each verdict."""
    counts = Counter(verdicts)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def named(observed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts with names for devices that the bus only numbers."""
    hardware = observed.get("hardware")
    if hardware is None:
        return dict(observed)
    devices = load_devices()
    more = {kind: [{**card, "name": devices.name(card["id"])} for card in hardware[kind]] for kind in ("gpus", "nics")}
    return {**observed, "hardware": {**hardware, **more}}


def summary(entry: Mapping[str, Any]) -> str:
    """Return one line about a host: ``2 differ, 1 unknown, 14 ok``."""
    words = {DIFFERS: "differs" if entry["verdicts"][DIFFERS] == 1 else "differ", UNKNOWN: "unknown", OK: "ok"}
    said = [f"{number} {words[verdict]}" for verdict, number in entry["verdicts"].items() if number]
    return ", ".join(said if entry["state"] == OBSERVED else [entry["state"], *said])


def when(made_at: str) -> str:
    """Return ``2026-01-31 12:00 UTC`` for the report's own form of a time."""
    return f"{made_at[:10]} {made_at[11:16]} UTC"


def machine_line(entry: Mapping[str, Any]) -> str:
    """Return maker, model and GPUs of a host in a few words; "" for one that was not looked at."""
    hardware = entry["facts"].get("hardware") or {}
    dmi = hardware.get("machine", {}).get("dmi", {})
    gpus = Counter(gpu["name"] if gpu["id"] else gpu["model"] for gpu in hardware.get("gpus", []))
    words = [" ".join(dict.fromkeys(dmi[key] for key in ("sys_vendor", "product_name") if dmi.get(key)))]
    words += [f"{number} × {name}" for name, number in gpus.items()]
    return ", ".join(word for word in words if word)
