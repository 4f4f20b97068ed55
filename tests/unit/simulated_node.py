# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for containerd and kubelet on a recorded host: they read their files when they start, and may refuse them."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils import containerd_config, kubelet_config, toml_text
from ansible_collections.bedplate.metal.plugins.module_utils.container_runtime import UNIT_DROPIN
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from simulated_commands import systemctl

from recorded_host import RecordedHost

LIMITS = "/proc/1000/limits"
IMAGES, RUNTIME = ("plugins", "io.containerd.cri.v1.images"), ("plugins", "io.containerd.cri.v1.runtime")
KNOWN = {"restrict_oom_score_adj", "max_concurrent_downloads", "max_container_log_line_size"}


def _flat(table: dict[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*prefix, name))
        else:
            yield (*prefix, name), value


def _migrated(path: tuple[str, ...], value: Any) -> tuple[tuple[str, ...], Any]:
    """Move a version 2 setting where version 3 and 4 have it."""
    if path[:2] != ("plugins", "io.containerd.grpc.v1.cri"):
        return path, value
    rest = path[2:]
    if rest == ("sandbox_image",):
        return (*IMAGES, "pinned_images", "sandbox"), value
    if rest == ("cni", "bin_dir"):
        return (*RUNTIME, "cni", "bin_dirs"), [value]
    return (*(IMAGES if rest[0] in ("registry", "max_concurrent_downloads") else RUNTIME), *rest), value


def effective(host: RecordedHost) -> dict[tuple[str, ...], Any]:
    """containerd's merged configuration. Raises TOMLDecodeError."""
    merged: dict[tuple[str, ...], Any] = {("version",): 4, ("disabled_plugins",): []}
    main = host.files.get(containerd_config.MAIN)
    paths = [containerd_config.MAIN] if main is not None else []
    for pattern in tomllib.loads(main or "").get("imports", []):
        paths += host.glob(str(PurePath("/etc/containerd") / pattern))
    for path in paths:
        for key, value in _flat(tomllib.loads(host.files[path])):
            if key == ("disabled_plugins",):
                merged[key] = [*merged[key], *value]
            elif key not in (("version",), ("imports",)):
                where, moved = _migrated(key, value)
                if len(where) > 3 or where[-1] in KNOWN or where[0] != "plugins":
                    merged[where] = moved
    return merged


def containerd(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """``containerd --config FILE config dump``."""
    try:
        return Result(0, toml_text.render(effective(host)))
    except tomllib.TOMLDecodeError as error:
        return Result(1, "", f"containerd: failed to unmarshal TOML: {error}\n")


def ctr(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """``ctr plugins ls``: what the running containerd loaded when it started."""
    if host.services.get("containerd") != "active":
        return Result(1, "", "ctr: failed to dial /run/containerd/containerd.sock")
    running = host.files.get("/run/containerd/cri", "")
    line = f"io.containerd.grpc.v1    cri    -            {running}        \n" if running else ""
    return Result(0, "TYPE                     ID     PLATFORMS    STATUS    \n" + line)


def _start_containerd(host: RecordedHost) -> None:
    try:
        settings = effective(host)
    except tomllib.TOMLDecodeError:
        host.services["containerd"] = "failed"
        return
    disabled = set(settings[("disabled_plugins",)]) & set(containerd_config.CRI_NAMES)
    broken = settings.get((*RUNTIME, "max_container_log_line_size")) == -1
    host.files["/run/containerd/cri"] = "" if disabled else "error" if broken else "ok"
    raised = "LimitMEMLOCK=infinity" in host.files.get(UNIT_DROPIN, "")
    host.files[LIMITS] = f"Max locked memory         {'unlimited' if raised else '8388608'}     8388608      bytes     \n"


def _start_kubelet(host: RecordedHost) -> None:
    fragments = [kubelet_config.parse(host.files[p]) or {} for p in host.glob(f"{kubelet_config.DIRECTORY}/*.conf")]
    settings = kubelet_config.merge(fragments)
    healthy = settings.get("maxPods") != -1
    for manager in kubelet_config.MANAGERS:
        policy = settings.get(manager.policy, manager.default)
        state = host.files.get(manager.state)
        healthy = healthy and (state is None or json.loads(state)["policyName"] == policy)
    if healthy:
        for manager in kubelet_config.MANAGERS:
            host.files[manager.state] = json.dumps({"policyName": settings.get(manager.policy, manager.default)})
    host.services["kubelet"] = "active" if healthy else "failed"


def node_systemctl(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """systemctl, with services that read their files when they start."""
    result = systemctl(host, argv, stdin)
    starts = {"containerd": _start_containerd, "kubelet": _start_kubelet}
    for name in argv[2:] if argv[1] in ("start", "restart") else ():
        if host.services.get(name) == "active" and name in starts:
            starts[name](host)
    return result


def probe(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """The health probe of kubelet, and that of an API endpoint, which answers where ``/run/api/ADDRESS`` is."""
    if argv[3:] and not argv[3].startswith("http"):
        return Result(0) if f"/run/api/{argv[3]}" in host.files else Result(1, "", "timed out\n")
    return Result(0 if host.services.get("kubelet") == "active" else 1)


def install_containerd(main: str | None = None) -> Any:
    """What installing containerd's package does: its configuration, if it brings one and none is there; and a start."""

    def install(host: RecordedHost) -> None:
        if main is not None:
            host.files.setdefault(containerd_config.MAIN, main)
        if host.services.get("containerd") != "active":
            host.services["containerd"] = "active"
            _start_containerd(host)

    return install


def equip(host: RecordedHost) -> RecordedHost:
    """Give a recorded host containerd's and kubelet's programs."""
    host.on("containerd", containerd)
    host.on("ctr", ctr)
    host.on("systemctl", node_systemctl)
    host.on((sys.executable or "python3").rpartition("/")[2], probe)
    return host
