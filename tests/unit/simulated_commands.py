# SPDX-License-Identifier: Apache-2.0
"""Small stand-ins for the programs that components run, working on a recorded host's state."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.repositories_files import AUTHORITIES, BUNDLE, LISTS, list_name

from recorded_host import Handler, Package, RecordedHost

WANTS = "/etc/systemd/system/multi-user.target.wants"


def dpkg_query(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    asked = list(argv[4:]) or ["*"]
    names = [n for a in asked for n in (sorted(fnmatch.filter(host.packages, a)) if "*" in a else [a])]
    lines = [
        f"{n}\t{p.version}\t{'hold' if p.held else 'install'} {p.status.partition(' ')[2]}\n"
        for n in names
        if (p := host.packages.get(n))
    ]
    return Result(0 if len(lines) == len(names) else 1, "".join(lines))


def dpkg(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    if "--configure" in argv:
        _configure(host)
    return Result(0)


def _configure(host: RecordedHost) -> None:
    for package in host.packages.values():
        if not package.status.endswith(" installed"):
            host.changing()
            package.status = "install ok installed"
    for path in host.glob("/var/lib/dpkg/updates/*"):
        host.remove(path)


def apt_get(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    if "update" in argv:
        return _update(host)
    if host.apt_error:
        return Result(100, "", host.apt_error)
    if "--fix-broken" in argv:
        _configure(host)
        return Result(0)
    asked = [a for a in argv[list(argv).index("install") + 1 :] if not a.startswith("-")]
    wanted = [a for a in asked if not a.endswith("-")]
    for specification in wanted:
        name, _equals, version = specification.partition("=")
        offered = host.repository.get(name)
        if not offered:
            return Result(100, "", f"E: Unable to locate package {name}\n")
        if version and version not in offered:
            return Result(100, "", f"E: Version '{version}' for '{name}' was not found\n")
    for name in [a[:-1] for a in asked if a.endswith("-") and a[:-1] in host.packages]:
        host.changing()
        del host.packages[name]
    for specification in wanted:
        name, _equals, version = specification.partition("=")
        found = host.packages.get(name)
        if found and found.status.endswith(" installed") and not version:
            continue
        host.changing()
        host.packages[name] = Package(version or host.repository[name][-1], "install ok unpacked")
        if name in host.installs:  # a package's files are there before it is configured
            host.installs[name](host)
    _configure(host)
    return Result(0)


def _update(host: RecordedHost) -> Result:
    if host.update_error:
        return Result(100, "", host.update_error)
    for path in host.glob("/etc/apt/sources.list.d/*.sources"):
        fields = dict(line.split(": ", 1) for line in host.files[path].splitlines() if ": " in line)
        for uri in fields["URIs"].split():
            for suite in fields["Suites"].split():
                base = uri.rstrip("/") + (f"/{suite}" if suite.endswith("/") else f"/dists/{suite}/")
                host.write(f"{LISTS}/{list_name(base)}InRelease", "signed\n")
    return Result(0)


def apt_mark(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    for name in argv[2:]:
        host.changing()
        host.packages[name].held = argv[1] == "hold"
    return Result(0)


def apt_cache(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    offered = [(name, version) for name in argv[2:] for version in host.repository.get(name, [])]
    return Result(0, "".join(f" {name} | {version} | http://depot stable/main\n" for name, version in offered))


def stat(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """Inode numbers of lock files are their place in the list, from 100 on."""
    return Result(0, "".join(f"{100 + i} {path}\n" for i, path in enumerate(argv[3:])))


def df(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    return Result(0, "Avail IAvail Inodes\n" + "".join(f"{host.disk_free}\n" for _path in argv[3:]))


def systemctl(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    verb, units = argv[1], [a for a in argv[2:] if not a.startswith("-")]
    names = [u.removesuffix(".service") for u in units]
    if verb == "is-active":
        states = [host.services.get(n, "inactive") for n in names]
        return Result(0 if all(s == "active" for s in states) else 3, "\n".join(states) + "\n")
    if verb == "show":
        name = names[0]
        values = {
            "ActiveState": host.services.get(name, "inactive"),
            "UnitFileState": "enabled" if f"{WANTS}/{name if '.' in name else name + '.service'}" in host.files else "disabled",
            "MainPID": "1000" if host.services.get(name) == "active" else "0",
            "NeedDaemonReload": "no",
        }
        asked = [p for p in argv[2:] if p in values]
        return Result(0, "".join(f"{p}={values[p]}\n" for p in asked))
    if verb in ("restart", "start", "reload"):
        for name in names:
            host.changing()
            host.services[name] = "failed" if name in host.broken_restarts else "active"
        return Result(1 if host.broken_restarts & set(names) else 0)
    if verb == "stop":
        for name in names:
            host.changing()
            host.services[name] = "inactive"
        return Result(0)
    if verb == "enable":
        for name in names:
            host.write(f"{WANTS}/{name if '.' in name else name + '.service'}", "")
        return Result(0)
    if verb == "disable":
        for unit in units:
            for path in host.glob(f"/etc/systemd/system/*.wants/{unit}"):
                host.remove(path)
        return Result(0)
    if verb == "mask":
        for unit in units:
            host.write(f"/etc/systemd/system/{unit}", "")
        return Result(0)
    return Result(0)


def modprobe(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    effects = host.modules.get(argv[-1])
    if effects is None:
        return Result(1, "", f"modprobe: FATAL: Module {argv[-1]} not found in directory /lib/modules/6.1.0\n")
    host.changing()
    host.files.update({f"/sys/module/{argv[-1].replace('-', '_')}/refcnt": "0", **effects})
    return Result(0)


def tee(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    if argv[1] not in host.files:
        return Result(1, "", f"tee: {argv[1]}: No such file or directory\n")
    host.changing()
    host.files[argv[1]] = stdin or ""
    return Result(0)


def swapoff(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    host.changing()
    lines = host.files["/proc/swaps"].splitlines(keepends=True)
    host.files["/proc/swaps"] = "".join(line for line in lines if line.split()[0] != argv[1])
    return Result(0)


def update_ca_certificates(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """The bundle is the distribution's certificates and every .crt of the local directory."""
    own = [host.files[p].strip() for p in host.glob(f"{AUTHORITIES}/*.crt")]
    shipped = re.findall(r"-----BEGIN.+?-----END CERTIFICATE-----", host.files.get("/usr/share/mozilla.pem", ""), re.DOTALL)
    host.write(BUNDLE, "".join(f"{pem}\n" for pem in (*shipped, *own)))
    return Result(0)


def quiet(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    return Result(0)


HANDLERS: dict[str, Handler] = {
    "dpkg-query": dpkg_query,
    "dpkg": dpkg,
    "apt-get": apt_get,
    "apt-mark": apt_mark,
    "apt-cache": apt_cache,
    "stat": stat,
    "df": df,
    "systemctl": systemctl,
    "journalctl": quiet,
    "modprobe": modprobe,
    "tee": tee,
    "swapoff": swapoff,
    "update-ca-certificates": update_ca_certificates,
}
