# SPDX-License-Identifier: Apache-2.0
"""Where packages come from: apt sources, their keys, trusted authorities, and the proxy on the way there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import ClassVar

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import Change, Component, Plan
from .host import Host
from .operations import RemoveFile, file_change
from .proxy import (
    APT_PROXY,
    ENVIRONMENT,
    PROFILE,
    PROFILE_DIRECTORY,
    Proxy,
    apt_proxy_text,
    profile_text,
    stale_profiles,
    user_no_proxy,
)
from .record import Record
from .repositories_files import (
    APT_AUTHORITIES,
    APT_AUTHORITIES_TEXT,
    AUTHORITIES,
    BUNDLE,
    DISABLED,
    KEYRINGS,
    MAIN_LIST,
    SOURCES,
    AptSource,
    Authority,
    list_prefixes,
    pem_body,
    source_text,
)
from .repositories_operations import RefreshIndex, Rename, TrustAuthorities
from .service_dropin import has_credentials


@dataclass(frozen=True)
class RepositoriesDesired:
    """Sources and authorities of this project; exclusive: every other apt source is put aside (and back, when no longer so)."""

    apt: tuple[AptSource, ...] = ()
    exclusive: bool = False
    authorities: tuple[Authority, ...] = ()
    proxy: Proxy = field(default_factory=Proxy)
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class RepositoriesObserved:
    """Texts of our files and of foreign ones that matter; paths as keys.

    index: names of sources that have downloaded list files. refreshed: source name to the digest it was last refreshed with.
    """

    ours: dict[str, str]
    foreign_sources: tuple[str, ...] = ()
    disabled_sources: tuple[str, ...] = ()
    bundle: str = ""
    profiles: dict[str, str] = field(default_factory=dict)
    index: frozenset[str] = frozenset()
    refreshed: dict[str, str] = field(default_factory=dict)


class Repositories(Component[RepositoriesDesired, RepositoriesObserved]):
    """Writes deb822 sources and their keys, and refreshes the index only where a source is new, changed or never fetched."""

    name: ClassVar[str] = "repositories"

    def observe(self, host: Host, desired: RepositoriesDesired) -> RepositoriesObserved:
        """Read the files; ask nothing of the network."""
        patterns = (f"{SOURCES}/bedplate-*.sources", f"{KEYRINGS}/bedplate-*.asc", f"{AUTHORITIES}/bedplate-*.crt*")
        paths = [p for pattern in patterns for p in host.glob(pattern)] + [APT_PROXY, APT_AUTHORITIES, PROFILE]
        everything = [p for end in ("list", "sources") for p in host.glob(f"{SOURCES}/*.{end}")]
        foreign = [p for p in everything if not p.startswith(f"{SOURCES}/bedplate-")]
        if has_active_lines(host.read(MAIN_LIST) or ""):
            foreign.append(MAIN_LIST)
        profiles = [p for p in host.glob(f"{PROFILE_DIRECTORY}/*.sh") if p != PROFILE] + [ENVIRONMENT]
        return RepositoriesObserved(
            ours={p: t for p in paths if (t := host.read(p)) is not None},
            foreign_sources=tuple(foreign),
            disabled_sources=(*host.glob(f"{SOURCES}/*{DISABLED}"), *host.glob(f"{MAIN_LIST}{DISABLED}")),
            bundle=host.read(BUNDLE) or "",
            profiles={p: t for p in profiles if (t := host.read(p)) is not None},
            index=frozenset(s.name for s in desired.apt if all(host.glob(f"{p}*Release") for p in list_prefixes(s))),
            refreshed=dict(Record.load(host, self.name).data.get("refreshed", {})),
        )

    def plan(self, observed: RepositoriesObserved, desired: RepositoriesDesired) -> Plan:
        """Compare: trust and proxy first, because fetching needs them; the index last."""
        wanted = wanted_files(observed, desired)
        changes: list[Change] = []
        for path, text in wanted.items():
            found = observed.ours.get(path)
            changes += file_change(path, found, text, secret=has_credentials(text) or has_credentials(found))
        trust = plan_trust(observed, desired)
        changes += trust
        for path, text in observed.ours.items():
            if path not in wanted and not (trust and path.startswith(f"{AUTHORITIES}/")):
                changes.append(Change(f"file {path}", text, None, operation=RemoveFile(path), secret=has_credentials(text)))
        changes += plan_exclusive(observed, desired)
        changes += plan_index(observed, desired)
        return Plan(changes, stale_profiles(observed.profiles, desired.proxy))


def wanted_files(observed: RepositoriesObserved, desired: RepositoriesDesired) -> dict[str, str]:
    """Return the texts of all our files by path."""
    files = {f"{AUTHORITIES}/bedplate-{a.name}.crt": a.pem.strip() + "\n" for a in desired.authorities}
    if desired.authorities:
        files[APT_AUTHORITIES] = APT_AUTHORITIES_TEXT
    if desired.proxy:
        no_proxy = user_no_proxy(observed.profiles, desired.proxy)
        files[APT_PROXY] = apt_proxy_text(desired.proxy, [uri for s in desired.apt for uri in s.uris])
        files[PROFILE] = profile_text(desired.proxy, no_proxy)
    for source in desired.apt:
        if source.armoured:
            files[source.key_path] = source.signing_key.strip() + "\n"
        files[f"{SOURCES}/bedplate-{source.name}.sources"] = source_text(source)
    return files


def plan_trust(observed: RepositoriesObserved, desired: RepositoriesDesired) -> list[Change]:
    """Have each authority in the system's bundle, and none that is no longer ours."""
    ours = {pem_body(a.pem) for a in desired.authorities}
    added = [a for a in desired.authorities if pem_body(a.pem) not in "".join(observed.bundle.split())]
    old = {p: t for p, t in observed.ours.items() if p.startswith(f"{AUTHORITIES}/") and pem_body(t) not in ours}
    removed = [t for t in old.values() if pem_body(t) in "".join(observed.bundle.split())]
    if not added and not removed:
        return []
    operation = TrustAuthorities(tuple(a.pem for a in added), tuple(removed), tuple(old))
    names = ", ".join(a.name for a in added)
    after = f"trusts {names}" if added else "no longer trusts a removed authority"
    return [Change(f"file {BUNDLE}", "differs", after, operation=operation)]


