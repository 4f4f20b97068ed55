# SPDX-License-Identifier: Apache-2.0
"""The policy in writing says what the queues do, in the words of the same plan."""

from __future__ import annotations

import html.parser
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.bedplate.metal.plugins.plugin_utils.queues.document import markdown, page
from ansible_collections.bedplate.metal.plugins.plugin_utils.queues.policy import example_text, site_policy, tenant_policy
from ansible_collections.bedplate.metal.plugins.plugin_utils.site import command
from queue_plans import flavor, plan, queue, share, tenant

from site_directory import FILES, SiteDirectory


def text(**over: Any) -> str:
    return markdown(site_policy(plan(**over)))


def test_who_may_use_and_borrow_what() -> None:
    shares = [share(gpus=8, borrow=4, lend=0)]
    found = text(queues=[queue("a", "one", cohort="both", shares=shares), queue("b", "two", "one", cohort="both")])
    assert "| `a` | one | `train` | 8 | 4 GPUs | nothing | `both` | `nvidia.com/gpu` 8, `cpu` 64 |" in found
    assert "| `b` | two, one | `train` | 8 | all that others do not use | all it does not use | `both` |" in found
    assert "| `train` | h100-80gb | distributed-training | 2 | 16 |" in found


def test_who_is_stopped_for_whom() -> None:
    cohorts: list[dict[str, Any]] = [
        {"name": name, "parent": "top", "weight": None, "covered": [], "shares": []} for name in ("left", "right")
    ]
    queues = [
        queue("a", "one", cohort="left"),
        queue("b", "two", cohort="right", reclaim="never"),
        queue("c", "two", cohort="right", reclaim="lower-priority", preempt="never"),
        queue("d", "two"),
    ]
    found = text(cohorts=cohorts, queues=queues)
    assert "- What `a` runs on borrowed GPUs may be stopped for `c`." in found, "of another cohort, below the same parent"
    assert "- What `b` runs on borrowed GPUs may be stopped for `a`, `c`." in found
    assert "- `b` waits for its own GPUs until the work that borrowed them ends." in found
    assert "- `c` takes its own GPUs back from work of a lower priority that borrowed them; who borrows most" in found
    assert "- In `c`, no work stops other work of the queue." in found
    assert "- `d` neither borrows nor lends." in found


def test_what_waiting_means_and_how_long_at_most() -> None:
    found = text(queues=[queue("a", "one", longest_wait_seconds=1800), queue("b", "two")])
    assert "- `a`: 30 min at most for work that fits into the queue's own GPUs." in found
    assert "`b`: " not in found.partition("What waiting means")[2].partition("## Teams")[0]
    assert "Not all of its pods ran within 5 min" in found


def test_a_team_reads_of_its_own_queues_and_priorities_alone() -> None:
    one = tenant("one", "a", priorities=["high"])
    priorities = [{"name": name, "value": 1, "description": "x"} for name in ("high", "low")]
    given = plan(tenants=[one, tenant("two", "b")], priorities=priorities, flavors=[flavor(), flavor("other")])
    found = markdown(tenant_policy(given, one))
    assert "# Queue policy of site-1 for team one" in found
    assert "| `a` |" in found and "| `b` |" not in found and "`other`" not in found
    assert "| `high` |" in found and "`low`" not in found
    assert "kueue.x-k8s.io/queue-name` with `a`" in found
    assert "podset-required-topology: topology.bedplate.dev/rack" in found


def example(**over: Any) -> list[dict[str, Any]]:
    given = plan(**over)
    return list(yaml.safe_load_all(example_text(given, given["tenants"][0])))


def test_the_example_names_queue_and_gpu_and_nothing_the_queue_adds() -> None:
    (job,) = example()
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "a"} and job["metadata"]["namespace"] == "one"
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "tolerations" not in pod and "nodeSelector" not in pod


def test_the_example_chooses_among_pools_and_names_a_permitted_priority() -> None:
    queues = [queue("a", "one", shares=[share(), share("infer", 4)])]
    (job,) = example(flavors=[flavor(), flavor("infer")], queues=queues, tenants=[tenant("one", "a", priorities=["low", "high"])])
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"pool.bedplate.dev/name": "train"}
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "low"


def test_the_example_of_a_pool_with_claims() -> None:
    claim, job = example(flavors=[flavor(exposure="dra", device_class="gpu.example.com")])
    request = claim["spec"]["spec"]["devices"]["requests"][0]
    assert request["exactly"] == {"deviceClassName": "gpu.example.com"}
    pod = job["spec"]["template"]["spec"]
    assert pod["resourceClaims"][0]["resourceClaimTemplateName"] == claim["metadata"]["name"]
    assert pod["containers"][0]["resources"]["claims"] == [{"name": pod["resourceClaims"][0]["name"]}]


class Page(html.parser.HTMLParser):
    """Collects a page's tags and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.links += [value for name, value in attrs if name in ("href", "src") and value]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_is_the_same_text_and_needs_nothing_else() -> None:
    document = text(priorities=[{"name": "high", "value": 1, "description": "<script>alert(1)</script> & so | on"}])
    found = Page(page(document, "Policy <x>"))
    assert found.tags["table"] == 4 and found.tags["h1"] == 1 and found.tags["pre"] == 2
    assert "script" not in found.tags and "<script>alert(1)</script> & so | on" in found.texts
    assert found.links == [] and "Policy <x>" in found.texts


def test_the_command_prints_and_writes_it(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = str(root / "inventories/example")
    assert command.main(["policy", "-i", inventory]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# Queue policy of gpu-site-1\n") and "| `training` | language-models | `h100` | 24 |" in printed
    assert command.main(["policy", "-i", inventory, "--write", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new/queue-policy.md").read_text(encoding="utf-8") == printed
    assert "<title>Queue policy of gpu-site-1</title>" in (tmp_path / "new/queue-policy.html").read_text(encoding="utf-8")


def test_and_says_why_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    site = SiteDirectory(tmp_path)
    for path, content in FILES.items():
        site.write(path, content)
    assert command.main(["policy", "-i", "."]) == 1
    assert capsys.readouterr().err == "no policy: there are no queues\n"
