# SPDX-License-Identifier: Apache-2.0
"""A machine before it joins the lab's cluster, and the site data it joins with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from bedplate_lab.topology import GATEWAY

from ..hosts import sh
from ..site import INVENTORY, Site
from ..wait import wait_until
from .machines import Metal, machine

POOL = "metal"
SPEC: dict[str, Any] = {
    "accelerator": "l4-24gb",
    "gpus_per_node": 1,
    "topology": "1gpu-pcie",
    "fabric": "roce",
    "os": "debian-12",
    "workload": "dev",
    "exposure": "none",
    "kernel": {"command_line": ["iommu=pt"], "blacklist": ["pcspkr"]},
}
VERSIONLESS = '# as its owner left it\n[plugins.cri.containerd]\n  snapshotter = "overlayfs"\n'
"""containerd's configuration as people wrote it in its first years."""


def site_with(name: str, site: Site, metal: Metal, directory: Path) -> Site:
    """Return the lab's site with a machine in a pool of its own, and without what holds for hosts in containers alone."""
    data = yaml.safe_load((INVENTORY / "group_vars" / "all" / "site.yml").read_text(encoding="utf-8"))
    kubelet = {key: value for key, value in data["kubelet"]["config"].items() if key != "failCgroupV1"}
    sections = {
        "cluster": {key: value for key, value in data["cluster"].items() if key != "ignore_preflight_errors"},
        "container_runtime": {key: data["container_runtime"][key] for key in ("package", "version")},
        "kubelet": {"config": kubelet},
        "kernel": {"packages": ["systemd-resolved"]},
    }
    variables = directory / "group_vars"
    variables.mkdir()
    (variables / "all.json").write_text(json.dumps(sections), encoding="utf-8")
    (variables / f"{POOL}.json").write_text(json.dumps({"gpu_pool": SPEC}), encoding="utf-8")
    return site.adding(directory, {name: {**metal.variables[name], "rack": "r1", "topology_block": "b1"}}, POOL)


def prepare(name: str) -> None:
    """Give a machine a default route by the card that is not the cluster's, a name server for its stub resolver, and an old
    configuration of containerd.
    """
    one = machine(name)
    fabric = f"10.88.0.{one.octet}"
    files = {
        "/etc/systemd/network/00-cluster.network": f"[Match]\nMACAddress={one.mac}\n[Network]\nAddress={one.address}/24\n",
        "/etc/systemd/network/00-wrong.network": (
            f"[Match]\nMACAddress={one.fabric_mac}\n[Network]\nAddress={fabric}/24\nGateway=10.88.0.1\n"
        ),
        "/etc/systemd/resolved.conf.d/servers.conf": f"[Resolve]\nDNS={GATEWAY}\n",
        "/etc/containerd/config.toml": VERSIONLESS,
    }
    for path, text in files.items():
        sh(name, f"mkdir -p {Path(path).parent} && printf '%s' '{text}' >{path}")
    _networks(name, fabric)


def restore(name: str) -> None:
    """Give a machine its own default route back."""
    sh(name, "rm -f /etc/systemd/network/00-*.network")
    _networks(name, machine(name).address)


def default_route(name: str) -> str:
    """Return the address a machine would leave its networks from."""
    found = json.loads(sh(name, "ip -json route get 192.0.2.1"))
    return str(found[0]["prefsrc"])


def _networks(name: str, source: str) -> None:
    sh(name, "networkctl reload")
    wait_until(lambda: default_route(name) == source, f"the default route of {name} to be that of {source}", 30)
