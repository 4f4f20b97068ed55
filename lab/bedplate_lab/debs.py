# SPDX-License-Identifier: Apache-2.0
"""Pack built programs as Debian packages under the names, versions and paths upstream uses.

Each directory under lab/packaging describes one package: package.yml, and under `root/` the files it carries as they are.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache as remember
from pathlib import Path

import yaml

from bedplate_lab import epoch, versions
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
    """

    name: str
    component: str
    version: str
    summary: str
    depends: tuple[str, ...] = ()
    programs: tuple[tuple[str, str], ...] = ()
    programs_directory: str = ""
    directories: tuple[str, ...] = ()
    services: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """The directory of files the package carries as they are; it may not exist."""
        return PACKAGING / self.name / "root"

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
    unknown = sorted(set(data) - set(Package.__dataclass_fields__))
    if unknown:
        raise LabError(f"{path}: unknown key {unknown[0]}")
    component = versions.load().get(data["component"])
    if component is None:
        raise LabError(f"{path}: component {data['component']} is not in {versions.FILE.name}")
    return Package(
        name=path.parent.name,
        component=component.name,
        version=data["version"].replace("{v}", component.version),
        summary=data["summary"],
        depends=tuple(data.get("depends", ())),
        programs=tuple(data.get("programs", {}).items()),
        programs_directory=data.get("programs_directory", ""),
        directories=tuple(data.get("directories", ())),
        services=tuple(data.get("services", ())),
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
    digest = hashlib.sha256(f"{package!r} {package.control} {programs.parent.name} {COMPRESSION}".encode())
    for name in SCRIPTS:
        digest.update((PACKAGING / name).read_bytes())
    for path in sorted(package.root.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(package.root)} {path.stat().st_mode}".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _lay_out(package: Package, programs: Path, tree: Path) -> None:
    """Fill `tree` with the package's files and its control directory."""
    tree.mkdir()
    if package.root.is_dir():
        shutil.copytree(package.root, tree, dirs_exist_ok=True)
    for empty in package.directories:
        (tree / empty).mkdir(parents=True, exist_ok=True)
    for path, source in _programs(package, programs).items():
        if not source.is_file():
            raise LabError(f"{package.name}: {source.name} is not among the programs of {package.component} in {programs}")
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o755)
    control = tree / "DEBIAN"
    control.mkdir()
    (control / "control").write_text(package.control)
    if package.services:
        for name in SCRIPTS:
            text = (PACKAGING / name).read_text().replace("@services@", " ".join(package.services))
            (control / name).write_text(text)
            (control / name).chmod(0o755)
    for directory in (tree, *(path for path in tree.rglob("*") if path.is_dir())):
        directory.chmod(0o755)


def _programs(package: Package, programs: Path) -> Mapping[str, Path]:
    if package.programs_directory:
        return {f"{package.programs_directory}/{path.name}": path for path in sorted(programs.iterdir())}
    return {path: programs / name for path, name in package.programs}
