# SPDX-License-Identifier: Apache-2.0
"""Preflight looks and changes nothing; what cannot work is named before anything is changed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from testinfra.host import Host

ROOT = Path(__file__).resolve().parents[3]
SHARED = ROOT / "molecule" / "shared"
testinfra_hosts = ["ansible://gpu_nodes"]

HOLD_LOCK = "import fcntl,time; f=open('/var/lib/dpkg/lock-frontend','w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(300)"
CONTENT = "find /etc /var/lib/bedplate -type f -exec sha256sum {} + 2>/dev/null | sort | sha256sum"


def test_nothing_was_recorded_or_written(host: Host) -> None:
    assert not host.file("/var/lib/bedplate/preflight.json").exists


def test_a_held_apt_lock_is_waited_for_and_its_holder_named(host: Host) -> None:
    holder = "bedplate-lock-holder"
    assert host.run(f'systemd-run --unit {holder} python3 -c "{HOLD_LOCK}"').rc == 0
    try:
        pid = host.check_output(f"systemctl show --property MainPID --value {holder}")
        run = subprocess.run(
            [
                "ansible-playbook",
                "-i",
                SHARED / "inventory",
                SHARED / "observe.yml",
                "-e",
                "preflight_apt_lock_timeout_seconds=3",
            ],
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert run.returncode != 0
        assert pid in run.stdout and "python3" in run.stdout, run.stdout
        assert host.file("/var/lib/dpkg/lock-frontend").exists, "the lock is never deleted"
    finally:
        host.run(f"systemctl stop {holder}")


def test_the_report_has_every_host_and_writes_nothing_on_any(host: Host, tmp_path: Path) -> None:
    before = host.check_output(CONTENT)
    run = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            SHARED / "inventory",
            ROOT / "playbooks" / "preflight.yml",
            "-e",
            f"bedplate_report_directory={tmp_path}",
        ],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        capture_output=True,
        text=True,
        timeout=180,
    )
    report = json.loads((tmp_path / "preflight.json").read_text(encoding="utf-8"))
    assert {entry["state"] for entry in report["hosts"].values()} == {"observed"}, run.stdout
    name = host.backend.get_hostname()
    facts = report["hosts"][name]["facts"]
    assert facts["hardware"]["machine"]["processors"]["threads"] == int(host.check_output("grep -c ^processor /proc/cpuinfo"))
    assert name in (tmp_path / "preflight.html").read_text(encoding="utf-8") and "PREFLIGHT" in run.stdout
    assert host.check_output(CONTENT) == before
