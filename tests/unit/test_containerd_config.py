# SPDX-License-Identifier: Apache-2.0
"""containerd's files by configuration version: what is kept, what is written, what is refused."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import containerd_config as config
from ansible_collections.bedplate.metal.plugins.module_utils.containerd_check import dump_complaints, parse_plugins
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result

SETTINGS = config.Settings("registry.k8s.io/pause:3.10.2", restrict_oom_score_adj=True, registries=True)
NVIDIA = """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
"""
DOCKERS_PACKAGE = """\
#   Copyright of somebody

disabled_plugins = ["cri"]

#root = "/var/lib/containerd"
"""
DEBIANS_PACKAGE = """\
version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
"""


def apply(files: dict[str, str], settings: config.Settings = SETTINGS) -> dict[str, str]:
    """The files after one run; planning again must find nothing to do."""
    wanted = config.wanted_files(files, settings)
    assert not wanted.problems, wanted.problems
    after = {**files, **wanted.files}
    again = config.wanted_files(after, settings).files
    assert {path: after[path] for path in again} == dict(again)
    return after


def plugins(text: str) -> Any:
    return tomllib.loads(text)["plugins"]


@pytest.mark.parametrize(
    ("main", "version", "runtime", "images"),
    [
        (None, 3, "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"),
        ("version = 2\n", 2, "io.containerd.grpc.v1.cri", "io.containerd.grpc.v1.cri"),
        ("# ours\nversion = 3\n", 3, "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"),
        ("version = 4\n", 4, "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"),
        ("", 2, "io.containerd.grpc.v1.cri", "io.containerd.grpc.v1.cri"),
    ],
)
def test_the_dropin_speaks_the_main_files_version(main: str | None, version: int, runtime: str, images: str) -> None:
    after = apply({} if main is None else {config.MAIN: main})
    assert tomllib.loads(after[config.MAIN])["version"] == version
    assert config.IMPORTS in tomllib.loads(after[config.MAIN])["imports"]
    assert tomllib.loads(after[config.DROPIN])["version"] == version
    ours = plugins(after[config.DROPIN])
    assert ours[runtime]["containerd"]["runtimes"]["runc"]["options"] == {"SystemdCgroup": True}
    assert ours[runtime]["restrict_oom_score_adj"] is True
    assert ours[images]["registry"]["config_path"] == config.REGISTRY_DIRECTORY
    pause = ours[images]["sandbox_image"] if version == 2 else ours[images]["pinned_images"]["sandbox"]
    assert pause == SETTINGS.sandbox_image


def test_a_main_file_keeps_its_comments_and_its_own_imports() -> None:
    main = '# mine\nversion = 3 # three\nimports = ["/opt/x.toml"] # keep\n\n[debug]\n  level = "info" # why\n'
    after = apply({config.MAIN: main})
    assert after[config.MAIN] == main.replace('["/opt/x.toml"]', f'["/opt/x.toml", "{config.IMPORTS}"]')


def test_a_main_file_that_imports_the_directory_already_is_not_touched() -> None:
    main = "version = 3\nimports = ['conf.d/*.toml']\n"
    assert apply({config.MAIN: main})[config.MAIN] == main


def test_a_package_that_disables_cri_is_corrected_also_in_an_imported_file() -> None:
    other = "/etc/containerd/conf.d/10-vendor.toml"
    files = {config.MAIN: DOCKERS_PACKAGE, other: 'version = 3\ndisabled_plugins = ["io.containerd.grpc.v1.cri", "a.b"]\n'}
    after = apply(files)
    assert tomllib.loads(after[config.MAIN])["disabled_plugins"] == []
    assert tomllib.loads(after[other])["disabled_plugins"] == ["a.b"]
    assert after[config.MAIN].startswith("#   Copyright of somebody\n\n")
    assert '#root = "/var/lib/containerd"' in after[config.MAIN]


def test_a_file_without_version_is_migrated_with_its_short_plugin_names() -> None:
    main = """\
disabled_plugins = ["cri"]
[plugins.cri]
  max_container_log_line_size = 7
