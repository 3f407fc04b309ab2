"""What has to be done to one object to make another of it, as a JSON patch. Pure; used for the answers of webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.store.kinds import Object

Operation = dict[str, Any]


def patch_between(before: Object, after: Object) -> list[Operation]:
    """The operations of a JSON patch, in an order in which they can be made; none where both are the same."""
    return list(_between(before, after, ""))


def _between(before: Any, after: Any, path: str) -> Iterator[Operation]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() - after.keys():
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
        for name, value in after.items():
            place = f"{path}/{_escaped(name)}"
            if name in before:
                yield from _between(before[name], value, place)
            else:
                yield {"op": "add", "path": place, "value": value}
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _between(one, other, f"{path}/{index}")
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": path, "value": after}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
