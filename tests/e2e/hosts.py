# SPDX-License-Identifier: Apache-2.0
"""The lab's hosts, through scripts/lab."""

from __future__ import annotations

import subprocess
from typing import Any

import yaml

from .site import INVENTORY, ROOT

LAB = ROOT / "scripts" / "lab"


def lab(*arguments: str, check: bool = True, seconds: float = 600) -> subprocess.CompletedProcess[str]:
    """Run scripts/lab; fail with its output unless it answers 0 or ``check`` is off."""
    result = subprocess.run(
        [LAB, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds
    )
    assert result.returncode == 0 or not check, f"scripts/lab {' '.join(arguments)}:\n{result.stdout}{result.stderr}"
    return result


def sh(host: str, command: str, *, check: bool = True, seconds: float = 120) -> str:
    """Run a shell command as root on a host and return what it wrote on standard output."""
    return lab("ssh", host, "sudo", "sh", "-c", command, check=check, seconds=seconds).stdout


def inventory_hosts() -> dict[str, dict[str, Any]]:
    """The lab's own hosts: variables with ``pool`` added (empty for a control-plane host)."""
    children = yaml.safe_load((INVENTORY / "hosts.yml").read_text(encoding="utf-8"))["all"]["children"]
    hosts = {name: {**variables, "pool": ""} for name, variables in children["control_plane"]["hosts"].items()}
    for pool, group in children["gpu_nodes"]["children"].items():
        hosts |= {name: {**variables, "pool": pool} for name, variables in group["hosts"].items()}
    return hosts
