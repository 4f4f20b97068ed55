# SPDX-License-Identifier: Apache-2.0
"""Values that end in files, command lines and certificates of the hosts: what could not work there is refused here."""

from __future__ import annotations

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.command import inventory_resolver

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
KEY = '"-----BEGIN PGP PUBLIC KEY BLOCK-----"'
ENCRYPTED = "!vault |\n      $ANSIBLE_VAULT;1.1;AES256\n      6162\n"


@pytest.mark.parametrize(
    ("text", "key", "rule"),
    [
        ("kernel: {packages: ['-o', b]}\n", "kernel.packages[0]", "must be the name of a Debian package"),
        ("kernel: {packages: ['curl=1']}\n", "kernel.packages[0]", "must be the name of a Debian package"),
        ("kernel: {modules: ['../x']}\n", "kernel.modules[0]", "must be the name of a kernel module"),
        ("kernel: {modules: ['a b']}\n", "kernel.modules[0]", "must be the name of a kernel module"),
        ("kernel: {sysctl: {'../x': 1}}\n", "kernel.sysctl", "must be the name of a kernel parameter"),
        ("kernel: {sysctl: {'net ipv4': 1}}\n", "kernel.sysctl", "must be the name of a kernel parameter"),
        ('kernel: {sysctl: {vm.x: "1\\n2"}}\n', "kernel.sysctl.vm.x", "must be one line"),
        ("kernel: {limits: {memlok: 1}}\n", "kernel.limits", "must be one of as, core"),
        ("kernel: {limits: {nofile: many}}\n", "kernel.limits.nofile", "must be a number or unlimited"),
        ("kernel: {package: nvidia}\n", "kernel.package", "must be a package of kernels"),
        ("kernel: {version: 6.1}\n", "kernel.version", "YAML reads it as the number 6.1"),
        ("kernel: {command_line: ['root=/dev/sda1']}\n", "kernel.command_line[0]", "is the boot loader's own"),
        ("kernel: {command_line: ['init=/bin/sh']}\n", "kernel.command_line[0]", "is the boot loader's own"),
        ("kernel: {command_line: ['iommu=pt quiet']}\n", "kernel.command_line[0]", "must be a kernel parameter"),
        ("kernel: {command_line: ['a=$(reboot)']}\n", "kernel.command_line[0]", "must be a kernel parameter"),
        ("kernel: {command_line: [iommu=pt, iommu=on]}\n", "kernel.command_line", "stands beside iommu=pt: one of them counts"),
        ("kernel: {command_line: [hugepages=4]}\n", "kernel.command_line", "huge pages are said in kernel.hugepages"),
        ("kernel: {command_line: [iommu=pt], iommu: passthrough}\n", "kernel", "iommu and such parameters of command_line"),
        ("kernel: {hugepages: {4M: 1}}\n", "kernel.hugepages", "must be one of 2M, 1G"),
        ("kernel: {hugepages: {1G: 0}}\n", "kernel.hugepages.1G", "must be greater than or equal to 1"),
        ("kernel: {modules: [ib-core], blacklist: [ib_core]}\n", "kernel", "module ib_core stands in modules and"),
        ("kernel: {journal_max_size: 2 GB}\n", "kernel.journal_max_size", "must be a size as journald takes it"),
        ("kernel: {cpu_governor: fast}\n", "kernel.cpu_governor", "must be one of performance, powersave"),
        ("container_runtime: {package: '-o Dir=/x'}\n", "container_runtime.package", "must be the name of a Debian package"),
        ("container_runtime: {version: '2 3'}\n", "container_runtime.version", "must be a Debian package version"),
        (
            "container_runtime: {extra_config: {runtime.containerd.runtimes.runc.options.SystemdCgroup: false}}\n",
            "container_runtime.extra_config",
            "extra_config runtime.containerd.runtimes.runc.options.SystemdCgroup: this role sets it itself",
        ),
        ("container_runtime: {extra_config: {runtime.x: ~}}\n", "container_runtime.extra_config", ""),
        ("packages: {kubernetes_revision: '1.1 x'}\n", "packages.kubernetes_revision", "must be a Debian package version"),
        ("time: {servers: ['http://ntp']}\n", "time.servers[0]", "must be a host's name or its bare IP address"),
        ("time: {servers: ['[fd00::1]']}\n", "time.servers[0]", "must be a host's name or its bare IP address"),
        (
            "registries: [{host: '../../etc', mirrors: [{url: 'https://m'}]}]\n",
            "registries[0].host",
            "must be a registry as images name it",
        ),
        (
            "registries: [{host: 'https://docker.io', mirrors: [{url: 'https://m'}]}]\n",
            "registries[0].host",
            "must be a registry as images name it",
        ),
        (
            f'packages: {{repositories: [{{name: x, uris: [https://a], suites: ["a\\nTrusted: yes"], signing_key: {KEY}}}]}}\n',
            "packages.repositories[0].suites[0]",
            "must be one word",
        ),
        (
            f"packages: {{repositories: [{{name: x, uris: [https://a], suites: [main], signing_key: {KEY}}}]}}\n",
            "packages.repositories[0]",
            "needs components, or a suite that ends in a slash",
        ),
        (
            f"packages: {{repositories: [{{name: x, uris: [https://a], suites: [/], components: [m], signing_key: {KEY}}}]}}\n",
            "packages.repositories[0]",
            "such a flat repository has no components",
        ),
        ("cost: {currency: EUR, monthly: {network: .inf}}\n", "cost.monthly.network", "must be a finite number"),
    ],
)
def test_refused(site: SiteDirectory, text: str, key: str, rule: str) -> None:
    site.append(SITE, text)
    found = site.errors()
    assert any(f": {key}" in error and f": {rule}" in error for error in found), found


