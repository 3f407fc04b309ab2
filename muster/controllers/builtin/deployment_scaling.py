"""How the replica sets of a deployment grow and shrink: rolling, all at once, or in proportion. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.builtin.deployment_sets import (
    DESIRED,
    MOST,
    Sets,
    annotations_of,
    by_age,
    counted,
    has_noted_size,
    is_rolling,
    most_surge,
    most_unavailable,
    new_size,
    revision_of,
    size,
)
from muster.controllers.builtin.pods import created_s
from muster.store.kinds import Object
from muster.store.metadata import is_deleting


def rolled(deployment: Object, sets: Sets) -> Sets:
    """One step of a rolling update: the new set grows, or else the old ones shrink as far as they may."""
    assert sets.new is not None, "a rolling update has a set to roll to"
    wanted = min(size(deployment), new_size(deployment, sets))
    if size(sets.new) != wanted:
        return sets.scaled(sets.new, wanted, deployment)
    return _with_fewer_old(deployment, sets)


def _with_fewer_old(deployment: Object, sets: Sets) -> Sets:
    assert sets.new is not None, "a rolling update has a set to roll to"
    least = size(deployment) - most_unavailable(deployment)
    new_missing = size(sets.new) - counted(sets.new, "availableReplicas")
    room = sum(map(size, sets.all)) - least - new_missing
    if room <= 0 or not any(map(size, sets.old)):
        return sets
    if any(counted(one, "availableReplicas") > size(one) for one in sets.all):
        return sets  # one of them still shrinks: what it tells of is about to go
    for one in by_age(sets.old):  # pods that do not serve go first: nobody misses them
        broken = min(room, size(one) - counted(one, "availableReplicas"))
        if broken > 0:
            room -= broken
            sets = sets.scaled(one, size(one) - broken, deployment)
    spare = sum(counted(one, "availableReplicas") for one in sets.all) - least
    for one in by_age(sets.old):
        fewer = min(spare, size(one))
        if fewer > 0:
            spare -= fewer
            sets = sets.scaled(one, size(one) - fewer, deployment)
    return sets


def emptied(deployment: Object, sets: Sets) -> Sets:
    """The sets when no old one keeps a pod."""
    for one in sets.old:
        if size(one):
            sets = sets.scaled(one, 0, deployment)
    return sets


def is_resized(deployment: Object, sets: Sets) -> bool:
    """Whether the deployment has another size than the one its sets grew for."""
    return any(size(one) and not has_noted_size(one, deployment) for one in sets.all)


def resized(deployment: Object, sets: Sets) -> Sets:
    """The sets when the deployment has got another size, each with its share of the change."""
    active = [one for one in sets.all if size(one)]
    if len(active) <= 1:
        only = active[0] if active else sets.new or _latest(sets.old)
        if only is None or size(only) == size(deployment):
            return sets
        return sets.scaled(only, size(deployment), deployment)
    if sets.new is not None and _is_saturated(deployment, sets.new):
        return emptied(deployment, sets)
    return _in_proportion(deployment, sets, active) if is_rolling(deployment) else sets


def _in_proportion(deployment: Object, sets: Sets, active: list[Object]) -> Sets:
    allowed = size(deployment) + most_surge(deployment) if size(deployment) else 0
    more = allowed - sum(map(size, active))
    ordered = sorted(active, key=lambda one: str(one["metadata"]["name"]))
    ordered.sort(key=created_s, reverse=more > 0)  # what is added goes to the newest first
    ordered.sort(key=size, reverse=True)
    given, sizes = 0, []
    for one in ordered:
        part = _part(deployment, one, more, given)
        given += part
        sizes.append(size(one) + part)
    sizes[0] = max(0, sizes[0] + more - given)  # what rounding left
    for one, wanted in zip(ordered, sizes, strict=True):
        sets = sets.scaled(one, wanted, deployment)
    return sets


def _part(deployment: Object, one: Object, more: int, given: int) -> int:
    """What one set gets of a change."""
    if more == given:
        return 0
    if not size(deployment):
        fraction = -size(one)
    else:
        noted = annotations_of(one).get(MOST, "")
        before = int(noted) if noted.isascii() and noted.isdigit() and len(noted) < 20 else 0
        before = before or counted(deployment, "replicas") or 1
        scaled = size(one) * (size(deployment) + most_surge(deployment))
        fraction = (2 * scaled + before) // (2 * before) - size(one)  # rounded to the nearest
    return min(fraction, more - given) if more > 0 else max(fraction, more - given)


def _is_saturated(deployment: Object, new: Object) -> bool:
    wanted = size(deployment)
    is_noted = annotations_of(new).get(DESIRED) == str(wanted)
    return is_noted and size(new) == wanted == counted(new, "availableReplicas")


def _latest(sets: Iterable[Object]) -> Object | None:
    ordered = by_age(sets)
    return ordered[-1] if ordered else None


def to_clean(deployment: Object, sets: Sets) -> list[Object]:
    """The old sets that the history has no room for: those of the lowest revisions, once they are empty."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None:
        return []
    there = sorted((one for one in sets.old if not is_deleting(one)), key=revision_of)
    return [one for one in there[: max(0, len(there) - limit)] if _is_empty(one)]


def _is_empty(one: Object) -> bool:
    is_seen = one["metadata"].get("generation", 0) <= counted(one, "observedGeneration")
    return is_seen and not size(one) and not counted(one, "replicas")
