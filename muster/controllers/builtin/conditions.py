"""Conditions of a status: found by type, set so that times tell when something changed."""

from __future__ import annotations

from collections.abc import Iterable

from muster.store.kinds import Object


def condition_of(conditions: Iterable[Object], kind: str) -> Object | None:
    """The condition of a type, if there is one."""
    return next((one for one in conditions if one["type"] == kind), None)


def without(conditions: Iterable[Object], kind: str) -> list[Object]:
    """All conditions but those of a type."""
    return [one for one in conditions if one["type"] != kind]


def with_condition(conditions: list[Object], new: Object) -> list[Object]:
    """The conditions with a new one: the same status for the same reason changes nothing, the same status no time."""
    known = condition_of(conditions, new["type"])
    if known is not None and known["status"] == new["status"]:
        if known.get("reason") == new.get("reason"):
            return conditions
        new = {**new, "lastTransitionTime": known["lastTransitionTime"]}
    return [*without(conditions, new["type"]), new]
