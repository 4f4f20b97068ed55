# SPDX-License-Identifier: Apache-2.0
"""The depot's two containers: nginx for apt and the registry, on one address."""

from __future__ import annotations

import tarfile
import tempfile
import time
from pathlib import Path

import urllib3

from bedplate_lab import bases, ca, depot, labels, oci, server
from bedplate_lab.errors import LabError
from bedplate_lab.paths import cache, state
from bedplate_lab.podman import Podman
from bedplate_lab.report import Report
from bedplate_lab.topology import CONTAINER_PREFIX, DEPOT_ADDRESS, DEPOT_NAME, NETWORK

WEB = f"{CONTAINER_PREFIX}depot"
REGISTRY = f"{CONTAINER_PREFIX}depot-registry"
IMAGE = "localhost/bedplate-lab-depot"
CONFIG_LABEL = "bedplate.config"
DIRECTORIES = ("depot", "etc/depot", "registry", "var/lib/nginx", "var/log/nginx")
"""Mount points in the image, and the directories nginx looks for when it starts."""
READY_SECONDS = 20
LIMIT = 20000
"""Of open files and processes: podman's own defaults are more than a machine without CAP_SYS_RESOURCE may set."""
NGINX = """\
user root root;
daemon off;
worker_processes 2;
pid /tmp/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
    include /etc/nginx/mime.types;
    access_log off;
    sendfile on;
    keepalive_requests 100000;
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    server {
        listen 443 ssl;
        server_name depot;
        ssl_certificate /etc/depot/tls.crt;
        ssl_certificate_key /etc/depot/tls.key;
        ssl_session_cache shared:tls:1m;
        root /depot;
        location / { return 404; }
        location /apt/ { autoindex on; }
    }
}
"""


def start(podman: Podman, report: Report) -> list[str]:
    """Run the depot's containers unless they run as they should; names of those that were made.

    Wants the lab's network. Raises LabError when the depot does not answer.
    """
    authority = ca.ensure()
    image = _image(podman, report)
    config = _configure(authority)
    wanted = depot.key(image, depot.content(), *(path.read_text() for path in sorted(config.iterdir())))
    found = podman.containers()
    if all(name in found and found[name].running and found[name].labels.get(CONFIG_LABEL) == wanted for name in (WEB, REGISTRY)):
        return []
    report("start the depot")
    stop(podman)
    common = [
        *("--runtime", "runc", "run", "--detach", *labels.arguments(), "--label", f"{CONFIG_LABEL}={wanted}"),
        *("--ulimit", f"nofile={LIMIT}:{LIMIT}", "--ulimit", f"nproc={LIMIT}:{LIMIT}"),
        *("--log-driver", "k8s-file", "--read-only", "--volume", f"{config}:/etc/depot:ro"),
    ]
    apt = f"{depot.content()}:/depot:ro"
    network = ("--network", NETWORK, "--ip", DEPOT_ADDRESS)
    podman(*common, "--name", WEB, *network, "--volume", apt, image, "nginx", "-e", "stderr", "-c", "/etc/depot/nginx.conf")
    storage = f"{depot.content() / 'registry'}:/registry"
    shared = ("--network", f"container:{WEB}")
    podman(*common, "--name", REGISTRY, *shared, "--volume", storage, image, "registry", "serve", "/etc/depot/registry.yml")
    _wait(podman, authority)
    return [WEB, REGISTRY]


def stop(podman: Podman) -> None:
    """Remove the depot's containers; none is fine."""
    for name in (REGISTRY, WEB):
        podman.remove_container(name)


def _configure(authority: ca.Authority) -> Path:
    """Write configuration and certificate under `.lab/depot`; the directory."""
    directory = state("depot")
    ca.leaf(authority, directory, (DEPOT_NAME, DEPOT_ADDRESS))
    tls = ("/etc/depot/tls.crt", "/etc/depot/tls.key")
    files = {"nginx.conf": NGINX, "registry.yml": server.configuration(Path("/registry"), ":5000", tls)}
    for name, text in files.items():
        (directory / name).write_text(text)
    return directory


def _image(podman: Podman, report: Report) -> str:
    """The image of both containers, nginx and the registry on one base layer, in podman; its name."""
    program = depot.registry_program()
    name = f"{IMAGE}:{depot.key(bases.key('nginx'), DIRECTORIES, program.parent.parent.name)}"
    if podman("image", "exists", name, check=False).returncode != 0:
        report("image of the depot")
        base = bases.build("nginx", report)
        with tempfile.TemporaryDirectory(prefix=".depot.", dir=cache("images")) as work:
            temporary = Path(work)
            own = temporary / "layer.tar"
            with oci.Layer(own) as layer:
                layer.file("usr/local/bin/registry", program)
                for directory in DIRECTORIES:
                    layer.directory(directory)
            oci.write(temporary, name, [base, own], oci.Settings())
            own.unlink()
            archive = temporary / "image.tar"
            with tarfile.open(archive, "w") as tar:
                for part in ("oci-layout", "index.json", "blobs"):
                    tar.add(temporary / part, part)
            podman("load", "--quiet", "--input", str(archive))
    return name


def _wait(podman: Podman, authority: ca.Authority) -> None:
    """Wait until both answer over TLS that the lab's CA vouches for."""
    pool = urllib3.PoolManager(ca_certs=str(authority.certificate), retries=False, timeout=2)
    deadline = time.monotonic() + READY_SECONDS
    for name, url in ((WEB, f"https://{DEPOT_ADDRESS}/apt/content-key"), (REGISTRY, f"https://{DEPOT_ADDRESS}:5000/v2/")):
        reason = "no answer"
        while True:
            try:
                status = pool.request("GET", url).status
                if status == 200:
                    break
                reason = f"status {status}"
            except urllib3.exceptions.HTTPError as error:
                reason = str(error)
            if time.monotonic() > deadline:
                log = podman("logs", "--tail", "15", name, check=False)
                raise LabError(f"{url}: {reason} after {READY_SECONDS} s; container {name} says:\n{log.stdout}{log.stderr}")
            time.sleep(0.05)
