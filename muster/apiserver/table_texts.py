"""The texts that tables of objects are made of, as Kubernetes writes them: ages, selectors, shortened lists.

Called by the `table_cells` modules. Most of it is functions that make a cell of a table out of the path of a field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from muster.apiserver.facts import Column
from muster.model.errors import InvalidObject
from muster.model.quantity import InvalidQuantity, parse_quantity
from muster.model.times import parse_moment

Object = dict[str, Any]
Cell = Callable[[Object, float], Any]  # what a column shows of an object at a moment
Cells = Mapping[str, Cell]  # by the name of the column

# What tables of kinds that are not built in begin and end with.
NAME = Column(name="Name", type="string", format="name")
AGE = Column(name="Age", type="date")

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
INVALID = "<invalid>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 24 * 3600, 365 * 24 * 3600
_LONGEST_S = 2**63 // 10**9  # Kubernetes counts durations in nanoseconds of 64 bits


def at(item: object, path: str) -> Any:
    """The value at a dotted path; `None` where there is none."""
    for name in path.split("."):
        if not isinstance(item, dict):
            return None
        item = item.get(name)
    return item


# Times ---------------------------------------------------------------------------------------------------------------


def human_duration(seconds: float) -> str:
    """A duration with two or three digits of precision: 45s, 5m30s, 3d4h, 2y34d."""
    whole = int(min(seconds, _LONGEST_S))
    if whole < -1:
        return INVALID
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two_units(whole, (_MINUTE, "m"), (1, "s"))
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, (_HOUR, "h"), (_MINUTE, "m"))
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two_units(whole, (_DAY, "d"), (_HOUR, "h"))
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two_units(whole, (_YEAR, "y"), (_DAY, "d"))
    return f"{whole // _YEAR}y"


def _two_units(whole: int, big: tuple[int, str], small: tuple[int, str]) -> str:
    many, rest = divmod(whole, big[0])
    few = rest // small[0]
    return f"{many}{big[1]}" + (f"{few}{small[1]}" if few else "")


def moment(text: object) -> float | None:
    """The seconds of a moment in an object; `None` where there is none, or none that can be read."""
    try:
        return parse_moment(text, "") if isinstance(text, str) else None
    except InvalidObject:
        return None


def since_text(text: object, now_s: float, missing: str = UNKNOWN) -> str:
    """How long ago a moment was."""
    then_s = moment(text)
    return missing if then_s is None else human_duration(now_s - then_s)


def age(item: Object, now_s: float) -> str:
    """How long an object exists."""
    return since_text(at(item, "metadata.creationTimestamp"), now_s)


# Lists and maps ------------------------------------------------------------------------------------------------------


def quantity_text(value: object) -> str:
    """A quantity in its canonical form; an absent one is 0."""
    try:
        return parse_quantity("0" if value is None else str(value)).canonical()
    except InvalidQuantity:
        return INVALID


def shortened(texts: Sequence[str], most: int, separator: str = ",") -> str:
    """The first few of some texts, and how many more there are."""
    shown = separator.join(texts[:most])
    return f"{shown} + {len(texts) - most} more..." if len(texts) > most else shown


def labels_text(labels: object) -> str:
    """Labels as `kubectl` takes them, in the order of their keys."""
    pairs = sorted(labels.items()) if isinstance(labels, Mapping) else ()
    return ",".join(f"{key}={value}" for key, value in pairs) or NONE


def selector_text(selector: object) -> str:
    """A label selector in the form that `kubectl get -l` takes; empty where it selects all or nothing."""
    if not isinstance(selector, Mapping):
        return ""
    named = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    named += [(one["key"], _requirement_text(one)) for one in selector.get("matchExpressions") or ()]
    return ",".join(text for _, text in sorted(named, key=lambda pair: pair[0]))


def _requirement_text(requirement: Mapping[str, Any]) -> str:
    key, operator = requirement["key"], requirement["operator"]
    if operator == "Exists":
        return str(key)
    if operator == "DoesNotExist":
        return f"!{key}"
    return f"{key} {operator.lower()} ({','.join(sorted(requirement.get('values') or ()))})"


def condition(item: Object, kind: str) -> Object | None:
    """The condition of a type; `None` where there is none."""
    found: Iterable[Object] = at(item, "status.conditions") or ()
    return next((one for one in found if one.get("type") == kind), None)


def is_true(item: Object, kind: str) -> bool:
    """Whether an object has a condition that holds."""
    return (condition(item, kind) or {}).get("status") == "True"


# Cells ---------------------------------------------------------------------------------------------------------------


def field(path: str, missing: Any = "") -> Cell:
    """Shows a field as it is."""

    def cell(item: Object, _: float) -> Any:
        value = at(item, path)
        return missing if value is None else value

    return cell


def as_text(path: str, missing: str = "") -> Cell:
    """Shows a number, or whatever a field holds, as text."""

    def cell(item: Object, _: float) -> str:
        value = at(item, path)
        return missing if value is None else str(value)

    return cell


def filled(path: str, empty: str) -> Cell:
    """Shows a text, and something else where it is empty."""
    return lambda item, _: at(item, path) or empty


def count(path: str) -> Cell:
    """Shows how many entries a list or a map has."""
    return lambda item, _: len(at(item, path) or ())


def since(path: str, missing: str = UNKNOWN) -> Cell:
    """Shows how long ago a moment was."""
    return lambda item, now_s: since_text(at(item, path), now_s, missing)


def quantity(path: str, missing: str = "0") -> Cell:
    """Shows a quantity in its canonical form."""

    def cell(item: Object, _: float) -> str:
        value = at(item, path)
        return missing if value is None else quantity_text(value)

    return cell


def labels(path: str) -> Cell:
    """Shows labels."""
    return lambda item, _: labels_text(at(item, path))


def selector(path: str, empty: str = NONE) -> Cell:
    """Shows a label selector."""
    return lambda item, _: selector_text(at(item, path)) or empty


def joined(path: str, separator: str = ",", empty: str = "") -> Cell:
    """Shows the texts of a list."""
    return lambda item, _: separator.join(at(item, path) or ()) or empty


def each(path: str, name: str) -> Cell:
    """Shows one field of each object in a list."""
    return lambda item, _: ",".join(one.get(name, "") for one in at(item, path) or ())


def ratio(part: str, whole: str) -> Cell:
    """Shows one number of another: 2/3."""
    return lambda item, _: f"{at(item, part) or 0}/{at(item, whole) or 0}"


def reference(kind: str, name: str) -> Cell:
    """Shows what an object points to: Role/reader."""
    return lambda item, _: f"{at(item, kind) or ''}/{at(item, name) or ''}"


def pod_template(path: str) -> dict[str, Cell]:
    """The columns about the containers of a pod template."""
    return {
        "Containers": each(f"{path}.spec.containers", "name"),
        "Images": each(f"{path}.spec.containers", "image"),
    }
