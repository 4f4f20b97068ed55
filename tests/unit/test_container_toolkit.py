# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's container toolkit: the device specification follows the driver, and containerd keeps one owner."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import nvidia_container_toolkit
from ansible_collections.bedplate.metal.plugins.module_utils.cdi_spec import PATH, SECOND, parse_list, parse_spec, wanted_uuids
from ansible_collections.bedplate.metal.plugins.module_utils.containerd_config import DROPIN, MAIN, Settings, wanted_files
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_container_toolkit import CONFIG, NvidiaContainerToolkit
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_probe import Gpu
from fixtures_gpu import toolkit_desired, with_driver, with_stale_spec
from simulated_gpu import NEW, OLD, cdi_text, gpu_host, h100, load

from recorded_host import RecordedHost

NVIDIA = "/usr/bin/nvidia-container-runtime"
LISTING = """GPU 0: NVIDIA A100 (UUID: GPU-0)
  MIG 1g.10gb     Device  0: (UUID: MIG-a)
  MIG 1g.10gb     Device  1: (UUID: MIG-b)
GPU 1: NVIDIA A100 (UUID: GPU-1)
"""


def run(host: RecordedHost, policy: Policy | None = None, **options: object) -> Outcome:
    return execute(NvidiaContainerToolkit(), host, toolkit_desired(**options), policy or Policy())