def plan_exclusive(observed: RepositoriesObserved, desired: RepositoriesDesired) -> list[Change]:
    """Put foreign sources aside by renaming, or put back those that an earlier exclusive run put aside."""
    if desired.exclusive:
        return [
            Change(f"apt source {path}", "enabled", "disabled", operation=Rename(path, path + DISABLED))
            for path in observed.foreign_sources
        ]
    return [
        Change(f"apt source {path[: -len(DISABLED)]}", "disabled", "enabled", operation=Rename(path, path[: -len(DISABLED)]))
        for path in observed.disabled_sources
    ]


def plan_index(observed: RepositoriesObserved, desired: RepositoriesDesired) -> list[Change]:
    """Refresh when a source was never fetched, or not in its present form."""
    stale = [s for s in desired.apt if s.name not in observed.index or observed.refreshed.get(s.name) != digest(s)]
    if not stale:
        return []
    operation = RefreshIndex(
        Repositories.name,
        {s.name: digest(s) for s in desired.apt},
        tuple(uri for s in desired.apt for uri in s.uris),
        desired.lock_timeout_seconds,
    )
    return [
        Change(f"package index {s.name}", "stale" if s.name in observed.index else None, "fetched", operation=operation)
        for s in stale
    ]


def digest(source: AptSource) -> str:
    """Return what identifies a source's present form."""
    return hashlib.sha256(f"{source_text(source)}\n{source.signing_key}".encode()).hexdigest()[:16]


def has_active_lines(text: str) -> bool:
    """Tell whether a one-line-style sources list has any source."""
    return any(line.split("#", 1)[0].strip() for line in text.splitlines())
