# SPDX-License-Identifier: Apache-2.0
"""The command ``scripts/bedplate``: validate a site without a playbook, print the compatibility table or a report, write the
schema."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import FileVaultSecret
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.utils.collection_loader import AnsibleCollectionConfig
from ansible.vars.manager import VariableManager
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.show import as_json, as_text
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import load_table
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.document import FORMAT
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.row import DIFFERS
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.terminal import IN_A_FILE, terminal

from .check_gpu import facts_of
from .checks import CREATE, PURPOSES
from .problem import ERROR, in_order
from .schema import BEGIN, END, reference, schema_text
from .templates import TemplarResolver
from .validate import examine, validate
from .versions import load_versions

ROOT = FilePath(__file__).resolve().parents[3]
SCHEMA, REFERENCE = ROOT / "docs" / "site.schema.json", ROOT / "docs" / "site-data.md"


def inventory_resolver(sources: Sequence[str], vault_password_file: str | None = None) -> TemplarResolver:
    """Return a resolver that sees the inventory's own variables; the file holds the password of encrypted values."""
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader()
    loader = DataLoader()
    if vault_password_file is not None:
        secret = FileVaultSecret(filename=vault_password_file, loader=loader)
        secret.load()
        loader.set_vault_secrets([("default", secret)])

    @cache
    def manager() -> tuple[InventoryManager, VariableManager]:
        inventory = InventoryManager(loader=loader, sources=list(sources))
        return inventory, VariableManager(loader=loader, inventory=inventory)

    def variables(host: str) -> Mapping[str, Any]:
        inventory, variable_manager = manager()
        found: Mapping[str, Any] = variable_manager.get_vars(host=inventory.get_host(host))
        return found

    return TemplarResolver(variables, lambda found: Templar(loader=loader, variables=found))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0: fine, 1: findings, 2: wrong use."""
    options = _parser().parse_args(arguments)
    return {"validate": _validate, "compat": _compat, "report": _report, "schema": _schema}[options.command](options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bedplate", description="Look after a site's data.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("validate", help="validate an inventory; contacts no host")
    check.add_argument("-i", "--inventory", action="append", required=True, metavar="PATH", help="inventory file or directory")
    check.add_argument("--purpose", choices=PURPOSES, default=CREATE, help="what is about to be done (default: %(default)s)")
    check.add_argument("--vault-password-file", metavar="FILE", help="password of encrypted values")
    check.add_argument("--json", action="store_true", help="print findings as JSON")
    compat = commands.add_parser("compat", help="print the compatibility table, and with an inventory what applies to its pools")
    compat.add_argument("-i", "--inventory", action="append", default=[], metavar="PATH", help="inventory file or directory")
    compat.add_argument("--vault-password-file", metavar="FILE", help="password of encrypted values")
    compat.add_argument("--json", action="store_true", help="print it as JSON")
    report = commands.add_parser("report", help="print a report of playbooks/preflight.yml again; contacts no host")
    report.add_argument("file", nargs="?", default="reports/preflight.json", help="the JSON file (default: %(default)s)")
    report.add_argument("--all", action="store_true", help="print what is ok, too")
    write = commands.add_parser("schema", help="print the JSON schema of the site's data")
    write.add_argument("--write", action="store_true", help="write docs/site.schema.json and the reference in docs/site-data.md")
    return parser


def _validate(options: argparse.Namespace) -> int:
    resolver = inventory_resolver(options.inventory, options.vault_password_file)
    found = validate(options.inventory, resolver, options.purpose)
    if options.json:
        json.dump([problem.public() for problem in found.problems], sys.stdout, indent=2)
        print()
    else:
        for problem in found.problems:
            prefix = "warning: " if problem in found.warnings else ""
            print(f"{prefix}{problem}")
        print(_summary(found.bedplate, len(found.errors), len(found.warnings)))
    return 1 if found.errors else 0


def _compat(options: argparse.Namespace) -> int:
    table = load_table()
    applying, errors = None, []
    if options.inventory:
        resolver = inventory_resolver(options.inventory, options.vault_password_file)
        found = examine(options.inventory, resolver, CREATE, load_versions())
        errors = [problem for problem in in_order(found.problems) if problem.severity == ERROR]
        applying = {pool.name: table.applying(facts_of(found, pool, table)) for pool in found.pools.values() if pool.spec}
    if options.json:
        json.dump(as_json(table, applying), sys.stdout, indent=2)
        print()
    else:
        sys.stdout.write(as_text(table, applying))
    for problem in errors:
        print(problem, file=sys.stderr)
    return 1 if errors else 0


def _report(options: argparse.Namespace) -> int:
    try:
        report = json.loads(FilePath(options.file).read_text(encoding="utf-8"))
        if (report.get("kind"), report.get("format")) != ("preflight", FORMAT):
            raise ValueError(f"found format {report.get('format')!r} of {report.get('kind')!r}; wanted {FORMAT} of 'preflight'")
    except (OSError, ValueError, AttributeError) as error:
        print(f"{options.file}: {error}. Next: make one with playbooks/preflight.yml", file=sys.stderr)
        return 2
    width = shutil.get_terminal_size((IN_A_FILE, 24)).columns
    print(terminal(report, width=width, colour=sys.stdout.isatty(), everything=options.all))
    return 1 if report["verdicts"][DIFFERS] else 0


def _summary(bedplate: dict[str, Any] | None, errors: int, warnings: int) -> str:
    counts = f"{errors} error{'s' if errors != 1 else ''}, {warnings} warning{'s' if warnings != 1 else ''}"
    if bedplate is None:
        return counts
    pools = ", ".join(f"{name} {len(pool['hosts'])}" for name, pool in bedplate["pools"].items())
    return f"{counts}; cluster {bedplate['cluster']['name']}, {len(bedplate['hosts'])} hosts ({pools})"


def _schema(options: argparse.Namespace) -> int:
    if not options.write:
        sys.stdout.write(schema_text())
        return 0
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    REFERENCE.write_text(with_reference(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def with_reference(document: str) -> str:
    """Return docs/site-data.md with its generated part replaced."""
    before, _begin, rest = document.partition(BEGIN)
    _old, _end, after = rest.partition(END)
    return before + reference().rstrip("\n") + after


if __name__ == "__main__":
    sys.exit(main())
