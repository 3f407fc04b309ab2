"""What a write may do to an object, whoever writes: identity, generation, status, finalizers, deletion.

Pure functions from decoded objects to decoded objects. Called by `objects`, which knows the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import shown
from muster.model.times import moment_text, parse_moment
from muster.store.errors import Conflict
from muster.store.kinds import KindRules, Object, Propagation
from muster.store.metadata import (
    FOREGROUND,
    KEPT,
    NEVER,
    ORPHAN,
    finalizers_of,
    generated_name,
    is_deleting,
    metadata_of,
    metadata_problems,
)
from muster.store.records import Key


@dataclass(frozen=True, slots=True)
class Birth:
    """What a new object gets from outside: its uid, the end of its name if that is generated, and the time."""

    uid: str
    suffix: str
    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What somebody asks for who deletes an object."""

    grace_s: int | None = None
    propagation: Propagation | None = None
    uid: str | None = None  # delete only the object with this uid
    revision: str | None = None  # and only in this state


def created(given: Object, rules: KindRules, birth: Birth) -> Object:
    """The object as it starts out, without its revision."""
    metadata = {name: value for name, value in metadata_of(given).items() if name not in (*KEPT, *NEVER)}
    if metadata.pop("resourceVersion", None):
        raise InvalidObject("metadata.resourceVersion", "is set on an object that is new", "leave it out")
    if not metadata.get("name") and (prefix := metadata.get("generateName")):
        if not isinstance(prefix, str):
            raise InvalidObject("metadata.generateName", f"is {shown(prefix)}", "give a string")
        metadata["name"] = generated_name(prefix, birth.suffix)
    metadata["uid"] = birth.uid
    metadata["creationTimestamp"] = moment_text(birth.now_s)
    if rules.has_generation:
        metadata["generation"] = 1
    new = _stored({**given, "metadata": metadata}, rules)
    if rules.has_status and not rules.is_status_kept:
        new.pop("status", None)
    new = rules.default(new, None)
    _check(new, None, rules)
    return new


def updated(before: Object, given: Object, rules: KindRules) -> Object:
    """The object after a write to all of it but its status; without a revision of its own yet."""
    new = _stored(given, rules)
    new["metadata"] = _kept_metadata(before, metadata_of(given))
    if rules.has_status:
        _take_over(new, before, "status")
    new = rules.default(new, before)
    for path in rules.immutable:
        if (value := _at(new, path)) != _at(before, path):
            raise InvalidObject(path, f"is changed to {shown(value)}, and cannot change", "delete the object first")
    _check(new, before, rules)
    if rules.has_generation and _meaning(new, rules) != _meaning(before, rules):
        new["metadata"]["generation"] = _generation(before) + 1
    return new


def status_updated(before: Object, given: Object, rules: KindRules) -> Object:
    """The object after a write to its status, and to what of the metadata goes with it."""
    new = {**before, "metadata": dict(before["metadata"])}
    _take_over(new, _stored(given, rules), "status")
    for name in rules.status_metadata:
        _take_over(new["metadata"], metadata_of(given), name)
    new = rules.default(new, before)
    _check(new, before, rules)
    # A rule may count what it sees as a change of the object itself; a write to the status never is.
    _take_over(new["metadata"], before["metadata"], "generation")
    return new


def _check(new: Object, before: Object | None, rules: KindRules) -> None:
    """Raise all that is wrong with an object, of its metadata and of the rest."""
    problems: tuple[InvalidObject, ...] = ()
    if before is None or new["metadata"] != before["metadata"]:
        problems = metadata_problems(new, rules, before)
    try:
        rules.validate(new, before)
    except InvalidObject as problem:
        problems += problem.problems if isinstance(problem, InvalidObjects) else (problem,)
    if problems:
        raise problems[0] if len(problems) == 1 else InvalidObjects(problems)


def check_same(key: Key, before: Object, *, uid: object, revision: object) -> None:
    """Raise Conflict when a writer means another object of this name, or an earlier state of it."""
    metadata = before["metadata"]
    if uid and uid != metadata["uid"]:
        raise Conflict(key, f"its uid is {metadata['uid']}, not {shown(uid)}: it was deleted and made anew")
    if revision and revision != metadata["resourceVersion"]:
        raise Conflict(key, "the object has been modified; apply your changes to the latest version and try again")


