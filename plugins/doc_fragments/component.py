# SPDX-License-Identifier: Apache-2.0
"""Options that the modules of host components share."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of :data:`module_utils.ansible_component.COMMON_OPTIONS` and of the option specifications beside it."""

    DOCUMENTATION = r"""
options:
  in_service:
    description: Whether the node carries work; then only changes without effects and a restart of kubelet are applied, and all
      others are returned in RV(deferred).
    type: bool
    default: false
  allow:
    description: Effects permitted by a flag, for example V(drain) or V(restart:containerd); V(reboot) only where O(in_service)
      is false.
    type: list
    elements: str
    default: []
"""

    APT = r"""
options:
  lock_timeout_seconds:
    description: How long to wait for apt's locks.
    type: int
    default: 300
"""

    PROXY = r"""
options:
  proxy:
    description: Proxy of what this module sets up.
    type: dict
    suboptions:
      http:
        description: URL for http.
        type: str
      https:
        description: URL for https.
        type: str
      no_proxy:
        description: Names, C(.domains), addresses and ranges reached directly.
        type: list
        elements: str
        default: []
"""
