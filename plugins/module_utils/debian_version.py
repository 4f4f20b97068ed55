# SPDX-License-Identifier: Apache-2.0
"""Debian version numbers, ordered as deb-version(7) says."""

from __future__ import annotations

import re


def compare_versions(left: str, right: str) -> int:
    """Order two Debian versions as dpkg does (deb-version(7)): negative, zero or positive."""
    (left_epoch, left_up, left_rev), (right_epoch, right_up, right_rev) = _split_version(left), _split_version(right)
    if left_epoch != right_epoch:
        return left_epoch - right_epoch
    return _compare_part(left_up, right_up) or _compare_part(left_rev, right_rev)


def _split_version(version: str) -> tuple[int, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, _dash, revision = rest.rpartition("-")
    if not upstream:
        upstream, revision = rest, "0"
    return int(epoch) if epoch.isdigit() else 0, upstream, revision


def _order(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


def _compare_part(left: str, right: str) -> int:
    while left or right:
        left_text, right_text = _lead(left, r"\D*"), _lead(right, r"\D*")
        for index in range(max(len(left_text), len(right_text))):
            left_order = _order(left_text[index]) if index < len(left_text) else 0
            right_order = _order(right_text[index]) if index < len(right_text) else 0
            if left_order != right_order:
                return left_order - right_order
        left, right = left[len(left_text) :], right[len(right_text) :]
        left_digits, right_digits = _lead(left, r"\d*"), _lead(right, r"\d*")
        difference = int(left_digits or 0) - int(right_digits or 0)
        if difference:
            return difference
        left, right = left[len(left_digits) :], right[len(right_digits) :]
    return 0


def _lead(text: str, pattern: str) -> str:
    match = re.match(pattern, text)
    return match.group(0) if match else ""
