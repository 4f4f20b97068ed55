# SPDX-License-Identifier: Apache-2.0
"""Checks of the GPU path: the compatibility table, MIG geometries, and one owner for every part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_packages import (
    PackageChoiceError,
    driver_packages,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.facts import pool_facts, resolved_modules
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.mig import geometry_problem
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import (
    ADVICE,
    IMPOSSIBLE,
    UNSUPPORTED,
    Rule,
    Table,
    load_table,
)

from .gather import Gathered, Pool
from .gpu_machines import NVIDIA_DRA_DRIVER, distribution_of, distributions_of, has_switches, needs_subnet_manager
from .model_gpu import Gpu
from .problem import ERROR, WARNING, suggestion
from .resolve import MISSING

HOST_OWNED = ("driver", "toolkit", "migManager")
"""Parts of the operator's chart that are the host's: two owners undo each other's work."""


def check_gpu(found: Gathered) -> None:
    """Add every finding about drivers, GPUs and how they are shown."""
    table = load_table()
    gpu: Gpu | None = found.sections.get("gpu")
    accepted = _accepted(found, table)
    applied: set[str] = set()
    for pool in _with_spec(found):
        facts = facts_of(found, pool, table)
        for rule in table.applying(facts):
            applied.add(rule.row)
            _report(found, pool, rule, facts, accepted)
        _packages(found, pool, table)
        _mig(found, pool, table)
        _permitted_os(found, pool)
        if gpu is not None:
            _needs_driver(found, pool, gpu)
            _needs_os(found, pool, gpu)
    if gpu is not None:
        _one_owner(found, gpu)
    _one_strategy(found)
    if not found.complete():  # rows may apply to what could not be read
        return
    for row, index in accepted.items():
        if row not in applied and any(rule.row == row for rule in table.rules):
            text = "applies to no pool (any more): take the entry out"
            found.problem("accept_unsupported", (index, "row"), row, text, WARNING)


def facts_of(found: Gathered, pool: Pool, table: Table) -> dict[str, Any]:
    """Return what the rules of the table ask about a pool; empty for a pool whose GPUs Bedplate does not touch."""
    spec = pool.spec
    if spec is None or (spec.driver is None and spec.shown_by == "none"):
        return {}
    cluster, runtime, kubelet = (found.sections.get(name) for name in ("cluster", "container_runtime", "kubelet"))
    kubernetes = cluster.kubernetes_version if cluster else None
    gpu: Gpu | None = found.sections.get("gpu")
    operator = None
    if spec.shown_by == "operator" and gpu is not None:
        operator = gpu.operator.version or (table.default_operator(kubernetes).version if kubernetes else None)
    return pool_facts(
        table,
        accelerator=spec.accelerator,
        branch=spec.driver.branch if spec.driver else None,
        modules=spec.driver.modules if spec.driver else "auto",
        exposure=spec.shown_by,
        sharing=spec.sharing,
        workload=spec.workload,
        kubernetes=kubernetes,
        operator=operator,
        distribution=distribution_of(found, spec),
        cuda=spec.cuda,
        containerd=runtime.version if runtime else None,
        cgroup="v1" if kubelet and kubelet.config.get("failCgroupV1") is False else None,
    )


def _with_spec(found: Gathered) -> Iterable[Pool]:
    return [pool for pool in found.pools.values() if pool.spec is not None and pool.written is not None]


def _accepted(found: Gathered, table: Table) -> dict[str, int]:
    """Return the rows the inventory accepts, by their place in its list; refuse those that cannot be accepted."""
    accepted: dict[str, int] = {}
    rules = {rule.row: rule for rule in table.rules}
    for index, entry in enumerate(found.sections.get("accept_unsupported") or []):
        rule = rules.get(entry.row)
        if rule is None:
            hint = suggestion(entry.row, rules) or "; scripts/bedplate compat prints them"
            text = f"the compatibility table has no such row{hint}"
        elif rule.verdict == IMPOSSIBLE:
            text = f"cannot be accepted: {rule.reason.format_map(_Named())}"
        elif entry.row in accepted:
            text = f"stands twice (first as entry {accepted[entry.row]})"
        else:
            accepted[entry.row] = index
            continue
        found.problem("accept_unsupported", (index, "row"), entry.row, text)
    return accepted