def check_meant(key: Key, before: Object, deletion: Deletion) -> None:
    """Raise Conflict when the object is not the one that a deletion means, or not in the state that it means."""
    metadata = before["metadata"]
    for name, asked, found, why in (
        ("UID", deletion.uid, metadata["uid"], "deleted and then recreated"),
        ("ResourceVersion", deletion.revision, metadata["resourceVersion"], "modified"),
    ):
        if asked is not None and asked != found:
            mismatch = f"the {name} in the precondition ({asked}) does not match the {name} in record ({found})"
            raise Conflict(key, f"{mismatch}. The object might have been {why}")


def _stored(given: Object, rules: KindRules) -> Object:
    version = given.get("apiVersion")
    kind = given.get("kind")
    if kind != rules.kind:
        raise InvalidObject("kind", f"is {shown(kind)}", f"give {rules.kind}")
    if not isinstance(version, str):
        raise InvalidObject("apiVersion", f"is {shown(version)}", f"give {rules.api_version}")
    return dict(given) if version == rules.api_version else rules.convert(dict(given), rules.api_version)


def _kept_metadata(before: Object, given: Object) -> Object:
    old = before["metadata"]
    for name in ("name", "namespace"):
        if given.get(name) not in (None, "", old.get(name)):
            problem = f"is {shown(given[name])}, and the object's is {shown(old.get(name))}"
            raise InvalidObject(f"metadata.{name}", problem, "it cannot change")
    new = {name: value for name, value in given.items() if name not in (*KEPT, *NEVER)}
    for name in (*KEPT, "name", "namespace", "resourceVersion"):
        _take_over(new, old, name)
    return new


def _take_over(new: Object, before: Object, name: str) -> None:
    if name in before:
        new[name] = before[name]
    else:
        new.pop(name, None)


def _meaning(given: Object, rules: KindRules) -> Object:
    """What the generation counts: all but the metadata, and the status where that has a subresource."""
    left_out = ("metadata", "status") if rules.has_status else ("metadata",)
    return {name: value for name, value in given.items() if name not in left_out}


def _generation(before: Object) -> int:
    return int(before["metadata"].get("generation") or 0)


def _at(given: Object, path: str) -> Any:
    value: Any = given
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


# Deletion ------------------------------------------------------------------------------------------------------------


def is_gone(given: Object) -> bool:
    """Whether nothing holds an object any more that is being deleted."""
    return is_deleting(given) and not finalizers_of(given) and not given["metadata"].get("deletionGracePeriodSeconds")


def deleted(before: Object, deletion: Deletion, rules: KindRules, now_s: float) -> Object:
    """The object after somebody has asked to delete it. When `is_gone` says so of it, it is to be removed."""
    metadata = dict(before["metadata"])
    grace_s = max(0, rules.grace_s(before, deletion.grace_s))
    if not is_deleting(before):
        metadata["deletionTimestamp"] = moment_text(now_s + grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
        if metadata.get("generation"):
            metadata["generation"] += 1  # its controllers have to act
    elif deletion.grace_s is not None and grace_s < (given_s := metadata.get("deletionGracePeriodSeconds") or 0):
        # Asked again, a deletion can only become shorter.
        asked_s = parse_moment(metadata["deletionTimestamp"], "metadata.deletionTimestamp") - given_s
        metadata["deletionTimestamp"] = moment_text(asked_s + grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
    _set_finalizers(metadata, _finalizers_after(before, deletion, rules))
    return {**before, "metadata": metadata}


def without_finalizer(before: Object, finalizer: str) -> Object:
    """The object when somebody has finished what the finalizer stands for."""
    metadata = dict(before["metadata"])
    _set_finalizers(metadata, [one for one in finalizers_of(before) if one != finalizer])
    return {**before, "metadata": metadata}


def _finalizers_after(before: Object, deletion: Deletion, rules: KindRules) -> list[str]:
    finalizers = finalizers_of(before)
    if not is_deleting(before):
        finalizers += [one for one in rules.held_by if one not in finalizers]
    if not rules.can_own:
        return finalizers
    propagation = deletion.propagation
    if propagation is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            return finalizers  # somebody has chosen before
        propagation = rules.propagation
    others = [one for one in finalizers if one not in (ORPHAN, FOREGROUND)]
    extra = {Propagation.ORPHAN: [ORPHAN], Propagation.FOREGROUND: [FOREGROUND]}.get(propagation, [])
    return others + extra


def _set_finalizers(metadata: Object, finalizers: list[str]) -> None:
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