class TestSpecification:
    def test_installed_pinned_and_made(self) -> None:
        host = with_driver(h100())
        run(host)
        assert host.packages["nvidia-container-toolkit-base"].version == "1.20.2-1"
        assert host.packages["nvidia-container-toolkit-base"].held
        spec = parse_spec(host.files[PATH])
        assert spec.versions == {OLD} and len(spec.uuids) == 8

    def test_check_mode_names_what_the_run_does_though_the_driver_comes_only_with_it(self) -> None:
        predicted = run(gpu_host(h100()), Policy(check=True))
        host = with_driver(h100())
        assert [c.what for c in predicted.changes] == [c.what for c in run(host).changes]
        assert parse_spec(host.files[PATH]).versions == {OLD}

    def test_d37_a_second_run_restarts_and_reloads_nothing(self) -> None:
        host = with_driver(h100())
        run(host)
        host.commands.clear()
        assert not run(host, Policy(in_service=True)).changed
        verbs = {c[1] for c in host.commands if c[0] == "systemctl"}
        assert verbs <= {"show", "is-active"}

    def test_made_again_after_a_driver_upgrade_also_in_service(self) -> None:
        machine = h100()
        host = with_driver(machine)
        run(host)
        host.files = {p.replace(OLD, NEW) if "libnvidia-ml" in p else p: t for p, t in host.files.items()}
        load(host, machine, NEW)
        outcome = run(host, Policy(in_service=True))
        assert [c.what for c in outcome.changes] == [f"CDI specification {PATH}"] and OLD in str(outcome.changes[0].before)
        assert parse_spec(host.files[PATH]).versions == {NEW}
        assert not host.ran("systemctl", "restart", "containerd")

    def test_made_again_when_devices_differ(self) -> None:
        host = with_stale_spec()
        run(host)
        host.files[PATH] = cdi_text(OLD, ["GPU-0", "GPU-gone"])
        assert run(host).changes[0].before == "one that lacks 7 devices and names 1 that are gone"

    def test_left_alone_where_no_gpu_answers(self) -> None:
        machine = h100()
        host = with_driver(machine)
        run(host)
        machine.hung = True
        host.files[PATH] = cdi_text("570.124.06", ["GPU-0"])
        assert not run(host).changed

    def test_an_nvidia_smi_known_to_hang_is_not_asked_again(self) -> None:
        host = with_driver(h100())
        run(host, probe=False)
        assert not host.ran("nvidia-smi") and PATH not in host.files

    def test_nothing_to_describe_without_a_driver(self) -> None:
        host = gpu_host(h100())
        run(host)
        assert PATH not in host.files and not run(host).changed

    def test_a_failing_service_says_why(self) -> None:
        host = with_driver(h100())
        systemctl = host.handlers["systemctl"]
        failed = type(systemctl(host, ["systemctl", "show", "x"], None))(1, "", "ERROR: library version mismatch")
        host.on("systemctl", lambda h, argv, stdin: failed if argv[1] == "restart" else systemctl(h, argv, stdin))
        with pytest.raises(BedplateError, match="library version mismatch"):
            run(host)

    def test_at_boot_containerd_waits_for_it_only_a_bounded_time(self) -> None:
        host = with_driver(h100())
        run(host, discovery_mode="nvml")
        text = host.files[nvidia_container_toolkit.DROPIN]
        assert "TimeoutStartSec=30s" in text and "NVIDIA_CTK_CDI_GENERATE_MODE=nvml" in text

    @pytest.mark.parametrize(
        ("module", "runs"),
        [
            ("updates/dkms/nvidia.ko.xz", True),
            ("nvidia-current.ko", True),
            ("nvidia-current-open.ko", True),
            ("nvidia-uvm.ko", False),
        ],
    )
    def test_it_runs_whatever_the_distribution_calls_the_module(self, module: str, runs: bool, tmp_path: Path) -> None:
        """Debian's open one is nvidia-current-open.ko, which the unit's own condition does not know."""
        (tmp_path / "modules.dep").write_text(f"kernel/lib/raid6_pq.ko:\nupdates/{module}: kernel/drivers/video.ko\n")
        reset, condition = re.findall(r"ExecCondition=(.*)\n", toolkit_desired().dropin())
        moved = condition.replace("/lib/modules/%v", str(tmp_path)).replace("/proc/", f"{tmp_path}/proc/")
        assert reset == "" and (subprocess.run(shlex.split(moved), check=False).returncode == 0) is runs
        (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
        (tmp_path / "proc/driver/nvidia/version").touch()
        assert subprocess.run(shlex.split(moved), check=False).returncode == 0, "a loaded driver is one"

    def test_a_hung_nvidia_smi_is_asked_once(self) -> None:
        machine = h100()
        host = with_driver(machine)
        machine.hung = True
        assert run(host).changed and len(host.ran("nvidia-smi")) == 1

    def test_a_second_specification_is_warned_of(self) -> None:
        host = with_driver(h100())
        host.files[SECOND] = ""
        assert [p.severity for p in run(host).problems] == ["warning"]

    def test_a_toolkit_without_the_refresh_service_is_refused(self) -> None:
        host = with_driver(h100())
        before = host.snapshot()
        assert "1.18 or newer" in str(run(host, version="1.17.8-1").problems[0])
        assert host.snapshot() == before

    def test_an_upgrade_waits_for_the_drain(self) -> None:
        host = with_driver(h100())
        run(host, version="1.20.1-1")
        assert [c.what for c in run(host, Policy(in_service=True)).deferred] == ["package nvidia-container-toolkit-base"]

    def test_asking_for_gpus_by_environment_variable_can_be_forbidden(self) -> None:
        host = with_driver(h100())
        run(host, visible_devices_envvar=False)
        assert host.files[CONFIG].startswith("accept-nvidia-visible-devices-envvar-when-unprivileged = false")
        assert not run(host, visible_devices_envvar=False).changed

    def test_mig_devices_stand_for_their_gpu(self) -> None:
        gpus = (Gpu(0, "GPU-0", "", "A100", 0, "Enabled"), Gpu(1, "GPU-1", "", "A100", 0, "Disabled"))
        assert wanted_uuids(gpus, parse_list(LISTING)) == {"MIG-a", "MIG-b", "GPU-1"}


class TestHandler:
    settings = Settings(handlers={"nvidia": NVIDIA}, cdi=True)

    @pytest.mark.parametrize(
        ("main", "table"), [("version = 2\n", "io.containerd.grpc.v1.cri"), ("version = 3\n", "io.containerd.cri.v1.runtime")]
    )
    def test_runtime_handler_with_systemd_cgroups(self, main: str, table: str) -> None:
        wanted = wanted_files({MAIN: main}, self.settings)
        values = {s.path: s.value for s in wanted.settings}
        runtime = ("containerd", "runtimes", "nvidia")
        assert values[(*runtime, "options", "BinaryName")] == NVIDIA and values[(*runtime, "options", "SystemdCgroup")] is True
        assert values[(*runtime, "runtime_type")] == "io.containerd.runc.v2"
        assert table in wanted.files[DROPIN] and not wanted.problems

    def test_device_specifications_are_switched_on_where_a_file_switches_them_off(self) -> None:
        main = "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = {}\n"
        off = {s.path: s.value for s in wanted_files({MAIN: main.format("false")}, self.settings).settings}
        assert off[("enable_cdi",)] is True
        plain = {s.path for s in wanted_files({MAIN: "version = 3\n"}, self.settings).settings}
        assert ("enable_cdi",) not in plain, "containerd 2.4 does not know it"

    def test_a_second_owner_is_refused_by_file(self) -> None:
        operator = "/etc/containerd/conf.d/99-nvidia.toml"
        text = (
            "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n"
            'BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"\n'
        )
        (problem,) = wanted_files({MAIN: "version = 3\n", operator: text}, self.settings).problems
        assert operator in problem.found and "toolkit.enabled=false" in problem.next_step
        assert not wanted_files({MAIN: "version = 3\n", operator: text}, Settings()).problems
