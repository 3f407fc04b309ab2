"""What a write does to the managers of an object, and what an apply does to the object. Used by `ownership`.

Kubernetes' rules: who changes a field owns it, and others lose it; who applies a field that another owns and would
change it has a conflict; a field that somebody applied and applies no more goes unless somebody else owns it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.apiserver.apply.compare import Comparison, compare, fields_of
from muster.apiserver.apply.fieldsets import (
    FieldSet,
    Path,
    difference,
    fitted,
    intersection,
    ordered,
    paths_of,
    union,
    with_named_fields,
    without,
)
from muster.apiserver.apply.managers import Manager, Managers, Owned
from muster.apiserver.apply.merge import merged, removed
from muster.apiserver.apply.schema import Object, Type

# What no manager owns: the server sets it, or it says which object this is.
STRIPPED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:name": {},
        "f:namespace": {},
        "f:creationTimestamp": {},
        "f:selfLink": {},
        "f:uid": {},
        "f:clusterName": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:resourceVersion": {},
    },
}


class Conflicting(Exception):
    """Others own fields that somebody applies with other values."""

    def __init__(self, conflicts: list[tuple[Manager, Path]]) -> None:
        super().__init__()
        self.conflicts = conflicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """A kind in all its versions: how each merges, and how an object gets from one to another."""

    api_version: str  # of the write
    type_of: Callable[[str], Type | None]  # by version; None for one that is no longer there
    convert: Callable[[Object, str], Object]
    ignored: Callable[[str], FieldSet]  # by version: fields that a write to this part of the object cannot set
    _types: dict[str, Type | None] = field(default_factory=dict)

    def known_type(self, api_version: str) -> Type | None:
        """How a version merges."""
        if api_version not in self._types:
            self._types[api_version] = self.type_of(api_version)
        return self._types[api_version]

    @property
    def type(self) -> Type:
        """How the version of the write merges."""
        found = self.known_type(self.api_version)
        assert found is not None, f"{self.api_version} is written, and so it is known"
        return found

    def in_version(self, given: Object, api_version: str) -> Object:
        """An object of the write's version in another one."""
        return given if api_version == self.api_version else self.convert(given, api_version)


class Change(NamedTuple):
    """An object before and after a write, in the write's version."""

    before: Object
    after: Object


def updated(versions: Versions, change: Change, managers: Managers, *, who: Manager, now: str) -> Managers:
    """The managers after somebody has written an object."""
    found = compare(versions.type, *change)
    if not any(found):
        return fitting(versions, managers)
    known = fitting(versions, managers)
    rest, _ = _others(versions, change, known, found=found)
    new = union(found.modified, found.added)
    new = difference(without(new, versions.ignored(versions.api_version)), STRIPPED)
    if new:
        mine = rest.get(who)
        rest[who] = Owned(union(new, mine.fields) if mine else new, versions.api_version, now)
    return rest


def fitting(versions: Versions, managers: Managers) -> Managers:
    """The managers without those of versions that are gone, and with sets that fit the schema as it is now."""
    result: Managers = {}
    for manager, owned in managers.items():
        type_ = versions.known_type(owned.api_version)
        if type_ is not None:
            fields = fitted(owned.fields, type_)
            result[manager] = owned if fields is owned.fields else owned._replace(fields=fields)
    return result


def _others(
    versions: Versions, change: Change, managers: Managers, *, found: Comparison, but: Manager | None = None
) -> tuple[Managers, list[tuple[Manager, Path]]]:
    """All managers but one with what they lose by a change, and what that is of fields that get another value."""
    comparisons = {versions.api_version: _allowed(versions, found, versions.api_version)}
    result: Managers = {}
    conflicts: list[tuple[Manager, Path]] = []
    for manager, owned in managers.items():
        version = owned.api_version
        if manager == but:
            result[manager] = owned
            continue
        if version not in comparisons:
            comparisons[version] = _allowed(versions, _compared_in(versions, change, version), version)
        its = comparisons[version]
        lost = intersection(owned.fields, union(its.modified, its.added))
        conflicts += [(manager, path) for path in paths_of(ordered(lost))]
        rest = difference(difference(owned.fields, lost), its.removed)
        if rest:
            result[manager] = owned if rest == owned.fields else owned._replace(fields=rest)
    return {manager: owned for manager, owned in result.items() if owned.fields}, conflicts


