# SPDX-License-Identifier: Apache-2.0
"""A share between two machines: served, mounted, there again after a reboot and after its server was away, and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..hosts import sh
from ..site import Run, Site
from ..wait import wait_until
from .machines import Metal, machine
from .metal_site import NOBODY, POOL

SERVER, CLIENT = "m1", "m2"
PATH, MOUNT, LOCAL = "/srv/bedplate-data", "/bedplate-data", "/bedplate-local"
SHARE = {"name": "data", "kind": "nfs", "server": SERVER, "path": PATH, "mount": MOUNT, "mount_options": ["nconnect=2"]}
CHECK = {"file_size": "8Mi", "files": 20, "small_file_size": "4Ki", "limit_seconds": 60, "tolerance": "95%"}
CHECKS = {"checkpoint-write", "checkpoint-restore", "large-read", "small-make", "small-read", "small-remove"}
RECORD = "/var/lib/bedplate/storage_check.json"
SILENCE_SECONDS = 60
"""A run against a server that is away, on an emulated processor; waiting for the server would take longer."""


def serve(metal: Metal) -> Run:
    export = {"name": "data", "path": PATH, "clients": [machine(CLIENT).address]}
    return metal.play(SERVER, ("repositories", "nfs_server"), nfs_server_shares=[export], nfs_server_threads=4)


def mount(metal: Metal) -> Run:
    options = ["vers=4.2", "rw", "hard", "nconnect=2", "noatime"]
    share = {"name": "data", "server": machine(SERVER).address, "path": PATH, "mount": MOUNT, "options": options}
    return metal.play(CLIENT, ("repositories", "nfs_client"), nfs_client_shares=[share])


def mounted() -> str:
    return sh(CLIENT, f"findmnt --noheadings --output SOURCE,OPTIONS {MOUNT}", check=False).strip()


@pytest.fixture(scope="module")
def share(metal: Metal) -> None:
    """The share, served and mounted by the roles."""
    serve(metal).ok()
    mount(metal).ok()


@pytest.fixture(scope="module")
def site(metal: Metal, share: None, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site whose pool is the client, with the share and a local place; its cluster is not needed."""
    sh(CLIENT, f"truncate -s 256M /var/tmp/local.img && mkfs.ext4 -q -F /var/tmp/local.img && mkdir -p {LOCAL}")
    sh(CLIENT, f"mountpoint -q {LOCAL} || mount -o loop /var/tmp/local.img {LOCAL}")
    directory = tmp_path_factory.mktemp("storage")
    children = {
        "control_plane": {"hosts": NOBODY},
        "storage_servers": {"hosts": {SERVER: dict(metal.variables[SERVER])}},
        "gpu_nodes": {"children": {"train": {"hosts": {CLIENT: dict(metal.variables[CLIENT])}}}},
    }
    files: dict[str, Any] = {
        "hosts.yml": {"all": {"children": children}},
        "group_vars/train.yml": {"gpu_pool": POOL},
        "group_vars/all.yml": {
            "cluster": {"name": "metal", "kubernetes_version": "1.36.3", "endpoint": {"name": "api.metal.bedplate.test"}},
            "network": {"node_cidrs": ["10.87.0.0/24"], "pod_cidrs": ["10.244.0.0/16"], "service_cidrs": ["10.96.0.0/16"]},
            "storage": [SHARE, {"name": "scratch", "kind": "local", "path": LOCAL}],
            "storage_check": CHECK,
        },
    }
    (directory / "group_vars").mkdir()
    for name, data in files.items():
        (directory / name).write_text(yaml.safe_dump(data), encoding="utf-8")
    return Site((directory,))


def check(site: Site, report: Path) -> Run:
    arguments = ("--extra-vars", json.dumps({"bedplate_storage_report": str(report)}))
    return site.run(*arguments, playbook="playbooks/check_storage.yml", seconds=300)


def test_what_the_client_writes_the_server_has(share: None) -> None:
    assert mounted().startswith(f"{machine(SERVER).address}:{PATH} ") and "nconnect=2" in mounted()
    sh(CLIENT, f"echo from the client >{MOUNT}/written")
    assert sh(SERVER, f"cat {PATH}/written") == "from the client\n"
    assert sh(SERVER, f"stat -c %U {PATH}/written").strip() == "nobody", "root of a client is not root here"


def test_nobody_but_the_client_is_let_in(share: None) -> None:
    exported = sh(SERVER, "cat /var/lib/nfs/etab").splitlines()
    assert [line.partition("(")[0].split("\t") for line in exported] == [[PATH, machine(CLIENT).address]]
    assert sh(SERVER, "cat /proc/fs/nfsd/threads").strip() == "4"


def test_a_second_run_changes_nothing(metal: Metal, share: None) -> None:
    assert serve(metal).ok().changes() == {} and mount(metal).ok().changes() == {}


def test_the_checks_pass_and_leave_nothing_but_a_baseline(site: Site, tmp_path: Path) -> None:
    for place in (MOUNT, LOCAL):
        sh(CLIENT, f"mkdir -p {place}/.bedplate-check-{CLIENT} && touch {place}/.bedplate-check-{CLIENT}/left {place}/somebodys")
    check(site, tmp_path / "storage.json").ok()
    rows = json.loads((tmp_path / "storage.json").read_text(encoding="utf-8"))["results"]
    found = {place: {row["check"] for row in rows if row["place"] == place} for place in ("scratch", "data")}
    assert found == {"scratch": CHECKS, "data": {*CHECKS, "staging"}}
    assert all(row["passed"] and row["value"] > 0 for row in rows), rows
    assert sh(CLIENT, f"ls -A {LOCAL}").split() == ["lost+found", "somebodys"]
    assert sh(CLIENT, f"ls -A {MOUNT}").split() == ["somebodys", "written"]
    assert json.loads(sh(CLIENT, f"cat {RECORD}"))["data"]["baseline"]["checks"].keys() == {
        f"{row['place']}/{row['check']}" for row in rows
    }


def test_a_figure_below_its_baseline_fails_its_node_by_name(site: Site, tmp_path: Path) -> None:
    program = (
        "import json,sys; r=json.load(open(sys.argv[1])); c=r['data']['baseline']['checks']['data/large-read']; "
        "c['value']*=1e6; json.dump(r, open(sys.argv[1],'w'))"
    )
    sh(CLIENT, f'python3 -c "{program}" {RECORD}')
    run = check(site, tmp_path / "storage.json")
    assert run.code != 0 and f"storage of {CLIENT}: data large-read: found " in run.message()
    rows = json.loads((tmp_path / "storage.json").read_text(encoding="utf-8"))["results"]
    assert [(row["place"], row["check"]) for row in rows if not row["passed"]] == [("data", "large-read")]


def test_a_boot_goes_on_without_the_server_a_run_names_it_and_the_mount_comes_by_itself(metal: Metal, share: None) -> None:
    sh(SERVER, "systemctl stop nfs-server")
    try:
        metal.reboot(CLIENT)
        assert mounted() == ""
        run = mount(metal)
        assert run.code != 0 and run.seconds < SILENCE_SECONDS
        assert f"mount {MOUNT}: found {machine(SERVER).address} port 2049: Connection refused" in run.message()
    finally:
        sh(SERVER, "systemctl start nfs-server")
    wait_until(lambda: bool(mounted()), "the share to be mounted once its server answers", 120)
    assert sh(CLIENT, f"cat {MOUNT}/written") == "from the client\n"
    assert mount(metal).ok().changes() == {}
