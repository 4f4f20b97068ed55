# SPDX-License-Identifier: Apache-2.0
"""Kubelet's drop-ins: merged as kubelet does, refused where it would ignore them, and which state they invalidate."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import kubelet_config as config

CPU, MEMORY = "/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"
STATIC = json.dumps({"policyName": "static", "defaultCpuSet": "0-63", "checksum": 1})
NONE = json.dumps({"policyName": "none", "defaultCpuSet": "", "checksum": 1})


def test_a_dropin_is_read_back_and_foreign_files_are_left_alone() -> None:
    fragment = {"maxPods": 200, "cpuManagerPolicy": "static"}
    text = config.render(fragment)
    assert config.parse(text) == fragment
    document = json.loads(text.split("\n", 1)[1])
    assert (document["apiVersion"], document["kind"]) == ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration")
    assert config.parse("kind: KubeletConfiguration\n") is None
    assert config.parse(config.MARK + "edited: by hand\n") == {}


def test_fragments_merge_as_a_json_merge_patch() -> None:
    first: dict[str, Any] = {
        "evictionHard": {"memory.available": "1Gi", "nodefs.available": "5%"},
        "maxPods": 1,
        "reservedMemory": [{"numaNode": 0}],
    }
    second: dict[str, Any] = {"evictionHard": {"memory.available": "2Gi"}, "maxPods": None, "reservedMemory": []}
    merged = {"evictionHard": {"memory.available": "2Gi", "nodefs.available": "5%"}, "reservedMemory": []}
    assert config.merge([first, second]) == merged


@pytest.mark.parametrize(
    ("fragments", "words"),
    [
        ({"30-pool.conf": {"cpuManagerPolcy": "static"}}, ["cpuManagerPolcy", "did you mean cpuManagerPolicy"]),
        ({"pool.yaml": {}}, ["pool.yaml", "NN-name.conf"]),
        ({"10-host.conf": {}}, ["10-host.conf", "another name"]),
        ({"30-pool.conf": ["x"]}, ["KubeletConfiguration fields"]),
    ],
)
def test_what_kubelet_would_ignore_is_refused(fragments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        config.check_fragments(fragments)
    for word in words:
        assert word in str(caught.value)
    config.check_fragments({"30-pool.conf": {"cpuManagerPolicy": "static", "failCgroupV1": False, "reservedMemory": []}})


def names(old: dict[str, Any], new: dict[str, Any], states: dict[str, str | None]) -> list[str]:
    return [manager.name for manager in config.invalid_managers(old, new, {CPU: None, MEMORY: None, **states})]


@pytest.mark.parametrize(
    ("old", "new", "states", "invalid"),
    [
        ({}, {}, {CPU: NONE}, []),
        ({}, {"cpuManagerPolicy": "static"}, {CPU: NONE}, ["cpu manager"]),
        ({"cpuManagerPolicy": "static"}, {}, {CPU: STATIC}, ["cpu manager"]),
        ({"cpuManagerPolicy": "static"}, {"cpuManagerPolicy": "static"}, {CPU: STATIC}, []),
        # reserved CPUs count only where CPUs are pinned
        ({}, {"reservedSystemCPUs": "0-3"}, {CPU: NONE}, []),
        (
            {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1"},
            {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-3"},
            {CPU: STATIC},
            ["cpu manager"],
        ),
        (
            {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1", "memory": "1Gi"}},
            {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1", "memory": "2Gi"}},
            {CPU: STATIC},
            [],
        ),
        (
            {"memoryManagerPolicy": "Static", "evictionHard": {"memory.available": "1Gi"}},
            {"memoryManagerPolicy": "Static", "evictionHard": {"memory.available": "2Gi"}},
            {MEMORY: json.dumps({"policyName": "Static"})},
            ["memory manager"],
        ),
        # an interrupted run wrote the drop-in and not the rest: the state file itself tells
        ({"cpuManagerPolicy": "static"}, {"cpuManagerPolicy": "static"}, {CPU: NONE}, ["cpu manager"]),
        # no state file: nothing to remove
        ({}, {"cpuManagerPolicy": "static"}, {}, []),
        # unreadable state says nothing
        ({}, {}, {CPU: "{"}, []),
    ],
)
def test_which_state_files_must_go(
    old: dict[str, Any], new: dict[str, Any], states: dict[str, str | None], invalid: list[str]
) -> None:
    assert names(old, new, states) == invalid


def test_which_changes_need_a_drain() -> None:
    assert config.needs_drain({}, {"cpuManagerPolicy": "static"})
    assert config.needs_drain({"topologyManagerPolicy": "none"}, {"topologyManagerPolicy": "single-numa-node"})
    assert not config.needs_drain({"maxPods": 1}, {"maxPods": 2})
    assert not config.needs_drain({}, {"kubeReserved": {"cpu": "2"}})


def test_policies_of_config_yaml_count_below_the_dropins() -> None:
    text = "apiVersion: kubelet.config.k8s.io/v1beta1\ncpuManagerPolicy: static\nnested:\n  memoryManagerPolicy: Static\n"
    assert config.base_policies(text) == {"cpuManagerPolicy": "static"}
    assert config.base_policies(None) == {}
