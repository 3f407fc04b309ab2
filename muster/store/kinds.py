"""What the rules for objects have to know about a kind. Filled in by the API server's tables and by the dialects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from muster.model.labels import dns1123_subdomain_problem

Object = dict[str, Any]  # an object of the API as JSON has it


class Propagation(Enum):
    """What a deletion means for the objects that the deleted one owns."""

    BACKGROUND = "Background"  # they follow
    FOREGROUND = "Foreground"  # they go first
    ORPHAN = "Orphan"  # they stay


def _as_it_is(given: Object) -> Object:
    return given


def _without_defaults(given: Object, _before: Object | None) -> Object:
    return given


def _convert_nothing(given: Object, api_version: str) -> Object:
    return {**given, "apiVersion": api_version}


def _accept(_given: Object, _before: Object | None) -> None:
    """Kinds without rules of their own take everything."""


def _at_once(_given: Object, _asked_s: int | None) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRules:
    """One kind of object: what it is called, and the rules that only it has."""

    resource: str  # as in its keys: `pods`, `jobs.batch`
    kind: str
    api_version: str  # that it is stored in
    is_namespaced: bool = True
    has_status: bool = False  # which then changes only through its own subresource
    has_generation: bool = True
    is_status_kept: bool = False  # when the object is created, as for nodes
    status_metadata: tuple[str, ...] = ()  # what of the metadata a write to the status changes too
    held_by: tuple[str, ...] = ()  # finalizers that an object gets when its deletion begins
    immutable: tuple[str, ...] = ()  # fields such as spec.selector
    propagation: Propagation = Propagation.BACKGROUND  # unless a deletion says otherwise
    can_own: bool = True  # whether its deletion can mean anything to other objects
    name_problem: Callable[[str], str] = dns1123_subdomain_problem
    is_marked_first: bool = False  # even one that nothing holds is seen to be deleted before it is gone
    versions: Mapping[str, KindRules] = field(default_factory=dict)  # for those who write in that apiVersion
    # The hooks may change the object they are given: it is a copy of this one write.
    convert: Callable[[Object, str], Object] = _convert_nothing  # to another apiVersion
    # What is as it was in the object before may be taken from there: it has its defaults.
    default: Callable[[Object, Object | None], Object] = _without_defaults
    revive: Callable[[Object], Object] = _as_it_is  # what was stored under older rules, in the version stored now
    validate: Callable[[Object, Object | None], None] = _accept  # raises InvalidObject; with the object before
    grace_s: Callable[[Object, int | None], int] = _at_once  # how long a deletion takes, given what was asked for
