# SPDX-License-Identifier: Apache-2.0
"""Pack built programs as Debian packages under the names, versions and paths upstream uses.

Each directory under lab/packaging describes one package: package.yml, under `root/` the files it carries as they are, and
maintainer scripts of its own where it has some.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache as remember
from pathlib import Path

import yaml

from bedplate_lab import components, epoch, versions
from bedplate_lab.errors import LabError
from bedplate_lab.paths import PACKAGING, cache, new_file
from bedplate_lab.report import Report
from bedplate_lab.run import run

MAINTAINER = "Bedplate lab <lab@bedplate.test>"
ARCHITECTURE = "amd64"
SCRIPTS = ("postinst", "postrm", "prerm")
# Unpacking speed on the hosts counts for more than the last tenth of size.
COMPRESSION = ("-Zzstd", "-z3")


@dataclass(frozen=True)
class Package:
    """One package.yml. Paths are relative to the host's root.

    `programs` maps paths to programs of the component; `programs_directory` takes every program of the component instead.
    `module_files` maps paths to files of the component's module, `links` paths to what they lead to, `relations` control fields
    such as Conflicts to their values. `ldconfig` is set for packages with libraries; `conffiles` are files that an administrator
    may change. `filled` maps marks in the package's own texts to what takes their place; `source` is the directory that
    describes the package where it is not PACKAGING/name.
    """

    name: str
    component: str
    version: str
    summary: str
    depends: tuple[str, ...] = ()
    programs: tuple[tuple[str, str], ...] = ()
    programs_directory: str = ""
    module_files: tuple[tuple[str, str], ...] = ()
    directories: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    relations: tuple[tuple[str, str], ...] = ()
    ldconfig: bool = False
    conffiles: tuple[str, ...] = ()
    filled: tuple[tuple[str, str], ...] = ()
    source: str = ""

    @property
    def directory(self) -> Path:
        """The directory that describes the package."""
        return Path(self.source) if self.source else PACKAGING / self.name

    @property
    def root(self) -> Path:
        """The directory of files the package carries as they are; it may not exist."""
        return self.directory / "root"

    def script(self, name: str) -> str:
        """The text of a maintainer script: its own, or the one for packages with services; "" for none."""
        own = self.directory / name
        if own.is_file():
            return self.fill(own.read_text())
        return (PACKAGING / name).read_text().replace("@services@", " ".join(self.services)) if self.services else ""

    def fill(self, text: str) -> str:
        """A text the package carries, with what `filled` says in the place of its marks."""
        for mark, value in self.filled:
            text = text.replace(mark, value)
        return text

    @property
    def control(self) -> str:
        """The package's control file."""
        lines = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": ARCHITECTURE,
            "Maintainer": MAINTAINER,
            "Section": "net",
            "Priority": "optional",
            "Depends": ", ".join(self.depends),
            **dict(self.relations),
            "Homepage": versions.load()[self.component].source,
            "Description": self.summary,
        }
        return "".join(f"{key}: {value}\n" for key, value in lines.items() if value)


@remember
def packages() -> dict[str, Package]:
    """All packages described under lab/packaging, by name. Raises LabError naming the file and what is wrong in it."""
    return {path.parent.name: _load(path) for path in sorted(PACKAGING.glob("*/package.yml"))}


def _load(path: Path) -> Package:
    data = yaml.safe_load(path.read_text())
    component = versions.load().get(data["component"])
    if component is None:
        raise LabError(f"{path}: component {data['component']} is not in {versions.FILE.name}")
    return describe(path, component.version)


def describe(path: Path, version: str, *, source: str = "", filled: Mapping[str, str] | None = None) -> Package:
    """The package a package.yml describes, of a version of its component. Raises LabError for a key that is none."""
    data = yaml.safe_load(path.read_text().replace("{v}", version))
    unknown = sorted(set(data) - set(Package.__dataclass_fields__) | set(data) & {"filled", "source"})
    if unknown:
        raise LabError(f"{path}: unknown key {unknown[0]}")
    return Package(
        name=data.get("name", path.parent.name),
        component=data["component"],
        version=str(data["version"]),
        summary=data["summary"],
        depends=tuple(data.get("depends", ())),
        programs=tuple(data.get("programs", {}).items()),
        programs_directory=data.get("programs_directory", ""),
        module_files=tuple(data.get("module_files", {}).items()),
        directories=tuple(data.get("directories", ())),
        services=tuple(data.get("services", ())),
        links=tuple(data.get("links", {}).items()),
        relations=tuple(data.get("relations", {}).items()),
        ldconfig=data.get("ldconfig", False),
        conffiles=tuple(data.get("conffiles", ())),
        filled=tuple((filled or {}).items()),
        source=source,
    )


def path(package: Package, programs: Path) -> Path:
    """Where the package's .deb is kept."""
    return cache("debs", f"{package.name}_{package.version}_{ARCHITECTURE}_{_key(package, programs)}.deb")


def pack(package: Package, programs: Path, report: Report) -> Path:
    """The package's .deb in the cache, packed when missing; `programs` is the directory of the component's programs."""
    target = path(package, programs)
    if not target.is_file():
        report(f"pack {package.name} {package.version}")
        with new_file(target) as temporary:
            tree = temporary.with_name(f"{temporary.name}.tree")
            try:
                _lay_out(package, programs, tree)
                run(
                    ["dpkg-deb", "--root-owner-group", *COMPRESSION, "--build", str(tree), str(temporary)],
                    env=epoch.ENVIRONMENT,
                )
            finally:
                shutil.rmtree(tree, ignore_errors=True)
    return target


def _key(package: Package, programs: Path) -> str:
    """A hash of all that goes into the package; the programs are named by the key of their build."""
    described = replace(package, source="")  # where the checkout lies makes no difference
    digest = hashlib.sha256(f"{described!r} {package.control} {programs.parent.name} {COMPRESSION}".encode())
    for name in SCRIPTS:
        digest.update(package.script(name).encode())
    for path in sorted(package.root.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(package.root)} {path.stat().st_mode}".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _lay_out(package: Package, programs: Path, tree: Path) -> None:
    """Fill `tree` with the package's files and its control directory."""
    tree.mkdir()
    if package.root.is_dir():
        shutil.copytree(package.root, tree, dirs_exist_ok=True)
        for carried in tree.rglob("*"):
            if package.filled and carried.is_file():
                carried.write_text(package.fill(carried.read_text()))
    for empty in package.directories:
        (tree / empty).mkdir(parents=True, exist_ok=True)
    for path, source in _programs(package, programs).items():
        if not source.is_file():
            raise LabError(f"{package.name}: {source.name} is not among the programs of {package.component} in {programs}")
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755)
    if package.module_files:
        module = components.module_directory(components.BY_COMPONENT[package.component])
        for name, file in package.module_files:
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(module / file, target)
    for name, leads_to in package.links:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(leads_to)
    control = tree / "DEBIAN"
    control.mkdir()
    (control / "control").write_text(package.control)
    if package.ldconfig:
        (control / "triggers").write_text("activate-noawait ldconfig\n")
    if package.conffiles:
        (control / "conffiles").write_text("".join(f"/{name}\n" for name in package.conffiles))
    for name in SCRIPTS:
        if text := package.script(name):
            (control / name).write_text(text)
            (control / name).chmod(0o755)
    for directory in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        directory.chmod(0o755)


def _programs(package: Package, programs: Path) -> Mapping[str, Path]:
    if package.programs_directory:
        return {f"{package.programs_directory}/{path.name}": path for path in sorted(programs.iterdir())}
    return {path: programs / name for path, name in package.programs}
