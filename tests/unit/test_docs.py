# SPDX-License-Identifier: Apache-2.0
"""What the documents point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

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


def commands(document: Path) -> list[str]:
    lines = document.read_text(encoding="utf-8").splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.startswith("    ")]


def test_readme_works_in_a_fresh_clone() -> None:
    """A program of scripts/ makes .venv and the collection's link before Ansible is called, which is never the system's."""
    own = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Your own servers")[2]
    lines = [line.strip() for line in own.splitlines() if line.startswith("    ")]
    ansible = [index for index, line in enumerate(lines) if "ansible-playbook" in line]
    assert ansible and any(line.startswith("scripts/") for line in lines[: ansible[0]])
    assert not any("-m venv" in line for line in lines), "such a .venv comes without the link"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_ansible_is_the_repositorys_own(document: Path) -> None:
    called = [line for line in commands(document) if line.startswith(("ansible", ".venv/bin/ansible"))]
    assert not [line for line in called if not line.startswith(".venv/bin/")]


def test_the_labs_first_workload_has_an_image_and_a_pool_that_exist() -> None:
    text = (ROOT / "docs/lab.md").read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    spec = yaml.safe_load(text)["spec"]["template"]["spec"]
    agnhost = yaml.safe_load((ROOT / "versions.yml").read_text(encoding="utf-8"))["components"]["agnhost"]
    assert spec["containers"][0]["image"] == agnhost["images"][0].format(v=agnhost["version"])
    pool = spec["nodeSelector"]["pool.bedplate.dev/name"]
    assert spec["tolerations"] == [{"key": "pool.bedplate.dev/name", "value": pool, "effect": "NoSchedule"}]
    assert (ROOT / f"inventories/lab/group_vars/{pool}.yml").is_file()
