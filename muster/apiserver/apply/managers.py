"""`metadata.managedFields`: who has set which fields, and when. Read and written here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from muster.apiserver.apply.fieldsets import FieldSet, InvalidFields, ordered, read, union

APPLY, UPDATE = "Apply", "Update"
FIELDS_V1 = "FieldsV1"
MOST_UPDATERS = 10
ANCIENT = "ancient-changes"
LONGEST_NAME = 128  # bytes

Entry = dict[str, Any]


class Manager(NamedTuple):
    """Who owns fields: a name, by the way it writes."""

    name: str
    operation: str
    api_version: str = ""  # empty for one that applies: it is the same whichever version it uses
    subresource: str = ""

    def told(self) -> str:
        """The manager as messages name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Owned(NamedTuple):
    """The fields of a manager, in the version in which it wrote them."""

    fields: FieldSet
    api_version: str
    time: str | None = None


Managers = dict[Manager, Owned]


def managers_of(entries: Any) -> Managers:
    """The managers of a stored object, whose entries the server has written itself."""
    return {
        _manager(entry): Owned(entry.get("fieldsV1") or {}, entry["apiVersion"], entry.get("time"))
        for entry in entries or ()
    }


def _manager(entry: Entry) -> Manager:
    is_applied = entry["operation"] == APPLY
    version = "" if is_applied else entry["apiVersion"]
    return Manager(entry.get("manager") or "", entry["operation"], version, entry.get("subresource") or "")


def sent_managers(entries: Any) -> Managers | None:
    """The managers that a client sends; `None` where that is nothing, or nothing that can be understood."""
    if not isinstance(entries, list) or not entries:
        return None
    result: Managers = {}
    try:
        for entry in entries:
            if not _is_sound(entry):
                return None
            time = entry.get("time")
            owned = Owned(read(entry.get("fieldsV1")), entry["apiVersion"], time if isinstance(time, str) else None)
            result[_manager(entry)] = owned
    except InvalidFields:
        return None
    return result


def is_reset(entries: Any) -> bool:
    """Whether a client asks for a start without any manager."""
    return isinstance(entries, list) and len(entries) == 1 and entries[0] == {}


def _is_sound(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.get("fieldsType") != FIELDS_V1:
        return False
    if entry.get("operation") not in (APPLY, UPDATE):
        return False
    texts = (entry.get("apiVersion"), entry.get("manager") or "", entry.get("subresource") or "")
    return all(isinstance(one, str) for one in texts) and bool(entry["apiVersion"])


def entries_of(managers: Managers) -> list[Entry]:
    """The managers as they are stored: those who apply first, then by time and by name."""
    found = sorted(managers.items(), key=lambda item: _order(*item))
    return [entry_of(manager, owned.api_version, owned.time, ordered(owned.fields)) for manager, owned in found]


def _order(manager: Manager, owned: Owned) -> tuple[str, ...]:
    return manager.operation, owned.time or "", manager.name, owned.api_version, manager.subresource


def entry_of(manager: Manager, api_version: str, time: str | None, fields: Any) -> Entry:
    """One manager as it is stored."""
    entry: Entry = {}
    if manager.name:
        entry["manager"] = manager.name
    entry["operation"] = manager.operation
    entry["apiVersion"] = api_version
    if time:
        entry["time"] = time
    entry["fieldsType"] = FIELDS_V1
    entry["fieldsV1"] = fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def capped(managers: Managers) -> Managers:
    """The managers with only so many that update: the oldest ones of a version become one."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    if len(updaters) <= MOST_UPDATERS:
        return managers
    updaters.sort(key=lambda one: (managers[one].time or "", _identity(one)))
    result = dict(managers)
    count = len(updaters)
    first_of: dict[str, Manager] = {}
    for manager in updaters:
        if count <= MOST_UPDATERS:
            break
        owned = managers[manager]
        bucket = Manager(ANCIENT, UPDATE, owned.api_version)
        first = first_of.setdefault(owned.api_version, manager)
        if first == manager:
            continue
        if bucket not in result:
            result[bucket] = result.pop(first)
        older = result[bucket]
        result.pop(manager, None)
        result[bucket] = Owned(union(older.fields, owned.fields), owned.api_version, owned.time)
        count -= 1
    return result


def _identity(manager: Manager) -> str:
    """How Kubernetes writes a manager where it sorts them."""
    parts = [f'"manager":"{manager.name}"'] if manager.name else []
    parts += [f'"operation":"{manager.operation}"', f'"apiVersion":"{manager.api_version}"']
    return ",".join(parts)


def is_same_but_for_times(left: Iterable[Entry], right: Iterable[Entry]) -> bool:
    """Whether two lists of entries tell the same."""
    return [_without_time(one) for one in left] == [_without_time(one) for one in right]


def _without_time(entry: Entry) -> Entry:
    return {name: value for name, value in entry.items() if name != "time"}
