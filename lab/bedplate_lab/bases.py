# SPDX-License-Identifier: Apache-2.0
"""Base layers of the lab's images, from the files of a few Debian packages and nothing else."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bedplate_lab import debian, oci
from bedplate_lab.paths import cache, new_file
from bedplate_lab.report import Report
from bedplate_lab.run import run

PASSWD = "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"
LIBRARIES = ("lib/x86_64-linux-gnu/", "lib64/", "usr/lib/x86_64-linux-gnu/")
TOOLS = ("bin/", "sbin/", "usr/bin/", "usr/sbin/")
NEEDLESS = ("usr/lib/x86_64-linux-gnu/gconv/", "usr/lib/x86_64-linux-gnu/perl")
FIREWALL = ("iptables", "iptables-restore", "iptables-save", "ip6tables", "ip6tables-restore", "ip6tables-save")


@dataclass(frozen=True)
class Base:
    """A base layer: the files of Debian `packages` (and what they depend on) whose path begins with one of `prefixes`.

    `links` are added; `applets` puts a link to busybox for every applet it has.
    """

    packages: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    applets: bool = False


BASES: dict[str, Base] = {
    "empty": Base(),
    "busybox": Base(("busybox-static",), ("bin/busybox",), applets=True),
    # Debian's alternatives choose the nft variants; without its maintainer scripts the links are made here.
    "iptables": Base(
        ("conntrack", "iptables", "netbase", "nftables"),
        (*LIBRARIES, *TOOLS, "etc/ethertypes", "etc/protocols", "etc/services"),
        tuple((f"usr/sbin/{name}", "xtables-nft-multi") for name in FIREWALL),
    ),
    # NVIDIA's images have a shell that their manifests start programs by, and a libc for the driver's libraries.
    "shell": Base(
        ("bash", "coreutils", "libc-bin"),
        (*LIBRARIES, *TOOLS, "etc/ld.so.conf"),
        (("bin/sh", "bash"),),
    ),
    "nginx": Base(("nginx",), (*LIBRARIES, "usr/sbin/nginx", "etc/nginx/mime.types")),
}


def key(name: str) -> str:
    """The cache key of the base layer."""
    return hashlib.sha256(f"{BASES[name]!r} {debian.SUITE} {PASSWD} {GROUP} {NEEDLESS}".encode()).hexdigest()[:12]


def path(name: str) -> Path:
    """Where the base layer is kept."""
    return cache("images", f"base-{name}-{key(name)}.tar")


def build(name: str, report: Report) -> Path:
    """The base layer as a tar file in the cache, made when missing. Raises LabError."""
    base = BASES[name]
    target = path(name)
    if not target.is_file():
        report(f"base layer {name}")
        with new_file(target) as temporary, oci.Layer(temporary) as layer:
            layer.directory("tmp", 0o1777)
            layer.directory("run")
            for entry, text in (("etc/passwd", PASSWD), ("etc/group", GROUP)):
                _text(layer, entry, text, temporary)
            if base.packages:
                _packages(base, layer, temporary)
            for entry, link in base.links:
                layer.link(entry, link)
    return target


def _text(layer: oci.Layer, entry: str, text: str, beside: Path) -> None:
    file = beside.with_name(f"{beside.name}.text")
    try:
        file.write_text(text)
        layer.file(entry, file, 0o644)
    finally:
        file.unlink(missing_ok=True)


def _packages(base: Base, layer: oci.Layer, beside: Path) -> None:
    root = beside.with_name(f"{beside.name}.root")
    try:
        debian.root_tar(root, base.packages, variant="extract")
        layer.take(root, _wanted(base))
        if base.applets:
            for applet in _applets(root, beside):
                layer.link(f"bin/{applet}", "busybox")
    finally:
        root.unlink(missing_ok=True)


def _wanted(base: Base) -> Callable[[str], bool]:
    taken = {entry for entry, _ in base.links}

    def wanted(entry: str) -> bool:
        return entry.startswith(base.prefixes) and not entry.startswith(NEEDLESS) and entry not in taken

    return wanted


def _applets(root: Path, beside: Path) -> list[str]:
    """The names of busybox's applets, as it lists them itself."""
    program = beside.with_name(f"busybox{beside.name}")  # it goes by the beginning of its name
    try:
        with tarfile.open(root) as tar:
            content = tar.extractfile("./bin/busybox")
            program.write_bytes(content.read() if content else b"")
        program.chmod(0o755)
        return [name for name in run([str(program), "--list"]).stdout.split() if name != "busybox"]
    finally:
        program.unlink(missing_ok=True)
