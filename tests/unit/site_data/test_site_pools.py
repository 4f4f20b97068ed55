# SPDX-License-Identifier: Apache-2.0
"""Pools and what refers to them."""

from __future__ import annotations

import pytest

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
TRAIN = "group_vars/train.yml"


def test_host_in_two_pools(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", "w1: {}")
    assert site.errors() == [
        "hosts.yml:13: infer.hosts = w1: a host belongs to exactly one pool; it is also in train (hosts.yml:10)"
    ]


def test_host_in_a_pool_and_the_control_plane(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", "cp1: {}")
    assert site.errors() == [
        "hosts.yml:13: infer.hosts = cp1: a host belongs to exactly one pool; it is also in control_plane (hosts.yml:5)"
    ]


def test_host_in_no_pool(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "    gpu_nodes:\n", "    gpu_nodes:\n      hosts: {w3: {ansible_host: 10.0.0.23}}\n")
    assert site.errors() == [
        "hosts.yml:7: host = w3: stands directly under gpu_nodes: put the host into a pool, a group below gpu_nodes"
    ]


def test_empty_pool_is_named(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "          hosts:\n            w2: {ansible_host: 10.0.0.22}\n", "          hosts: {}\n")
    assert site.errors() == []
    assert site.warnings() == ["hosts.yml:11: pool = infer: has no hosts"]


def test_pool_without_a_spec(site: SiteDirectory) -> None:
    (site.root / "group_vars/infer.yml").unlink()
    assert site.errors() == [
        "hosts.yml:11: infer.gpu_pool = (missing): a pool needs a spec: write gpu_pool: {accelerator: …} in group_vars/infer.yml"
    ]


def test_spec_in_a_directory_of_files(site: SiteDirectory) -> None:
    text = (site.root / TRAIN).read_text()
    (site.root / TRAIN).unlink()
    site.write("group_vars/train/pool.yml", text)
    assert site.errors() == []
    site.write("group_vars/train/again.yml", text)
    assert site.errors() == [
        "group_vars/train/pool.yml:1: gpu_pool = (repeated): gpu_pool also stands in group_vars/train/again.yml:1; only "
        "one of the "
        "two takes effect"
    ]


def test_file_hidden_by_a_directory(site: SiteDirectory) -> None:
    site.write("group_vars/train/more.yml", "x: 1\n")
    assert (
        "group_vars/train.yml:1: variables of group train = train.yml: Ansible reads only group_vars/train and ignores "
        "this one; "
        "move its content there"
    ) in site.errors()


def test_spec_where_no_pool_is(site: SiteDirectory) -> None:
    site.write("group_vars/control_plane.yml", "gpu_pool: {}\n")
    site.write("host_vars/w1.yml", "gpu_pool: {}\ncluster: {}\n")
    assert site.errors() == [
        "group_vars/control_plane.yml:1: control_plane.gpu_pool = (misplaced): a pool is a group directly under gpu_nodes; "
        "control_plane is not",
        "host_vars/w1.yml:1: w1.gpu_pool = (misplaced): the hosts of a pool are alike: its spec belongs to the pool's group",
        "host_vars/w1.yml:2: w1.cluster = (misplaced): a section of the whole site: it belongs into group_vars/all",
    ]


@pytest.mark.parametrize(
    ("old", "new", "key", "value", "rule"),
    [
        ("infiniband", "infinband", "fabric", "infinband", "must be one of infiniband, roce, ethernet; did you mean infiniband?"),
        (
            "distributed-training",
            "training",
            "workload",
            "training",
            "must be one of distributed-training, inference, dev; did you mean distributed-training?",
        ),
        ("8gpu", "4gpu", "", None, "topology 4gpu-sxm-nvlink does not go with gpus_per_node 8"),
        ("gpus_per_node: 8", "gpus_per_node: eight", "gpus_per_node", "eight", "must be a whole number, without quotes"),
        ("gpus_per_node: 8", "gpus_per_node: 0", "gpus_per_node", "0", "must be greater than or equal to 1"),
    ],
)
def test_values_of_a_spec(site: SiteDirectory, old: str, new: str, key: str, value: str | None, rule: str) -> None:
    site.replace(TRAIN, old, new)
    (error,) = site.errors()
    assert error.startswith(f"{TRAIN}:")
    assert error.endswith(f": {rule}")
    if value is not None:
        assert f": train.gpu_pool.{key} = {value}: " in error


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("upgrade: {waves: ['100%', '25%']}", 'waves are cumulative: each share larger than the one before, the last "100%"'),
        ("upgrade: {waves: ['25%', '50%']}", 'waves are cumulative: each share larger than the one before, the last "100%"'),
        ("upgrade: {max_unavailable: 0}", 'must be a count of at least 1 or a share in quotes, "1%" to "100%"'),
        ("upgrade: {canary: -1}", "must be greater than or equal to 0"),
        ("driver: {branch: '580', version: '575.51.02'}", "version 575.51.02 is not of branch 580"),
        (
            "driver: {branch: '580', version: 580.126.09, modules: opne}",
            "must be one of auto, open, proprietary; did you mean open?",
        ),
        ("driver: {branch: '580'}", "must be given: exact driver version, in quotes; fabric manager is held at the same"),
        ("cost: {gpu_hour: -1, owner: me}", "must be greater than or equal to 0"),
        ("cost: {gpu_hour: 2.1}", "must be given: team that pays"),
        ("sharing: mig", "mig and sharing: mig go together"),
        (
            "kubelet: {cpu_manager: static}",
            "cpu_manager static needs reserved.cpus: the kubelet refuses to start without reserved CPUs",
        ),
        (
            "kubelet: {memory_manager: Static, reserved: {memory: 1Gi}}",
            "kubelet.memory_manager Static needs numa_nodes: the memory kept off pods is divided among them",
        ),
        (
            "nvme: {scratch: {disks: {}, mount: /scratch}}",
            "names no disk: give serials, or a rule (min_size, model)",
        ),
        ("nvme: {scratch: {disks: {device: /dev/nvme0n1}, mount: /s}}", "unknown key; known are serials, min_size, model, count"),
        (
            "taints: [{key: a b, effect: NoSchedule}]",
            "must be a Kubernetes label key: an optional DNS prefix and '/', then a name of 63 characters at most",
        ),
    ],
)
def test_rules_of_a_spec(site: SiteDirectory, text: str, rule: str) -> None:
    site.append(TRAIN, f"  {text}\n")
    assert [error.rpartition(f": {rule}")[1] for error in site.errors()] == [f": {rule}"]


