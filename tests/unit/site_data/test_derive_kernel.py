# SPDX-License-Identifier: Apache-2.0
"""The kernel role's options: the site's words, the pool's on top."""

from __future__ import annotations

from typing import Any

import yaml
from ansible_collections.bedplate.metal.plugins.modules.kernel import ARGUMENT_SPEC, build_desired

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"


def kernel(site: SiteDirectory, host: str) -> Any:
    return site.bedplate()["hosts"][host]["roles"]["kernel"]


def test_the_role_takes_what_is_derived_and_nothing_is_wanted_by_itself(site: SiteDirectory) -> None:
    options = kernel(site, "w1")
    assert set(options) == set(ARGUMENT_SPEC) - {"hold_unattended"}
    desired = build_desired({**options, "hold_unattended": []})
    assert not (
        desired.command_line or desired.blacklist or desired.all_packages or desired.image.package or desired.time_servers
    )
    assert not desired.tuning.settings and not desired.tuning.acs_off


def test_the_pools_words_come_on_top_of_the_sites(site: SiteDirectory) -> None:
    own = {
        "package": "linux-image-amd64",
        "version": "6.1.115-1",
        "command_line": ["mitigations=auto", "console=ttyS0"],
        "iommu": "translated",
        "modules": ["tun", "nvme"],
        "blacklist": ["nouveau", "ib_isert"],
        "sysctl": {"vm.swappiness": 1},
        "cpu_governor": "powersave",
        "numa_balancing": True,
    }
    pool = {
        "package": "linux-image-cloud-amd64",
        "command_line": ["mitigations=off", "console=ttyS1"],
        "iommu": "passthrough",
        "hugepages": {"1G": 64, "2M": 512},
        "modules": ["ib_isert"],
        "blacklist": ["tun"],
        "sysctl": {"vm.swappiness": 10},
        "cpu_governor": "performance",
        "numa_balancing": False,
        "disable_acs": True,
    }
    site.append(SITE, yaml.safe_dump({"kernel": own}))
    site.append("group_vars/train.yml", "  kernel: " + yaml.safe_dump(pool, default_flow_style=True, width=1000))
    options = kernel(site, "w1")
    assert options["command_line"] == [
        *("intel_iommu=on", "iommu=pt", "mitigations=off", "console=ttyS0", "console=ttyS1"),
        *("hugepagesz=1G", "hugepages=64"),
    ]
    assert (options["package"], options["version"]) == ("linux-image-cloud-amd64", ""), "a version is that of a package"
    assert options["modules"] == ["overlay", "br_netfilter", "nvme", "ib_isert"] and options["blacklist"] == ["nouveau", "tun"]
    assert (options["cpu_governor"], options["disable_acs"]) == ("performance", True)
    assert {k: options["sysctl"][k] for k in ("vm.swappiness", "kernel.numa_balancing", "vm.nr_hugepages")} == {
        "vm.swappiness": "10",
        "kernel.numa_balancing": "0",
        "vm.nr_hugepages": "512",
    }
    build_desired({**options, "hold_unattended": []})
    other = kernel(site, "w2")
    assert other["command_line"] == ["intel_iommu=on", "iommu=nopt", "mitigations=auto", "console=ttyS0"]
    assert (other["version"], other["sysctl"]["vm.swappiness"], other["disable_acs"]) == ("6.1.115-1", "1", False)


def test_a_pools_kernel_may_be_its_version_alone(site: SiteDirectory) -> None:
    site.append("group_vars/train.yml", '  kernel: "6.1.115-1"\n')
    assert (kernel(site, "w1")["package"], kernel(site, "w1")["version"]) == ("", "6.1.115-1")
    site.replace("group_vars/train.yml", '"6.1.115-1"', "6.1")
    assert site.errors() == ["group_vars/train.yml:7: train.gpu_pool.kernel = 6.1: must be a version in quotes, or a mapping"]


def test_drivers_that_are_compiled_need_headers(site: SiteDirectory) -> None:
    site.append("group_vars/train.yml", '  os: ubuntu-24.04\n  driver: {branch: "580", version: "580.126.09"}\n')
    assert kernel(site, "w1")["headers"] and not kernel(site, "w2")["headers"]
    site.replace("group_vars/train.yml", '"580.126.09"}', '"580.126.09", source: distribution, build: precompiled}')
    assert not kernel(site, "w1")["headers"]


def test_chrony_takes_the_sites_servers_where_a_service_is_required(site: SiteDirectory) -> None:
    site.append(SITE, "time: {servers: [ntp1.example.com]}\n")
    assert kernel(site, "w1")["time_servers"] == ["ntp1.example.com"]
    site.site("time: {", "time: {service_required: false, ")
    assert kernel(site, "w1")["time_servers"] == []
