# SPDX-License-Identifier: Apache-2.0
"""The RDMA stack of a host: the kernel's own with the distribution's rdma-core, or NVIDIA's DOCA-OFED, which replaces both.

DOCA-OFED is one metapackage, doca-ofed, out of the flat repository of a release and distribution (DOCA Installation Guide for
Linux); it brings kernel modules compiled by DKMS and its own builds of rdma-core, perftest and infiniband-diags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import DRAIN, REBOOT, Change, Problem
from .fabric_devices import INFINIBAND, MELLANOX, Device, Nic
from .host import Host
from .kernel_headers import Kernels, header_packages, observe_kernels
from .packages import AptInstall, PackageState, find_packages, observe_packages, package_problems, plan_packages
from .secure_boot import SecureBoot, observe_secure_boot, unsigned_problem

INBOX, DOCA = "inbox", "doca"
METAPACKAGE = "doca-ofed"
TOOLS = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest", "iproute2")
"""Of Debian 12 and 13, Ubuntu 22.04 and 24.04; iproute2 has rdma(8) and dcb(8)."""
LOADED = "/sys/module/mlx_compat"
"""A module that only OFED has: the layer its drivers are compiled against."""
REPLACED = frozenset({DRAIN, REBOOT})
"""Its drivers take over at a boot; until then library and kernel would not match."""
STACK = "RDMA stack loaded"


@dataclass(frozen=True)
class StackState:
    """What is there. loaded: DOCA-OFED's modules run; compiled: they lie there for the running kernel."""

    packages: Mapping[str, PackageState] = field(default_factory=dict)
    loaded: bool = False
    compiled: bool = False
    kernels: Kernels = field(default_factory=Kernels)
    secure_boot: SecureBoot = field(default_factory=SecureBoot)


def inbox_packages(nics: Sequence[Nic]) -> tuple[str, ...]:
    """Return the distribution's packages these cards need."""
    if not any(nic.rdma for nic in nics):
        return ()
    return TOOLS + (("infiniband-diags",) if any(nic.fabric == INFINIBAND for nic in nics) else ())


def observe_stack(host: Host, stack: str, nics: Sequence[Nic]) -> StackState:
    """Ask dpkg once where the stack is inbox; look at kernels, headers and Secure Boot where it is DOCA-OFED."""
    if stack == INBOX:
        return StackState(observe_packages(host, [*inbox_packages(nics), METAPACKAGE] if nics else []))
    kernels = observe_kernels(host)
    return StackState(
        packages={**find_packages(host, "linux-headers-*"), **observe_packages(host, [METAPACKAGE])},
        loaded=host.exists(LOADED),
        compiled=bool(host.glob(f"/lib/modules/{kernels.running}/updates/dkms/mlx5_core.ko*")),
        kernels=kernels,
        secure_boot=observe_secure_boot(host),
    )


def plan_stack(
    state: StackState,
    stack: str,
    version: Optional[str],
    nics: Sequence[Nic],
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS,
) -> tuple[list[Change], list[Problem]]:
    """Plan the packages, and with DOCA-OFED the boot that loads its drivers."""
    present = state.packages.get(METAPACKAGE, PackageState())
    if stack == INBOX:
        if present.installed:
            step = f"say rdma_stack: {{source: doca}} for the pool, or remove {METAPACKAGE} from the drained node by hand"
            return [], [Problem("RDMA stack", f"{METAPACKAGE} {present.version}", "the distribution's own", step)]
        wanted = dict.fromkeys(inbox_packages(nics))
        return plan_packages(state.packages, wanted, lock_timeout_seconds=lock_timeout_seconds), []
    problems = package_problems(state.packages, {METAPACKAGE: version})
    headers = [n for n in header_packages(state.kernels) if not state.packages.get(n, PackageState()).installed]
    differs = not present.installed or (version is not None and present.version != version)
    install = {**({METAPACKAGE: version} if differs else {}), **dict.fromkeys(headers)}
    operation = AptInstall(install, (METAPACKAGE,) if differs else (), lock_timeout_seconds=lock_timeout_seconds)
    changes = [
        Change(f"package {name}", state.packages.get(name, PackageState()).version, wanted or "installed", REPLACED, operation)
        for name, wanted in install.items()
    ]
    if not differs and not present.held:
        holding = AptInstall({}, (METAPACKAGE,))
        changes.append(Change(f"package {METAPACKAGE} held", False, True, operation=holding))
    if not state.loaded:
        changes.append(
            Change(STACK, "the kernel's own", "DOCA-OFED", REPLACED, needs=tuple(f"package {name}" for name in install))
        )
    if changes and (unsigned := unsigned_problem(state.secure_boot, "dkms")) is not None:
        problems.append(unsigned)
    if not differs and not state.loaded and not state.compiled:
        step = f"dkms status, then dkms autoinstall -k {state.kernels.running}; its make.log says why it does not compile"
        problems.append(Problem("modules of DOCA-OFED", "none compiled", f"those for kernel {state.kernels.running}", step))
    return changes, problems


def management_problems(
    changes: Sequence[Change], devices: Sequence[Device], management: frozenset[str], out_of_band: str
) -> list[Problem]:
    """Refuse to replace the stack of the card a host is reached by, unless there is another way to it (BMC, serial line)."""
    cards = [device for device in devices if device.netdev in management and device.vendor == MELLANOX]
    if out_of_band or not cards or not any(c.effects >= REPLACED for c in changes):
        return []
    named = ", ".join(str(device) for device in cards)
    step = "reach the host by another card, or say out_of_band: bmc (or serial) for it once you have seen that path work"
    wanted = "a host that is reached by another card, or a declared out-of-band path"
    return [Problem("RDMA stack", f"management runs over {named}, whose driver would be replaced", wanted, step)]
