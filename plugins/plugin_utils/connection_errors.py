# SPDX-License-Identifier: Apache-2.0
"""Turns what Ansible says when it cannot run a module at all into one message with found, wanted and the next step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MINIMUM_PYTHON = "3.9"
"""The oldest Python that ansible-core 2.20 and 2.21 run modules on, and that plugins/module_utils is written for."""


def explain_exception(text: str, user: str) -> str | None:
    """Explain an exception's text raised before a module ran; None when it is not one of the known causes."""
    if re.search(r"Missing \w+ password", text):
        return (
            f"privileges: found user {user} needing a password to become root, and none was given; wanted root. "
            "Next: run again with --ask-become-pass (or set ansible_become_password in a vault), or allow passwordless sudo"
        )
    if re.search(r"Incorrect \w+ password", text):
        return (
            f"privileges: found the become password of user {user} refused; wanted root. "
            "Next: run again with --ask-become-pass and that user's password on this host"
        )
    if re.search(r"Timeout .*waiting for privilege escalation prompt", text):
        return (
            f"privileges: found no answer from sudo for user {user}; wanted root. "
            "Next: try `sudo -v` on the host as that user; a slow name service or PAM module delays it"
        )
    return None


def explain_unreachable(text: str, address: str, user: str) -> str:
    """Explain a failed connection."""
    reason = " ".join(re.sub(r"^.*\bssh: ", "", text, flags=re.DOTALL).split()).rstrip(".")
    if "Permission denied" in text or "password" in text.lower():
        step = f"install your key for {user} on the host (ssh-copy-id), or correct ansible_user"
    elif "Host key verification failed" in text or "IDENTIFICATION HAS CHANGED" in text:
        step = "compare the host's key by another path, then renew it in known_hosts"
    else:
        step = "check ansible_host in the inventory, that the host is up, and the way to its SSH port"
    return f"connection: found {address} not reachable ({reason}); wanted SSH as {user}. Next: {step}"


def explain_result(result: Mapping[str, Any], user: str) -> str | None:
    """Explain the result of a module that did not come to run; None for results that are the module's own."""
    if not result.get("failed"):
        return None
    text = "\n".join(str(result.get(key, "")) for key in ("msg", "module_stdout", "module_stderr", "exception"))
    missing = re.search(r"module interpreter '([^']+)' was not found|([\w./-]*python[\w.]*): (?:No such file|not found)", text)
    if missing:
        return (
            f"python: found none at {missing.group(1) or missing.group(2)}; wanted Python {MINIMUM_PYTHON} or newer. "
            f"{PYTHON_STEP}"
        )
    old = re.search(r"requires (?:a minimum of )?Python (?:version )?(\d+\.\d+).*?Current version: ([\d.]+)", text, re.DOTALL)
    if old:
        return f"python: found {old.group(2)}; wanted Python {old.group(1)} or newer. {PYTHON_STEP}"
    if "module_stdout" in result and re.search(r"SyntaxError|No module named '?(ansible|zipimport)", text):
        return f"python: found one too old to read the module; wanted Python {MINIMUM_PYTHON} or newer. {PYTHON_STEP}"
    if re.search(r"a password is required|a terminal is required|no tty present", text):
        return explain_exception("Missing sudo password", user)
    if re.search(r"not in the sudoers file|is not allowed to (?:execute|run sudo)", text):
        return (
            f"privileges: found user {user} without the right to use sudo; wanted root. "
            "Next: add the user to the host's sudoers, or use another ansible_user"
        )
    if re.search(r"sudo: (?:command )?not found|sudo: No such file", text):
        return (
            f"privileges: found no sudo on the host for user {user}; wanted root. "
            "Next: install sudo there, or connect as root (ansible_user: root)"
        )
    return None


PYTHON_STEP = (
    "Next: install it on the host (apt-get install --yes python3), or point ansible_python_interpreter at one; "
    "a host too old for that is reinstalled with a supported distribution"
)
