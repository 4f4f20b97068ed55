# SPDX-License-Identifier: Apache-2.0
"""Places for data: who serves a share and who is let in, how nodes mount it, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.modules import nfs_client, nfs_server

from site_directory import SiteDirectory

SITE, HOSTS = "group_vars/all/site.yml", "hosts.yml"
SERVER = "    storage_servers:\n      hosts:\n        store: {ansible_host: 10.9.0.5}\n"
SHARE = "{name: data, kind: nfs, server: store, path: /srv/data, mount: /data}"


def declare(site: SiteDirectory, *entries: str, servers: str = SERVER) -> SiteDirectory:
    site.append(SITE, "storage:\n" + "".join(f"  - {entry}\n" for entry in entries))
    site.append(HOSTS, servers)
    return site


def roles(site: SiteDirectory, host: str) -> dict[str, Any]:
    found: dict[str, Any] = site.bedplate()["hosts"][host]["roles"]
    return found


def test_a_server_lets_in_the_nodes_that_use_a_share_and_nobody_else(site: SiteDirectory) -> None:
    declare(site, SHARE)
    (export,) = roles(site, "store")["nfs_server"]["shares"]
    assert export["clients"] == ["10.0.0.21", "10.0.0.22"], "not the control plane, and never everybody"
    assert (export["path"], export["read_only"], export["root_squash"]) == ("/srv/data", False, True)
    assert nfs_server.build_desired({**roles(site, "store")["nfs_server"], "allow": []}).exports[0].name == "data"
    assert site.errors() == site.warnings() == []


def test_every_address_of_a_node_is_let_in(site: SiteDirectory) -> None:
    site.append("group_vars/train.yml", "  nics: [{name: rail0, fabric: roce, device: ens4}]\n")
    site.replace(
        HOSTS,
        "w1: {ansible_host: 10.0.0.21,",
        "w1: {ansible_host: 10.8.0.21, node_ip: 10.0.0.21, fabric_addresses: {rail0: 10.89.0.21/24},",
    )
    declare(site, SHARE.replace("mount:", "pools: [train], clients: [10.7.0.0/24], mount:"))
    (export,) = roles(site, "store")["nfs_server"]["shares"]
    assert export["clients"] == ["10.0.0.21", "10.8.0.21", "10.89.0.21", "10.7.0.0/24"]


def test_nodes_mount_it_with_options_fit_for_training_data(site: SiteDirectory) -> None:
    declare(site, SHARE.replace("mount:", "pools: [train], read_only: true, mount:"))
    (share,) = roles(site, "w1")["nfs_client"]["shares"]
    assert share == {
        "name": "data",
        "server": "10.9.0.5",
        "path": "/srv/data",
        "mount": "/data",
        "options": ["vers=4.2", "ro", "hard", "nconnect=8", "noatime"],
    }
    assert roles(site, "w2")["nfs_client"]["shares"] == [] and roles(site, "cp1")["nfs_client"]["shares"] == []
    assert nfs_client.build_desired({**roles(site, "w1")["nfs_client"], "allow": []}).shares[0].mount == "/data"


def test_an_option_replaces_another_of_its_kind(site: SiteDirectory) -> None:
    options = "mount_options: [softerr, nconnect=16, actimeo=60], nfs_version: '4.1'"
    declare(site, SHARE.replace("mount:", f"{options}, mount:"))
    (share,) = roles(site, "w1")["nfs_client"]["shares"]
    assert share["options"] == ["vers=4.1", "rw", "softerr", "nconnect=16", "noatime", "actimeo=60"]


def test_a_server_of_the_sites_own_is_not_touched(site: SiteDirectory) -> None:
    declare(site, "{name: home, kind: nfs, server: nfs.example.com, path: /vol/home, pools: [infer]}", servers="")
    assert roles(site, "w2")["nfs_client"]["shares"][0]["server"] == "nfs.example.com"
    assert roles(site, "w2")["nfs_client"]["shares"][0]["mount"] == "", "pods alone"
    assert all(host["roles"]["nfs_server"]["shares"] == [] for host in site.bedplate()["hosts"].values())


def test_a_node_may_serve_and_name_another_address(site: SiteDirectory) -> None:
    declare(site, SHARE.replace("store", "w1").replace("mount:", "pools: [infer], address: 10.89.0.1, mount:"), servers="")
    assert roles(site, "w2")["nfs_client"]["shares"][0]["server"] == "10.89.0.1"
    assert roles(site, "w1")["nfs_server"]["shares"][0]["clients"] == ["10.0.0.22"]


def test_a_storage_server_is_no_node(site: SiteDirectory) -> None:
    declare(site, SHARE)
    store = site.bedplate()["hosts"]["store"]
    assert sorted(store["roles"]) == ["nfs_server", "preflight", "repositories"] and store["kind"] == "storage-server"
    assert store["roles"]["preflight"]["node_ip"] == "10.9.0.5" and store["roles"]["nfs_server"]["threads"] == 64
    assert "store" not in site.bedplate()["pools"]["system"]["hosts"]


def test_volumes_for_pods(site: SiteDirectory) -> None:
    site.append(SITE, "tenants: [{name: lm}]\n")
    declare(site, SHARE.replace("mount:", "capacity: 5Ti, tenants: [lm], mount:"))
    (volume,) = roles(site, "cp1")["storage_class"]["shares"]
    assert volume == {
        "name": "data",
        "server": "10.9.0.5",
        "path": "/srv/data",
        "read_only": False,
        "options": ["vers=4.2", "hard", "nconnect=8", "noatime"],
        "capacity": "5Ti",
        "tenants": ["lm"],
    }


def test_places_that_are_checked(site: SiteDirectory) -> None:
    site.append(
        "group_vars/train.yml",
        "  nvme: {fast: {disks: {min_size: 1T}, mount: /fast}, i: {disks: {model: X}, mount: /var/lib/containerd}}\n",
    )
    site.replace("group_vars/train.yml", "min_size: 1T", "model: Y")
    declare(
        site,
        SHARE.replace("mount:", "read_only: true, sample: some, mount:"),
        "{name: old, kind: local, path: /old, pools: [train]}",
    )
    places = {host: found["places"] for host, found in site.bedplate()["hosts"].items()}
    assert [(p["name"], p["path"], p["kind"]) for p in places["w1"]] == [
        ("old", "/old", "local"),
        ("fast", "/fast", "local"),
        ("data", "/data", "nfs"),
    ]
    assert places["w1"][2] == {
        "name": "data",
        "path": "/data",
        "kind": "nfs",
        "server": "10.9.0.5",
        "read_only": True,
        "sample": "some",
    }
    assert [p["name"] for p in places["w2"]] == ["data"] and places["cp1"] == places["store"] == []


def test_what_check_storage_does(site: SiteDirectory) -> None:
    site.append(SITE, "storage_check: {file_size: 2Mi, files: 10, small_file_size: 4Ki, limit_seconds: 9, tolerance: '55%'}\n")
    found = site.bedplate()["storage_check"]
    assert found == {"file_bytes": 2**21, "files": 10, "small_file_bytes": 4096, "limit_seconds": 9, "tolerance_percent": 55}


@pytest.mark.parametrize(
    ("entry", "key", "rule"),
    [
        (SHARE.replace("store", "stroe"), "server", "no host of the inventory is called so; did you mean store?"),
        (SHARE.replace("mount:", "pools: [trian], mount:"), "pools[0]", "there is no pool of this name; did you mean train?"),
        (SHARE.replace("/srv/data", "/etc/x"), "path", "holds parts of the operating system"),
        (SHARE.replace("/srv/data", "/srv/../x"), "path", "must be an absolute path whose parts"),
        (SHARE.replace("/srv/data", "srv"), "path", "must be an absolute path whose parts"),
        (SHARE.replace("mount: /data", "mount: /usr/data"), "mount", "holds parts of the operating system"),
        (SHARE.replace("mount:", "disk_mount: /mnt, mount:"), "disk_mount", "the path /srv/data does not lie there"),
        (SHARE.replace("mount:", "mount_options: [vers=3], mount:"), "mount_options[0]", "say it by nfs_version"),
        (SHARE.replace("mount:", "mount_options: [ro], mount:"), "mount_options[0]", "say it by read_only"),
        (SHARE.replace("mount:", "mount_options: [fg], mount:"), "mount_options[0]", "a boot never waits for a server"),
        (SHARE.replace("mount:", "mount_options: ['soft,ro'], mount:"), "mount_options[0]", "must be one mount option"),
        (SHARE.replace("mount:", "clients: ['*'], mount:"), "clients[0]", "must be an address or a range of addresses"),
        (SHARE.replace("mount:", "directory_mode: '4777', mount:"), "directory_mode", "no set-user or set-group bit"),
        (SHARE.replace("mount:", "nfs_version: 4.2, mount:"), "nfs_version", "write it in quotes"),
        (SHARE.replace("path: /srv/data, ", ""), "path", "kind nfs needs path"),
        ("{name: s, kind: local, path: /s, server: store}", "server", "is a key of kind nfs, not of local"),
        ("{name: s, kind: object}", "endpoint", "kind object needs endpoint"),
        (SHARE.replace("store", "w1"), "pools", "w1 of the pool train is its server"),
        (
            SHARE.replace("store", "nfs.example.com").replace("mount:", "root_squash: false, mount:"),
            "root_squash",
            "nfs.example.com is none",
        ),
    ],
)
def test_what_cannot_be_is_refused(site: SiteDirectory, entry: str, key: str, rule: str) -> None:
    declare(site, entry)
    (error,) = site.errors()
    assert f"storage[0].{key} = " in error and rule in error


def test_everything_that_is_wrong_is_told_at_once(site: SiteDirectory) -> None:
    bad = "{name: other, kind: nfs, server: store, path: /srv/data/below, mount: /data/x, pools: [nobody, train]}"
    declare(site, SHARE, bad, "{name: scratch, kind: local, path: /data, pools: [infer]}")
    errors = site.errors()
    assert [error.partition(" = ")[0].partition(": ")[2] for error in errors] == [
        "storage[1].mount",
        "storage[1].path",
        "storage[1].pools[0]",
        "storage[2].path",
    ]
    assert (
        "lies in or over /data, where data is mounted" in errors[0] and "lies in or over the path of data on store" in errors[1]
    )


def test_a_share_over_a_volume_of_the_pool(site: SiteDirectory) -> None:
    site.append("group_vars/train.yml", "  nvme: {scratch: {disks: {min_size: 1T}, mount: /data}}\n")
    declare(site, SHARE, "{name: scratch, kind: local, path: /data, pools: [train]}")
    errors = site.errors()
    assert any(
        "storage[0].mount = /data: lies in or over /data, where volume scratch of train is mounted" in e for e in errors
    ), errors
    site.replace(SITE, "mount: /data}", "mount: /shared}")
    assert site.errors() == [], "a local place may be a volume's"


def test_a_client_whose_address_nobody_knows(site: SiteDirectory) -> None:
    site.replace(HOSTS, "w2: {ansible_host: 10.0.0.22}", "w2: {ansible_host: w2.example.com}")
    declare(site, SHARE)
    (error,) = site.errors()
    assert "w2.node_ip = (missing): uses data, whose server store lets clients in by address" in error


def test_a_server_whose_address_nobody_knows(site: SiteDirectory) -> None:
    declare(site, SHARE, servers=SERVER.replace("10.9.0.5", "store.example.com"))
    assert any("store.node_ip = (missing): store serves data" in error for error in site.errors()), site.errors()
    site.replace(SITE, "mount:", "address: 10.9.0.5, mount:")
    assert site.errors() == []


def test_a_share_for_nobody(site: SiteDirectory) -> None:
    declare(site, SHARE.replace("mount:", "pools: [system], mount:"))
    assert site.errors() == []
    site.replace(SITE, "pools: [system]", "pools: [empty]")
    site.replace(HOSTS, "        infer:\n", "        empty:\n        infer:\n")
    site.write("group_vars/empty.yml", (site.root / "group_vars/infer.yml").read_text())
    assert any("no node uses it and clients names nobody" in error for error in site.errors()), site.errors()


def test_a_node_is_no_storage_server(site: SiteDirectory) -> None:
    declare(site, SHARE, servers=SERVER + "        w1:\n")
    assert any("storage_servers.hosts = w1: is a node as well" in error for error in site.errors()), site.errors()


def test_kinds_that_nothing_acts_on_are_told(site: SiteDirectory) -> None:
    declare(site, "{name: s3, kind: object, endpoint: 'https://s3.example.com'}", "{name: l, kind: local, path: /l}")
    assert [warning.partition(" = ")[2] for warning in site.warnings()] == [
        "object: is checked and kept, but nothing acts on it yet"
    ]
