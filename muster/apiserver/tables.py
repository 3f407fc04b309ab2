"""Answers in the form of tables, which `kubectl get` asks for. Called where lists, objects and watch events go out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any

from muster.apiserver.facts import Column
from muster.apiserver.table_cells import Shown, shown
from muster.apiserver.table_cells_pods import row_conditions
from muster.apiserver.table_texts import Object

API_VERSION = "meta.k8s.io/v1"


class Include(Enum):
    """What a row carries of its object beside the cells, as the query's includeObject says."""

    NONE = "None"
    METADATA = "Metadata"
    OBJECT = "Object"


def table(
    kind: tuple[str, str, str],
    objects: Iterable[Object],
    *,
    now_s: float,
    include: Include = Include.METADATA,
    metadata: Mapping[str, Any],
) -> Object:
    """A table of objects of one kind, named by group, version and kind, under the metadata of the list or object.

    All columns are in it; kubectl leaves out those of a higher priority unless it is asked for a wide table.
    """
    return table_of(columns_of(kind), objects, now_s=now_s, include=include, metadata=metadata)


def table_of(
    columns: tuple[Shown, ...],
    objects: Iterable[Object],
    *,
    now_s: float,
    include: Include = Include.METADATA,
    metadata: Mapping[str, Any],
) -> Object:
    """A table with any columns."""
    return {
        "kind": "Table",
        "apiVersion": API_VERSION,
        "metadata": dict(metadata),
        "columnDefinitions": definitions(columns),
        "rows": [_row(columns, item, now_s, include) for item in objects],
    }


def definitions(columns: tuple[Shown, ...]) -> list[Object]:
    """What the columns of a table are called and hold."""
    return [_definition(one.column) for one in columns]


@cache
def columns_of(kind: tuple[str, str, str]) -> tuple[Shown, ...]:
    """The columns of a kind that the server knows by itself."""
    return shown(*kind)


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _row(columns: tuple[Shown, ...], item: Object, now_s: float, include: Include) -> Object:
    row: Object = {"cells": [one.cell(item, now_s) for one in columns], "object": _carried(item, include)}
    if item.get("kind") == "Pod" and (conditions := row_conditions(item)):
        row["conditions"] = conditions
    return row


def _carried(item: Object, include: Include) -> Object | None:
    if include is Include.OBJECT:
        return item
    if include is Include.NONE:
        return None
    return {"kind": "PartialObjectMetadata", "apiVersion": API_VERSION, "metadata": item.get("metadata", {})}
