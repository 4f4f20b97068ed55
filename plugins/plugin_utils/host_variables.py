# SPDX-License-Identifier: Apache-2.0
"""Variables that an action sets for the hosts of its task, as set_fact does."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase


def set_host_variables(action: ActionBase, result: dict[str, Any], variables: dict[str, Any]) -> None:
    """Set variables (name to value) on every host the action's result applies to; call once per run of the action.

    ansible-core 2.21 lets actions do so directly; older ones take them as facts out of ``result``.
    """
    try:
        from ansible.plugins.action import VariableLayer
    except ImportError:
        result["ansible_facts"] = variables
    else:
        action.register_host_variables(variables, VariableLayer.EPHEMERAL_FACT)
