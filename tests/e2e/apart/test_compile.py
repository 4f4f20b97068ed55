# SPDX-License-Identifier: Apache-2.0
"""No simulation: Debian's open NVIDIA modules are compiled by DKMS against Debian's kernel headers, through the role."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bedplate_lab import debian
from bedplate_tools.lab_site import add_hosts, remove_hosts

from ..archive import archive_of
from ..hosts import sh
from ..site import Run, Site

NAME = "e9"
COMPILE_SECONDS = 2400


@pytest.fixture(scope="module")
def bare(scratch: Path) -> Iterator[Site]:
    """A bare host that takes packages from Debian's archive alone."""
    remove_hosts(NAME)
    variables = add_hosts(NAME)[NAME]
    own = {
        **variables,
        "repositories_apt": [archive_of(debian.SUITE, "contrib", "non-free", "non-free-firmware")],
        "kernel_modules": [],
        "kernel_sysctl": {},
        "kernel_swap": "keep",
        "kernel_packages": [],
    }
    inventory = scratch / "compile.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {NAME: own}}}), encoding="utf-8")
    yield Site((inventory,))
    remove_hosts(NAME)


@pytest.fixture(scope="module")
def compiled(bare: Site) -> Run:
    """The run that compiles."""
    return bare.run(playbook="tests/e2e/apart/compile_driver.yml", seconds=COMPILE_SECONDS).ok()


def test_the_module_is_for_debians_kernel_and_of_the_packages_version(compiled: Run) -> None:
    release = sh(NAME, "ls /lib/modules").strip()
    assert release != sh(NAME, "uname -r").strip(), "compiled for a kernel that does not run here"
    module = f"/lib/modules/{release}/updates/dkms/nvidia-current-open.ko"
    package = sh(NAME, "dpkg-query -W -f '${Version}' nvidia-open-kernel-dkms")
    assert package.startswith(sh(NAME, f"modinfo -F version {module}").strip() + "-")
    assert sh(NAME, f"modinfo -F vermagic {module}").split()[0] == release
    assert sh(NAME, f"modinfo -F license {module}").strip() == "Dual MIT/GPL"
    assert f"{release}, x86_64: installed" in sh(NAME, "dkms status")


def test_a_second_run_compiles_and_changes_nothing(compiled: Run, bare: Site) -> None:
    again = bare.run(playbook="tests/e2e/apart/compile_driver.yml").ok()
    assert again.changes() == {}
