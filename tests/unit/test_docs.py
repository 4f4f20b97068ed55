# SPDX-License-Identifier: Apache-2.0
"""What the documents point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
DIRECTORIES = ("changelogs", "docs", "inventories", "lab", "molecule", "playbooks", "plugins", "roles", "scripts", "tests")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text(encoding="utf-8"))
    assert not [target for target in targets if not (document.parent / target).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_named_in_the_text_exist(document: Path) -> None:
    words = re.findall(rf"`((?:{'|'.join(DIRECTORIES)})/[^`\s]*)", document.read_text(encoding="utf-8"))
    paths = [re.sub(r"<\w+>", "*", word).rstrip("/") for word in words]
    assert not [path for path in paths if not list(ROOT.glob(path))]
