# SPDX-License-Identifier: Apache-2.0
"""What a component's module answers Ansible: results, diff, errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import run_component
from ansible_collections.bedplate.metal.plugins.module_utils.gpu_sharing import GpuSharing
from ansible_collections.bedplate.metal.plugins.module_utils.repositories import Repositories
from ansible_collections.bedplate.metal.plugins.modules import gpu_sharing, repositories
from fixtures_host import CA, debian
from fixtures_sharing import Mig, mig_host

from recorded_host import RecordedHost

PROXY = {"proxy": {"http": "http://me:geheim@proxy:3128"}}
AUTHORITY = {"ca": [{"name": "site", "pem": CA}]}


def answer(
    capsys: pytest.CaptureFixture[str], host: RecordedHost, arguments: Mapping[str, Any], *, check: bool = False
) -> dict[str, Any]:
    with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
        run_component(Repositories(), repositories.ARGUMENT_SPEC, repositories.build_desired, host=host)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_changed_changes_and_diff_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    host = debian()
    predicted = answer(capsys, host, AUTHORITY, check=True)
    assert host.changes == 0
    done = answer(capsys, host, AUTHORITY)
    assert predicted["changed"] and predicted["changes"] == done["changes"] and predicted["diff"] == done["diff"]
    assert [one["before_header"] for one in done["diff"]] == [change["what"] for change in done["changes"]]
    assert not answer(capsys, host, AUTHORITY)["changed"]


@pytest.mark.parametrize(("in_service", "playbook"), [(False, "bedplate.metal.site"), (True, "bedplate.metal.roll_pool")])
def test_what_waits_names_the_playbook_that_may_reboot_the_host(
    capsys: pytest.CaptureFixture[str], in_service: bool, playbook: str
) -> None:
    arguments = {"mig": {"1g.10gb": 7}, "in_service": in_service}
    with patch_module_args({**arguments, "_ansible_check_mode": False}), pytest.raises(SystemExit):
        host = mig_host(Mig(needs_reset=True))
        run_component(GpuSharing(), gpu_sharing.ARGUMENT_SPEC, gpu_sharing.build_desired, host=host)
    found = json.loads(capsys.readouterr().out)
    assert [change["playbook"] for change in found["deferred"]] == [playbook] and found["reboot"] is False


def test_secrets_reach_neither_result_nor_diff(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.dumps(answer(capsys, debian(), PROXY))
    assert "(secret)" in shown and "geheim" not in shown


def test_a_full_disk_is_one_message_with_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    host = debian()
    host.full = True
    failed = answer(capsys, host, AUTHORITY)
    assert failed["failed"] and "No space left on device" in failed["msg"] and "Next: free space" in failed["msg"]


def test_a_broken_disk_is_explained_too(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(RecordedHost):
        def read(self, path: str) -> str | None:
            raise OSError(5, "Input/output error", path)

    failed = answer(capsys, Broken(), AUTHORITY)
    assert failed["msg"].startswith("repositories: file /") and "Input/output error" in failed["msg"] and "Next:" in failed["msg"]
