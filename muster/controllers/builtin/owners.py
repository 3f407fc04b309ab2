"""Who controls an object, and which objects a controller takes or lets go. Used by all controllers of this folder.

An object belongs to the one owner whose reference says `controller`. Labels decide: what matches and belongs to nobody
is taken, what is owned and matches no longer is let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from muster.controllers.builtin.gathering import all_done
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.model.fields import Fields
from muster.model.labels import Operator, Requirement, Selector, read_selector
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key

ORPHANS = "orphans"  # the index of what belongs to nobody, by namespace

Choice = Callable[[Object], Selector | None]  # how a kind finds its objects


@dataclass(frozen=True, slots=True)
class Claims:
    """What is to become of the objects that an owner may have."""

    kept: list[Object]
    taken: list[Object]  # as they are to be written: with the reference
    released: list[Object]  # without it


def controller_of(given: Object) -> Object | None:
    """The reference to the owner that controls an object."""
    references: list[Object] = given["metadata"].get("ownerReferences") or []
    return next((one for one in references if one.get("controller")), None)


def is_controlled_by(given: Object, owner: Object) -> bool:
    """Whether an object belongs to this owner."""
    reference = controller_of(given)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def reference_to(owner: Object) -> Object:
    """The reference that makes an object belong to an owner."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def orphan_terms(given: Object) -> Iterable[str]:
    """The term of an object that belongs to nobody: its namespace."""
    return () if controller_of(given) else (given["metadata"]["namespace"],)


def selector_of(owner: Object) -> Selector | None:
    """The label selector in an owner's spec."""
    return read_selector(Fields.of(owner.get("spec"), "spec"), "selector")


def plain_selector_of(owner: Object) -> Selector | None:
    """The selector of the older kinds, which is labels alone; without any it takes nothing."""
    labels = Fields.of(owner.get("spec"), "spec").text_map("selector")
    wanted = tuple(Requirement(key, Operator.IN, frozenset([value])) for key, value in labels.items())
    return Selector(wanted) if wanted else None


def claims(owner: Object, selector: Selector, candidates: Iterable[Object]) -> Claims:
    """Which candidates an owner has, takes and lets go."""
    found = Claims([], [], [])
    is_leaving = is_deleting(owner)
    for one in candidates:
        matches = selector.matches(one["metadata"].get("labels") or {})
        if is_controlled_by(one, owner):
            if matches:
                found.kept.append(one)
            elif not is_leaving:
                found.released.append(_with_references(one, _others(one, owner)))
        elif controller_of(one) is None and matches and not is_leaving and not is_deleting(one):
            found.taken.append(_with_references(one, [*_others(one, owner), reference_to(owner)]))
    return found


async def claimed(turn: Turn, owner: Object, resource: str, selector: Selector) -> list[Object]:
    """The objects of a resource that an owner controls, after it took and let go what it should."""
    metadata = owner["metadata"]
    candidates = {
        one["metadata"]["name"]: one
        for one in (
            *turn.view.owned(metadata["uid"], resource),
            *turn.view.with_term(resource, ORPHANS, metadata["namespace"]),
        )
    }
    found = claims(owner, selector, candidates.values())
    writes = [turn.update(key_of(resource, one), one) for one in (*found.taken, *found.released)]
    written = await all_done(writes)
    kept = [*found.kept, *written[: len(found.taken)]]
    return sorted(kept, key=lambda one: str(one["metadata"]["name"]))


def key_of(resource: str, given: Object) -> Key:
    """Where an object of a resource lives."""
    metadata = given["metadata"]
    return Key(resource, metadata.get("namespace") or "", metadata["name"])


def owner_keys(seen: Seen, view: View, resource: str, kind: str, selector: Choice = selector_of) -> Iterator[Key]:
    """The owners of a resource that a change of something they may own concerns."""
    for state in (seen.before, seen.now):
        reference = None if state is None else controller_of(state)
        if reference is not None and reference["kind"] == kind:
            yield Key(resource, seen.key.namespace, reference["name"])
    if seen.now is not None and controller_of(seen.now) is None:
        yield from matching_keys(seen, view, resource, selector)


def matching_keys(seen: Seen, view: View, resource: str, selector: Choice) -> Iterator[Key]:
    """The objects of a resource whose selector takes the labels that something has or had."""
    every_labels = [state["metadata"].get("labels") or {} for state in (seen.before, seen.now) if state is not None]
    for one in view.all(resource, seen.key.namespace):
        wanted = selector(one)
        if wanted is not None and any(wanted.matches(labels) for labels in every_labels):
            yield key_of(resource, one)


def _others(given: Object, owner: Object) -> list[Object]:
    references: list[Object] = given["metadata"].get("ownerReferences") or []
    return [one for one in references if one["uid"] != owner["metadata"]["uid"]]


def _with_references(given: Object, references: list[Object]) -> Object:
    return {**given, "metadata": {**given["metadata"], "ownerReferences": references}}
