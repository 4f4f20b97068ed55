# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bedplate_lab import cli, cluster, ssh, state
from bedplate_lab.errors import LabError
from bedplate_lab.state import State
from bedplate_lab.up import Options, choose


def options(monkeypatch: pytest.MonkeyPatch, *words: str) -> Options:
    """What `up` is called with for a command line."""
    seen: list[Options] = []
    monkeypatch.setattr(cli, "up", lambda given, steps: seen.append(given))
    assert cli.main(["up", *words]) == 0
    return seen[0]


def executed(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The program a command line turns into."""
    seen: list[str] = []

    def execvp(program: str, command: Sequence[str]) -> None:
        assert program == command[0]
        seen.extend(command)

    monkeypatch.setattr(os, "execvp", execvp)
    cli.main(list(words))
    return seen


def test_up_leaves_open_what_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options(monkeypatch) == Options(None, None, None, None, site=True)


def test_up_takes_counts_source_and_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    given = options(
        monkeypatch,
        *("--control-planes", "3", "--workers=4", "--source", "upstream", "--upstream-url", "http://127.0.0.1:8000", "--no-site"),
    )
    assert given == Options(3, 4, "upstream", "http://127.0.0.1:8000", site=False)


@pytest.mark.parametrize(
    "words",
    [
        ["--workers", "-1"],
        ["--workers", "two"],
        ["--control-planes", "10"],
        ["--source", "mirror"],
    ],
)
def test_up_refuses_what_it_cannot_do(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["up", *words])
    assert exit_.value.code == 2
    assert words[0] in capsys.readouterr().err


ADMIN = "clusters:\n- cluster:\n    server: https://api.lab.test:6443\n  name: lab\n"


def host_that_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, admin: str) -> None:
    """The first control-plane host: a shell on this machine that has an admin.conf and a kubectl."""
    home = tmp_path / "cp1"
    home.mkdir()
    (home / "admin.conf").write_text(admin)
    (home / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (home / "kubectl").write_text('#!/bin/sh\necho "$@"\n')
    for name in ("sudo", "kubectl"):
        (home / name).chmod(0o755)

    def command(address: str, remote: str, **_: object) -> list[str]:
        assert address == "10.87.0.11"
        return [
            "env",
            f"PATH={home}:{os.environ['PATH']}",
            "sh",
            "-c",
            remote.replace(cluster.KUBECONFIG, str(home / "admin.conf")),
        ]

    monkeypatch.setattr(ssh, "command", command)


def test_kubectl_runs_here_with_the_arguments_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkout: Path
) -> None:
    state.save(State(control_planes=2, workers=1))
    host_that_answers(monkeypatch, tmp_path, ADMIN)
    for name in ("NO_PROXY", "no_proxy", "KUBECONFIG", "KUBECACHEDIR"):
        monkeypatch.setenv(name, "mine")
    words = ["apply", "-f", "here.yml", "-f", "-", "--help", "-o", "jsonpath={.items[*].metadata.name} x"]
    program, *arguments = executed(monkeypatch, "kubectl", *words)
    assert arguments == words
    assert Path(program).read_bytes() == (tmp_path / "cp1" / "kubectl").read_bytes() and os.access(program, os.X_OK)
    private, discovered = Path(os.environ["KUBECONFIG"]), Path(os.environ["KUBECACHEDIR"])
    assert "    server: https://10.87.0.11:6443\n    tls-server-name: kubernetes\n" in private.read_text()
    assert private.stat().st_mode & 0o777 == 0o600
    assert all(path.is_relative_to(checkout / ".lab") for path in (Path(program), private, discovered)), "down removes them"
    assert os.environ["NO_PROXY"] == "mine,10.87.0.11"


def test_kubectl_before_the_cluster_is_made_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.save(State(control_planes=1, workers=1))
    host_that_answers(monkeypatch, tmp_path, ADMIN)
    (tmp_path / "cp1" / "admin.conf").unlink()
    assert cli.main(["kubectl", "get", "nodes"]) == 1
    assert "not made yet: scripts/lab up" in capsys.readouterr().err


def test_kubectl_without_a_lab_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kubectl", "get", "nodes"]) == 1
    assert "scripts/lab up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "remote"),
    [
        ([], None),
        (["uptime -p | cat"], "uptime -p | cat"),
        (["echo", "a  b"], "echo 'a  b'"),
        (["--", "ls", "-l"], "ls -l"),
    ],
)
def test_ssh_takes_a_shell_command_or_words(words: list[str], remote: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    state.save(State(control_planes=1, workers=2))
    command = executed(monkeypatch, "ssh", "w2", *words)
    assert command == ssh.command("10.87.0.22", remote)


def test_ssh_to_an_unknown_host_names_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    state.save(State(control_planes=1, workers=1, extra={"m1": "10.87.0.51"}))
    assert cli.main(["ssh", "w9"]) == 1
    assert "host w9: not in the lab (hosts: cp1, w1, m1)" in capsys.readouterr().err


def test_a_new_lab_has_one_control_plane_and_two_workers() -> None:
    assert [host.name for host in choose(Options()).hosts()] == ["cp1", "w1", "w2"]


def test_up_without_counts_keeps_those_of_the_running_lab() -> None:
    choose(Options(control_planes=3, workers=1))
    record = choose(Options())
    assert (record.control_planes, record.workers) == (3, 1)


def test_up_adds_hosts_but_takes_none_away() -> None:
    choose(Options())
    assert choose(Options(workers=3)).workers == 3
    with pytest.raises(LabError, match=r"--workers 1: the lab has 3.*scripts/lab down"):
        choose(Options(workers=1))
    assert state.load().workers == 3


def test_an_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "up", interrupted)
    assert cli.main(["up"]) == 130
    assert "goes on from here" in capsys.readouterr().err
