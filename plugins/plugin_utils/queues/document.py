# SPDX-License-Identifier: Apache-2.0
"""Markdown out of its parts, and an HTML page that needs nothing else out of Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
body { color: #1c2024; background: #fff }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { border: 1px solid #c8ced6; padding: .3rem .6rem; text-align: left; vertical-align: top }
code, pre { font: 14px/1.4 ui-monospace, monospace }
pre { padding: .8rem; overflow-x: auto }
th, code, pre { background: #f1f4f7 }
@media (prefers-color-scheme: dark) { body { color: #e6e9ed; background: #16191d } th, code, pre { background: #23282f } }
"""


def markdown(parts: Iterable[str]) -> str:
    """Return a document of parts."""
    return "\n\n".join(parts) + "\n"


def heading(text: str, level: int = 2) -> str:
    """Return a heading; level 1 is the title."""
    return f"{'#' * level} {text}"


def bullets(items: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {item}" for item in items)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str, language: str = "yaml") -> str:
    """Return text to be copied as it is."""
    return f"```{language}\n{text.rstrip()}\n```"


def page(document: str, title: str) -> str:
    """Return Markdown as an HTML page; what looks like HTML in it stays text."""
    from markdown_it import MarkdownIt  # only who wants HTML pays for the library

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(document)
    head = f'<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n<style>\n{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}</body>\n</html>\n'
