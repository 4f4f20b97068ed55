# SPDX-License-Identifier: Apache-2.0
"""The small TOML reader agrees with Python's own on what containerd's files contain."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import toml_text

DOCUMENT = """\
# leading comment
version = 2  # trailing
imports = [ "/etc/containerd/conf.d/*.toml", # one
  '/opt/other.toml',
]
disabled_plugins = []
oom_score = -999
text = "a \\"quoted\\" \\u00e9 # not a comment ]"
lines = '''
first
second'''
inline = { a = [1, 2], "b.c" = "}" }

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes . runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]
    SystemdCgroup = true
[[things]]
name = "one"
"""


def flat(table: dict[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, (*prefix, name))
        else:
            yield (*prefix, name), value


def test_reads_what_tomllib_reads() -> None:
    found = {e.path: toml_text.decode(DOCUMENT[slice(*e.value)]) for e in toml_text.scan(DOCUMENT) if e.key}
    wanted = dict(flat(tomllib.loads(DOCUMENT)))
    for path in [("inline", "a"), ("inline", "b.c")]:
        wanted.pop(path)
    assert found.pop(("inline",)) is None
    assert found.pop(("things", "name")) == "one"
    wanted.pop(("things",))
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = [1,", 1),
        ("ok = 1\n[open", 2),
        ("a b = 1", 1),
        ("a =", 1),
        ("a = 1 b", 1),
        ('\n\na = "x', 3),
        ("= 1", 1),
        ("a = {b = 1", 1),
    ],
)
def test_refuses_what_is_not_toml_and_names_the_line(text: str, line: int) -> None:
    with pytest.raises(toml_text.TomlError, match=f"line {line}: found"):
        toml_text.scan(text)
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text)


def test_written_documents_are_read_back() -> None:
    values: dict[tuple[str, ...], Any] = {
        ("version",): 3,
        ("plugins", "io.containerd.cri.v1.images", "registry", "config_path"): '/etc/"x"\\y',
        ("plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dirs"): ["/a", "/b"],
        ("plugins", "io.containerd.cri.v1.runtime", "on"): True,
        ("plugins", "io.containerd.gc.v1.scheduler", "pause_threshold"): 0.02,
    }
    assert dict(flat(tomllib.loads(toml_text.render(values)))) == values


def test_dotted_keys() -> None:
    assert toml_text.dotted('plugins."io.containerd.gc.v1.scheduler".x') == ("plugins", "io.containerd.gc.v1.scheduler", "x")
    with pytest.raises(toml_text.TomlError):
        toml_text.dotted("a b")
    with pytest.raises(toml_text.TomlError):
        toml_text.encode({"a": 1})
