# SPDX-License-Identifier: Apache-2.0
"""K2, K4: why a host cannot run modules at all is one clear message with the next step."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.connection_errors import (
    explain_exception,
    explain_result,
    explain_unreachable,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Missing sudo password", "none was given; wanted root. Next: run again with --ask-become-pass"),
        ("Incorrect sudo password", "become password of user ops refused"),
        ("Timeout (12s) waiting for privilege escalation prompt: ", "no answer from sudo"),
    ],
)
def test_k2_passwords(text: str, words: str) -> None:
    message = explain_exception(text, "ops")
    assert message is not None and words in message and "\n" not in message


def test_other_exceptions_are_left_alone() -> None:
    assert explain_exception("template error", "ops") is None


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            {"msg": "The module interpreter '/usr/bin/python3' was not found.", "module_stdout": ""},
            "found none at /usr/bin/python3",
        ),
        (
            {"msg": "Module result deserialization failed.", "module_stdout": "/bin/sh: 1: /usr/bin/python3: not found"},
            "found none at",
        ),
        (
            {"msg": "Ansible requires Python 3.9 or newer on the target. Current version: 3.7.3 (default, Apr  3 2019)"},
            "found 3.7.3; wanted Python 3.9 or newer",
        ),
        (
            {"msg": "Module result deserialization failed.", "module_stderr": "SyntaxError: invalid", "module_stdout": ""},
            "too old",
        ),
    ],
)
def test_k4_python(result: dict[str, Any], words: str) -> None:
    message = explain_result({"failed": True, **result}, "ops")
    assert message is not None and words in message and "apt-get install --yes python3" in message
    assert "Traceback" not in message and "\n" not in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sudo: a password is required", "--ask-become-pass"),
        ("ops is not in the sudoers file.", "without the right to use sudo"),
        ("/bin/sh: 1: sudo: not found", "no sudo on the host"),
    ],
)
def test_k2_sudo(text: str, words: str) -> None:
    message = explain_result({"failed": True, "msg": "x", "module_stdout": text}, "ops")
    assert message is not None and words in message


def test_the_modules_own_results_are_left_alone() -> None:
    assert explain_result({"failed": True, "msg": "preflight: 2 problems:\n  - disk /: found …"}, "ops") is None
    assert explain_result({"changed": False}, "ops") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Failed to connect to the host via ssh: ssh: connect to host 10.0.0.1 port 22: No route to host", "No route to host"),
        ("Failed to connect to the host via ssh: ops@10.0.0.1: Permission denied (publickey).", "ssh-copy-id"),
        ("Failed to connect to the host via ssh: Host key verification failed.", "known_hosts"),
    ],
)
def test_unreachable(text: str, words: str) -> None:
    message = explain_unreachable(text, "10.0.0.1", "ops")
    assert words in message and message.startswith("connection: found 10.0.0.1 not reachable") and "Next:" in message
