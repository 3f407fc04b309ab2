"""Volcano's scheduler configuration: actions in order, tiers of plugins with their flags and arguments.

Read from the text of `volcano-scheduler.conf` or from the ConfigMap that holds it, by `app`. Every action and plugin
that the project knows has the same meaning here; an unknown action, plugin, flag or argument is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.engine.profile import PolicyUse, Tier
from muster.engine.session import SessionOptions
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown

ACTIONS = (
    "enqueue",
    "allocate",
    "backfill",
    "preempt",
    "reclaim",
    "gangpreempt",
    "gangreclaim",
    "shuffle",
    "consolidate",
)
DEFAULT_ACTIONS = ("enqueue", "allocate", "backfill")
PLUGINS_MOST = 100

# The flags that a plugin can have, all of its spellings, and the hooks that are not asked where it is false.
_FLAGS: Mapping[str, tuple[str, ...]] = {
    "enableJobOrder": ("compare_workloads",),
    "enabledSubJobOrder": ("compare_subs",),
    "enableJobReady": ("ready",),
    "enabledSubJobReady": ("sub_ready",),
    "enableJobPipelined": ("promised",),
    "enabledSubJobPipelined": ("sub_promised",),
    "enableTaskOrder": ("compare_pods",),
    "enablePreemptable": ("preempt", "foresee"),
    "enableReclaimable": ("reclaim",),
    "enablePreemptive": ("preemptive",),
    "enableQueueOrder": ("compare_queues",),
    "enablePredicate": ("fit", "fit_pod", "keep"),
    "enableNodeOrder": ("score", "prefer", "score_pod"),
    "enableJobStarving": ("starving",),
    "enabledOverused": ("overused",),
    "enabledAllocatable": ("allocatable",),
    "enableJobEnqueued": ("enqueueable", "enqueued"),
    "enabledVictim": ("wanted",),
    "enabledHyperNodeOrder": ("score_domains",),
    "enabledHyperNodeGradient": ("gradient",),
    # Accepted and without meaning here: there is nothing that they would turn on.
    "enableBestNode": (),
    "enableTargetJob": (),
    "enableReservedNodes": (),
    "enabledClusterOrder": (),
    "enableHierarchy": (),
}
_HIERARCHY = "enableHierarchy"
_HIERARCHICAL = ("capacity", "drf", "nodegroup")  # the plugins that know of trees of queues


def _spellings(flag: str) -> tuple[str, str]:
    """Volcano writes some flags with enable and some with enabled; users write either."""
    stem = flag.removeprefix("enabled") if flag.startswith("enabled") else flag.removeprefix("enable")
    return f"enable{stem}", f"enabled{stem}"


_BY_SPELLING = {spelling: flag for flag in _FLAGS for spelling in _spellings(flag)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfiguration:
    """What a scheduler configuration says."""

    actions: tuple[str, ...] = DEFAULT_ACTIONS
    tiers: tuple[Tier, ...] = ()
    options: SessionOptions = field(default_factory=SessionOptions)


def default_tiers() -> tuple[Tier, ...]:
    """The tiers of a scheduler that was told nothing."""
    first = tuple(PolicyUse(name=name) for name in ("priority", "gang", "conformance"))
    second = tuple(PolicyUse(name=name) for name in ("overcommit", "drf", "predicates", "proportion", "nodeorder"))
    return (Tier(first), Tier(second))


def read_configuration(fields: Fields, *, absent_flags: bool = True) -> SchedulerConfiguration:
    """A scheduler configuration; `absent_flags` is what a flag is that is not given. Names all that is wrong."""
    problems: list[InvalidObject] = []
    for name in fields.values:
        if name not in ("actions", "tiers", "configurations", "metrics"):
            problems.append(fields.error(str(name), "is no part of a scheduler configuration", "take it out"))
    actions = _actions(fields, problems)
    tiers: list[Tier] = []
    seen: set[str] = set()
    for tier in fields.children("tiers"):
        uses = []
        for plugin in tier.children("plugins"):
            try:
                uses.append(_plugin(plugin, absent_flags, seen))
            except InvalidObject as problem:
                problems.append(problem)
        has_proportion = any(use.name == "proportion" for use in uses)
        if absent_flags and has_proportion and any(_is_hierarchical_drf(use) for use in uses):
            hint = "use one of them, or another tier"
            problems.append(InvalidObject(tier.path, "has proportion beside drf with enableHierarchy", hint))
        tiers.append(Tier(tuple(uses)))
    if problems:
        raise InvalidObjects(tuple(problems))
    return SchedulerConfiguration(
        actions=actions,
        tiers=tuple(tiers) if fields.has("tiers") else default_tiers(),
        options=_options(fields, actions),
    )


def _is_hierarchical_drf(use: PolicyUse) -> bool:
    return use.name == "drf" and bool(use.arguments.get("hierarchy"))


def _actions(fields: Fields, problems: list[InvalidObject]) -> tuple[str, ...]:
    given = fields.raw("actions")
    names = fields.texts("actions") if isinstance(given, list) else tuple(fields.text("actions").split(","))
    actions = tuple(name.strip() for name in names if name.strip())
    for name in actions:
        if name not in ACTIONS:
            problems.append(fields.error("actions", f"has {shown(name)}", "give some of " + ", ".join(ACTIONS)))
    return actions if fields.has("actions") else DEFAULT_ACTIONS


def _plugin(plugin: Fields, absent_flags: bool, seen: set[str]) -> PolicyUse:
    name = plugin.text("name")
    if name in seen:
        raise plugin.error("name", f"is {shown(name)} again", "name each plugin once")
    seen.add(name)
    if len(seen) > PLUGINS_MOST:
        raise plugin.error("name", "is one too many", f"give at most {PLUGINS_MOST}")
    off: set[str] = set()
    given: dict[str, bool] = {}
    for key in plugin.values:
        if key in _BY_SPELLING:
            given[_BY_SPELLING[key]] = plugin.flag(key)
        elif key not in ("name", "arguments"):
            raise plugin.error(str(key), "is no flag of a plugin", "give one such as enablePredicate")
    for flag, hooks in _FLAGS.items():
        if not given.get(flag, absent_flags):
            off.update(hooks)
    arguments: dict[str, Any] = dict(plugin.child("arguments").values)
    if name in _HIERARCHICAL and given.get(_HIERARCHY, False):
        arguments["hierarchy"] = True
    if name == "binpack":
        arguments["by_resource"] = True
    return PolicyUse(name=name, arguments=arguments, off=frozenset(off))


def _options(fields: Fields, actions: tuple[str, ...]) -> SessionOptions:
    """What the actions themselves are told."""
    by_action = {one.text("name"): one.child("arguments") for one in fields.children("configurations")}
    preempt = by_action.get("preempt", Fields({}))
    gang = by_action.get("gangpreempt", by_action.get("gangreclaim", Fields({})))
    return SessionOptions(
        enqueues="enqueue" in actions,
        topology_aware=preempt.flag("enableTopologyAwarePreemption"),
        domains_most=gang.integer("maxDomains", 8, least=1, most=1000),
    )
