# SPDX-License-Identifier: Apache-2.0
"""The cluster lock: a Lease that names its owner. One run at a time disturbs nodes, from whichever controller it comes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
NAME = "bedplate"
OWNER = "bedplate.dev/owner"
"""Annotation (JSON, format 1) with what tells whether the owner still lives: machine, boot, pid; and the purpose."""
FORMAT = 1
TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True)
class Owner:
    """Who holds or wants the lock. identity: as shown, e.g. ``ann@ctl1 (pid 42)``. machine, boot, pid: whether it still lives."""

    identity: str
    machine: str
    boot: str
    pid: int
    purpose: str = ""


@dataclass(frozen=True)
class Decision:
    """What to do with the Lease. action: take, renew or refuse. reason: for an operator."""

    action: str
    reason: str


def decide(lease: Mapping[str, Any] | None, me: Owner, now: datetime, *, force: bool, alive: Callable[[int], bool]) -> Decision:
    """Decide on a request for the lock; pure.

    Taken are: an absent or released lock, one's own, an expired one, one whose owner is a process of this machine and boot that
    no longer runs, and any with force. alive: whether a process of this machine runs.
    """
    spec = (lease or {}).get("spec") or {}
    holder = spec.get("holderIdentity")
    if not holder:
        return Decision("take", "free")
    if holder == me.identity:
        return Decision("renew", "own")
    owner = owner_of(lease or {})
    if owner and (owner.machine, owner.boot) == (me.machine, me.boot) and not alive(owner.pid):
        return Decision("take", f"its owner {holder} no longer runs")
    expires = expiry(spec)
    if expires is None or expires <= now:
        return Decision("take", f"the lock of {holder} expired")
    if force:
        return Decision("take", f"taken from {holder} by force")
    purpose = f", for {owner.purpose}" if owner and owner.purpose else ""
    return Decision("refuse", f"found it held by {holder}{purpose}, until {expires.strftime('%H:%M:%S')} UTC unless renewed")


def expiry(spec: Mapping[str, Any]) -> datetime | None:
    """Return when a Lease's spec expires, None when it does not say."""
    try:
        renewed = datetime.fromisoformat(str(spec["renewTime"]).replace("Z", "+00:00"))
        return renewed + timedelta(seconds=int(spec["leaseDurationSeconds"]))
    except (KeyError, ValueError):
        return None


def owner_of(lease: Mapping[str, Any]) -> Owner | None:
    """Return the owner that a Lease's annotation describes, None when it does not (a future format is not read)."""
    try:
        data = json.loads(((lease.get("metadata") or {}).get("annotations") or {}).get(OWNER, "{}"))
        if data.pop("format", None) != FORMAT:
            return None
        return Owner(**data)
    except (ValueError, TypeError):
        return None


def lease_object(found: Mapping[str, Any] | None, me: Owner, now: datetime, duration_seconds: int) -> dict[str, Any]:
    """Return the Lease that says the lock is mine; it carries the found resourceVersion, so only one of two takers succeeds."""
    spec = dict((found or {}).get("spec") or {})
    mine = spec.get("holderIdentity") == me.identity
    metadata: dict[str, Any] = {
        "name": NAME,
        "namespace": "kube-system",
        "annotations": {OWNER: json.dumps({"format": FORMAT, **asdict(me)}, sort_keys=True)},
    }
    if found:
        metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": me.identity,
            "leaseDurationSeconds": duration_seconds,
            "acquireTime": spec.get("acquireTime") if mine else now.strftime(TIME),
            "renewTime": now.strftime(TIME),
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (0 if mine else 1),
        },
    }


def acquire(api: Api, me: Owner, *, duration_seconds: int, force: bool, now: datetime | None = None) -> Decision:
    """Take or renew the lock; raise :class:`BedplateError` naming its owner when somebody else holds it."""
    now = now or datetime.now(UTC)
    found = api.find(f"{LEASES}/{NAME}")
    decision = decide(found, me, now, force=force, alive=process_runs)
    if decision.action == "refuse":
        raise BedplateError(
            f"cluster lock (Lease kube-system/{NAME}): {decision.reason}; wanted it free. "
            "Next: wait for that run to end, or repeat with -e bedplate_take_lock=true if it is dead"
        )
    lease = lease_object(found, me, now, duration_seconds)
    try:
        if found is None:
            api.create(LEASES, lease)
        else:
            api.replace(f"{LEASES}/{NAME}", lease)
    except KubeError as error:
        if error.status != 409:
            raise
        raise BedplateError(
            f"cluster lock (Lease kube-system/{NAME}): somebody took it at the same moment. Next: repeat"
        ) from error
    return decision


def release(api: Api, me: Owner) -> bool:
    """Give the lock back; return False when it is not mine (any more) and nothing was done."""
    found = api.find(f"{LEASES}/{NAME}")
    if found is None or (found.get("spec") or {}).get("holderIdentity") != me.identity:
        return False
    found["spec"]["holderIdentity"] = ""
    found["metadata"].get("annotations", {}).pop(OWNER, None)
    api.replace(f"{LEASES}/{NAME}", found)
    return True


def this_run(purpose: str, pid: int) -> Owner:
    """Return the owner that stands for a run on this machine. pid: of the process that lives as long as the run."""
    machine = os.uname().nodename
    boot = Path("/proc/sys/kernel/random/boot_id")
    user = os.environ.get("SUDO_USER") or os.environ.get("USER") or str(os.getuid())
    return Owner(
        identity=f"{user}@{machine} (pid {pid})",
        machine=machine,
        boot=boot.read_text(encoding="ascii").strip() if boot.exists() else "",
        pid=pid,
        purpose=purpose,
    )


def process_runs(pid: int) -> bool:
    """Tell whether a process of this machine runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
