# SPDX-License-Identifier: Apache-2.0
"""How sources are put aside, authorities trusted and the package index refreshed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .apt import explain_common, update_index
from .errors import BedplateError
from .host import TIMED_OUT, Host
from .operations import last_lines
from .proxy import without_credentials
from .record import Record
from .repositories_files import AUTHORITIES, BUNDLE, pem_body

UPDATE_CERTIFICATES = "/usr/sbin/update-ca-certificates"
WITHDRAWN = ".withdrawn"
"""Ending of an authority's file while it is taken out of the bundle: an interrupted run still knows what it was removing."""


@dataclass(frozen=True)
class Rename:
    """Move a file's text to another path; harmless when it has been moved already."""

    source: str
    target: str

    def perform(self, host: Host) -> None:
        """Write the target, then remove the source: a kill in between leaves both, and the next run the target."""
        text = host.read(self.source)
        if text is not None:
            host.write(self.target, text, host.mode(self.source) or 0o644)
            host.remove(self.source)


@dataclass(frozen=True)
class TrustAuthorities:
    """Bring the system's bundle in line: added certificates (their files are written already), removed ones, and old files."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    old_paths: tuple[str, ...]

    def perform(self, host: Host) -> None:
        """Use update-ca-certificates; without it write the bundle, which that package takes over when it is installed."""
        for path in self.old_paths:
            if not path.endswith(WITHDRAWN):
                Rename(path, path + WITHDRAWN).perform(host)
        if host.exists(UPDATE_CERTIFICATES):
            result = host.run([UPDATE_CERTIFICATES], timeout_seconds=120)
            if not result.ok:
                raise BedplateError(
                    f"authorities in {AUTHORITIES}: update-ca-certificates answered {result.rc}: {last_lines(result.err)}\n"
                    "Next: run it by hand on the host, correct what it names, then repeat"
                )
        else:
            host.write(BUNDLE, bundle_text(host.read(BUNDLE) or "", self.added, self.removed))
        for path in self.old_paths:
            host.remove(path if path.endswith(WITHDRAWN) else path + WITHDRAWN)


def bundle_text(bundle: str, added: tuple[str, ...], removed: tuple[str, ...]) -> str:
    """Return a bundle with certificates added and removed, each once."""
    unwanted = {pem_body(pem) for pem in (*added, *removed)}
    blocks = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", bundle, re.DOTALL)
    kept = [b for b in blocks if pem_body(b) not in unwanted]
    return "".join(f"{b.strip()}\n" for b in (*kept, *added))


@dataclass
class RefreshIndex:
    """One ``apt-get update`` for all changed sources, remembered in the component's record.

    digests: source name to its present form's digest. uris: our sources' addresses; failures of other sources are tolerated,
    because they are not needed for what this project installs.
    """

    component: str
    digests: dict[str, str]
    uris: tuple[str, ...]
    lock_timeout_seconds: int
    done: bool = field(default=False, compare=False)

    def perform(self, host: Host) -> None:
        """Fetch; raise :class:`BedplateError` naming the source, what was found and the next step."""
        if self.done:
            return
        options = ("-o", "APT::Update::Error-Mode=any", "-o", "Acquire::Retries=2")
        result = update_index(host, self.lock_timeout_seconds, *options)
        if not result.ok:
            text = f"{result.out}\n{result.err}"
            complaints = [line for line in text.splitlines() if re.match(r"(E|W|Err:\d+)[: ]", line)]
            about_ours = [line for line in complaints if any(uri.rstrip("/") in line for uri in self.uris)]
            about_others = [line for line in complaints if re.search(r"https?://", line) and line not in about_ours]
            if about_ours or not about_others or result.rc == TIMED_OUT:
                raise BedplateError(explain_update(host, text, about_ours, self.uris))
        record = Record.load(host, self.component).remembering(refreshed=self.digests)
        record.save(host)
        self.done = True


def explain_update(host: Host, text: str, about_ours: list[str], uris: tuple[str, ...]) -> str:
    """Explain a failed update: a signature, a lock, a full disk or an address."""
    relevant = "\n".join(about_ours) or text
    signature = [line for line in text.splitlines() if re.search(r"GPG error|NO_PUBKEY|not signed|signatures|BADSIG", line)]
    failing = [uri for uri in uris if uri.rstrip("/") in relevant] or list(uris)
    explanation = explain_common(host, "\n".join([*signature, relevant]))
    explanation = explanation or last_lines(text) or "apt-get update gave no answer in time"
    return without_credentials(f"{', '.join(failing)}: {explanation}")
