# SPDX-License-Identifier: Apache-2.0
"""NVMe disks, mdraid, LVM and mounts in memory, shown to a recorded host as /sys, /proc and the answers of the real programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.fstab import fields
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result

from recorded_host import RecordedHost

GB = 10**9
EXT4 = {"type": "ext4", "uuid": "0d5b1e0c-3f0a-4c1c-8f5b-0a2f6f1b7c11", "label": "DATA"}
GPT = {"type": "gpt", "uuid": None, "label": None}
PROGRAMS = {"mdadm": "mdadm", "lvm2": "lvm", "xfsprogs": "mkfs.xfs", "e2fsprogs": "mkfs.ext4", "nvme-cli": "nvme"}
SIMULATED: tuple[str, ...] = ("_wipefs", "_cmp", "_blkdiscard", "_mdadm", "_nvme", "_mount", "_umount")
SIMULATED += ("_pvcreate", "_vgcreate", "_vgs", "_lvs", "_lvcreate", "_vgchange")

Signatures = list[dict[str, Any]]


@dataclass
class Part:
    """Anything with content: a disk, an array, LVM's volume. zeros: both ends read as zeros."""

    signatures: Signatures = field(default_factory=list)
    zeros: bool = True


@dataclass
class Drive(Part):
    serial: str = ""
    size: int = 4 * GB
    model: str = "QEMU NVMe Ctrl"
    partitions: int = 0
    broken: bool = False
    writes: int = 0


@dataclass
class Array(Part):
    """An array (name md127) or a volume group (dm-0, title its name) over drives by serial."""

    name: str = ""
    title: str = ""
    uuid: str = ""
    drives: list[str] = field(default_factory=list)
    slots: int = 0
    active: bool = True
    made: bool = True
    faulty: list[str] = field(default_factory=list)


