# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_headers import (
    Kernels,
    header_packages,
    module_packages,
    observe_kernels,
    sort_releases,
)
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_modules import architecture_of, choose_modules
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_packages import (
    PackageChoiceError,
    branch_of,
    driver_packages,
    module_file,
    precompiled,
    upstream_version,
)

from recorded_host import Package, RecordedHost


def named(*arguments: str, **options: object) -> dict[str, str | None]:
    return {p.name: p.version for p in driver_packages(*arguments, **options)}  # type: ignore[arg-type]


class TestNames:
    @pytest.mark.parametrize(
        ("distribution", "version", "modules", "wanted"),
        [
            ("debian-12", "580.126.09", "open", {"nvidia-kernel-open-dkms": "580.126.09-1", "libnvidia-ml1": "580.126.09-1"}),
            ("debian-13", "580.126.09", "proprietary", {"nvidia-kernel-dkms": "580.126.09-1"}),
            ("ubuntu-22.04", "580.105.08", "open", {"nvidia-dkms-580-open": "580.105.08-0ubuntu1"}),
            ("ubuntu-24.04", "580.126.09", "open", {"libnvidia-compute-580": "580.126.09-1ubuntu1"}),
            (
                "ubuntu-24.04",
                "595.71.05",
                "open",
                {"nvidia-dkms-open": "595.71.05-1ubuntu1", "libnvidia-compute": "595.71.05-1ubuntu1"},
            ),
            ("ubuntu-22.04", "550.107.02", "open", {"nvidia-utils-550": "550.107.02-0ubuntu1"}),
        ],
    )
    def test_names_and_versions(self, distribution: str, version: str, modules: str, wanted: dict[str, str]) -> None:
        assert wanted.items() <= named(distribution, version, modules).items()

    def test_fabric_manager_carries_the_branch_up_to_575(self) -> None:
        assert "nvidia-fabricmanager-570" in named("debian-12", "570.172.08", "open", fabric=True)
        new = named("debian-12", "580.126.09", "open", fabric=True, nvlsm=True)
        assert new["nvidia-fabricmanager"] == new["libnvidia-nscq"] == "580.126.09-1" and new["nvlsm"] is None

    def test_branches_before_570_have_no_pinning_package(self) -> None:
        assert not [n for n in named("ubuntu-22.04", "550.107.02", "open") if "pinning" in n]
        assert "nvidia-driver-pinning-580.126.09" in named("ubuntu-22.04", "580.126.09", "open")

    def test_the_distributions_own_packages(self) -> None:
        debian = named("debian-12", "535.261.03", "open", source="distribution")
        assert {"nvidia-open-kernel-dkms", "nvidia-smi"} <= set(debian) and debian["nvidia-smi"] is None
        ubuntu = named(
            "ubuntu-24.04", "580.126.09", "open", source="distribution", build="precompiled", kernel="6.8.0-90-generic"
        )
        assert {"linux-modules-nvidia-580-server-open-6.8.0-90-generic", "nvidia-utils-580-server"} <= set(ubuntu)

    def test_debians_own_module_has_a_name_by_kind(self) -> None:
        assert module_file("debian-12", "distribution", "open") == "nvidia-current-open"
        assert module_file("debian-12", "nvidia", "open") == module_file("ubuntu-24.04", "distribution", "open") == "nvidia"

    def test_only_modules(self) -> None:
        assert set(named("debian-12", "535.261.03", "open", source="distribution", userspace=False)) == {
            "nvidia-open-kernel-dkms"
        }

    @pytest.mark.parametrize(
        ("arguments", "options", "said"),
        [
            (("debian-12", "550.107.02", "open"), {}, "too old"),
            (("debian-12", "620.10.01", "proprietary"), {}, "none after 610"),
            (("debian-12", "580.126.09", "open"), {"build": "precompiled"}, "only Ubuntu"),
            (("debian-12", "535.261.03", "open"), {"source": "distribution", "fabric": True}, "no fabric manager"),
            (("rocky-9", "580.126.09", "open"), {}, "rocky-9"),
        ],
    )
    def test_what_there_is_not(self, arguments: tuple[str, ...], options: dict[str, object], said: str) -> None:
        with pytest.raises(PackageChoiceError, match=said):
            named(*arguments, **options)


