# SPDX-License-Identifier: Apache-2.0
"""Reading the inventory: shapes of files, templates, encrypted values, precedence, size."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.site import yamlfile
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.command import inventory_resolver, main
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.inventory_files import read_inventory
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.validate import validate

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
VAULTED = """\
registries:
  - host: docker.io
    mirrors:
      - url: https://m.example.com
        username: puller
        password: !vault |
          $ANSIBLE_VAULT;1.1;AES256
          6162
"""


def resolved(site: SiteDirectory) -> Any:
    return site.validate(resolver=inventory_resolver(["."]))


def test_one_file_instead_of_a_directory(site: SiteDirectory) -> None:
    assert validate(["hosts.yml"]).problems == []


@pytest.mark.parametrize("others", [[], ["."]])
def test_of_a_missing_inventory_nothing_else_is_said(site: SiteDirectory, others: list[str]) -> None:
    site.append("group_vars/all/site.yml", "kubernetes_version: 1\n")
    assert [str(problem) for problem in validate([*others, "/nowhere/hosts.yml"]).problems] == [
        "/nowhere/hosts.yml:1: inventory = /nowhere/hosts.yml: there is no such file or directory"
    ]


def test_ini_inventory_is_refused(site: SiteDirectory) -> None:
    site.write("hosts.ini", "[control_plane]\ncp1\n")
    (error,) = site.errors()
    assert error.startswith("hosts.ini:1: inventory = hosts.ini: Bedplate reads inventories written in YAML; convert it:")


def test_syntax_error_names_file_and_line(site: SiteDirectory) -> None:
    site.append(SITE, "time: {servers: [a\n")
    error = site.errors()[0]
    assert error.startswith(f"{SITE}:11: YAML = (syntax error): while parsing a flow sequence, ")


def test_repeated_key(site: SiteDirectory) -> None:
    site.append(SITE, "  pod_cidrs: [10.245.0.0/16]\n")
    assert site.errors() == [
        f"{SITE}:10: network.pod_cidrs = (repeated): this key stands twice in one mapping (first in line 8); YAML keeps "
        "only one of them"
    ]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("x: &a [*a]\n", "found an alias for a value that contains it"),
        ("x: &a {b: *a}\n", "found an alias for a value that contains it"),
        ("x: &a [{b: &b [*a]}, *b]\n", "found an alias for a value that contains it"),
        ("? [a, b]\n: 1\n", "a key is text; this one is a list or a mapping"),
    ],
)
def test_shapes_that_no_file_of_variables_has(site: SiteDirectory, text: str, rule: str) -> None:
    site.append(SITE, text)
    assert any(error.startswith(f"{SITE}:10: ") and error.endswith(rule) for error in site.errors())


def test_aliases_that_multiply_end_in_a_finding(site: SiteDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlfile, "MAX_VALUES", 10_000)
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)]
    site.append(SITE, "".join(["a0: &a0 [x, x, x, x]\n", *lines]))
    assert any("found more than 10000 values; aliases of aliases multiply them" in error for error in site.errors())


def test_a_pipe_is_not_waited_for(site: SiteDirectory) -> None:
    os.mkfifo(site.root / "group_vars/all/pipe.yml")
    (error,) = site.errors()
    assert error.startswith("group_vars/all/pipe.yml:1: ")


@pytest.mark.parametrize("name", ["42", "1.5", "on", "~", "2024-01-01"])
def test_names_that_yaml_does_not_read_as_text(site: SiteDirectory, name: str) -> None:
    site.replace("hosts.yml", "w2:", f"{name}:")
    wanted = f'hosts.{name} = {name}: YAML does not read this name as text; write it in quotes: "{name}"'
    assert any(error.endswith(wanted) for error in site.errors())


def test_group_name_that_yaml_does_not_read_as_text(site: SiteDirectory) -> None:
    site.append("hosts.yml", "        on: {hosts: {w3: {ansible_host: 10.0.0.23}}}\n")
    assert any('YAML does not read this name as text; write it in quotes: "on"' in error for error in site.errors())


def test_groups_that_hold_each_other(site: SiteDirectory) -> None:
    site.append("hosts.yml", "    left: {children: {right: {children: {left: }}}}\n    self: {children: {self: }}\n")
    rule = "as well, so both would hold each other; take one of the two away"
    assert site.errors() == [
        f"hosts.yml:14: left.children = right: right is above left {rule}",
        f"hosts.yml:14: right.children = left: left is above right {rule}",
        f"hosts.yml:15: self.children = self: self is above self {rule}",
    ]


@pytest.mark.parametrize("name", ["more.py", "more.toml", "more", "more.ini", "more.sh"])
def test_what_ansible_reads_and_bedplate_does_not_is_refused(site: SiteDirectory, name: str) -> None:
    site.write(name, "#!/bin/sh\n")
    (error,) = site.errors()
    assert error.startswith(f"{name}:1: inventory = {name}: Bedplate reads inventories written in YAML")


def test_inventory_plugin_is_refused(site: SiteDirectory) -> None:
    site.write("more.yml", "plugin: ansible.builtin.constructed\nstrict: false\n")
    (error,) = site.errors()
    assert error.startswith("more.yml:1: inventory = more.yml: an inventory plugin's hosts are not known before it runs")


@pytest.mark.parametrize("name", ["hosts.yml~", "hosts.yml.orig", "hosts.yml.bak", "hosts.retry", "README.md", ".hidden.yml"])
def test_what_ansible_passes_over_is_passed_over(site: SiteDirectory, name: str) -> None:
    site.write(name, "[control_plane]\n")
    assert site.errors() == []


def test_json_is_yaml(site: SiteDirectory) -> None:
    site.write("more.json", '{"all": {"children": {"gpu_nodes": {"children": {"infer": {"hosts": {"w3": {}}}}}}}}')
    site.write("group_vars/all/kernel.json", '{"kernel": {"swap": "never"}}')
    (error,) = site.errors()
    assert error.startswith("group_vars/all/kernel.json:1: kernel.swap = never: ")
    site.write("group_vars/all/kernel.json", '{"kernel": {"swap": "keep"}}')
    assert "w3" in site.bedplate()["hosts"]


def test_unknown_key_of_a_group(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "        infer:\n          hosts:", "        infer:\n          host:")
    assert (
        "hosts.yml:12: all.children.gpu_nodes.children.infer.host = {'w2': {'ansible_host': '10.0.0.22'}}: unknown key of "
        "a group; "
        "did you mean hosts?"
    ) in site.errors()


def test_hosts_as_a_list(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "            w2: {ansible_host: 10.0.0.22}", "            - w2")
    assert any("hosts of a group is a mapping (names followed by a colon)" in error for error in site.errors())


def test_ranges_of_hosts(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", "g[01:03]: {}")
    assert [name for name in site.bedplate()["hosts"] if name.startswith("g")] == ["g01", "g02", "g03"]


def test_range_of_hosts_that_holds_none(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", '"g[3:1]":')
    assert any("g[3:1] = g[3:1]: this range of host names ends before it begins" in error for error in site.errors())


def test_anchors_and_merges(site: SiteDirectory) -> None:
    site.replace(
        "hosts.yml",
        "w1: {ansible_host: 10.0.0.21, rack: r1, topology_block: b1}",
        "w1: {<<: &place {rack: r5, topology_block: b5}, node_ip: 10.0.0.21}",
    )
    assert site.bedplate()["hosts"]["w1"]["rack"] == "r5"


def test_nearest_group_and_host_win(site: SiteDirectory) -> None:
    site.write("group_vars/gpu_nodes.yml", "rack: far\ntopology_block: far\n")
    site.append("group_vars/infer.yml", "rack: near\n")
    assert site.bedplate()["hosts"]["w2"]["rack"] == "near"
    assert site.bedplate()["hosts"]["w2"]["block"] == "far"
    site.write("host_vars/w2.yml", "rack: own\n")
    assert site.bedplate()["hosts"]["w2"]["rack"] == "own"


def test_templates_are_resolved_before_they_are_checked(site: SiteDirectory) -> None:
    site.write("group_vars/all/own.yml", "prefix: 10.0\nnumber: '{{ 5 + 1 }}'\n")
    site.site("[10.0.0.0/24]", '["{{ prefix }}.0.0/24"]')
    site.append(SITE, 'time: {max_offset_seconds: "{{ number }}"}\n')
    found = resolved(site)
    assert found.errors == []
    assert found.bedplate["cluster"]["node_cidrs"] == ["10.0.0.0/24"]
    assert found.bedplate["hosts"]["w1"]["roles"]["preflight"]["time"]["max_offset_seconds"] == 6


def test_wrong_value_of_a_template_shows_both(site: SiteDirectory) -> None:
    site.write("group_vars/all/own.yml", "prefix: 10.0\n")
    site.site("[10.0.0.0/24]", '["{{ prefix }}.0.7/24"]')
    assert [str(problem) for problem in resolved(site).errors] == [
        f"{SITE}:7: network.node_cidrs[0] = 10.0.0.7/24 (from {{{{ prefix }}}}.0.7/24): has bits set behind its prefix "
        "length; the range "
        "it lies in is 10.0.0.0/24"
    ]


def test_undefined_template_hides_no_other_error(site: SiteDirectory) -> None:
    site.site("[10.244.0.0/16]", '["{{ nowhere }}"]')
    site.site('"1.36.3"', "1.30")
    assert [str(problem) for problem in resolved(site).errors] == [
        f'{SITE}:3: cluster.kubernetes_version = 1.30: YAML reads it as the number 1.3; write it in quotes: "1.30"',
        f"{SITE}:8: network.pod_cidrs[0] = {{{{ nowhere }}}}: the template cannot be resolved: 'nowhere' is undefined",
    ]


def test_templated_address_of_a_host(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", "w2: {ansible_host: '10.0.0.{{ last }}', last: 77}")
    assert resolved(site).bedplate["hosts"]["w2"]["node_ip"] == "10.0.0.77"


def test_encrypted_value_without_its_password_is_taken_as_it_is(site: SiteDirectory) -> None:
    site.append(SITE, VAULTED)
    assert site.errors() == []
    assert resolved(site).errors == []


def test_file_encrypted_as_a_whole(site: SiteDirectory) -> None:
    site.write("group_vars/all/vault.yml", "$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    assert site.errors() == []
    site.site("network:", "netz:")
    assert any("not looked for in the encrypted group_vars/all/vault.yml" in error for error in site.errors())


def test_command(site: SiteDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-i", "."]) == 0
    assert capsys.readouterr().out == "0 errors, 0 warnings; cluster test, 3 hosts (train 1, infer 1, system 1)\n"
    site.site('"1.36.3"', "1.30")
    assert main(["validate", "-i", "."]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f'{SITE}:3: cluster.kubernetes_version = 1.30: YAML reads it as the number 1.3; write it in quotes: "1.30"',
        "1 error, 0 warnings",
    ]


def test_a_thousand_hosts(site: SiteDirectory, tmp_path: Path) -> None:
    site.site("10.0.0.0/24", "10.0.0.0/16")
    site.site("10.244.0.0/16", "10.128.0.0/12")
    lines = [
        f"            n{n}: {{ansible_host: 10.0.{1 + n // 250}.{1 + n % 250}, rack: r{n // 8}, topology_block: b1}}\n"
        for n in range(1000)
    ]
    site.replace("hosts.yml", "        infer:\n", "".join(lines) + "        infer:\n")
    began = time.monotonic()
    assert len(site.bedplate()["hosts"]) == 1003
    assert time.monotonic() - began < 30
    assert len(read_inventory(["."]).hosts_of("train")) == 1001
