# SPDX-License-Identifier: Apache-2.0
"""A machine with GRUB, an initramfs, kernels and DKMS, and what a reboot of it does."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from ansible_collections.bedplate.metal.plugins.module_utils.core import Policy
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.kernel import Kernel, KernelDesired
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_blacklist import BLACKLIST_FILE
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_command_line import GRUB_CFG, GRUB_FILE
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_headers import sort_releases
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_image import ImageDesired
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_tuning import TuningDesired
from fixtures_host import debian
from interrupted import Case

from recorded_host import Package, RecordedHost

OLD, NEW = "6.1.0-18-amd64", "6.1.0-27-amd64"
OLD_VERSION, NEW_VERSION = "6.1.76-1", "6.1.115-1"
DEFAULT_GRUB = 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="console=tty0 console=ttyS0 iommu=on"\n'
CHRONY_CONF = "confdir /etc/chrony/conf.d\npool 2.debian.pool.ntp.org iburst\nsourcedir /etc/chrony/sources.d\nmakestep 1 3\n"
ALLOWED = Policy(allow=frozenset({"reboot"}))


def grub_variables(*files: str) -> str:
    """What a real shell makes of the files update-grub reads."""
    script = "set -e\n" + "\n".join(files) + '\nprintf "%s" "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"'
    return subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, timeout=10).stdout


def update_grub(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    parameters = grub_variables(*(host.files[p] for p in ("/etc/default/grub", GRUB_FILE) if p in host.files))
    releases = reversed(sort_releases([p.partition("vmlinuz-")[2] for p in host.glob("/boot/vmlinuz-*")]))
    entries = "".join(f"\tlinux\t/boot/vmlinuz-{r} root=UUID=1234-abcd ro {parameters}\n" for r in releases)
    host.write(GRUB_CFG, f"### BEGIN /etc/grub.d/10_linux ###\n{entries}### END /etc/grub.d/10_linux ###\n")
    return Result(0)


def update_initramfs(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    for image in host.glob("/boot/initrd.img-*"):
        host.write(image, host.files.get(BLACKLIST_FILE, ""))
    return Result(0)


def dkms(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    compile_for(host, argv[argv.index("-k") + 1])
    return Result(0)


def compile_for(host: RecordedHost, release: str) -> None:
    """Like ``dkms autoinstall``: without headers a module is left out, and the answer is 0 all the same."""
    if host.exists(f"/lib/modules/{release}/build") and host.exists("/var/lib/dkms/demo/1.0/source"):
        host.write(f"/var/lib/dkms/demo/kernel-{release}-x86_64", "")


def tmpfiles(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    for line in host.files[argv[-1]].splitlines():
        if line.startswith("w "):
            for path in host.glob(line.split()[1]):
                host.write(path, line.split()[-1] + "\n")
    return Result(0)


def install_kernel(release: str) -> dict[str, str]:
    return {f"/boot/vmlinuz-{release}": "", f"/boot/initrd.img-{release}": "", f"/lib/modules/{release}/modules.dep": ""}


def machine() -> RecordedHost:
    """A Debian 12 machine with one kernel, booted by GRUB, with a serial console."""
    host = debian(**install_kernel(OLD))
    host.files.update(
        {
            "/proc/sys/kernel/osrelease": f"{OLD}\n",
            "/etc/default/grub": DEFAULT_GRUB,
            "/usr/sbin/update-grub": "",
            "/usr/sbin/update-initramfs": "",
            "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
        }
    )
    host.packages["linux-image-amd64"] = Package(OLD_VERSION)
    host.packages[f"linux-image-{OLD}"] = Package(OLD_VERSION)
    host.repository["linux-image-amd64"] = [OLD_VERSION, NEW_VERSION]
    host.repository["linux-headers-amd64"] = [OLD_VERSION, NEW_VERSION]
    host.installs["linux-image-amd64"] = lambda h: (h.files.update(install_kernel(NEW)), update_grub(h, [], None))[0]
    host.installs["linux-headers-amd64"] = lambda h: h.files.update({f"/lib/modules/{NEW}/build/Makefile": ""})
    host.repository["chrony"] = ["4.3-2"]
    host.installs["chrony"] = lambda h: h.files.update({"/etc/chrony/chrony.conf": CHRONY_CONF})
    for program, handler in (
        ("update-grub", update_grub),
        ("update-initramfs", update_initramfs),
        ("dkms", dkms),
        ("systemd-tmpfiles", tmpfiles),
    ):
        host.on(program, handler)
    update_grub(host, [], None)
    reboot(host)
    host.kill_after(None)
    return host


def reboot(host: RecordedHost) -> None:
    """Boot GRUB's first entry."""
    first = next(line for line in host.files[GRUB_CFG].splitlines() if "vmlinuz-" in line).split(None, 2)
    host.files["/proc/sys/kernel/osrelease"] = first[1].partition("vmlinuz-")[2] + "\n"
    host.files["/proc/cmdline"] = f"BOOT_IMAGE={first[1]} {first[2]}\n"
    blacklisted = [line.split()[1] for line in host.files.get(BLACKLIST_FILE, "").splitlines() if line.startswith("blacklist")]
    for path in [
        p for p in host.files if p.startswith("/run/") or p.split("/")[:4] in [["", "sys", "module", m] for m in blacklisted]
    ]:
        if not path.startswith("/run/systemd"):
            del host.files[path]


def with_dkms(host: RecordedHost) -> RecordedHost:
    """Give the machine a module that DKMS compiles, done for the kernel that runs."""
    host.files["/var/lib/dkms/demo/1.0/source/dkms.conf"] = 'PACKAGE_NAME="demo"\nAUTOINSTALL="yes"\n'
    host.files[f"/lib/modules/{OLD}/build/Makefile"] = ""
    compile_for(host, OLD)
    return host


def everything() -> KernelDesired:
    return KernelDesired(
        image=ImageDesired("linux-image-amd64", NEW_VERSION),
        command_line=("iommu=pt", "hugepagesz=1G", "hugepages=4"),
        blacklist=("nouveau",),
        tuning=TuningDesired(hugepages="madvise"),
        time_servers=("ntp1.example.com",),
        journal_max_size="2G",
    )


def everything_host() -> RecordedHost:
    host = with_dkms(machine())
    host.files["/sys/module/nouveau/refcnt"] = "0"
    return host


def booted_host() -> RecordedHost:
    """Return a host whose running kernel has it all, as after a reboot, while nothing on its disk does."""
    host = with_dkms(machine())
    host.files["/proc/sys/kernel/osrelease"] = f"{NEW}\n"
    host.files["/proc/cmdline"] = "ro console=ttyS0 iommu=pt hugepagesz=1G hugepages=4\n"
    return host


CASES = [Case("kernel, all that a boot decides", Kernel, everything, booted_host, policy=ALLOWED)]
