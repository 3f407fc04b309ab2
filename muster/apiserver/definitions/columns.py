"""The columns that a definition asks for in tables of its kind. Made by `kinds`, shown by `apiserver/tables`."""

from __future__ import annotations

from typing import Any

from muster.apiserver.definitions.json_paths import parse_path, text_of_found
from muster.apiserver.facts import Column
from muster.apiserver.table_cells import Shown
from muster.apiserver.table_texts import AGE, INVALID, NAME, Cell, Object, age, field, moment, since_text

_DESCRIPTION = "Custom resource definition column (in JSONPath format): {}"
_NAME_CELL = field("metadata.name")


def columns_of(version: dict[str, Any]) -> tuple[Shown, ...]:
    """The columns of one version: the name, and those of the definition or else the age."""
    name = Shown(NAME, _NAME_CELL)
    given = version.get("additionalPrinterColumns")
    if not given:
        return (name, Shown(AGE, age))
    return (name, *(Shown(_column(one), _cell(one)) for one in given))


def _column(given: dict[str, Any]) -> Column:
    return Column(
        name=given["name"],
        type=given["type"],
        format=given.get("format") or "",
        priority=given.get("priority") or 0,
        description=given.get("description") or _DESCRIPTION.format(given["jsonPath"]),
    )


def _cell(given: dict[str, Any]) -> Cell:
    path = parse_path(given["jsonPath"])
    kind = given["type"]

    def cell(item: Object, now_s: float) -> Any:
        found = path(item) if path is not None else []
        if not found:
            return None
        return text_of_found(found[:1]) if kind == "string" else _typed(found[0], kind, now_s)

    return cell


def _typed(value: Any, kind: str, now_s: float) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match kind:
        case "integer" if is_number:
            return int(value)
        case "number" if is_number:
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return INVALID if moment(value) is None else since_text(value, now_s)
    return None
