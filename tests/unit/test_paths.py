# SPDX-License-Identifier: Apache-2.0
"""Paths as words: which may be declared, and which lies in which."""

from __future__ import annotations

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.paths import declarable, inside, nested


@pytest.mark.parametrize("path", ["/a", "/srv/data-1/x_2", "/a/.hidden", "/a/..b"])
def test_absolute_paths_of_plain_characters_may_be_declared(path: str) -> None:
    assert declarable(path)


@pytest.mark.parametrize("path", ["", "/", "a", "/a/", "/a//b", "/a b", "/a/../b", "/a/..", "/a\n", "/a@b"])
def test_others_may_not(path: str) -> None:
    assert not declarable(path)


def test_more_characters_only_where_they_are_named() -> None:
    assert declarable("/a@b+c", "@+") and not declarable("/a@b+c", "@")


def test_a_path_lies_in_itself_and_in_those_above_it_alone() -> None:
    assert inside("/a", "/a") and inside("/a/b", "/a") and inside("/a", "/")
    assert not inside("/ab", "/a") and not inside("/a", "/a/b")
    assert nested("/a", "/a/b") and nested("/a/b", "/a") and not nested("/a", "/ab")
