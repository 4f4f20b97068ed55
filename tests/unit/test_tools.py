# SPDX-License-Identifier: Apache-2.0
"""The programs in scripts/: counting tests, ending what was started, documents from specifications."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from bedplate_tools.command import started
from bedplate_tools.result import Result, of_command, of_junit, summary
from bedplate_tools.role_docs import readme

JUNIT = """<testsuites><testsuite>
<testcase classname="a" name="passes"/>
<testcase classname="a" name="fails"><failure/></testcase>
<testcase classname="a" name="breaks"><error/></testcase>
<testcase classname="a" name="skips"><skipped/></testcase>
</testsuite></testsuites>"""


def test_junit_is_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text(JUNIT)
    result = of_junit("unit", path, False, 1)
    assert (result.passed, result.failed, result.skipped) == (1, 2, 1)
    assert result.failures == ("a::fails", "a::breaks")


@pytest.mark.parametrize("text", [None, "<testsuites/>"])
def test_a_run_that_died_without_a_failed_test_still_fails(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "r.xml"
    if text is not None:
        path.write_text(text)
    assert of_junit("e2e", path, False, 1).failed == 1


def test_the_last_line_counts_alone_and_the_exit_code_follows() -> None:
    lines, code = summary([Result("unit", 10, 0, 1), of_command("lint ruff", False, 1)])
    assert (lines[-1], code) == ("10 passed, 1 failed", 1)
    assert "  lint ruff" in lines
    assert summary([Result("unit", 10, 0, 1)])[1] == 0
    assert summary([])[1] == 1, "nothing ran"


def test_a_command_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with started("test-tools-sleep", ["bash", "-c", f"sleep 600 & echo $! > {pids}.new && mv {pids}.new {pids}; wait"]):
        deadline = time.monotonic() + 20
        while not pids.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        child = int(pids.read_text())
    deadline = time.monotonic() + 20
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child)


def test_an_interrupted_run_ends_its_suites_and_itself_within_seconds(tmp_path: Path) -> None:
    """In a process of its own, because being interrupted is for life: nothing is started afterwards."""
    program = (
        "import os, threading\n"
        "from bedplate_tools import suites, testing\n"
        "suites.unit = lambda *_, **__: [lambda: suites._command('test-tools-suite', ['sleep', '600'])]\n"
        "threading.Timer(1, os.kill, (os.getpid(), 15)).start()\n"
        "raise SystemExit(testing.main(['unit']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=_environment())
    assert done.returncode == 128 + 15, done.stderr
    assert "interrupted" in done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" and os.getpgid(pid) >= 0
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_readme_lists_nested_options_with_type_default_and_choices(tmp_path: Path) -> None:
    role = tmp_path / "kernel"
    (role / "meta").mkdir(parents=True)
    options = {
        "kernel_swap": {"type": "str", "default": "off", "choices": ["off", "keep"], "description": "What to do | about swap."},
        "kernel_disks": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "description": ["Disks."],
            "options": {"serial": {"type": "str", "no_log": True, "description": "Its number."}},
        },
    }
    specification = {"argument_specs": {"main": {"short_description": "Kernel", "options": options}}}
    (role / "meta" / "argument_specs.yml").write_text(yaml.safe_dump(specification, sort_keys=False))
    text = readme(role)
    assert "| `kernel_swap` | str | `off` | What to do \\| about swap. One of `off`, `keep`. |" in text
    assert "| `kernel_disks` | list of dict | **required** | Disks. |" in text
    assert "| `kernel_disks[].serial` | str |  | Its number. Secret. |" in text
