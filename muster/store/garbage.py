"""Deleting what an owner leaves behind, in steps that are one write each. Called by the garbage collector's loop.

`steps_after` says which objects to look at after an event, by uid; `collect` looks. A step that is cut short by a crash
is simply done again: what has to be done is read from the objects each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from muster.store.kinds import Object, Propagation
from muster.store.metadata import FOREGROUND, ORPHAN, finalizers_of, is_deleting
from muster.store.objects import Objects, decode
from muster.store.port import Change, Store, Transaction
from muster.store.records import Action, Event, Key, Record, Scope
from muster.store.rules import Deletion, without_finalizer

DEPENDENTS_A_STEP = 100


def steps_after(event: Event) -> tuple[str, ...]:
    """The uids to look at after an event; the deleted and the living alike."""
    record = event.record
    if event.action is Action.DELETED:
        return (record.uid, *record.owners)
    owners_before = event.before.owners if event.before is not None else ()
    if owners_before != record.owners:
        return (record.uid, *owners_before)
    return (record.uid,) if _may_be_deleting(record) else ()


def first_steps(store: Store, resources: Iterable[str]) -> list[str]:
    """The uids to look at when the collector starts: what was going on when the last one stopped."""
    strays = set(store.strays())
    records = (record for resource in resources for record in store.page(Scope(resource)).records)
    return [record.uid for record in records if record.key in strays or _may_be_deleting(record)]


def _may_be_deleting(record: Record) -> bool:
    """Whether the word is there at all: much cheaper than reading the object, and almost always no."""
    return b'"deletionTimestamp"' in record.value


def collect(objects: Objects, uid: str) -> Change[bool]:
    """One step for an object and for those it owns, or has owned; gives whether there is more to do now."""

    def change(write: Transaction) -> bool:
        record = write.find(uid)
        if record is None:
            return _each(write, uid, lambda key: _let_follow(objects, write, key))
        if record.owners and _let_follow(objects, write, record.key):
            return True
        owner = decode(record)
        finalizers = finalizers_of(owner) if is_deleting(owner) else []
        has_more = False
        if ORPHAN in finalizers:
            has_more = _each(write, uid, lambda key: _let_go(objects, write, key, {uid}))
            if not has_more:
                objects.settle(write, record.key, without_finalizer(owner, ORPHAN))
        elif FOREGROUND in finalizers:
            has_more = _each(write, uid, lambda key: _let_follow(objects, write, key))
            if not has_more and not _has_blocking(write, uid):
                objects.settle(write, record.key, without_finalizer(owner, FOREGROUND))
        return has_more

    return change


def _each(write: Transaction, uid: str, act: Callable[[Key], bool]) -> bool:
    """Act on dependents until enough have changed for one write; gives whether some are left."""
    changed = 0
    for key in write.dependents(uid):
        if changed == DEPENDENTS_A_STEP:
            return True
        changed += act(key)
    return False


def _let_follow(objects: Objects, write: Transaction, key: Key) -> bool:
    """Delete an object all of whose owners are gone or going; else take those off its list."""
    record = write.get(key)
    assert record is not None, f"{key} is listed as a dependent"
    dependent = decode(record)
    if is_deleting(dependent):
        return False
    states = {one["uid"]: _state_of(write, key, one["uid"]) for one in dependent["metadata"]["ownerReferences"]}
    leaving = {uid for uid, state in states.items() if state != "here"}
    if not leaving:
        return False
    if len(leaving) < len(states):
        return _let_go(objects, write, key, leaving)
    # Whoever waits for this one to be gone waits for what it owns, too.
    followers = write.dependents(record.uid) if "going" in states.values() else []
    if any(_is_going(write.get(one)) for one in followers):
        _unblock(objects, write, key, dependent)  # else two that own each other would wait for ever
    propagation = Propagation.FOREGROUND if followers else _own_choice(dependent)
    objects.delete(key, Deletion(propagation=propagation, uid=record.uid))(write)
    return True


def _own_choice(dependent: Object) -> Propagation:
    finalizers = finalizers_of(dependent)
    if ORPHAN in finalizers:
        return Propagation.ORPHAN
    return Propagation.FOREGROUND if FOREGROUND in finalizers else Propagation.BACKGROUND


def _state_of(write: Transaction, dependent: Key, owner_uid: str) -> str:
    owner = write.find(owner_uid)
    if owner is None or not owner.key.can_own(dependent):
        return "gone"
    return "going" if _is_going(owner) else "here"


def _is_going(record: Record | None) -> bool:
    """Whether an object waits for those it owns to be gone first."""
    if record is None or not _may_be_deleting(record):
        return False
    found = decode(record)
    return is_deleting(found) and FOREGROUND in finalizers_of(found)


def _unblock(objects: Objects, write: Transaction, key: Key, dependent: Object) -> None:
    for one in dependent["metadata"]["ownerReferences"]:
        one["blockOwnerDeletion"] = False
    objects.settle(write, key, dependent)


def _let_go(objects: Objects, write: Transaction, key: Key, owners: set[str]) -> bool:
    """Take owners off an object's list."""
    record = write.get(key)
    assert record is not None, f"{key} is listed as a dependent"
    dependent = decode(record)
    metadata = dependent["metadata"]
    metadata["ownerReferences"] = [one for one in metadata["ownerReferences"] if one["uid"] not in owners]
    if not metadata["ownerReferences"]:
        del metadata["ownerReferences"]
    objects.settle(write, key, dependent)
    return True


def _has_blocking(write: Transaction, uid: str) -> bool:
    records = [write.get(key) for key in write.dependents(uid)]
    return any(record is not None and record.uid != uid and _is_blocking(record, uid) for record in records)


def _is_blocking(record: Record, uid: str) -> bool:
    owners = decode(record)["metadata"]["ownerReferences"]
    return any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in owners)