class _Named(dict[str, str]):
    """Names facts that are not known, for a message about a rule and not about a pool."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


def _report(found: Gathered, pool: Pool, rule: Rule, facts: dict[str, Any], accepted: dict[str, int]) -> None:
    text = f"{rule.message(facts)} ({rule.source})"
    severity = ERROR
    if rule.verdict == ADVICE:
        severity = WARNING
    elif rule.verdict == UNSUPPORTED:
        if rule.row in accepted:
            return
        text += f"; to run it all the same: accept_unsupported: [{{row: {rule.row}, reason: …}}]"
    section, _dot, key = rule.key.partition(".")
    if section == "gpu":
        found.problem("gpu", key.split("."), _written(found.sections["gpu"], key.split(".")), text, severity)
        return
    path = tuple(rule.key.split("."))
    found.problems.append(pool.problem(path, _written(pool.spec, path), text, severity))


def _written(value: Any, path: Sequence[str]) -> Any:
    """Return what a model says at a path; (missing) for what is left out."""
    for part in path:
        value = getattr(value, part, None)
    return MISSING if value is None else value


def _packages(found: Gathered, pool: Pool, table: Table) -> None:
    """Refuse a driver, or the fabric manager that goes with it, for which an operating system of the pool has no packages."""
    spec = pool.spec
    assert spec is not None
    if spec.driver is None or any(spec.driver.broken()):
        return
    model = table.accelerators.get(spec.accelerator)
    wanting: dict[str, list[str]] = {}
    for distribution in distributions_of(found, spec):
        try:
            driver_packages(
                distribution,
                spec.driver.version,
                resolved_modules(spec.driver.modules, model),
                fabric=has_switches(spec.topology, spec.gpus_per_node, model),
                nvlsm=needs_subnet_manager(model),
                source=spec.driver.source,
                build=spec.driver.build,
                kernel="any",
            )
        except PackageChoiceError as error:
            wanting.setdefault(str(error), []).append(distribution)
    for rule, distributions in wanting.items():
        choice = "" if spec.os else f"; or give os, where no host of the pool has {' or '.join(distributions)}"
        found.problems.append(pool.problem(("driver",), spec.driver.version, f"{rule}{choice}"))


def _mig(found: Gathered, pool: Pool, table: Table) -> None:
    spec = pool.spec
    assert spec is not None
    model = table.accelerators.get(spec.accelerator)
    if spec.mig is None or model is None or not model.mig:
        return
    problem = geometry_problem(model, spec.mig)
    if problem:
        shown = ", ".join(f"{name}: {count}" for name, count in spec.mig.items())
        found.problems.append(pool.problem(("mig",), shown, problem))


def _needs_driver(found: Gathered, pool: Pool, gpu: Gpu) -> None:
    spec = pool.spec
    assert spec is not None
    if spec.driver is not None or spec.shown_by == "none":
        return
    if spec.shown_by == "dra" and gpu.dra.driver != NVIDIA_DRA_DRIVER:
        return
    rule = "shows GPUs of a driver, and the pool has none: give driver: {branch, version}"
    found.problems.append(pool.problem(("exposure",), spec.shown_by, rule))


def _permitted_os(found: Gathered, pool: Pool) -> None:
    spec, preflight = pool.spec, found.sections.get("preflight")
    if spec and spec.os and preflight and spec.os not in preflight.distributions:
        rule = f"preflight.distributions permits {', '.join(preflight.distributions)} alone, so its hosts would be refused"
        found.problems.append(pool.problem(("os",), spec.os, rule))


def _needs_os(found: Gathered, pool: Pool, gpu: Gpu) -> None:
    """The operator looks at labels of the operating system; without node feature discovery they come from the spec."""
    spec = pool.spec
    assert spec is not None
    own = spec.shown_by == "operator" and not gpu.operator.node_feature_discovery
    if own and len(distributions_of(found, spec)) > 1:
        rule = "must be given where gpu.operator.node_feature_discovery is false: the operator needs it as a label"
        found.problems.append(pool.problem(("os",), MISSING, rule))


def _one_owner(found: Gathered, gpu: Gpu) -> None:
    """Refuse what takes the host's parts into the operator's hands, or contradicts what is derived from the pools."""
    pools = [pool for pool in _with_spec(found) if pool.spec and pool.spec.shown_by == "operator"]
    if not pools:
        return
    values = gpu.operator.values
    for part in HOST_OWNED:
        section = values.get(part, {})
        # What is not a plain false turns it on: the chart writes "true", and the operator takes nothing as true.
        if not isinstance(section, dict) or section.get("enabled", False) is not False:
            shown = section.get("enabled") if isinstance(section, dict) else section
            rule = (
                f"the hosts of pool {', '.join(pool.name for pool in pools)} have the {part} installed (gpu_pool.driver): "
                "each part has one owner; take this value out"
            )
            found.problem("gpu", ("operator", "values", part, "enabled"), shown, rule)
    strategies = {pool.spec.mig_strategy for pool in pools if pool.spec and pool.spec.sharing == "mig"}
    wanted: dict[tuple[str, str], object] = {
        ("cdi", "enabled"): True,
        ("devicePlugin", "enabled"): True,
        ("nfd", "enabled"): gpu.operator.node_feature_discovery,
    }
    if len(strategies) == 1:
        wanted["mig", "strategy"] = strategies.pop()
    for (part, key), value in wanted.items():
        section = values.get(part, {})
        if not isinstance(section, dict) or (key in section and section[key] != value):
            shown = section.get(key) if isinstance(section, dict) else section
            rule = f"contradicts the pools, which need {value!r}: take this value out"
            found.problem("gpu", ("operator", "values", part, key), shown, rule)


def _one_strategy(found: Gathered) -> None:
    """Refuse several MIG strategies under the operator, which has one for the whole cluster."""
    strategies: dict[str, str] = {}
    for pool in _with_spec(found):
        spec = pool.spec
        if spec is None or spec.shown_by != "operator" or spec.sharing != "mig":
            continue
        first = strategies.setdefault(spec.mig_strategy, pool.name)
        others = [name for strategy, name in strategies.items() if strategy != spec.mig_strategy]
        if first == pool.name and others:
            rule = (
                f"the operator has one MIG strategy for all pools, and pool {others[0]} has another; use exposure device-plugin"
            )
            found.problems.append(pool.problem(("mig_strategy",), spec.mig_strategy, rule))
