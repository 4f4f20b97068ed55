# SPDX-License-Identifier: Apache-2.0
"""The depot's registry as a process of its own for the time it is filled, without network, TLS or container."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bedplate_lab.errors import LabError
from bedplate_lab.registry import Registry

START_SECONDS = 20


def configuration(storage: Path, address: str, tls: tuple[str, str] | None = None) -> str:
    """The registry's configuration as YAML: its storage, `host:port` to listen on, certificate and key files."""
    text = f"""\
version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {storage}}}
  delete: {{enabled: true}}
  maintenance: {{uploadpurging: {{enabled: false}}}}
http:
  addr: "{address}"
  secret: bedplate-lab
"""
    if tls:
        text += f"  tls: {{certificate: {tls[0]}, key: {tls[1]}}}\n"
    return text


@contextmanager
def running(program: Path, storage: Path, work: Path) -> Iterator[Registry]:
    """A registry over `storage` on a free port of 127.0.0.1 while the block runs. Raises LabError when it does not start."""
    storage.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config, log = work / "registry.yml", work / "registry.log"
    config.write_text(configuration(storage, f"127.0.0.1:{port}"))
    with log.open("w") as output:
        process = subprocess.Popen([program, "serve", config], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            _wait(process, port, log)
            yield Registry(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    state = f"ended with {process.returncode}" if process.poll() is not None else f"does not listen after {START_SECONDS} s"
    raise LabError(f"the depot's registry {state}:\n{log.read_text()[-2000:]}")
