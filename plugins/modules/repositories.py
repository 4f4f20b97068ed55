#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: where packages come from."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: repositories
short_description: Set up apt sources, their keys, trusted authorities and the proxy
version_added: "0.1.0"
description:
  - Writes deb822 sources C(/etc/apt/sources.list.d/bedplate-NAME.sources) with their keys, and removes those it wrote earlier and
    that are no longer asked for.
  - Refreshes the package index only when a source is new, changed or was never fetched.
  - A bad signature or an unreachable repository is an error that names the address.
attributes:
  check_mode:
    description: Predicts the same changes.
    support: full
  diff_mode:
    description: Shows the files.
    support: full
  idempotent:
    description: A second run changes nothing and asks nothing of the network.
    support: full
options:
  apt:
    description: Sources.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the source, C([a-z0-9.-]).
        type: str
        required: true
      uris:
        description: Addresses.
        type: list
        elements: str
        required: true
      suites:
        description: Suites; one that ends in C(/) is a flat repository.
        type: list
        elements: str
        required: true
      components:
        description: Components; none for a flat repository.
        type: list
        elements: str
        default: []
      signing_key:
        description: ASCII-armoured public key, or the path of a keyring on the host; empty means apt's own keyrings.
        type: str
        default: ""
  exclusive:
    description: Whether all other apt sources of the host are put aside (renamed to end in C(.disabled-by-bedplate)); V(false)
      puts back what an earlier run put aside.
    type: bool
    default: false
  ca:
    description: Certificate authorities the whole host trusts.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the authority, C([a-z0-9.-]).
        type: str
        required: true
      pem:
        description: Certificate in PEM form.
        type: str
        required: true
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
  - bedplate.metal.component.proxy
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Take packages from the site's mirror
  bedplate.metal.repositories:
    apt:
      - name: kubernetes
        uris: [https://mirror.example.com/kubernetes/v1.36/deb]
        suites: [/]
        signing_key: "{{ lookup('ansible.builtin.file', 'kubernetes.asc') }}"
    ca:
      - name: example
        pem: "{{ lookup('ansible.builtin.file', 'example.pem') }}"
"""

RETURN = r"""
changes:
  description: Changes applied (in check mode, that would be), with keys what, before, after, effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Always empty for this module; its changes disturb nothing.
  returned: always
  type: list
  elements: dict
problems:
  description: Problems with keys what, found, wanted, next_step, severity, for example a stale proxy script.
  returned: always
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import (
    LOCK_TIMEOUT_OPTION,
    PROXY_OPTION,
    run_component,
)
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.proxy import Proxy
from ansible_collections.bedplate.metal.plugins.module_utils.repositories import Repositories, RepositoriesDesired
from ansible_collections.bedplate.metal.plugins.module_utils.repositories_files import (
    NAME,
    AptSource,
    Authority,
    check_source,
    pem_body,
)

ARGUMENT_SPEC: dict[str, Any] = {
    "apt": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "uris": {"type": "list", "elements": "str", "required": True},
            "suites": {"type": "list", "elements": "str", "required": True},
            "components": {"type": "list", "elements": "str", "default": []},
            "signing_key": {"type": "str", "default": "", "no_log": False},
        },
    },
    "exclusive": {"type": "bool", "default": False},
    "ca": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"type": "str", "required": True}, "pem": {"type": "str", "required": True}},
    },
    "proxy": PROXY_OPTION,
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> RepositoriesDesired:
    """Make the desired state; raise :class:`BedplateError` for sources and authorities that cannot work."""
    sources = tuple(
        AptSource(s["name"], tuple(s["uris"]), tuple(s["suites"]), tuple(s["components"]), s["signing_key"] or "")
        for s in parameters["apt"]
    )
    authorities = tuple(Authority(a["name"], a["pem"]) for a in parameters["ca"])
    for source in sources:
        check_source(source)
    for authority in authorities:
        if not NAME.fullmatch(authority.name):
            raise BedplateError(f"authority {authority.name!r}: found other characters; wanted [a-z0-9.-]. Next: rename it")
        pem_body(authority.pem)
    names = [s.name for s in sources]
    if len(set(names)) != len(names):
        raise BedplateError(f"apt sources: found a name twice in {', '.join(names)}; wanted each once. Next: rename one")
    proxy = parameters["proxy"]
    return RepositoriesDesired(
        sources,
        parameters["exclusive"],
        authorities,
        Proxy(proxy["http"] or "", proxy["https"] or "", tuple(proxy["no_proxy"])),
        parameters["lock_timeout_seconds"],
    )


def main() -> None:
    """Run the component."""
    run_component(Repositories(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
