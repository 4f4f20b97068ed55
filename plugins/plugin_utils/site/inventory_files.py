# SPDX-License-Identifier: Apache-2.0
"""Reads the files of an inventory.

Read are YAML inventory files (a file, or a directory of them) and the ``group_vars`` and ``host_vars`` beside them, as Ansible
reads them: later files of a directory replace earlier ones, a child group's value replaces its parent's, a host's replaces both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ansible import constants
from ansible.plugins.inventory import detect_range, expand_hostname_range

from .inventory import BUILT_IN_GROUPS, Group, Inventory, Variable
from .problem import WARNING, Place, SiteProblem, dotted, shown_path, shown_value, suggestion
from .yamlfile import Document, Path, read_document

YAML_ENDINGS = (".yml", ".yaml", ".json")
"""Of the files Ansible reads as YAML."""
VARIABLE_DIRECTORIES = ("group_vars", "host_vars", "vars_plugins")
IGNORED_ENDINGS = tuple(ending for ending in constants.INVENTORY_IGNORE_EXTS if ending != ".ini")
"""Of files in an inventory directory that Ansible passes over; an .ini file may be meant as an inventory, so it is named."""
GROUP_KEYS = ("hosts", "children", "vars")


def read_inventory(sources: Iterable[str]) -> Inventory:
    """Read the inventory sources given to ``ansible-playbook -i`` (files or directories); none where one is missing."""
    inventory = Inventory()
    directories: list[str] = []
    sources = list(sources)
    for source in sources:
        if not os.path.exists(source):
            place = Place(shown_path(source), 1)
            inventory.problems.append(SiteProblem(place, "inventory", source, "there is no such file or directory"))
            inventory.missing = True
    if inventory.missing:
        return inventory
    for source in sources:
        directory = source if os.path.isdir(source) else os.path.dirname(source) or "."
        if directory not in directories:
            directories.append(directory)
        for path in _inventory_files(source):
            _read_groups(inventory, path)
    _loops(inventory)
    for directory in directories:
        _read_variables(inventory, os.path.join(directory, "group_vars"), "group")
        _read_variables(inventory, os.path.join(directory, "host_vars"), "host")
    return inventory


def _inventory_files(source: str) -> list[str]:
    if os.path.isfile(source):
        return [source]
    found: list[str] = []
    for name in sorted(n for n in os.listdir(source) if not n.startswith(".")):
        path = os.path.join(source, name)
        if os.path.isdir(path):
            found.extend(() if name in VARIABLE_DIRECTORIES else _inventory_files(path))
        elif not name.endswith(IGNORED_ENDINGS):
            found.append(path)
    return found


def _read_groups(inventory: Inventory, path: str) -> None:
    if not path.endswith(YAML_ENDINGS):
        rule = "Bedplate reads inventories written in YAML; convert it: ansible-inventory -i FILE --list --yaml"
        inventory.problems.append(SiteProblem(Place(shown_path(path), 1), "inventory", os.path.basename(path), rule))
        return
    document = _document(inventory, path)
    if document.value is None:
        return
    if not isinstance(document.value, dict):
        rule = "an inventory file maps group names to hosts, children and vars"
        inventory.problems.append(SiteProblem(document.places[()], "inventory", shown_value(document.value), rule))
        return
    if "plugin" in document.value:
        rule = "an inventory plugin's hosts are not known before it runs; write them out: ansible-inventory -i FILE --list --yaml"
        inventory.problems.append(SiteProblem(document.places[("plugin",)], "inventory", os.path.basename(path), rule))
        return
    for name, body in document.value.items():
        _read_group(inventory, document, name, body, (name,))


def _read_group(inventory: Inventory, document: Document, name: str, body: Any, path: Path) -> None:
    group = inventory.groups.setdefault(name, Group(name, document.places[path]))
    _require_text(inventory, document, path, name)
    if body is None:
        return
    if not isinstance(body, dict):
        _refuse(inventory, document, path, body, "a group is a mapping with hosts, children or vars")
        return
    for key, value in body.items():
        here = (*path, key)
        if key not in GROUP_KEYS:
            _refuse(inventory, document, here, value, f"unknown key of a group{suggestion(key, GROUP_KEYS)}")
        elif value is None:
            continue
        elif not isinstance(value, dict):
            _refuse(inventory, document, here, value, f"{key} of a group is a mapping (names followed by a colon)")
        elif key == "hosts":
            for pattern, variables in value.items():
                _read_host(inventory, document, group, pattern, variables, (*here, pattern))
        elif key == "children":
            for child, child_body in value.items():
                group.children.setdefault(child, document.places[(*here, child)])
                _read_group(inventory, document, child, child_body, (*here, child))
        else:
            group.variables.update({n: _variable(document, n, v, (*here, n)) for n, v in value.items()})


def _read_host(inventory: Inventory, document: Document, group: Group, pattern: str, variables: Any, path: Path) -> None:
    try:
        hosts = list(expand_hostname_range(pattern)) if detect_range(pattern) else [pattern]
    except Exception as error:  # Ansible raises its own and plain errors for a bad range
        _refuse(inventory, document, path, pattern, f"this range of host names cannot be read: {error}")
        return
    if not hosts:
        _refuse(inventory, document, path, pattern, "this range of host names ends before it begins")
    _require_text(inventory, document, path, pattern)
    if variables is not None and not isinstance(variables, dict):
        _refuse(inventory, document, path, variables, "a host's variables are a mapping")
        variables = None
    for host in hosts:
        group.hosts.setdefault(host, document.places[path])
        own = inventory.host_variables.setdefault(host, {})
        own.update({n: _variable(document, n, v, (*path, n)) for n, v in (variables or {}).items()})


def _read_variables(inventory: Inventory, directory: str, kind: str) -> None:
    if not os.path.isdir(directory):
        return
    known = set(inventory.host_variables) if kind == "host" else {*inventory.groups, *BUILT_IN_GROUPS}
    entries = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    taken: dict[str, str] = {}
    for entry in sorted(entries, key=lambda n: not os.path.isdir(os.path.join(directory, n))):
        path = os.path.join(directory, entry)
        owner, ending = (entry, "") if os.path.isdir(path) or entry in known else os.path.splitext(entry)
        if ending and ending not in YAML_ENDINGS:
            continue
        place = Place(shown_path(path), 1)
        if owner in taken:
            rule = f"Ansible reads only {shown_path(taken[owner])} and ignores this one; move its content there"
            inventory.problems.append(SiteProblem(place, f"variables of {kind} {owner}", entry, rule))
            continue
        taken[owner] = path
        if owner not in known:
            hint = suggestion(owner, known)
            severity = {"severity": WARNING} if not hint else {}
            rule = f"the inventory has no {kind} of this name, so the file is never used{hint}"
            inventory.problems.append(SiteProblem(place, f"{kind}_vars", owner, rule, **severity))
            continue
        _merge_files(inventory, path, kind, owner)


def _merge_files(inventory: Inventory, path: str, kind: str, owner: str) -> None:
    if kind == "host":
        target = inventory.host_variables[owner]
    else:
        target = inventory.groups.setdefault(owner, Group(owner, Place(shown_path(path), 1))).variables
    seen: dict[str, Place] = {}
    for file in _variable_files(path):
        document = _document(inventory, file)
        if document.value is None:
            continue
        if not isinstance(document.value, dict):
            _refuse(inventory, document, (), document.value, "a file of variables is a mapping of names to values")
            continue
        for name, value in document.value.items():
            variable = _variable(document, name, value, (name,))
            if name in seen:
                rule = f"{name} also stands in {seen[name].file}:{seen[name].line}; only one of the two takes effect"
                inventory.problems.append(SiteProblem(variable.place, name, "(repeated)", rule))
            seen[name] = variable.place
            target[name] = variable


def _variable_files(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    found: list[str] = []
    for name in sorted(n for n in os.listdir(path) if not n.startswith(".") and not n.endswith("~")):
        inner = os.path.join(path, name)
        if os.path.isdir(inner):
            found.extend(_variable_files(inner))
        elif os.path.splitext(name)[1] in ("", *YAML_ENDINGS):
            found.append(inner)
    return found


def _document(inventory: Inventory, path: str) -> Document:
    document = read_document(path)
    inventory.problems.extend(document.problems)
    if document.encrypted:
        inventory.encrypted.append(shown_path(path))
    return document


def _variable(document: Document, name: str, value: Any, path: Path) -> Variable:
    size = len(path)
    if not isinstance(value, (dict, list)):
        return Variable(name, value, {(): document.places[path]})
    places = {p[size:]: place for p, place in document.places.items() if p[:size] == path}
    return Variable(name, value, places)


def _require_text(inventory: Inventory, document: Document, path: Path, name: str) -> None:
    if path in document.not_text:
        _refuse(inventory, document, path, name, f'YAML does not read this name as text; write it in quotes: "{name}"')


def _loops(inventory: Inventory) -> None:
    """Report every group that is below itself."""
    for name, group in inventory.groups.items():
        for child, place in group.children.items():
            if name in inventory.below(child):
                rule = f"{child} is above {name} as well, so both would hold each other; take one of the two away"
                inventory.problems.append(SiteProblem(place, f"{name}.children", child, rule))


def _refuse(inventory: Inventory, document: Document, path: Path, value: Any, rule: str) -> None:
    key = dotted(path) or "file"
    inventory.problems.append(SiteProblem(document.places[path], key, shown_value(value), rule))
