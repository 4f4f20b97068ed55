# SPDX-License-Identifier: Apache-2.0
"""The report itself: data, terminal, page; and playbooks/preflight.yml run for real on a site with a host that is not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.preflight import Preflight
from ansible_collections.bedplate.metal.plugins.module_utils.preflight_facts import PreflightDesired, public_facts
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.document import document
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.html import html
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.terminal import terminal
from ansible_collections.bedplate.metal.plugins.plugin_utils.site import command
from fixtures_host import RecordedNetwork, debian
from hardware_machines import B200, H100, L40S, broken_h100, dgx_h100, hgx_b200, l40s_server

from recorded_host import RecordedHost
from site_directory import FILES, SiteDirectory

DESIRED = PreflightDesired(distributions=("debian-12",), report=True)
POOLS = {"h100": H100, "b200": B200, "l40s": L40S}
HOSTS = {
    "h100-01": ("h100", dgx_h100),
    "h100-02": ("h100", broken_h100),
    "b200-01": ("b200", hgx_b200),
    "l40s-01": ("l40s", l40s_server),
    "cp-01": ("control_plane", debian),
}
ROW = {
    "type": "object",
    "required": ["what", "declared", "found", "verdict", "next_step"],
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "string", "minLength": 1} for name in ("what", "declared", "found")},
        "verdict": {"enum": ["ok", "differs", "unknown"]},
        "next_step": {"type": "string"},
    },
}
COUNTS = {"type": "object", "required": ["differs", "unknown", "ok"], "additionalProperties": {"type": "integer", "minimum": 0}}
HOST = {
    "type": "object",
    "required": ["pool", "kind", "rack", "state", "verdict", "verdicts", "rows", "facts"],
    "additionalProperties": False,
    "properties": {
        "pool": {"type": "string"},
        "kind": {"enum": ["control-plane", "worker"]},
        "rack": {"type": ["string", "null"]},
        "state": {"enum": ["observed", "unreachable", "failed"]},
        "verdict": {"enum": ["ok", "differs", "unknown"]},
        "verdicts": COUNTS,
        "rows": {"type": "array", "minItems": 1, "items": ROW},
        "facts": {"type": "object"},
    },
}
FORMAT_1 = {
    "type": "object",
    "required": ["format", "kind", "cluster", "made_at", "hosts_of_the_site", "verdicts", "hosts"],
    "additionalProperties": False,
    "properties": {
        "format": {"const": 1},
        "kind": {"const": "preflight"},
        "cluster": {"type": "string"},
        "made_at": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
        "hosts_of_the_site": {"type": "integer"},
        "verdicts": COUNTS,
        "hosts": {"type": "object", "additionalProperties": HOST},
    },
}
"""What a reader of format 1 may rely on; a change that breaks it raises the format."""
REFUSED = {"state": "unreachable", "message": "connection: found no answer; wanted SSH. Next: check that the host is up"}
EVIL = "<script>alert('x')</script>[red]&\"'"


def looked_at(host: RecordedHost) -> dict[str, Any]:
    observed = Preflight(RecordedNetwork()).observe(host, DESIRED)
    problems = [problem.public() for problem in Preflight().plan(observed, DESIRED).problems]
    return {"observed": json.loads(json.dumps(public_facts(observed, None))), "problems": problems}


def site(names: tuple[str, ...]) -> dict[str, Any]:
    pools = {name: HOSTS[name][0] if name in HOSTS else "h100" for name in names}
    kinds = {name: "control-plane" if pool == "control_plane" else "worker" for name, pool in pools.items()}
    return {
        "cluster": {"name": "gpu-site-1"},
        "pools": {name: {"spec": spec} for name, spec in POOLS.items()},
        "hosts": {
            name: {"pool": pool, "kind": kinds[name], "rack": None, "roles": {"nvme": {"volumes": []}}}
            for name, pool in pools.items()
        },
    }


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    results: dict[str, dict[str, Any]] = {name: looked_at(build()) for name, (_pool, build) in HOSTS.items()}
    results |= {"h100-03": {"refused": REFUSED}, "h100-04": {}}
    return document(site((*results, "h100-05")), results, "2026-01-31T12:00:00Z")


def test_the_data_keep_format_1(report: dict[str, Any]) -> None:
    jsonschema.validate(report, FORMAT_1)
    assert json.loads(json.dumps(report)) == report
    assert list(report["hosts"]) == sorted(report["hosts"])
    assert (report["hosts_of_the_site"], len(report["hosts"])) == (8, 7)
    assert {name: entry["verdict"] for name, entry in report["hosts"].items()} == {
        **{"b200-01": "ok", "cp-01": "ok", "h100-01": "ok", "h100-02": "differs"},
        **{"h100-03": "differs", "h100-04": "differs", "l40s-01": "unknown"},
    }
    gpu = report["hosts"]["h100-01"]["facts"]["hardware"]["gpus"][0]
    assert (gpu["address"], gpu["name"], gpu["numa_node"]) == ("0000:1b:00.0", "NVIDIA H100 SXM5 80GB", 0)


def test_the_disks_a_host_names_itself_are_what_is_declared_of_it() -> None:
    bedplate = site(("h100-01",))
    volume = {"name": "scratch", "serials": ["S6CKDATA1", "S6CKGONE"]}
    bedplate["hosts"]["h100-01"]["roles"]["nvme"]["volumes"] = [volume]
    rows = document(bedplate, {"h100-01": looked_at(dgx_h100())}, "2026-01-31T12:00:00Z")["hosts"]["h100-01"]["rows"]
    row = next(row for row in rows if row["what"] == "NVMe disks of scratch")
    assert (row["declared"], row["verdict"]) == ("raid0 of S6CKDATA1, S6CKGONE", "differs")
    assert row["found"].endswith("absent: S6CKGONE")


def test_a_host_that_was_not_looked_at_says_why_and_what_to_do(report: dict[str, Any]) -> None:
    away, silent = report["hosts"]["h100-03"], report["hosts"]["h100-04"]
    (row,) = away["rows"]
    assert away["state"] == "unreachable" and row["found"] == "connection: found no answer; wanted SSH"
    assert row["next_step"] == "check that the host is up"
    assert silent["state"] == "failed" and "ended before" in silent["rows"][0]["found"]


def test_the_terminal_lists_all_hosts_and_what_is_not_ok(report: dict[str, Any]) -> None:
    text = terminal(report, width=140)
    assert all(name in text for name in report["hosts"]) and "7 of 8 hosts" in text and "\x1b" not in text
    assert "0000:43:00.0 8 GT/s x8" in text and "unreachable, 1 differs" in text
    assert "operating system" not in text and "operating system" in terminal(report, width=140, everything=True)
    assert max(map(len, text.splitlines())) <= 140 and max(map(len, terminal(report, width=20).splitlines())) <= 60
    assert "\x1b[" in terminal(report, width=140, colour=True)


class Page(HTMLParser):
    """Collects the elements of a page and whether they nest; ``texts`` of table cells."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_is_one_file_that_loads_nothing_and_a_screen_reader_can_use(report: dict[str, Any]) -> None:
    text = html(report)
    page = Page(text)
    assert page.open == []
    tags = [tag for tag, _attributes in page.seen]
    assert not {"script", "img", "link", "iframe"} & set(tags) and "url(" not in text and "@import" not in text
    policy = [attributes for tag, attributes in page.seen if tag == "meta" and attributes.get("http-equiv")]
    assert policy and str(policy[0]["content"]).startswith("default-src 'none'")
    assert tags.count("caption") == tags.count("table") and ("html", {"lang": "en"}) in page.seen
    assert all(attributes.get("scope") in ("col", "row") for tag, attributes in page.seen if tag == "th")
    targets = {attributes["id"] for _tag, attributes in page.seen if "id" in attributes}
    links = [str(attributes["href"]) for tag, attributes in page.seen if tag == "a"]
    assert len(links) == len(report["hosts"]) + 1 and {link.removeprefix("#") for link in links} <= targets
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    assert all(name in text for name in report["hosts"]) and "7 of the site&#39;s 8 hosts" in text
    assert "0000:1b:00.0" in text and "S6CKDATA1" in text and "PIX at most one PCIe switch" in text


