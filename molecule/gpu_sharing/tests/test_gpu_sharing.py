# SPDX-License-Identifier: Apache-2.0
"""The boot divides the GPUs before anything looks at them."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]
UNIT = "/etc/systemd/system/bedplate-mig.service"


def test_the_unit_is_enabled_and_makes_the_largest_instances_first(host: Host) -> None:
    assert host.file(UNIT).contains("ExecStart=/usr/bin/nvidia-smi mig -cgi 3g.40gb,1g.10gb,1g.10gb -C")
    assert host.check_output("systemctl is-enabled bedplate-mig").strip() == "enabled"


def test_systemd_takes_the_unit(host: Host) -> None:
    verified = host.run(f"systemd-analyze verify {UNIT}")
    assert not [line for line in verified.stderr.splitlines() if "bedplate-mig" in line and "nvidia-smi" not in line], (
        verified.stderr
    )
