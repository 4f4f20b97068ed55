# SPDX-License-Identifier: Apache-2.0
"""Kubelet's drop-in files and the resource managers whose state on disk a changed setting invalidates. Pure.

kubeadm writes config.yaml from one ConfigMap for all nodes; what differs by pool or host is merged over it by kubelet, from
the files of a directory (``--config-dir``) in the order of their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .kubelet_fields import unknown_fields

DIRECTORY = "/etc/kubernetes/kubelet.conf.d"
HOST_DROPIN = "10-host.conf"
MARK = "# Written by bedplate.metal.kubelet; changes here are overwritten.\n"
HEADER = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


@dataclass(frozen=True)
class Manager:
    """A resource manager of kubelet with state on disk.

    policy: the field that names its policy. default: kubelet's. fields: those whose change makes kubelet refuse the state
    while the policy is not the default (dotted into maps). Source: kubelet's validateState of pkg/kubelet/cm/*manager.
    """

    name: str
    state: str
    policy: str
    default: str
    fields: tuple[str, ...]


MANAGERS = (
    Manager(
        "cpu manager",
        "/var/lib/kubelet/cpu_manager_state",
        "cpuManagerPolicy",
        "none",
        ("cpuManagerPolicyOptions", "reservedSystemCPUs", "kubeReserved.cpu", "systemReserved.cpu"),
    ),
    Manager(
        "memory manager",
        "/var/lib/kubelet/memory_manager_state",
        "memoryManagerPolicy",
        "None",
        ("reservedMemory", "kubeReserved.memory", "systemReserved.memory", "evictionHard.memory.available"),
    ),
)
PLACEMENT_FIELDS = ("topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope")
"""Fields that decide where new containers go: running ones keep their place, so the node is drained for a change."""


def check_fragments(fragments: Mapping[str, Any]) -> None:
    """Refuse drop-ins kubelet would not read as meant. Raises ValueError with every mistake."""
    mistakes = []
    for name, fragment in fragments.items():
        if not re.fullmatch(r"\d\d-[a-z0-9-]+\.conf", name):
            mistakes.append(f"dropins: found the name {name!r}; wanted NN-name.conf (kubelet reads only *.conf, in order)")
        if name == HOST_DROPIN:
            mistakes.append(f"dropins: found {name}; wanted another name, that one holds what is found out on the host")
        if not isinstance(fragment, Mapping):
            mistakes.append(f"dropins.{name}: found {fragment!r}; wanted KubeletConfiguration fields")
            continue
        mistakes += [f"dropins.{name}: {sentence}" for sentence in unknown_fields(fragment)]
    if mistakes:
        raise ValueError("\n".join(mistakes))


def render(fragment: Mapping[str, Any]) -> str:
    """Return a drop-in's text (JSON, which is YAML, under our mark)."""
    return MARK + json.dumps({**HEADER, **fragment}, indent=2, sort_keys=True) + "\n"


def parse(text: Optional[str]) -> Optional[dict[str, Any]]:
    """Return the fragment of a drop-in we wrote, None for absent and foreign files."""
    if text is None or not text.startswith(MARK):
        return None
    try:
        fragment = json.loads(text[len(MARK) :])
    except ValueError:  # edited by hand: it will be overwritten
        return {}
    return {k: v for k, v in fragment.items() if k not in HEADER} if isinstance(fragment, dict) else {}


def merge(fragments: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge fragments as kubelet does (JSON merge patch, RFC 7396): maps by key, everything else replaced, null removes."""
    result: dict[str, Any] = {}
    for fragment in fragments:
        result = _patch(result, fragment)
    return result


def base_policies(config: Optional[str]) -> dict[str, Any]:
    """Return the policies that config.yaml itself names at its top level (it has no parser here; kubeadm writes it flat)."""
    found = {}
    for manager in MANAGERS:
        match = re.search(rf"^{manager.policy}:\s*[\"']?([A-Za-z]+)", config or "", re.MULTILINE)
        if match:
            found[manager.policy] = match.group(1)
    return found


def invalid_managers(old: Mapping[str, Any], new: Mapping[str, Any], states: Mapping[str, Optional[str]]) -> list[Manager]:
    """Return the managers whose state file must go before kubelet starts with the new settings.

    old, new: merged settings. states: text of each state file, None where there is none.
    """
    result = []
    for manager in MANAGERS:
        state = states.get(manager.state)
        if state is None:
            continue
        before, after = old.get(manager.policy, manager.default), new.get(manager.policy, manager.default)
        changed = before != after or (after != manager.default and _values(old, manager) != _values(new, manager))
        if changed or state_policy(state) not in (None, after):
            result.append(manager)
    return result


def state_policy(state: str) -> Optional[str]:
    """Return the policy a state file was written under; None when it does not say."""
    try:
        return dict(json.loads(state)).get("policyName")
    except (ValueError, TypeError):
        return None


def needs_drain(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether a change of merged settings touches the placement of running containers."""
    for manager in MANAGERS:
        policies = old.get(manager.policy, manager.default), new.get(manager.policy, manager.default)
        if policies[0] != policies[1] or (policies[1] != manager.default and _values(old, manager) != _values(new, manager)):
            return True
    return any(old.get(field) != new.get(field) for field in PLACEMENT_FIELDS)


def touches_placement(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether two versions of one drop-in differ in a field that can touch the placement of running containers."""
    fields = {*PLACEMENT_FIELDS, *(m.policy for m in MANAGERS), *(f.partition(".")[0] for m in MANAGERS for f in m.fields)}
    return any(old.get(name) != new.get(name) for name in fields)


def _values(settings: Mapping[str, Any], manager: Manager) -> list[Any]:
    values = []
    for field in manager.fields:
        name, _dot, inner = field.partition(".")
        value = settings.get(name)
        values.append(value.get(inner) if inner and isinstance(value, Mapping) else value)
    return values


def _patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inner = result.get(name)
            result[name] = _patch(inner if isinstance(inner, Mapping) else {}, value)
        else:
            result[name] = value
    return result
