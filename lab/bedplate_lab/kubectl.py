# SPDX-License-Identifier: Apache-2.0
"""kubectl on this machine, so that files named on its command line are this machine's.

The program is the control-plane host's own, fetched once per version, whatever source the lab's components come from. It and the
administrator's kubeconfig lie under `.lab/kubectl` and go with `down`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from bedplate_lab import paths, ssh
from bedplate_lab.cluster import KUBECONFIG, entrance, explained
from bedplate_lab.errors import LabError
from bedplate_lab.run import CommandError, run
from bedplate_lab.state import State

API_PORT = 6443
FETCH_SECONDS = 120
ANSWER_SECONDS = 15
_BATCH = ("-o", "ConnectTimeout=3", "-o", "BatchMode=yes")


def prepare(lab: State) -> tuple[str, dict[str, str]]:
    """Fetch what is missing; the program, and the environment that makes its user the cluster's administrator.

    Raises LabError when there is no cluster or its host does not answer.
    """
    address = entrance(lab)
    script = f'cat {KUBECONFIG} && stat -Lc "# %s-%Y-%Z %n" "$(command -v kubectl)"'
    try:
        text = run(
            ssh.command(address, shlex.join(["sudo", "sh", "-c", script]), options_first=_BATCH), timeout_seconds=ANSWER_SECONDS
        )
        kubeconfig, _, program = text.stdout.rpartition("\n# ")
        version, path = program.split()
    except CommandError as error:
        raise LabError(f"cluster: {explained(error)}") from error
    binary = paths.state("kubectl", f"kubectl-{version}")
    if not binary.exists():
        _fetch(address, path, binary)
    private = paths.state("kubectl", "admin.conf")
    with paths.new_file(private) as temporary:
        temporary.chmod(0o600)
        temporary.write_text(reached_at(kubeconfig, address))
    environment = {"KUBECONFIG": str(private), "KUBECACHEDIR": str(paths.state("kubectl", "cache"))}
    # A proxy of this machine does not reach the lab's network.
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = ",".join(filter(None, (os.environ.get(name), address)))
    return str(binary), environment


def reached_at(kubeconfig: str, address: str) -> str:
    """The kubeconfig with the API at an address; the certificate is checked for a name every API server's has."""
    server = rf"\g<1>server: https://{address}:{API_PORT}\n\g<1>tls-server-name: kubernetes"
    return re.sub(r"(?m)^( *)server: .*$", server, kubeconfig)


def _fetch(address: str, path: str, binary: Path) -> None:
    command = ssh.command(address, shlex.join(["cat", path]), options_first=_BATCH)
    with paths.new_file(binary) as temporary, temporary.open("wb") as file:
        try:
            result = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CommandError(command, f"no end after {FETCH_SECONDS} s") from error
        if result.returncode != 0:
            raise CommandError(
                command, f"exit code {result.returncode}", result.stderr.decode(errors="replace"), result.returncode
            )
        temporary.chmod(0o755)