def test_no_text_of_a_host_becomes_markup() -> None:
    found = looked_at(dgx_h100())
    found["observed"]["kernel"] = found["observed"]["hardware"]["machine"]["dmi"]["product_name"] = EVIL
    found["observed"]["hardware"]["disks"][0]["model"] = found["observed"]["hardware"]["nics"][0]["rdma"] = EVIL
    found["problems"] = [{"what": EVIL, "found": EVIL, "wanted": EVIL, "next_step": EVIL, "severity": "error"}]
    made = site(("h100-01", "h100-03"))
    made["cluster"]["name"] = made["hosts"]["h100-01"]["rack"] = EVIL
    one = document(made, {"h100-01": found, "h100-03": {"refused": {"state": "failed", "message": EVIL}}}, "2026-01-31T12:00:00Z")
    text = html(one)
    assert "<script" not in text and "alert(" in text
    assert Page(text).texts.count(EVIL) >= 8
    assert EVIL in re.sub(r"\s*\n\s*", "", terminal(one, width=400))


def test_bedplate_report_prints_it_again(report: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "preflight.json"
    file.write_text(json.dumps(report))
    assert command.main(["report", str(file), "--all"]) == 1
    assert "h100-03" in capsys.readouterr().out
    for text in ("{}", "[]", "no JSON", json.dumps({**report, "format": 2})):
        file.write_text(text)
        assert command.main(["report", str(file)]) == 2
        assert "Next: make one" in capsys.readouterr().err
    assert command.main(["report", str(tmp_path / "none")]) == 2


@pytest.fixture(scope="module")
def ran(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """playbooks/preflight.yml on a site whose hosts are this machine, one whose SSH is closed and one without Python."""
    directory = SiteDirectory(tmp_path_factory.mktemp("site"))
    for path, text in FILES.items():
        directory.write(path, text)
    directory.write(
        "group_vars/all/connection.yml",
        f"ansible_connection: local\nansible_become: false\nansible_python_interpreter: {sys.executable}\n",
    )
    closed = "{ansible_host: 127.0.0.1, node_ip: 10.0.0.22, ansible_port: 1, ansible_connection: ssh}"
    directory.replace("hosts.yml", "{ansible_host: 10.0.0.22}", closed)
    directory.replace("hosts.yml", "infer:", "bare:\n          hosts:\n            w3: {ansible_host: 10.0.0.23}\n        infer:")
    directory.write("group_vars/bare.yml", FILES["group_vars/infer.yml"])
    directory.write("host_vars/w3.yml", "ansible_python_interpreter: /nonexistent/python3\n")
    reports = directory.root / "reports"
    program = Path(sys.executable).with_name("ansible-playbook")
    environment = {**os.environ, "ANSIBLE_CONFIG": str(root / "ansible.cfg"), "ANSIBLE_SSH_RETRIES": "0", "ANSIBLE_NOCOLOR": "1"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(root / ".ansible/collections")
    playbook = root / "playbooks/preflight.yml"
    result = subprocess.run(
        [program, "-i", directory.root, playbook, "--limit", "gpu_nodes", "-e", f"bedplate_report_directory={reports}"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
        cwd=directory.root,
    )
    assert (reports / "preflight.json").exists(), result.stdout + result.stderr
    return result, reports


def test_a_real_run_reports_every_targeted_host_at_once(ran: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    result, reports = ran
    made = json.loads((reports / "preflight.json").read_text(encoding="utf-8"))
    jsonschema.validate(made, FORMAT_1)
    assert {name: entry["state"] for name, entry in made["hosts"].items()} == {
        "w1": "observed",
        "w2": "unreachable",
        "w3": "failed",
    }
    assert made["hosts_of_the_site"] == 4, "the limit is respected and named"
    rows = {row["what"]: row for row in made["hosts"]["w1"]["rows"]}
    assert {"GPUs", "GPU model"} & set(rows) and "hardware" in made["hosts"]["w1"]["facts"]
    assert "python" in made["hosts"]["w3"]["rows"][0]["found"]
    assert [path.stat().st_mode & 0o777 for path in sorted(reports.iterdir())] == [0o600, 0o600]
    assert Page((reports / "preflight.html").read_text(encoding="utf-8")).open == []
    assert result.returncode == 2, "a difference fails the run, after everything is reported"


def test_a_real_run_prints_the_report_before_its_own_summary(ran: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    text = ran[0].stdout
    shown, _banner, summary = text.partition("PREFLIGHT *")[2].partition("RUN REPORT")
    assert all(name in shown for name in ("w1", "w2", "w3")) and "cp1" not in shown
    assert "written: reports/preflight.html" in shown
    assert "changed nothing" in summary and "would change" not in summary
