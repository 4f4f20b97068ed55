#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the container runtime."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: container_runtime
short_description: Set up containerd, its registries, proxy and limits
version_added: "0.1.0"
description:
  - Installs containerd and runc by exact version and holds them.
  - Keeps the version, comments and order of the main configuration; settings live in the drop-in
    C(/etc/containerd/conf.d/50-bedplate.toml), written in the main file's configuration version (2, 3 or 4). A file without
    version is migrated to 2. CRI is enabled where a packaged file disables it; the file as it was is kept beside it.
  - runc, and every runtime that wraps it, uses systemd cgroups.
  - Before a restart containerd parses its files; afterwards CRI must answer. If not, the old files are put back.
attributes:
  check_mode:
    description: Predicts the same changes; what depends on a package not installed yet is unknown.
    support: full
  diff_mode:
    description: Shows the files, except those with credentials.
    support: full
  idempotent:
    description: A second run changes and restarts nothing.
    support: full
options:
  package:
    description: Package that brings containerd, 2.0 or newer.
    type: str
    default: containerd
  version:
    description: Exact version of the package; left out, the one installed or else the repository's candidate.
    type: str
  runc_package:
    description: Package that brings runc; empty where containerd's package carries it.
    type: str
    default: runc
  sandbox_image:
    description: Image of pods' sandboxes; left out, containerd's own.
    type: str
  registries:
    description: Registries and where their images come from instead, as hosts.toml files. Older shapes are refused by name.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: The registry's name as images carry it, or C(_default) for all others.
        type: str
      fallback:
        description: Whether the registry itself is asked when no mirror answers.
        type: bool
        default: true
      mirrors:
        description: Mirrors in the order they are asked.
        type: list
        elements: dict
        suboptions:
          url:
            description: Address.
            type: str
          ca:
            description: PEM text of the authority of its certificate; left out, those the host trusts.
            type: str
          override_path:
            description: Whether the address carries the whole API path (C(/v2/...)).
            type: bool
          username:
            description: User at the mirror.
            type: str
          password:
            description: Password at the mirror.
            type: str
          skip_verify:
            description: Whether its certificate is not checked.
            type: bool
  memlock:
    description: Locked memory of the service and what it starts, C(infinity) or bytes; empty leaves the packaged unit's. RDMA
      needs C(infinity). Read back from the running process.
    type: str
    default: ""
  restrict_oom_score_adj:
    description: Whether containers' OOM scores are kept above containerd's own, on machines that forbid lowering them.
    type: bool
    default: false
  runtime_handlers:
    description: Further runtime handlers by name, each with the path of the program that wraps runc, for example
      C(nvidia) with C(/usr/bin/nvidia-container-runtime). Defined in another file too, they are refused.
    type: dict
    default: {}
  cdi:
    description: Whether device specifications (CDI) must be on, whatever other files say.
    type: bool
    default: false
  extra_config:
    description: More settings by dotted key; C(runtime.) and C(images.) stand for the CRI plugins whatever the configuration
      version calls them, other keys are paths in the file.
    type: dict
    default: {}
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
  - bedplate.metal.component.proxy
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: containerd that pulls through the site's mirror
  bedplate.metal.container_runtime:
    version: 2.4.2-1
    sandbox_image: registry.k8s.io/pause:3.10.2
    registries:
      - host: registry.k8s.io
        mirrors:
          - url: https://mirror.example.com/v2/registry.k8s.io
            override_path: true
            ca: "{{ lookup('ansible.builtin.file', 'mirror.pem') }}"
    memlock: infinity
    extra_config:
      images.max_concurrent_downloads: 10
"""

RETURN = r"""
changes:
  description: Changes applied (in check mode, that would be), with keys what, before, after, effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Changes that wait for the playbook named with each.
  returned: always
  type: list
  elements: dict
problems:
  description: Problems with keys what, found, wanted, next_step, severity.
  returned: always
  type: list
  elements: dict
"""

import re
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import (
    LOCK_TIMEOUT_OPTION,
    PROXY_OPTION,
    run_component,
)
from ansible_collections.bedplate.metal.plugins.module_utils.container_runtime import ContainerRuntime, Desired
from ansible_collections.bedplate.metal.plugins.module_utils.containerd_config import Settings, extra_settings
from ansible_collections.bedplate.metal.plugins.module_utils.registry_hosts import OLD_KEYS, OLD_MIRROR_KEYS, parse_registries

# Keys of older shapes are let through to be refused with what replaces them.
OLD = {name: {"type": "raw", "no_log": name in ("auth", "password")} for name in OLD_KEYS}
OLD_MIRROR = {name: {"type": "raw", "no_log": name == "auth"} for name in OLD_MIRROR_KEYS}

ARGUMENT_SPEC: dict[str, Any] = {
    "package": {"type": "str", "default": "containerd"},
    "version": {"type": "str"},
    "runc_package": {"type": "str", "default": "runc"},
    "sandbox_image": {"type": "str"},
    "registries": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            **OLD,
            "host": {"type": "str"},
            "fallback": {"type": "bool", "default": True},
            "mirrors": {
                "type": "list",
                "elements": "dict",
                "options": {
                    **OLD_MIRROR,
                    "url": {"type": "str"},
                    "ca": {"type": "str"},
                    "override_path": {"type": "bool"},
                    "username": {"type": "str"},
                    "password": {"type": "str", "no_log": True},
                    "skip_verify": {"type": "bool"},
                },
            },
        },
    },
    "proxy": PROXY_OPTION,
    "memlock": {"type": "str", "default": ""},
    "restrict_oom_score_adj": {"type": "bool", "default": False},
    "runtime_handlers": {"type": "dict", "default": {}},
    "cdi": {"type": "bool", "default": False},
    "extra_config": {"type": "dict", "default": {}},
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> Desired:
    """Make the desired state; raise ValueError for what cannot work."""
    memlock = parameters["memlock"] or ""
    if not re.fullmatch(r"infinity|\d*", memlock):
        raise ValueError(f"memlock: found {memlock!r}; wanted infinity or a number of bytes")
    registries = parse_registries(parameters["registries"])
    extra_settings(parameters["extra_config"])
    handlers = {str(name): str(program) for name, program in parameters["runtime_handlers"].items()}
    for name, program in handlers.items():
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) or name == "runc" or not program.startswith("/"):
            raise ValueError(
                f"runtime_handlers: found {name}: {program}; wanted names of their own (not runc) and absolute paths"
            )
    packages = {parameters["package"]: parameters["version"] or None}
    if parameters["runc_package"]:
        packages[parameters["runc_package"]] = None
    settings = Settings(
        sandbox_image=parameters["sandbox_image"] or None,
        restrict_oom_score_adj=parameters["restrict_oom_score_adj"],
        registries=bool(registries),
        handlers=handlers,
        cdi=parameters["cdi"],
        extra=parameters["extra_config"],
    )
    return Desired(
        package=parameters["package"],
        packages=packages,
        settings=settings,
        registries=registries,
        proxy=parameters["proxy"],
        memlock=memlock or None,
        lock_timeout_seconds=parameters["lock_timeout_seconds"],
    )


def main() -> None:
    """Run the component."""
    run_component(ContainerRuntime(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