class TestVersions:
    def test_a_version_that_yaml_turned_into_a_number_is_refused(self) -> None:
        for wrong in ("580", "580.1", "v580.126.09", "580.126.09-1", ""):
            with pytest.raises(ValueError, match="in quotes"):
                branch_of(wrong)

    def test_upstream_version(self) -> None:
        assert upstream_version("1:535.261.03-1~deb12u1") == "535.261.03"


class TestModules:
    @pytest.mark.parametrize(
        ("name", "architecture"),
        [
            ("h100-80gb", "hopper"),
            ("NVIDIA H200", "hopper"),
            ("b200-180gb", "blackwell"),
            ("gb200", "blackwell"),
            ("l40s-48gb", "ada"),
            ("l4", "ada"),
            ("a100-80gb", "ampere"),
            ("Tesla T4", "turing"),
            ("v100-32gb", "volta"),
            ("gh200", "grace-hopper"),
        ],
    )
    def test_architectures(self, name: str, architecture: str) -> None:
        assert architecture_of(name) == architecture

    def test_an_unknown_gpu_is_named(self) -> None:
        with pytest.raises(ValueError, match="mi300x"):
            architecture_of("mi300x")

    def test_auto_takes_open_where_it_can(self) -> None:
        assert choose_modules("auto", ["hopper"], 580) == "open"
        assert choose_modules("auto", ["volta"], 580) == "proprietary"
        assert choose_modules("auto", ["volta", "ampere"], 580) == "proprietary"
        assert choose_modules("proprietary", ["hopper"], 580) == "proprietary"

    @pytest.mark.parametrize(
        ("wanted", "architectures", "branch", "said"),
        [
            ("auto", ["volta"], 590, "last that does is 580"),
            ("open", ["volta"], 580, "proprietary kernel modules only"),
            ("proprietary", ["ampere"], 620, "no proprietary kernel modules"),
            ("auto", ["volta", "blackwell"], 580, "pools of their own"),
            ("auto", ["rdna"], 580, "rdna"),
        ],
    )
    def test_impossible(self, wanted: str, architectures: list[str], branch: int, said: str) -> None:
        with pytest.raises(PackageChoiceError, match=said):
            choose_modules(wanted, architectures, branch)


class TestHeaders:
    def test_the_newest_kernel_boots_next_by_version_not_by_letters(self) -> None:
        assert (
            sort_releases(["6.1.0-9-amd64", "6.1.0-37-amd64", "6.1.0-30-amd64", "6.1.0-30-amd64.old", "memtest"])[-1]
            == "6.1.0-37-amd64"
        )

    def test_every_flavours_package_is_followed_and_no_release(self) -> None:
        host = RecordedHost()
        flavours = ("cloud-amd64", "rt-amd64", "generic-hwe-24.04", "virtual", "aws", "nvidia-64k", "oem-24.04d")
        for name in (*flavours, "6.1.0-30-amd64", "unsigned-6.8.0-90-generic", "amd64-dbg", "extra-virtual"):
            host.packages[f"linux-image-{name}"] = Package("1")
        assert observe_kernels(host).meta == tuple(sorted(f"linux-image-{name}" for name in flavours))

    def test_precompiled_modules_follow_the_flavour(self) -> None:
        kernels = Kernels(meta=("linux-image-generic-hwe-24.04", "linux-image-virtual", "linux-image-generic"))
        start = precompiled(580, "proprietary")
        assert module_packages(kernels, start) == [
            "linux-modules-nvidia-580-server-generic-hwe-24.04",
            "linux-modules-nvidia-580-server-generic",
        ]

    def test_headers_for_the_running_and_the_next_kernel_and_for_those_to_come(self) -> None:
        kernels = Kernels(
            "6.1.0-30-amd64", ("6.1.0-30-amd64", "6.1.0-37-amd64"), frozenset({"6.1.0-30-amd64"}), ("linux-image-amd64",)
        )
        assert header_packages(kernels) == ["linux-headers-6.1.0-37-amd64", "linux-headers-amd64"]
        assert header_packages(kernels, ["6.12.1-amd64"]) == ["linux-headers-6.12.1-amd64"]