class Machine:
    """Drives in the order of their kernel names, what is over them, and what is mounted: path to device."""

    def __init__(self, *drives: Drive) -> None:
        self.drives = list(drives)
        self.arrays: list[Array] = []
        self.mounts: dict[str, str] = {"/": "vda1"}
        self.sanitized = ["0x2", "0x101", "0x101"]
        self.discards = 0
        self.controller: dict[str, int] = {"fna": 0, "oacs": 0, "sanicap": 0}

    def host(self) -> RecordedHost:
        """Return a Debian host that has the machine's disks."""
        host = RecordedHost(files={"/etc/fstab": FSTAB, "/proc/swaps": "Filename\n", "/proc/locks": ""})
        for package, program in PROGRAMS.items():
            host.repository[package] = ["1.0-1"]
            host.installs[package] = lambda h, p=program: h.files.update({f"/usr/sbin/{p}": ""})  # type: ignore[misc]
        for attribute in SIMULATED:
            host.on(attribute.removeprefix("_"), self._program(getattr(self, attribute)))
        for name in ("mkfs.xfs", "mkfs.ext4"):
            host.on(name, self._program(self._mkfs))
        for name in ("mkdir", "udevadm"):
            host.on(name, lambda h, a, s: Result(0))
        self.show(host)
        return host

    def name(self, serial: str) -> str:
        return next(f"nvme{index}n1" for index, drive in enumerate(self.drives) if drive.serial == serial)

    def drive(self, serial: str) -> Drive:
        return next(drive for drive in self.drives if drive.serial == serial)

    def part(self, path: str) -> Part:
        name = path.rpartition("/")[2]
        return next((a for a in self.arrays if a.name == name), None) or self.drives[int(name.removeprefix("nvme")[0])]

    def over(self, serial: str) -> list[Array]:
        return [array for array in self.arrays if array.made and serial in array.drives]

    def boot(self, host: RecordedHost, order: Sequence[int]) -> None:
        """Start again with the drives in another order: arrays are found by their members, fstab is mounted by UUID."""
        self.drives = [self.drives[index] for index in order]
        self.mounts = {"/": "vda1"}
        present = {drive.serial for drive in self.drives}
        for array in self.arrays:
            array.drives = [serial for serial in array.drives if serial in present]
            array.active = len(array.drives) >= array.slots or (array.title in ("raid1", "raid10") and bool(array.drives))
        self.show(host)
        for line in host.files["/etc/fstab"].splitlines():
            if fields(line) and fields(line)[0] != "UUID=1234-abcd":
                host.run(["mount", fields(line)[1]])

    def show(self, host: RecordedHost) -> None:
        """Write /sys/block and the list of mounts anew."""
        for path in [p for p in host.files if p.startswith("/sys/block/")]:
            del host.files[path]
        shown: dict[str, object] = {}
        for index, drive in enumerate(self.drives):
            base = f"/sys/block/nvme{index}n1"
            shown |= {f"{base}/size": drive.size // 512, f"{base}/dev": f"259:{index * 8}", f"{base}/queue/zoned": "none"}
            shown[f"{base}/queue/discard_max_bytes"] = self.discards
            shown |= {
                f"{base}/device/serial": drive.serial.ljust(20),
                f"{base}/device/model": drive.model.ljust(40),
                f"{base}/ro": 0,
            }
            for number in range(1, drive.partitions + 1):
                shown[f"{base}/nvme{index}n1p{number}/dev"] = f"259:{index * 8 + number}"
            shown |= {f"{base}/holders/{array.name}/x": "" for array in self.over(drive.serial)}
        for index, array in enumerate(a for a in self.arrays if a.made):
            base, md = f"/sys/block/{array.name}", array.name.startswith("md")
            present = [serial for serial in array.drives if serial in {d.serial for d in self.drives}]
            shown |= {f"{base}/dev": f"{9 if md else 254}:{index}", f"{base}/size": "8"}
            shown |= {f"{base}/slaves/{self.name(serial)}/x": "" for serial in present}
            if md:
                states = {s: "faulty" if s in array.faulty else "in_sync" for s in present}
                shown |= {f"{base}/md/level": array.title, f"{base}/md/array_state": "clean" if array.active else "inactive"}
                shown |= {f"{base}/md/dev-{self.name(serial)}/state": state for serial, state in states.items()}
                shown[f"{base}/md/degraded"] = array.slots - sum(state == "in_sync" for state in states.values())
            else:
                shown |= {f"{base}/dm/name": f"{array.title}-volume", f"{base}/dm/uuid": "LVM-abc"}
        host.files.update({path: f"{value}\n" for path, value in shown.items()})
        lines = [f"{30 + i} 1 {self._number(host, n)} / {p} rw - xfs /dev/{n} rw" for i, (p, n) in enumerate(self.mounts.items())]
        host.files["/proc/self/mountinfo"] = "\n".join(lines) + "\n"

    def _number(self, host: RecordedHost, name: str) -> str:
        return next((host.files[p].strip() for p in host.files if p.endswith(f"/{name}/dev")), "0:0")

    def _program(self, act: Callable[[RecordedHost, list[str]], Result | None]) -> Callable[..., Result]:
        def run(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
            program = argv[0]
            if program in PROGRAMS.values() and f"/usr/sbin/{program}" not in host.files:
                return Result(127, "", f"{program}: not found")
            result = act(host, list(argv))
            self.show(host)
            return result or Result(0)

        return run

    def _busy(self, path: str) -> bool:
        part = self.part(path)
        name = path.rpartition("/")[2]
        return name in self.mounts.values() or (isinstance(part, Drive) and bool(self.over(part.serial)))

    def _wipefs(self, host: RecordedHost, argv: list[str]) -> Result | None:
        paths = [a for a in argv[1:] if a.startswith("/dev/")]
        if "--json" in argv:
            bad = [p for p in paths if isinstance(part := self.part(p), Drive) and part.broken]
            if bad:
                return Result(1, "", f"wipefs: error: {bad[0]}: Input/output error\n")
            rows = [{"device": p.rpartition("/")[2], "offset": "0x0", **s} for p in paths for s in self.part(p).signatures]
            return Result(0, json.dumps({"signatures": rows}))
        if any(self._busy(path) for path in paths):
            return Result(1, "", f"wipefs: error: {paths[-1]}: probing initialization failed: Device or resource busy\n")
        drive = self.part(paths[-1])
        assert isinstance(drive, Drive)
        host.changing()
        drive.signatures, drive.partitions, drive.writes = [], 0, drive.writes + 1
        self._vanish()
        return None

    def _vanish(self) -> None:
        """An array whose members' superblocks are gone is no more."""
        alive = [a for a in self.arrays if any(s["uuid"] == a.uuid for d in self.drives for s in d.signatures)]
        self.arrays = [a for a in self.arrays if a in alive or a.name.startswith("dm")]

    def _cmp(self, host: RecordedHost, argv: list[str]) -> Result:
        return Result(0 if self.part(argv[-2]).zeros else 1)

    def _blkdiscard(self, host: RecordedHost, argv: list[str]) -> Result | None:
        if self._busy(argv[-1]):
            return Result(1, "", "blkdiscard: Device or resource busy")
        host.changing()
        self.part(argv[-1]).zeros = True
        return None

    def _write(self, host: RecordedHost, serial: str, signature: dict[str, Any]) -> None:
        host.changing()
        drive = self.drive(serial)
        drive.signatures, drive.zeros, drive.writes = [signature], False, drive.writes + 1

    def _serials(self, argv: list[str]) -> list[str]:
        parts = [self.part(a) for a in argv if a.startswith("/dev/nvme")]
        return [part.serial for part in parts if isinstance(part, Drive)]

    def _mdadm(self, host: RecordedHost, argv: list[str]) -> Result | None:
        options = dict(a.removeprefix("--").split("=", 1) for a in argv if "=" in a)
        raw = options.get("uuid", "")
        uuid = "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))
        serials = self._serials(argv)
        if "--stop" in argv:
            array = self.part(argv[-1])
            assert isinstance(array, Array)
            if self._busy(argv[-1]):
                return Result(1, "", "mdadm: Cannot get exclusive access to /dev/md127")
            host.changing()
            self.arrays.remove(array)
        elif "--create" in argv:
            if any(self._busy(f"/dev/{self.name(serial)}") for serial in serials):
                return Result(1, "", "mdadm: cannot open: Device or resource busy")
            member = {"type": "linux_raid_member", "uuid": uuid, "label": f"any:{options['name']}"}
            for serial in serials:
                self._write(host, serial, member)
            self.arrays.append(Array(name="md127", title=options["level"], uuid=uuid, drives=serials, slots=len(serials)))
        elif "--assemble" in argv:
            host.changing()
            self.arrays.append(Array([], True, "md127", "raid0", uuid, serials, len(serials)))
        elif "--add" in argv:
            array = self.part(argv[1])
            assert isinstance(array, Array)
            self._write(host, serials[0], {"type": "linux_raid_member", "uuid": array.uuid, "label": "any:scratch"})
            array.drives = [s for s in array.drives if s not in array.faulty] + serials
        return None

    def _pvcreate(self, host: RecordedHost, argv: list[str]) -> None:
        self._write(host, self._serials(argv)[0], {"type": "LVM2_member", "uuid": argv[argv.index("--uuid") + 1], "label": None})

    def _vgs(self, host: RecordedHost, argv: list[str]) -> Result:
        return Result(0 if any(a.title == argv[1] for a in self.arrays) else 5)

    def _lvs(self, host: RecordedHost, argv: list[str]) -> Result:
        return Result(0 if any(f"{a.title}/volume" == argv[1] and a.made for a in self.arrays) else 5)

    def _vgcreate(self, host: RecordedHost, argv: list[str]) -> None:
        host.changing()
        self.arrays.append(Array(name="dm-0", title=argv[1], drives=self._serials(argv), made=False))

    def _lvcreate(self, host: RecordedHost, argv: list[str]) -> None:
        host.changing()
        next(a for a in self.arrays if a.title == argv[-1]).made = True

    def _vgchange(self, host: RecordedHost, argv: list[str]) -> Result | None:
        if argv[2] == "n":
            host.changing()
            self.arrays = [a for a in self.arrays if a.title != argv[3]]
        return None

    def _mkfs(self, host: RecordedHost, argv: list[str]) -> None:
        host.changing()
        uuid = next(a.removeprefix("uuid=") for a in argv if a.count("-") == 4)
        part = self.part(argv[-1])
        part.signatures, part.zeros = [{"type": argv[0].removeprefix("mkfs."), "uuid": uuid, "label": None}], False
        if isinstance(part, Drive):
            part.writes += 1

    def _mount(self, host: RecordedHost, argv: list[str]) -> Result | None:
        line = next(fields(x) for x in host.files["/etc/fstab"].splitlines() if fields(x)[1:2] == [argv[1]])
        names = {f"nvme{i}n1": d for i, d in enumerate(self.drives)} | {a.name: a for a in self.arrays if a.active}
        found = [n for n, p in names.items() if any(f"UUID={s['uuid']}" == line[0] for s in p.signatures)]
        if found:
            host.changing()
            self.mounts[argv[1]] = found[0]
        return None  # as with nofail

    def _umount(self, host: RecordedHost, argv: list[str]) -> None:
        host.changing()
        del self.mounts[argv[1]]

    def _nvme(self, host: RecordedHost, argv: list[str]) -> Result | None:
        if argv[1] == "id-ctrl":
            return Result(0, json.dumps(self.controller))
        if argv[1] == "sanitize-log":
            return Result(0, f"Sanitize Status                        (SSTAT) :  {self.sanitized.pop(0)}\n")
        host.changing()
        drive = self.part(argv[2])
        drive.signatures, drive.zeros = [], False
        return None


FSTAB = (
    "# /etc/fstab: static file system information.\nUUID=1234-abcd / ext4 errors=remount-ro 0 1\ntmpfs /tmp tmpfs defaults 0 0"
)


def drives(count: int, **options: Any) -> list[Drive]:
    """Return blank drives S1, S2, …"""
    return [Drive(serial=f"S{number}", **options) for number in range(1, count + 1)]
