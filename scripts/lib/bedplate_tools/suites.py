# SPDX-License-Identifier: Apache-2.0
"""The suites: unit, lint, molecule, e2e, metal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bedplate_tools import REPORTS, ROOT
from bedplate_tools.command import started
from bedplate_tools.metal import TESTS, Metal
from bedplate_tools.result import Check, Result, of_command, of_junit

COLLECTION = Path(".ansible/collections/ansible_collections/bedplate/metal")
"""The checkout under the name Ansible and mypy know it by."""

APART = "tests/e2e/apart"

SCENARIOS = (
    "preflight",
    "repositories",
    "kernel",
    "nvidia_driver",
    "nvidia_container_toolkit",
    "container_runtime",
    "kubelet",
    "control_plane",
    "cni",
    "worker",
    "pool",
    "gate",
)
"""Molecule scenarios in the order in which each finds the work of those before it done; others follow by name."""


def scenarios() -> list[str]:
    """Return the molecule scenarios to run, in order; ``default`` only owns the hosts."""
    found = {path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")} - {"default"}
    return [*(name for name in SCENARIOS if name in found), *sorted(found - set(SCENARIOS))]


def unit(extra: Sequence[str] = (), *, show: bool = False) -> list[Check]:
    """The unit tests, in one run of pytest."""
    return [partial(_pytest, "unit", ["tests/unit", *extra], show=show)]


def e2e(extra: Sequence[str] = ()) -> list[Check]:
    """The tests against the lab's cluster, which must be up; with arguments of pytest's, all end-to-end tests in one run."""
    apart = [] if extra else [f"--ignore={APART}", f"--ignore={TESTS}"]
    return [partial(_pytest, "e2e", ["tests/e2e", "-v", *apart, *extra], show=True)]


def e2e_apart(extra: Sequence[str] = ()) -> list[Check]:
    """The end-to-end tests on hosts of their own, which may run while others use the lab's cluster."""
    return [] if extra else [partial(_pytest, "e2e-apart", [APART, "-v"], show=True)]


def metal(extra: Sequence[str] = (), *, full: bool = False) -> list[Check]:
    """Roles on virtual machines, which the suite boots and removes itself; full: also what takes long on emulated processors."""
    return Metal(partial(_pytest, show=True), _command).checks(["--full"] if full else [], extra)


def lint() -> list[Check]:
    """Every linter; each counts as one test."""
    python = [path for path in ("plugins", "lab", "scripts/lib", "tests", "molecule") if list(ROOT.glob(f"{path}/**/*.py"))]
    programs = _python_programs()
    typed = [
        COLLECTION / "plugins",
        *(path for path in ("lab/bedplate_lab", "scripts/lib/bedplate_tools") if (ROOT / path).is_dir()),
    ]
    typed += [path for path in ("tests/unit", "tests/e2e") if list(ROOT.glob(f"{path}/*.py"))]
    typed += sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("molecule/*/tests/*.py"))
    commands: dict[str, list[str | Path]] = {
        "lint ruff": ["ruff", "check", *python, *programs],
        "lint ruff format": ["ruff", "format", "--check", *python, *programs],
        "lint mypy": ["mypy", *typed],
        "lint yamllint": ["yamllint", "--strict", "."],
        "lint ansible-lint": ["ansible-lint", "--offline", "--nocolor", "-q"],
        "lint role-docs": ["scripts/role-docs", "--check"],
    }
    return [partial(_command, name, argv) for name, argv in commands.items()]


def molecule(extra: Sequence[str] = ()) -> list[Check]:
    """Every scenario on the same two lab hosts, removed before as well as after: a run cut off leaves them half there."""
    return [_destroy, *(partial(_scenario, name) for name in scenarios()), _destroy]


def _python_programs() -> list[str | Path]:
    """Programs in scripts/ that are Python without saying so in their names."""
    return [
        path.relative_to(ROOT)
        for path in sorted(ROOT.glob("scripts/*"))
        if path.is_file() and "python" in path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    ]


def _pytest(name: str, arguments: Sequence[str], *, show: bool) -> Result:
    junit = REPORTS / "test" / f"{name.replace(' ', '-')}.xml"
    junit.unlink(missing_ok=True)
    env = {"BEDPLATE_TEST_RUN": junit.stem}
    with started(name, ["pytest", f"--junit-xml={junit}", *arguments], show=show, env=env) as running:
        return of_junit(name, junit, running.wait(), running.seconds)


def _command(name: str, argv: Sequence[str | Path]) -> Result:
    with started(name, argv) as running:
        return of_command(name, running.wait(), running.seconds)


def _scenario(name: str) -> Result:
    """Converge, repeat and verify one scenario; its testinfra tests count, and converging twice counts as one more."""
    junit = REPORTS / "test" / f"molecule-{name}.xml"
    junit.unlink(missing_ok=True)
    argv = ["molecule", "test", "--scenario-name", name, "--destroy", "never"]
    with started(f"molecule {name}", argv) as running:
        ok = running.wait()
        verified = of_junit(f"molecule {name}", junit, ok or junit.exists(), running.seconds)
    converged = ok or junit.exists()
    return Result(
        verified.name,
        verified.passed + converged,
        verified.failed + (not converged),
        verified.seconds,
        verified.skipped,
        (*verified.failures, *(() if converged else (f"{verified.name}: converge or its repetition",))),
    )


def _destroy() -> Result:
    return _command("molecule destroy", ["molecule", "destroy", "--scenario-name", "default"])
