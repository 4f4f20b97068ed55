# SPDX-License-Identifier: Apache-2.0
"""Join the credentials of registry mirrors, which stay in the inventory, to what the site's validation derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

DOCUMENTATION = r"""
name: registry_credentials
short_description: Join mirrors' credentials to derived registries
description:
  - The fact C(bedplate) holds no secrets. This filter adds user and password of each mirror from the inventory's C(registries)
    at the moment the role variable is used.
positional: written
options:
  _input:
    description: Registries as the fact has them.
    type: list
    elements: dict
    required: true
  written:
    description: The inventory's C(registries).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
container_runtime_registries: "{{ derived | bedplate.metal.registry_credentials(registries) }}"
"""

RETURN = r"""
_value:
  description: The registries; mirrors with credentials carry C(username) and C(password).
  type: list
  elements: dict
"""

CREDENTIALS = ("username", "password")


def registry_credentials(derived: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the derived registries, with the credentials of the mirror at the same place in the written ones."""
    result: list[dict[str, Any]] = []
    for registry, source in zip(derived, written, strict=True):
        mirrors = []
        for mirror, mirror_source in zip(registry["mirrors"], source["mirrors"], strict=True):
            found = {key: mirror_source[key] for key in CREDENTIALS if mirror_source.get(key) is not None}
            mirrors.append({**mirror, **found})
        result.append({**registry, "mirrors": mirrors})
    return result


class FilterModule:
    """The collection's filter ``registry_credentials``."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by name."""
        return {"registry_credentials": registry_credentials}
