"""Who owns which field of an object after a write: what the store asks at every one, and what applies are made of.

`app` gives one to the store's `Objects`, so that writes of clients and of controllers are noted alike.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from muster.apiserver.apply.compare import Unnameable, compare, fields_of
from muster.apiserver.apply.fieldsets import FieldSet, difference, has
from muster.apiserver.apply.fresh import fields_of_new
from muster.apiserver.apply.kinds import CustomType, as_asked, empty_object, ignored_by, no_custom_type, type_in
from muster.apiserver.apply.managers import (
    APPLY,
    UPDATE,
    Entry,
    Manager,
    Managers,
    capped,
    entries_of,
    entry_of,
    is_reset,
    is_same_but_for_times,
    managers_of,
    sent_managers,
)
from muster.apiserver.apply.merge import problems_of, without_nulls
from muster.apiserver.apply.schema import Object, builtin_type
from muster.apiserver.apply.updater import Applied, Change, Conflicting, Versions, applied, updated
from muster.model.times import moment_text
from muster.store.kinds import KindRules
from muster.store.objects import By, Write

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
BEFORE_FIRST_APPLY = "before-first-apply"
_MOST_PROBLEMS = 20
_ESCAPED = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}  # as Go writes them


class Ownership:
    """Notes who owns what. Custom kinds are asked for by apiVersion and kind."""

    def __init__(self, custom: CustomType = no_custom_type) -> None:
        self._custom = custom

    def of_new(self, new: Object, write: Write) -> list[Entry]:
        """The `managedFields` of an object that is being created."""
        sent = (write.asked.get("metadata") or {}).get("managedFields")
        if write.by.is_applied:
            return sent or []
        rules, by = write.rules, write.by
        api_version = by.api_version or rules.api_version
        empty = empty_object(api_version, rules.kind)
        if empty and not sent:
            return _of_plain(new, empty, api_version, write)
        return self._noted(self.versions(rules, by), Change(empty, new), sent_managers(sent) or {}, write)

    def of_changed(self, before: Object, new: Object, write: Write) -> list[Entry]:
        """The same of one that has changed; the entries before, if nothing but times would be other."""
        had = before["metadata"].get("managedFields") or []
        sent = (write.asked.get("metadata") or {}).get("managedFields")
        if write.by.is_applied:
            entries = sent or []
        elif write.by.subresource or not sent or sent == had:
            # Whoever updates an object without a manager does not begin to be one.
            entries = self._of_update(before, new, managers_of(had), write) if had else had
        elif is_reset(sent):
            entries = []
        else:
            given = sent_managers(sent)
            entries = self._of_update(before, new, managers_of(had) if given is None else given, write)
        is_same = new == before and is_same_but_for_times(entries, had)
        return had if is_same else entries

    def _of_update(self, before: Object, new: Object, managers: Managers, write: Write) -> list[Entry]:
        versions = self.versions(write.rules, write.by)
        return self._noted(versions, Change(before, new), managers, write)

    def _noted(self, versions: Versions, change: Change, managers: Managers, write: Write) -> list[Entry]:
        rules, by = write.rules, write.by
        seen = as_asked(change.after, write.asked, change.before, rules)
        if versions.api_version != rules.api_version:
            before = change.before if not change.before.get("kind") else rules.convert(change.before, by.api_version)
            change = Change(before, rules.convert(seen, by.api_version))
        else:
            change = Change(change.before, seen)
        who = Manager(by.manager, UPDATE, versions.api_version, by.subresource)
        try:
            after = updated(versions, change, managers, who=who, now=moment_text(write.now_s))
        except Unnameable:
            return []  # an object that its schema cannot describe has no owners
        return entries_of(capped(after))

    def versions(self, rules: KindRules, by: By) -> Versions:
        """A kind as a writer sees it."""
        ignored = ignored_by(by.subresource, rules.has_status, rules.status_metadata)
        return Versions(
            api_version=by.api_version or rules.api_version,
            type_of=lambda api_version: type_in(api_version, rules, self._custom),
            convert=rules.convert,
            ignored=lambda _: ignored,
        )

    # Applying --------------------------------------------------------------------------------------------------------

    def apply(self, live: Object | None, config: Object, write: Write, *, is_forced: bool) -> Object:
        """The object with what somebody applies, and with its new `managedFields`; raises Conflicting and Misfit."""
        versions = self.versions(write.rules, write.by)
        kind = write.rules.kind
        refuse_misfits(config, versions)
        before = empty_object(versions.api_version, kind) if live is None else live
        managers = managers_of(before.get("metadata", {}).get("managedFields"))
        before = {**before, "metadata": _without(before.get("metadata") or {}, "managedFields")}
        if live is not None and not managers:
            managers = self._first(before, versions, write)
        who = Manager(write.by.manager, APPLY, "", write.by.subresource)
        found = _applied(versions, Change(before, config), managers, who=who, is_forced=is_forced)
        noted = dict(found.managers)
        if found.is_changed and who in noted:
            noted[who] = noted[who]._replace(time=moment_text(write.now_s))
        # A type reads null as nothing; a kind without one would keep it.
        after = dict(found.after) if builtin_type(versions.api_version, kind) else without_nulls(found.after)
        if who.name == KUBECTL:
            _renew_last_applied(after, config)
        after["metadata"] = {**(after.get("metadata") or {}), "managedFields": entries_of(noted)}
        return {**after, "apiVersion": config["apiVersion"], "kind": config["kind"]}

    @staticmethod
    def _first(before: Object, versions: Versions, write: Write) -> Managers:
        """The one manager that an object has which nobody has been noted for."""
        empty = empty_object(versions.api_version, write.rules.kind)
        who = Manager(BEFORE_FIRST_APPLY, UPDATE, versions.api_version, write.by.subresource)
        return updated(versions, Change(empty, before), {}, who=who, now=moment_text(write.now_s))


def _of_plain(new: Object, empty: Object, api_version: str, write: Write) -> list[Entry]:
    """The one manager of a new object of a built-in kind."""
    rules, by = write.rules, write.by
    type_ = builtin_type(api_version, rules.kind)
    assert type_ is not None, "only built-in kinds have something by themselves"
    ignored = ignored_by(by.subresource, rules.has_status, rules.status_metadata)
    try:
        fields = fields_of_new(type_, as_asked(new, write.asked, {}, rules), empty, ignored)
    except Unnameable:
        return []  # an object that its schema cannot describe has no owners
    if not fields:
        return []
    who = Manager(by.manager, UPDATE, api_version, by.subresource)
    return [entry_of(who, api_version, new["metadata"]["creationTimestamp"], msgspec.Raw(fields))]


class Misfit(Exception):
    """What is applied does not fit the schema of its kind."""


def refuse_misfits(config: Object, versions: Versions) -> None:
    """Raise Misfit for an object that cannot be merged."""
    problems = []
    for problem in problems_of(versions.type, config):
        problems.append(problem)
        if len(problems) == _MOST_PROBLEMS:
            break
    if problems:
        raise Misfit(problems[0] if len(problems) == 1 else "errors:\n  " + "\n  ".join(problems))


def _without(given: Object, name: str) -> Object:
    return {key: value for key, value in given.items() if key != name}


def _applied(versions: Versions, change: Change, managers: Managers, *, who: Manager, is_forced: bool) -> Applied:
    """An apply; one of kubectl takes over what kubectl has applied by itself before."""
    try:
        return applied(versions, change, managers, who=who, is_forced=is_forced)
    except Conflicting as problem:
        own = _last_applied_fields(versions, change.before) if who.name == KUBECTL else {}
        conflicts = [one for one in problem.conflicts if not has(own, one[1])]
        if conflicts or not own:
            raise Conflicting(conflicts) from None
    return applied(versions, change, managers, who=who, is_forced=True)


def _last_applied_fields(versions: Versions, live: Object) -> FieldSet:
    """The fields that kubectl has applied by itself and nobody has changed since."""
    text = _annotations(live).get(LAST_APPLIED)
    try:
        last = json.loads(text) if text else None
        if not isinstance(last, dict) or last.get("apiVersion") != versions.api_version:
            return {}
        if next(problems_of(versions.type, last), None) is not None:
            return {}
        found = compare(versions.type, last, live)
        fields = fields_of(versions.type, last)
    except (ValueError, RecursionError, Unnameable):
        return {}
    for changed in found:
        fields = difference(fields, changed)
    return fields


def _annotations(given: Object) -> dict[str, Any]:
    return (given.get("metadata") or {}).get("annotations") or {}


def _renew_last_applied(after: Object, config: Object) -> None:
    """What kubectl would find as last applied, where it looks for it at all."""
    annotations = _annotations(after)
    if not annotations.get(LAST_APPLIED):
        return
    own = _without(_annotations(config), LAST_APPLIED)
    metadata = _without(config.get("metadata") or {}, "annotations")
    if own or "annotations" in (config.get("metadata") or {}):
        metadata["annotations"] = own
    text = json.dumps({**config, "metadata": metadata}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    after["metadata"] = {**after["metadata"]}
    after["metadata"]["annotations"] = {**annotations, LAST_APPLIED: text.translate(_ESCAPED) + "\n"}