@pytest.mark.parametrize("name", ["https://x", "a b", "*.*.x", "x/y", "[10.0.0.0/8]", "*"])
def test_certificate_names_that_kubeadm_would_refuse(site: SiteDirectory, name: str) -> None:
    site.site("  name: test\n", f"  name: test\n  extra_sans: ['{name}']\n")
    (error,) = site.errors()
    assert error.endswith("must be a DNS name or an IP address: it stands in the API server's certificate")


@pytest.mark.parametrize("text", ["https://r.example.com", "r.example.com/", "R.example.com", "r/a b", "r//a", ""])
def test_image_registries_that_are_none(site: SiteDirectory, text: str) -> None:
    site.site("  name: test\n", f"  name: test\n  image_registry: '{text}'\n")
    (error,) = site.errors()
    assert "cluster.image_registry = " in error


@pytest.mark.parametrize("text", ["r.example.com", "r.example.com:5000/a/b-c", "localhost:5000", "[fd00::1]:5000/x"])
def test_image_registries(site: SiteDirectory, text: str) -> None:
    site.site("  name: test\n", f"  name: test\n  image_registry: '{text}'\n")
    assert site.errors() == []


@pytest.mark.parametrize("text", ["a b", "a,b", "http://a", ""])
def test_no_proxy_entries_that_are_none(site: SiteDirectory, text: str) -> None:
    site.site("network:\n", f"network:\n  proxy: {{http: 'http://p:3128', no_proxy: ['{text}']}}\n")
    (error,) = site.errors()
    assert "network.proxy.no_proxy[0] = " in error


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("0.0.0.0", "is a unspecified address"),
        ("127.0.0.1", "is a loopback address"),
        ("224.0.0.1", "is a multicast address"),
        ("fe80::1", "is a link-local address"),
        ("10.0.0.22", "is the address of the worker w2, which has no API server"),
    ],
)
def test_endpoint_addresses_without_an_api(site: SiteDirectory, address: str, rule: str) -> None:
    site.site("name: api.test.example.com", f"name: api.test.example.com\n    address: '{address}'")
    assert any(f"cluster.endpoint.address = {address}: {rule}" in error for error in site.errors())


@pytest.mark.parametrize("name", ["localhost", "api.localhost"])
def test_endpoint_name_that_means_every_host_itself(site: SiteDirectory, name: str) -> None:
    site.site("api.test.example.com", name)
    assert any("means every host itself" in error for error in site.errors())


@pytest.mark.parametrize("cidr", ["127.0.0.0/16", "169.254.0.0/16", "224.0.0.0/16"])
def test_ranges_that_hosts_cannot_use(site: SiteDirectory, cidr: str) -> None:
    site.site("10.244.0.0/16", cidr)
    assert any("which no host or pod can be reached at" in error for error in site.errors())


def test_version_in_other_digits_than_ascii(site: SiteDirectory) -> None:
    site.site('"1.36.3"', '"１.36.3"')
    (error,) = site.errors()
    assert "must be a full version of three numbers" in error


def test_a_message_is_one_line_and_moves_no_cursor(site: SiteDirectory) -> None:
    site.site("name: test", 'name: "te\\e[31m\\u202est"')
    site.replace("hosts.yml", "w2:", '"w2\\n":')
    assert all(error.isprintable() for error in site.errors())
    assert any("te\\x1b[31m\\u202est" in error for error in site.errors())


@pytest.mark.parametrize(
    "url", ["https://u:hush@m.example.com", "https://u:hu@hush@m.example.com", "https://u:a/hush@m.example.com"]
)
@pytest.mark.parametrize("shape", ["registries: {docker.io: ['URL']}", "registries: ['URL']", "registry_mirrors: ['URL']"])
def test_credentials_in_a_url_are_in_no_message(site: SiteDirectory, url: str, shape: str) -> None:
    site.append(SITE, shape.replace("URL", url) + "\n")
    found = site.errors()
    assert found
    assert not any("hush" in error for error in found)


def test_a_required_value_whose_password_is_not_given(site: SiteDirectory) -> None:
    site.site("name: test\n", f"name: {ENCRYPTED}")
    found = site.validate(resolver=inventory_resolver(["."]))
    assert found.errors == []
    assert found.bedplate is None
    assert [str(problem) for problem in found.warnings] == [
        f"{SITE}:1: cluster.name = (hidden): cannot be checked without the vault's password (--vault-password-file); "
        "until then nothing can be made of it"
    ]


def test_a_pool_whose_password_is_not_given(site: SiteDirectory) -> None:
    site.replace("group_vars/train.yml", "h100-80gb", ENCRYPTED.strip())
    found = site.validate()
    assert found.errors == []
    assert found.bedplate is None
