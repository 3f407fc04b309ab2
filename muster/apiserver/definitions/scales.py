"""The scale of an object of a custom kind, found by the paths that its definition gives. Called by `subresources`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.apiserver.statuses import Problem
from muster.model.errors import InvalidObject

Json = dict[str, Any]
_INT32 = 2**31 - 1
_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object has its counts, as names one below the other."""

    wanted: tuple[str, ...]
    present: tuple[str, ...]
    selector: tuple[str, ...] = ()


def scale_paths(given: Json) -> ScalePaths:
    """The paths of a definition's `subresources.scale`."""
    return ScalePaths(
        _names(given["specReplicasPath"]), _names(given["statusReplicasPath"]), _names(given.get("labelSelectorPath"))
    )


def _names(path: str | None) -> tuple[str, ...]:
    return tuple(path.lstrip(".").split(".")) if path else ()


def scale_of(given: Json, paths: ScalePaths, *, is_complete: bool = True) -> Json:
    """The Scale of an object; raises Problem where it has to say how many it wants, and does not."""
    wanted = _at(given, paths.wanted)
    if is_complete and not _is_count(wanted):
        why = f'the spec replicas field ".{".".join(paths.wanted)}" does not exist'
        raise Problem(500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]})
    present = _at(given, paths.present)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Json = {"replicas": present if _is_count(present) else 0}
    if isinstance(selector := _at(given, paths.selector), str) and selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: given["metadata"][name] for name in kept if name in given["metadata"]},
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def scaled(given: Json, paths: ScalePaths, count: int) -> Json:
    """The object that wants another count."""
    made: Json = _with(given, paths.wanted, count)
    return made


def scale_problems(given: Json, paths: ScalePaths) -> list[InvalidObject]:
    """Counts that are none, as Kubernetes tells them."""
    found = []
    for names in (paths.wanted, paths.present):
        value, place = _looked_up(given, names)
        where = f".{'.'.join(names)}"
        if place:
            found.append(InvalidObject(where, f"Invalid value: 0: {where} accessor error: {place}"))
        elif value is not _ABSENT and value < 0:
            found.append(InvalidObject(where, f"Invalid value: {value}: should be a non-negative integer"))
        elif value is not _ABSENT and value > _INT32:
            found.append(InvalidObject(where, f"Invalid value: {value}: should be less than or equal to {_INT32}"))
    value, place = _looked_up(given, paths.selector, wanted=str) if paths.selector else (_ABSENT, "")
    if place:
        where = f".{'.'.join(paths.selector)}"
        found.append(InvalidObject(where, f'Invalid value: "": {where} accessor error: {place}'))
    return found


def _looked_up(given: Json, names: tuple[str, ...], wanted: type = int) -> tuple[Any, str]:
    """The value at a path, or what stands in the way of it."""
    value: Any = given
    for name in names:
        if not isinstance(value, dict):
            return _ABSENT, f"{_go(value)} is of the type {_go_type(value)}, expected map[string]interface{{}}"
        if name not in value:
            return _ABSENT, ""
        value = value[name]
    if not isinstance(value, wanted) or isinstance(value, bool):
        expected = "int64" if wanted is int else "string"
        return _ABSENT, f"{_go(value)} is of the type {_go_type(value)}, expected {expected}"
    return value, ""


def _go(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "<nil>" if value is None else str(value).lower()
    return str(value)


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}
    return "<nil>" if value is None else names.get(type(value), "map[string]interface {}")


def _at(given: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        given = given.get(name) if isinstance(given, dict) else None
    return given if names else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _with(given: Any, names: tuple[str, ...], value: Any) -> Any:
    if not names:
        return value
    held = given if isinstance(given, dict) else {}
    return {**held, names[0]: _with(held.get(names[0]), names[1:], value)}
