# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the site data's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from site_directory import FILES, SiteDirectory


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteDirectory:
    monkeypatch.chdir(tmp_path)
    directory = SiteDirectory(tmp_path)
    for path, text in FILES.items():
        directory.write(path, text)
    return directory


@pytest.fixture
def control_planes(site: SiteDirectory) -> Callable[[int], None]:
    """Give the site a number of control-plane hosts."""

    def write(count: int) -> None:
        lines = "".join(f"        cp{n}: {{ansible_host: 10.0.0.{10 + n}}}\n" for n in range(1, count + 1))
        site.replace("hosts.yml", "        cp1: {ansible_host: 10.0.0.11, rack: r1, topology_block: b1}\n", lines)

    return write
