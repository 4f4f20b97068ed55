# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from bedplate_lab import inventory
from bedplate_lab.inventory import Depot
from bedplate_lab.topology import planned

DEPOT = Depot(
    ca_pem="-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n",
    signing_key="-----BEGIN PGP-----\n\nmDM\n",
    helm="/cache/helm",
)


def listed(directory: Path) -> dict[str, dict[str, object]]:
    """The inventory as Ansible reads it."""
    program = Path(sys.executable).with_name("ansible-inventory")
    result = subprocess.run([program, "-i", directory, "--list"], capture_output=True, text=True, check=True, cwd=directory)
    data: dict[str, dict[str, object]] = json.loads(result.stdout)
    return data


def test_three_control_planes_and_four_workers_as_ansible_reads_them() -> None:
    assert inventory.write(planned(3, 4), DEPOT)
    data = listed(inventory.INVENTORY)
    assert data["control_plane"]["hosts"] == ["cp1", "cp2", "cp3"]
    assert data["gpu_nodes"]["children"] == ["train", "infer"]
    assert data["train"]["hosts"] == ["w1", "w3"]
    assert data["infer"]["hosts"] == ["w2", "w4"]
    variables = data["_meta"]["hostvars"]
    assert isinstance(variables, dict)
    w4 = variables["w4"]
    assert (w4["ansible_host"], w4["node_ip"], w4["rack"], w4["topology_block"]) == ("10.87.0.24", "10.87.0.24", "r2", "b1")
    assert [variables[name]["rack"] for name in ("cp1", "cp2", "cp3")] == ["r1", "r2", "r1"]
    assert w4["ansible_user"] == "bedplate"
    assert w4["bedplate_depot"]["ca"] == DEPOT.ca_pem
    assert w4["bedplate_depot"]["apt"] == {
        "uri": "https://depot.lab.bedplate.test/apt",
        "suite": "bookworm",
        "components": ["main"],
        "signing_key": DEPOT.signing_key,
    }
    assert w4["bedplate_depot"]["registry"] == {"endpoint": "https://depot.lab.bedplate.test:5000", "ca": DEPOT.ca_pem}


def test_a_pool_without_hosts_is_left_out() -> None:
    data = inventory.hosts_data(planned(1, 1))
    assert list(data["all"]["children"]["gpu_nodes"]["children"]) == ["train"]


def test_text_of_several_lines_is_a_block_a_person_can_read() -> None:
    text = inventory.render(inventory.generated_data(DEPOT))
    assert "ca: |\n" in text
    assert yaml.safe_load(text)["bedplate_depot"]["ca"] == DEPOT.ca_pem


def test_connections_use_the_labs_own_files_and_can_be_split() -> None:
    words = shlex.split(inventory.connection()["ansible_ssh_common_args"])
    assert words[:2] == ["-F", "/dev/null"]
    settings = dict(word.split("=", 1) for word in words if "=" in word)
    assert settings["UserKnownHostsFile"].endswith("/.lab/ssh/known_hosts")
    assert settings["StrictHostKeyChecking"] == "accept-new"
    assert settings["ControlPersist"] == "300s"


def test_writing_the_same_again_changes_nothing() -> None:
    assert inventory.write(planned(1, 2), DEPOT)
    before = inventory.HOSTS.stat().st_mtime_ns
    assert not inventory.write(planned(1, 2), DEPOT)
    assert inventory.HOSTS.stat().st_mtime_ns == before
    assert inventory.write(planned(1, 3), DEPOT)


def test_removing_leaves_the_sites_own_files() -> None:
    inventory.write(planned(1, 2), DEPOT)
    own = inventory.GENERATED.with_name("cluster.yml")
    own.write_text("a: 1\n")
    inventory.remove()
    assert not inventory.HOSTS.exists()
    assert not inventory.GENERATED.exists()
    assert own.exists()
    inventory.remove()
