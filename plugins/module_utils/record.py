# SPDX-License-Identifier: Apache-2.0
"""What a component keeps on a host between runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .errors import BedplateError
from .host import Host

RECORD_FORMAT = 1
RECORD_DIRECTORY = "/var/lib/bedplate"


@dataclass(frozen=True)
class Record:
    """What a component keeps on the host: ``/var/lib/bedplate/<component>.json`` (format 1).

    pending: effects owed by changes already applied. data: what the component itself wants to remember (JSON types).
    """

    component: str
    pending: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where the record lives on the host."""
        return f"{RECORD_DIRECTORY}/{self.component}.json"

    @classmethod
    def load(cls, host: Host, component: str) -> Record:
        """Read the record; an absent one is empty. Raises :class:`BedplateError` for a format this code does not know."""
        empty = cls(component)
        text = host.read(empty.path)
        if text is None:
            return empty
        try:
            raw = json.loads(text)
        except ValueError:
            raw = {}
        if raw.get("format") != RECORD_FORMAT:
            raise BedplateError(
                f"record {empty.path}: found format {raw.get('format')!r}; wanted {RECORD_FORMAT}. "
                "Next: use the Bedplate release that wrote it, or remove the file after checking the host by hand"
            )
        return cls(component, tuple(raw.get("pending", ())), dict(raw.get("data", {})))

    def owing(self, effects: Iterable[str]) -> Record:
        """Return the record with effects added to those owed."""
        return Record(self.component, tuple(sorted({*self.pending, *effects})), self.data)

    def paid(self, effect: str) -> Record:
        """Return the record without one effect."""
        return Record(self.component, tuple(e for e in self.pending if e != effect), self.data)

    def remembering(self, **data: Any) -> Record:
        """Return the record with data entries replaced; ``None`` removes an entry."""
        merged = {k: v for k, v in {**self.data, **data}.items() if v is not None}
        return Record(self.component, self.pending, merged)

    def save(self, host: Host) -> None:
        """Write the record to the host."""
        raw = {"format": RECORD_FORMAT, "component": self.component, "pending": list(self.pending), "data": self.data}
        host.write(self.path, json.dumps(raw, indent=2, sort_keys=True) + "\n", mode=0o600)
