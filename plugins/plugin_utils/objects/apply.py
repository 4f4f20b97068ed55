# SPDX-License-Identifier: Apache-2.0
"""Look at objects of a cluster and bring them to what they shall be: few requests to see them all, one for each that differs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Problem
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError

from .identity import MANAGED_LABEL, MANAGER, Kind, Object, key_of, kind_of, name_of
from .plan import ObjectsPlan

SERVER_SIDE_APPLY = "application/apply-patch+yaml"
POLL_SECONDS = 1.0
NOT_SERVING = ("failed calling webhook", "no endpoints available")
"""In the API server's answer when the webhook that must see an object does not answer it."""
TOO_EARLY = 429
"""The API server's answer while it prepares for a new definition, and when it has too much to do."""
SINGLE = 4
"""Up to so many objects of a kind are asked for one by one, more of them as a list."""


class Objects:
    """The objects of a cluster by their kinds, which the API itself names."""

    def __init__(
        self,
        api: Api,
        wait_seconds: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take an API. wait_seconds: how long webhooks and definitions may take until they serve, all together."""
        self._api, self._wait_seconds, self._now, self._sleep = api, wait_seconds, now, sleep
        self._deadline: float | None = None
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    def known(self, kind: Kind) -> bool:
        """Tell whether the API knows a kind."""
        return kind[1] in self._of_version(kind[0])

    def named(self, item: Object, namespace: str) -> Object:
        """Return an object with the namespace it lands in: its own or the given one, none where its kind has none."""
        namespaced = self._of_version(item["apiVersion"]).get(item["kind"], ("", False))[1]
        metadata = {key: value for key, value in item["metadata"].items() if key != "namespace"}
        if namespaced:
            metadata["namespace"] = item["metadata"].get("namespace") or namespace
        return {**item, "metadata": metadata}

    def observe(self, wanted: Iterable[Object], listed: Collection[Kind] = (), labelled: Collection[Kind] = ()) -> list[Object]:
        """Return what there is of the wanted objects, and all of the kinds in listed; of those in labelled, only ours."""
        by_kind: dict[Kind, list[Object]] = defaultdict(list)
        for kind in listed:
            by_kind[kind] = []
        for item in wanted:
            by_kind[kind_of(item)].append(item)
        found: list[Object] = []
        for kind, items in by_kind.items():
            if not self.known(kind):
                continue
            if kind not in listed and len(items) <= SINGLE:
                answers = [self._patiently(name_of(item), partial(self._api.find, self._path(item))) for item in items]
                there = [one for one in answers if one is not None]
            else:
                query = {"labelSelector": f"{MANAGED_LABEL}={MANAGER}"} if kind in labelled else {}
                there = self._patiently(f"all of {kind[1]}", partial(self._api.get, self._collection(kind), **query))["items"]
            # A list names the kind of its items once.
            found += [{**one, "apiVersion": kind[0], "kind": kind[1]} for one in there]
        return found

    def carry_out(self, plan: ObjectsPlan) -> list[Problem]:
        """Apply and remove; return what the API refused. Raise :class:`BedplateError` when a webhook serves too late."""
        steps = [(item, self._apply) for item in plan.apply] + [(item, self._remove) for item in plan.remove]
        problems: list[Problem] = []
        for item, step in steps:
            try:
                self._patiently(name_of(item), partial(step, item))
            except KubeError as error:
                problems.append(_refused(item, error))
        return problems

    def wait_served(self, definitions: Iterable[Object]) -> None:
        """Wait until the API serves what definitions of resources define."""
        for item in definitions:
            while not _established(self._api.get(self._path(item))):
                self._wait(f"{name_of(item)}: found it not served", "condition Established", "kubectl describe it")
        self._resources.clear()

    def _apply(self, item: Object) -> None:
        query = {"fieldManager": MANAGER, "force": "true"}
        self._api.request("PATCH", self._path(item), item, query=query, content_type=SERVER_SIDE_APPLY)

    def _remove(self, item: Object) -> None:
        self._api.delete(self._path(item))

    def _patiently[Answer](self, name: str, request: Callable[[], Answer]) -> Answer:
        """Return what a request answers; one that comes too early is made again."""
        while True:
            try:
                return request()
            except KubeError as error:
                if error.status != TOO_EARLY and not (error.status >= 500 and any(words in str(error) for words in NOT_SERVING)):
                    raise
                self._wait(f"{name}: found it put off ({error})", "an answer", "see why that does not run (kubectl get pods -A)")

    def _wait(self, found: str, wanted: str, next_step: str) -> None:
        """Wait a moment, for as long as is left."""
        if self._deadline is None:
            self._deadline = self._now() + self._wait_seconds
        if self._now() >= self._deadline:
            raise BedplateError(f"{found} for {self._wait_seconds:g} s; wanted {wanted}. Next: {next_step}")
        self._sleep(POLL_SECONDS)

    def _of_version(self, version: str) -> dict[str, tuple[str, bool]]:
        """Return the kinds of an API version: the name in paths, and whether they are in namespaces."""
        if version not in self._resources:
            answer = self._api.find(_prefix(version)) or {"resources": []}
            self._resources[version] = {
                one["kind"]: (one["name"], one["namespaced"]) for one in answer["resources"] if "/" not in one["name"]
            }
        return self._resources[version]

    def _collection(self, kind: Kind, namespace: str = "") -> str:
        version, name = kind
        if not self.known(kind):
            raise BedplateError(
                f"API {version}: found no {name} in it; wanted its definition. "
                "Next: run the role that installs it (playbooks/site.yml)"
            )
        plural, _namespaced = self._of_version(version)[name]
        return f"{_prefix(version)}/namespaces/{namespace}/{plural}" if namespace else f"{_prefix(version)}/{plural}"

    def _path(self, item: Object) -> str:
        _kind, namespace, name = key_of(item)
        return f"{self._collection(kind_of(item), namespace)}/{name}"


def _prefix(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _established(definition: Any) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def _refused(item: Object, error: KubeError) -> Problem:
    return Problem(name_of(item), f"the API's refusal ({error})", "it applied", "correct what it comes from, then repeat")