def test_static_memory_manager_needs_an_absolute_threshold(site: SiteDirectory) -> None:
    site.append(SITE, "kubelet: {config: {evictionHard: {memory.available: '5%'}}}\n")
    site.append(TRAIN, "  numa_nodes: 2\n  kubelet: {memory_manager: Static, reserved: {memory: 1Gi}}\n")
    assert site.errors() == [
        f"{TRAIN}:8: train.gpu_pool.kubelet.memory_manager = Static: Static needs a hard eviction threshold in bytes, such "
        "as 100Mi; "
        "memory.available of evictionHard is 5%"
    ]


@pytest.mark.parametrize("fabric", ["infiniband", "roce"])
def test_rack_and_block_where_the_fabric_needs_them(site: SiteDirectory, fabric: str) -> None:
    site.replace(TRAIN, "infiniband", fabric)
    site.replace("hosts.yml", "w1: {ansible_host: 10.0.0.21, rack: r1, topology_block: b1}", "w1: {ansible_host: 10.0.0.21}")
    assert site.errors() == [
        f"hosts.yml:10: w1.{key} = (missing): hosts of a pool with fabric {fabric} (train) need it: jobs are placed by {key}"
        for key in ("rack", "topology_block")
    ]


def test_rack_may_come_from_a_group(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w1: {ansible_host: 10.0.0.21, rack: r1, topology_block: b1}", "w1: {ansible_host: 10.0.0.21}")
    site.append("hosts.yml", "    place:\n      vars: {rack: r7, topology_block: b7}\n      hosts: {w1: }\n")
    assert site.bedplate()["hosts"]["w1"]["rack"] == "r7"


def test_rack_that_is_a_number_wants_quotes(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "10.0.0.21, rack: r1", "10.0.0.21, rack: 12")
    assert site.errors() == ['hosts.yml:10: w1.rack = 12: YAML reads it as the number 12; write it in quotes: "12"']


@pytest.mark.parametrize("name", ["system", "control-plane"])
def test_pool_names_that_are_taken(site: SiteDirectory, name: str) -> None:
    site.replace("hosts.yml", "        infer:\n", f"        {name}:\n")
    site.write(f"group_vars/{name}.yml", (site.root / "group_vars/infer.yml").read_text())
    (site.root / "group_vars/infer.yml").unlink()
    assert f"hosts.yml:11: pool = {name}: this name is taken by Bedplate itself; name the pool otherwise" in site.errors()
    assert site.validate().bedplate is None


QUEUES = """\
queues:
  - name: q1
    pools: [{pool: trian, gpus: 1}]
  - name: q1
    pools: [{pool: train, gpus: 9}]
tenants:
  - {name: t1, queues: [q1, q9]}
  - {name: T2}
storage:
  - {name: s, kind: nfs, server: 10.9.0.1, path: /s, tenants: [t7]}
"""


def test_references_between_sections(site: SiteDirectory) -> None:
    site.append(SITE, QUEUES.replace("  - {name: T2}\n", ""))
    assert site.errors() == [
        f"{SITE}:12: queues[0].pools[0].pool = trian: there is no pool of this name; did you mean train?",
        f"{SITE}:13: queues[1].name = q1: stands twice (first as entry 0)",
        f"{SITE}:16: tenants[0].queues[1] = q9: there is no queue of this name; known are q1, q1",
        f"{SITE}:18: storage[0].tenants[0] = t7: there is no tenant of this name; known are t1",
    ]
    warnings = [line for line in site.warnings() if "nothing acts on it" not in line]
    assert warnings == [f"{SITE}:14: queues[1].pools[0].gpus = 9: more than the pool train has: 1 nodes with 8 GPUs are 8"]


def test_names_of_tenants_are_labels(site: SiteDirectory) -> None:
    site.append(SITE, "tenants:\n  - {name: T2}\n")
    assert site.errors() == [
        f"{SITE}:11: tenants[0].name = T2: must be a DNS label: lower-case letters, digits and hyphens, 63 at most (RFC 1123)"
    ]
