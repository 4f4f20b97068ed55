# SPDX-License-Identifier: Apache-2.0
"""K5: a run killed at any step, then repeated, ends in the same state as an undisturbed run.

Every component's cases are in the lists ``CASES`` of the files fixtures_*.py beside this one.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import core
from interrupted import Case, check_interrupted

CASES: list[Case] = [
    case for path in sorted(Path(__file__).parent.glob("fixtures_*.py")) for case in importlib.import_module(path.stem).CASES
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_killed_at_every_change_boundary(case: Case) -> None:
    check_interrupted(case)


def test_every_component_of_a_host_has_a_case() -> None:
    written = re.compile(r"^class \w+\(Component\[", re.MULTILINE)
    components = {
        path.stem for path in Path(core.__file__).parent.glob("*.py") if written.search(path.read_text(encoding="utf-8"))
    }
    assert len(components) >= 7
    assert {type(case.component()).__module__.rpartition(".")[2] for case in CASES} == components