def _compared_in(versions: Versions, change: Change, version: str) -> Comparison:
    type_ = versions.known_type(version)
    assert type_ is not None, "managers of versions that are gone have been left out"
    return compare(type_, versions.in_version(change.before, version), versions.in_version(change.after, version))


def _allowed(versions: Versions, found: Comparison, version: str) -> Comparison:
    ignored = versions.ignored(version)
    return Comparison(*(without(one, ignored) for one in found)) if ignored else found


# Applying ------------------------------------------------------------------------------------------------------------


class Applied(NamedTuple):
    """What an apply leads to."""

    after: Object
    managers: Managers
    is_changed: bool  # the object itself, and not only who owns what


def applied(versions: Versions, change: Change, managers: Managers, *, who: Manager, is_forced: bool) -> Applied:
    """The object with what somebody applies (`change.after`) merged in; raises Conflicting and Unnameable."""
    live, config = change
    known = fitting(versions, managers)
    after = merged(versions.type, live, config)
    last = known.get(who)
    spoken = without(fields_of(versions.type, config), versions.ignored(versions.api_version))
    time = last.time if last else None
    known[who] = Owned(spoken, versions.api_version, time)
    after = _pruned(versions, after, known, last)
    found = compare(versions.type, live, after)
    rest, conflicts = _others(versions, Change(live, after), known, found=found, but=who)
    if conflicts and not is_forced:
        raise Conflicting(conflicts)
    if who in rest:
        mine = difference(rest[who].fields, STRIPPED)
        rest[who] = rest[who]._replace(fields=mine)
        if not mine:
            del rest[who]
    return Applied(after, rest, any(found))


def _pruned(versions: Versions, after: Object, managers: Managers, last: Owned | None) -> Object:
    """The object without what its manager applied last and now does not, unless another one owns it as well."""
    if last is None or not last.fields:
        return after
    version = last.api_version
    type_ = versions.known_type(version)
    assert type_ is not None, "managers of versions that are gone have been left out"
    whole = versions.in_version(after, version)
    owned = with_named_fields(last.fields, type_)
    pruned: Any = removed(type_, whole, owned) or {}
    claimed: dict[str, FieldSet] = {}
    for one in managers.values():
        claimed[one.api_version] = union(claimed.get(one.api_version, {}), one.fields)
    for its_version in sorted(claimed, key=lambda one: one != version):  # first the one that was pruned
        pruned = _with_claimed(versions, (whole, pruned, version), claimed[its_version], its_version)
    present = with_named_fields(fields_of(type_, whole), type_)
    rest = with_named_fields(fields_of(type_, pruned), type_)
    gone = intersection(difference(present, rest), owned)
    result = removed(type_, whole, gone) or {}
    return _between(versions, result, version, versions.api_version)


def _with_claimed(versions: Versions, state: tuple[Object, Object, str], claimed: FieldSet, its_version: str) -> Object:
    """What is pruned with what somebody still owns put back, in the version of the state."""
    whole, pruned, version = state
    type_ = versions.known_type(its_version)
    assert type_ is not None, "managers of versions that are gone have been left out"
    whole_there = _between(versions, whole, version, its_version)
    pruned_there = _between(versions, pruned, version, its_version)
    present = with_named_fields(fields_of(type_, whole_there), type_)
    kept = union(with_named_fields(fields_of(type_, pruned_there), type_), with_named_fields(claimed, type_))
    result = removed(type_, whole_there, difference(present, kept)) or {}
    return _between(versions, result, its_version, version)


def _between(versions: Versions, given: Object, version: str, wanted: str) -> Object:
    return given if version == wanted else versions.convert(given, wanted)
