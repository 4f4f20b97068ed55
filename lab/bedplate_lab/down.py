# SPDX-License-Identifier: Apache-2.0
"""`scripts/lab down`: remove all the lab made, and only that."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

from bedplate_lab import cache as cached
from bedplate_lab import inventory, network, paths, serve, ssh, state, traces
from bedplate_lab.errors import LabError
from bedplate_lab.metal import machines as metal
from bedplate_lab.podman import Podman
from bedplate_lab.state import State
from bedplate_lab.steps import Steps


def down(steps: Steps, cache: bool = False, podman: Podman | None = None) -> None:
    """Remove containers, volumes, network, connections, generated inventory and state; the cache only when asked.

    Nothing there is fine. Raises CommandError when podman refuses.
    """
    podman = podman or Podman()
    with paths.lock("lab"), steps.shown():
        try:
            record = state.load()
        except LabError as error:
            steps.console.print(f"{error}: going by podman's labels", markup=False)
            record = State()
        metal.remove()
        if shutil.which("podman") is not None:
            with steps.step("remove hosts and depot") as report:
                names = sorted(podman.containers())
                report(" ".join(names) or "none there")
                serve.stop(podman)
                with ThreadPoolExecutor(max_workers=8) as pool:
                    list(pool.map(podman.remove_container, names))
                for volume in podman.volumes():
                    podman.remove_volume(volume)
                network.remove(podman)
                if cache:
                    cached.remove_images(podman)
        with steps.step("put the machine back") as report:
            ssh.close_all()
            others = shutil.which("podman") is not None and bool(podman("ps", "--quiet").stdout.strip())
            lines = traces.restore(record.machine, others)
            if record.packages:
                lines.append(f"installed for the lab and left: {' '.join(record.packages)}")
            if lines:
                report("; ".join(lines))
        inventory.remove()
        if paths.state().is_dir():
            shutil.rmtree(paths.state())
        if cache:
            with steps.step(f"remove the cache {paths.cache()}"):
                cached.remove()
