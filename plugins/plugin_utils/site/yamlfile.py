# SPDX-License-Identifier: Apache-2.0
"""YAML files read with the file, the line and the raw text of every value.

Ansible hands out merged variables in which ``1.30`` has become 1.3 and nobody knows the file any more. Here the nodes of the YAML
document are walked instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from .problem import Place, SiteProblem, dotted, shown_path, shown_value

Path = tuple[str | int, ...]

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML has it: ten times faster for an inventory of a thousand hosts."""

VAULT_HEADER = "$ANSIBLE_VAULT"
VAULT_TAGS = ("!vault", "!vault-encrypted")
TEXT_TAG = "tag:yaml.org,2002:str"

MAX_VALUES = 1_000_000
"""Values in one file, with every alias counted in full: far beyond any site's, and few enough to be read in seconds."""


class Opaque(str):
    """Stands for an encrypted value."""


ENCRYPTED = Opaque("(encrypted)")


@dataclass(frozen=True)
class Document:
    """A file's value (JSON types and dates as YAML reads them) and the place of each part of it, by path.

    The place of a mapping's entry is the line of its key. not_text: paths whose last key YAML takes for a number, a truth value,
    a date or nothing, although it stands here as text.
    """

    value: Any
    places: Mapping[Path, Place]
    problems: list[SiteProblem] = field(default_factory=list)
    encrypted: bool = False
    not_text: Set[Path] = frozenset()


def read_document(path: str) -> Document:
    """Read a YAML file. Errors of syntax, repeated keys and a file encrypted as a whole are reported, never raised."""
    file = shown_path(path)
    top = Place(file, 1)
    if os.path.exists(path) and not os.path.isfile(path):
        return Document(None, {(): top}, [SiteProblem(top, file, "(unreadable)", "must be a file; a pipe or device is not read")])
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        return Document(None, {(): top}, [SiteProblem(top, file, "(unreadable)", f"the file cannot be read: {error}")])
    if text.startswith(VAULT_HEADER):
        return Document(None, {(): top}, encrypted=True)
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None, {(): top})
        walk = _Walk(file, loader)
        value = walk.value(node, ())
        return Document(value, walk.places, walk.problems, not_text=walk.not_text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1 if mark else 1)
        what = ", ".join(part for part in (error.context, error.problem) if part)
        return Document(None, {(): place}, [SiteProblem(place, "YAML", "(syntax error)", what)])
    except yaml.YAMLError as error:
        return Document(None, {(): top}, [SiteProblem(top, "YAML", "(syntax error)", " ".join(str(error).split()))])
    finally:
        loader.dispose()


class _Walk:
    """Turns nodes into values and notes their places."""

    def __init__(self, file: str, loader: Any) -> None:
        self.file = file
        self.loader = loader
        self.places: dict[Path, Place] = {}
        self.problems: list[SiteProblem] = []
        self.not_text: set[Path] = set()
        self._around: set[int] = set()

    def value(self, node: yaml.Node, path: Path, line: int | None = None) -> Any:
        """Return a node's value; ``line`` is that of the key when the node is a mapping's value."""
        line = node.start_mark.line + 1 if line is None else line
        if isinstance(node, yaml.CollectionNode):
            self.places[path] = Place(self.file, line)
            return self._collection(node, path)
        raw, quoted = str(node.value), bool(node.style)
        if node.tag in VAULT_TAGS:
            self.places[path] = Place(self.file, line, None, True)
            return ENCRYPTED
        self.places[path] = Place(self.file, line, raw, quoted)
        if node.tag == "!unsafe":
            return raw
        return self._scalar(cast(yaml.ScalarNode, node), path)

    def _collection(self, node: yaml.CollectionNode, path: Path) -> Any:
        if id(node) in self._around:
            raise yaml.MarkedYAMLError(problem="found an alias for a value that contains it", problem_mark=node.start_mark)
        if len(self.places) > MAX_VALUES:
            raise yaml.MarkedYAMLError(
                problem=f"found more than {MAX_VALUES} values; aliases of aliases multiply them", problem_mark=node.start_mark
            )
        self._around.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        finally:
            self._around.discard(id(node))

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        try:
            return self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            what = getattr(error, "problem", None) or str(error)
            self.problems.append(SiteProblem(self.places[path], dotted(path) or "YAML", shown_value(node.value), str(what)))
            return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[Any, Any]:
        first: dict[str, int] = {}
        for key_node, _value_node in node.value:
            name, line = str(key_node.value), key_node.start_mark.line + 1
            if name in first and key_node.tag != "tag:yaml.org,2002:merge":
                rule = f"this key stands twice in one mapping (first in line {first[name]}); YAML keeps only one of them"
                self.problems.append(SiteProblem(Place(self.file, line), dotted((*path, name)), "(repeated)", rule))
            first.setdefault(name, line)
        self.loader.flatten_mapping(node)
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                rule = "a key is text; this one is a list or a mapping"
                self.problems.append(SiteProblem(Place(self.file, line), dotted(path) or "YAML", "(key)", rule))
                continue
            key = key_node.value
            if key_node.tag != TEXT_TAG:
                self.not_text.add((*path, key))
            result[key] = self.value(value_node, (*path, key), line)
        return result