[plugins.cri.containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
[plugins.opt]
  path = "/o"
[plugins.diff-service]
  default = ["walking"]
"""
    after = apply({config.MAIN: main})
    migrated = tomllib.loads(after[config.MAIN])
    assert migrated["version"] == 2
    assert migrated["plugins"]["io.containerd.grpc.v1.cri"]["max_container_log_line_size"] == 7
    assert migrated["plugins"]["io.containerd.internal.v1.opt"]["path"] == "/o"
    assert migrated["plugins"]["io.containerd.service.v1.diff-service"]["default"] == ["walking"]
    runtimes = plugins(after[config.DROPIN])["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
    assert runtimes == {name: {"options": {"SystemdCgroup": True}} for name in ("nvidia", "runc")}


def test_a_toolkits_dropin_gets_systemd_cgroups_too_and_other_runtimes_do_not() -> None:
    kata = '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.kata]\nruntime_type = "io.containerd.kata.v2"\n'
    after = apply({config.MAIN: "version = 3\n" + kata, "/etc/containerd/conf.d/99-nvidia.toml": "version = 2\n" + NVIDIA})
    runtimes = plugins(after[config.DROPIN])["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    assert set(runtimes) == {"nvidia", "runc"}


def test_a_runtime_that_went_away_leaves_our_dropin() -> None:
    after = apply({config.MAIN: "version = 2\n" + NVIDIA})
    assert "nvidia" in after[config.DROPIN]
    after = apply({**after, config.MAIN: after[config.MAIN].replace(NVIDIA, "")})
    assert "nvidia" not in after[config.DROPIN]


def test_a_distributions_own_plugin_directory_is_replaced_by_the_one_cni_uses() -> None:
    ours = plugins(apply({config.MAIN: DEBIANS_PACKAGE})[config.DROPIN])["io.containerd.grpc.v1.cri"]
    assert ours["cni"]["bin_dir"] == "/opt/cni/bin"
    new = 'version = 3\n[plugins."io.containerd.cri.v1.runtime".cni]\nbin_dirs = ["/usr/lib/cni"]\n'
    ours = plugins(apply({config.MAIN: new})[config.DROPIN])["io.containerd.cri.v1.runtime"]
    assert ours["cni"]["bin_dirs"] == ["/usr/lib/cni", "/opt/cni/bin"]


def test_extra_settings_go_where_the_version_keeps_them() -> None:
    extra = {
        "images.max_concurrent_downloads": 10,
        'plugins."io.containerd.gc.v1.scheduler".mutation_threshold': 9,
        "oom_score": -5,
    }
    settings = config.Settings(extra=extra)
    new = tomllib.loads(apply({}, settings)[config.DROPIN])
    assert new["plugins"]["io.containerd.cri.v1.images"]["max_concurrent_downloads"] == 10
    assert new["plugins"]["io.containerd.gc.v1.scheduler"]["mutation_threshold"] == 9
    assert new["oom_score"] == -5
    old = tomllib.loads(apply({config.MAIN: "version = 2\n"}, settings)[config.DROPIN])
    assert old["plugins"]["io.containerd.grpc.v1.cri"]["max_concurrent_downloads"] == 10


@pytest.mark.parametrize("key", ["disabled_plugins", "images.sandbox", "runtime.containerd.runtimes.runc.options.SystemdCgroup"])
def test_extra_settings_that_the_role_owns_are_refused_by_name(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        config.extra_settings({key: "x"})


def test_older_registry_tables_are_refused_by_name() -> None:
    main = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".registry.mirrors."docker.io"]\nendpoint = ["https://m"]\n'
    problem = config.wanted_files({config.MAIN: main}, SETTINGS).problems[0]
    assert "registry.mirrors" in problem.found and "registries" in problem.next_step
    assert not config.wanted_files({config.MAIN: main}, config.Settings()).problems


@pytest.mark.parametrize(
    ("main", "found"),
    [
        ("version = 3\nplugins = [", "line 2"),
        ("version = 9\n", "version 9"),
        (
            '[plugins.cri.containerd.runtimes.old]\nruntime_type = "io.containerd.runtime.v1.linux"\n',
            "io.containerd.runtime.v1.linux",
        ),
    ],
)
def test_what_cannot_work_is_a_problem_and_changes_nothing(main: str, found: str) -> None:
    wanted = config.wanted_files({config.MAIN: main}, SETTINGS)
    assert any(found in p.found for p in wanted.problems)


def test_relative_imports_belong_to_the_main_files_directory() -> None:
    assert config.import_patterns('imports = ["x/*.toml", "/y.toml"]') == ["/etc/containerd/x/*.toml", "/y.toml", config.IMPORTS]


def dump(sandbox: str, cgroup: str = "true", extra: str = "") -> Result:
    return Result(
        0,
        f"""version = 4
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{sandbox}'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = {cgroup}
{extra}""",
        'level=warning msg="Configuration migrated from version 2"',
    )


def test_what_containerd_says_of_its_files_is_compared_with_what_was_asked_for() -> None:
    settings = config.wanted_files({config.MAIN: "version = 2\n"}, SETTINGS).settings
    assert dump_complaints(dump("registry.k8s.io/pause:3.10.2"), settings) == []
    overridden = dump_complaints(dump("registry.k8s.io/pause:3.10.2", "false"), settings)
    assert len(overridden) == 1 and "SystemdCgroup: found false in effect" in overridden[0]
    misspelt = config.wanted_files({}, config.Settings(extra={"runtime.bogus": 1})).settings
    assert "does not know" in dump_complaints(dump("x"), misspelt)[0]
    broken = Result(
        1, "", "level=error msg=…\ncontainerd: failed to unmarshal TOML at row 1 column 12: toml: array is incomplete\n"
    )
    assert dump_complaints(broken, settings) == [broken.err.splitlines()[-1]]


def test_the_status_of_cri() -> None:
    head = "TYPE                     ID     PLATFORMS    STATUS    \n"
    assert parse_plugins(Result(0, head + "io.containerd.grpc.v1    cri    -            ok        \n")) == "ok"
    assert parse_plugins(Result(0, head + "io.containerd.grpc.v1    cri    -            error     \n")) == "error"
    assert parse_plugins(Result(0, head)) == "disabled"
    assert parse_plugins(Result(1, "", "connection refused")) == "no answer"
