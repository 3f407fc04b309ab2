"""Whether a definition gets the names that it asks for, and what its status says of that. Called by `establishing`.

Pure: from a definition and the names that others of its group have, to its next status.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.model.times import moment_text

Json = dict[str, Any]
NAMES_ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"


def next_status(given: Json, others: Iterable[Json], now_s: float) -> Json:
    """The status of a definition, after its names were compared with those of other definitions of its group."""
    status = given.get("status") or {}
    accepted, reason, message = _accepted(given, others)
    is_accepted = not reason
    conditions = status.get("conditions") or []
    named = _condition(NAMES_ACCEPTED, is_accepted, reason or "NoConflicts", message or "no conflicts found")
    conditions = _with(conditions, named, now_s)
    if is_accepted and not is_established(given):
        established = _condition(ESTABLISHED, True, "InitialNamesAccepted", "the initial names have been accepted")
        conditions = _with(conditions, established, now_s)
    elif not is_accepted and condition_of(given, ESTABLISHED) is None:
        refused = _condition(ESTABLISHED, False, "NotAccepted", "not all names are accepted")
        conditions = _with(conditions, refused, now_s)
    if given["metadata"].get("deletionTimestamp") is not None:
        words = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
        conditions = _with(conditions, _condition(TERMINATING, True, *words), now_s)
    return {**status, "conditions": conditions, "acceptedNames": accepted}


def has_its_names(status: Json) -> bool:
    """Whether all names were accepted."""
    return any(one["type"] == NAMES_ACCEPTED and one["status"] == "True" for one in status.get("conditions") or ())


def is_established(given: Json) -> bool:
    """Whether a definition is in force; once it is, it stays so."""
    found = condition_of(given, ESTABLISHED)
    return found is not None and found.get("status") == "True"


def condition_of(given: Json, name: str) -> Json | None:
    """One of a definition's conditions."""
    conditions = (given.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == name), None)


def _accepted(given: Json, others: Iterable[Json]) -> tuple[Json, str, str]:
    """The names that a definition has now, and why it does not have those it wants."""
    wanted = given["spec"]["names"]
    had = (given.get("status") or {}).get("acceptedNames") or {}
    resources: set[str] = set()
    kinds: set[str] = set()
    for one in others:
        names = (one.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural") or "", names.get("singular") or "", *(names.get("shortNames") or ())}
        kinds |= {names.get("kind") or "", names.get("listKind") or ""}
    resources.discard("")
    kinds.discard("")
    new = dict(had)
    reason = message = ""
    for field, taken in (("plural", resources), ("singular", resources)):
        if (wanted.get(field) or "") != (had.get(field) or "") and wanted.get(field) in taken:
            reason, message = f"{field.capitalize()}Conflict", f'"{wanted[field]}" is already in use'
        else:
            _take(new, wanted, field)
    clashes = [
        one for one in wanted.get("shortNames") or () if one in resources and one not in (had.get("shortNames") or ())
    ]
    if clashes:
        told = [f'"{one}" is already in use' for one in clashes]
        reason, message = "ShortNamesConflict", told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    else:
        _take(new, wanted, "shortNames")
    for field, word in (("kind", "KindConflict"), ("listKind", "ListKindConflict")):
        if (wanted.get(field) or "") != (had.get(field) or "") and wanted.get(field) in kinds:
            reason, message = word, f'"{wanted[field]}" is already in use'
        else:
            _take(new, wanted, field)
    _take(new, wanted, "categories")
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    return {name: new[name] for name in order if name in new}, reason, message


def _take(new: Json, wanted: Json, field: str) -> None:
    if wanted.get(field):
        new[field] = wanted[field]
    elif field not in ("plural", "kind"):
        new.pop(field, None)


def _condition(name: str, is_true: bool, reason: str, message: str) -> Json:
    return {"type": name, "status": "True" if is_true else "False", "reason": reason, "message": message}


def _with(conditions: list[Json], new: Json, now_s: float) -> list[Json]:
    """Conditions with one of them as it is now; only where its status changes is the time of that another."""
    made = []
    is_there = False
    for one in conditions:
        if one["type"] != new["type"]:
            made.append(one)
            continue
        is_there = True
        since = one["lastTransitionTime"] if one["status"] == new["status"] else moment_text(now_s)
        made.append({**_ordered(new, since)})
    return made if is_there else [*made, _ordered(new, moment_text(now_s))]


def _ordered(condition: Json, since: str) -> Json:
    name, status = condition["type"], condition["status"]
    rest = {"reason": condition["reason"], "message": condition["message"]}
    return {"type": name, "status": status, "lastTransitionTime": since, **rest}
