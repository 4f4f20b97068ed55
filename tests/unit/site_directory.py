# SPDX-License-Identifier: Apache-2.0
"""A small right site in a directory of its own; a test changes one thing and looks at what validation says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.metal.plugins.plugin_utils.site.resolve import Resolver
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.validate import Validation, validate

HOSTS = """\
all:
  children:
    control_plane:
      hosts:
        cp1: {ansible_host: 10.0.0.11, rack: r1, topology_block: b1}
    gpu_nodes:
      children:
        train:
          hosts:
            w1: {ansible_host: 10.0.0.21, rack: r1, topology_block: b1}
        infer:
          hosts:
            w2: {ansible_host: 10.0.0.22}
"""
SITE = """\
cluster:
  name: test
  kubernetes_version: "1.36.3"
  endpoint:
    name: api.test.example.com
network:
  node_cidrs: [10.0.0.0/24]
  pod_cidrs: [10.244.0.0/16]
  service_cidrs: [10.96.0.0/16]
"""
TRAIN = """\
gpu_pool:
  accelerator: h100-80gb
  gpus_per_node: 8
  topology: 8gpu-sxm-nvlink
  fabric: infiniband
  workload: distributed-training
"""
INFER = """\
gpu_pool:
  accelerator: l40s-48gb
  gpus_per_node: 4
  topology: 4gpu-pcie
  fabric: ethernet
  workload: inference
"""
FILES = {
    "hosts.yml": HOSTS,
    "group_vars/all/site.yml": SITE,
    "group_vars/train.yml": TRAIN,
    "group_vars/infer.yml": INFER,
}


@dataclass
class SiteDirectory:
    """An inventory directory; paths are below it, and messages name files below it."""

    root: Path

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def append(self, path: str, text: str) -> None:
        self.write(path, (self.root / path).read_text(encoding="utf-8") + text)

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text(encoding="utf-8")
        assert old in text
        self.write(path, text.replace(old, new))

    def site(self, old: str, new: str) -> None:
        self.replace("group_vars/all/site.yml", old, new)

    def validate(self, purpose: str = "create", resolver: Resolver | None = None) -> Validation:
        return validate(["."], resolver, purpose)

    def errors(self, purpose: str = "create") -> list[str]:
        return [str(problem) for problem in self.validate(purpose).errors]

    def warnings(self, purpose: str = "create") -> list[str]:
        return [str(problem) for problem in self.validate(purpose).warnings]

    def bedplate(self) -> dict[str, Any]:
        found = self.validate()
        assert found.errors == []
        assert found.bedplate is not None
        return found.bedplate
