# SPDX-License-Identifier: Apache-2.0
"""``scripts/role-docs``: writes every role's README.md from its meta/argument_specs.yml."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bedplate_tools import ROOT


def specs(role: Path) -> Mapping[str, Any]:
    """Return the argument specs of a role by entry point; an empty mapping without the file."""
    path = role / "meta" / "argument_specs.yml"
    if not path.exists():
        return {}
    loaded = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return dict(loaded.get("argument_specs") or {})


def readme(role: Path) -> str:
    """Return the text of a role's README.md."""
    lines = [f"# bedplate.metal.{role.name}", ""]
    for entry, spec in specs(role).items():
        if entry != "main":
            lines += [f"## Entry point `{entry}`", ""]
        lines += [*_sentences(spec.get("short_description"), full_stop=True), *_sentences(spec.get("description"))]
        options = spec.get("options") or {}
        if options:
            lines += ["| variable | type | default | meaning |", "|---|---|---|---|", *_rows(options), ""]
    lines += [
        "Written by `scripts/role-docs` from `meta/argument_specs.yml`; where things are is in"
        " [docs/architecture.md](../../docs/architecture.md).",
        "",
    ]
    return "\n".join(lines)


def _rows(options: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a table row per option; the options of a dict or of a list's elements follow it, indented by their path."""
    for name, option in options.items():
        yield f"| `{prefix}{name}` | {_type(option)} | {_default(option)} | {_meaning(option)} |"
        inner = option.get("options")
        if isinstance(inner, Mapping):
            yield from _rows(inner, f"{prefix}{name}{'[]' if option.get('type') == 'list' else ''}.")


def _type(option: Mapping[str, Any]) -> str:
    kind = str(option.get("type", "str"))
    return f"{kind} of {option['elements']}" if kind == "list" and "elements" in option else kind


def _default(option: Mapping[str, Any]) -> str:
    if option.get("required"):
        return "**required**"
    if option.get("default") is None:
        return ""
    default = option["default"]
    text = default if isinstance(default, str) else json.dumps(default)
    return f"`{_cell(text)}`" if text else '`""`'


def _meaning(option: Mapping[str, Any]) -> str:
    parts = [" ".join(_sentences(option.get("description")))]
    if option.get("choices"):
        parts.append("One of " + ", ".join(f"`{choice}`" for choice in option["choices"]) + ".")
    if option.get("no_log"):
        parts.append("Secret.")
    return _cell(" ".join(part.strip() for part in parts if part.strip()))


def _sentences(text: str | Sequence[str] | None, *, full_stop: bool = False) -> list[str]:
    """Return a description's paragraphs, each followed by an empty line."""
    paragraphs = [text] if isinstance(text, str) else list(text or ())
    lines: list[str] = []
    for paragraph in paragraphs:
        one = " ".join(str(paragraph).split())
        lines += [f"{one}." if full_stop and not one.endswith(".") else one, ""]
    return lines


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the READMEs, or with --check name those that differ; return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/role-docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a README is out of date")
    check = parser.parse_args(argv).check
    stale = 0
    for role in sorted(path.parents[1] for path in ROOT.glob("roles/*/meta/argument_specs.yml")):
        target = role / "README.md"
        wanted = readme(role)
        if target.exists() and target.read_text(encoding="utf-8") == wanted:
            continue
        stale += 1
        if check:
            print(f"{target.relative_to(ROOT)}: differs from its argument specs; next: scripts/role-docs")
        else:
            target.write_text(wanted, encoding="utf-8")
            print(f"wrote {target.relative_to(ROOT)}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
