"""The macros that go through a list or a map, as functions of a frame. Built by the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from muster.apiserver.cel.comparing import order
from muster.apiserver.cel.problems import EvaluationProblem, no_such_overload
from muster.apiserver.cel.values import LISTS, MAPS, NONE, Optional

Frame = list[Any]
Run = Callable[[Frame], Any]
Places = tuple[int, ...]  # of the loop's one or two variables in the frame


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParts:
    """What a loop is made of: each part computes it from the frame."""

    source: Run
    places: Places
    condition: Run | None
    body: Run
    steps: int  # of one turn


Build = Callable[[LoopParts], Run]


def _turns(frame: Frame, source: Any, parts: LoopParts) -> Iterable[Any]:
    """Sets the variables to each element in turn and charges for the turn; gives the key or the index."""
    budget, places, steps = frame[0], parts.places, parts.steps
    first = places[0]
    if isinstance(source, LISTS):
        if len(places) == 1:
            for value in source:
                budget.charge(steps)
                frame[first] = value
                yield value
        else:
            for index, value in enumerate(source):
                budget.charge(steps)
                frame[first], frame[places[1]] = index, value
                yield index
    elif isinstance(source, MAPS):
        for key in source:
            budget.charge(steps)
            frame[first] = key
            if len(places) == 2:
                frame[places[1]] = source[key]
            yield key
    else:
        raise no_such_overload()


def _is_true(value: Any) -> bool:
    if not isinstance(value, bool):
        raise no_such_overload()
    return value


def _quantifier(deciding: bool) -> Build:
    """all() and exists(): one element decides, whatever goes wrong at others."""

    def build(parts: LoopParts) -> Run:
        def run(frame: Frame) -> bool:
            problem: EvaluationProblem | None = None
            for _ in _turns(frame, parts.source(frame), parts):
                try:
                    if _is_true(parts.body(frame)) is deciding:
                        return deciding
                except EvaluationProblem as found:
                    problem = problem or found
            if problem is not None:
                raise problem
            return not deciding

        return run

    return build


def _exists_one(parts: LoopParts) -> Run:
    return lambda frame: sum(_is_true(parts.body(frame)) for _ in _turns(frame, parts.source(frame), parts)) == 1


def _filter(parts: LoopParts) -> Run:
    def run(frame: Frame) -> list[Any]:
        # The element is read again after the body: a loop inside it has places of its own.
        turns = _turns(frame, parts.source(frame), parts)
        return [frame[parts.places[0]] for _ in turns if _is_true(parts.body(frame))]

    return run


def _list(parts: LoopParts) -> Run:
    def run(frame: Frame) -> list[Any]:
        turns = _turns(frame, parts.source(frame), parts)
        return [parts.body(frame) for _ in turns if parts.condition is None or _is_true(parts.condition(frame))]

    return run


def _map(parts: LoopParts) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        turns = _turns(frame, parts.source(frame), parts)
        return {key: parts.body(frame) for key in turns if parts.condition is None or _is_true(parts.condition(frame))}

    return run


def _map_of_entries(parts: LoopParts) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in _turns(frame, parts.source(frame), parts):
            if parts.condition is not None and not _is_true(parts.condition(frame)):
                continue
            entries = parts.body(frame)
            if not isinstance(entries, MAPS):
                raise no_such_overload()
            frame[0].charge(len(entries))
            for key in entries:
                if key in found:
                    raise EvaluationProblem(f"insert failed: key {key} already exists")
                found[key] = entries[key]
        return found

    return run


def _sorted_by(parts: LoopParts) -> Run:
    def run(frame: Frame) -> list[Any]:
        values = parts.source(frame)
        if not isinstance(values, LISTS):
            raise no_such_overload()
        keyed = [(parts.body(frame), frame[parts.places[0]]) for _ in _turns(frame, values, parts)]
        frame[0].charge(len(keyed) * len(keyed).bit_length())
        by_key = cmp_to_key(order)
        return [value for _, value in sorted(keyed, key=lambda pair: by_key(pair[0]))]

    return run


def _optional(*, is_flat: bool) -> Build:
    """optMap() and optFlatMap(): the body for the value, if there is one."""

    def build(parts: LoopParts) -> Run:
        def run(frame: Frame) -> Any:
            value = parts.source(frame)
            if not isinstance(value, Optional):
                raise no_such_overload()
            if not value.has_value:
                return NONE
            frame[0].charge(parts.steps)
            frame[parts.places[0]] = value.value
            found = parts.body(frame)
            if not is_flat:
                return Optional(True, found)
            if not isinstance(found, Optional):
                raise no_such_overload()
            return found

        return run

    return build


LOOPS: dict[str, Build] = {
    "all": _quantifier(False),
    "exists": _quantifier(True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _list,
    "transformList": _list,
    "transformMap": _map,
    "transformMapEntry": _map_of_entries,
    "sortBy": _sorted_by,
    "optMap": _optional(is_flat=False),
    "optFlatMap": _optional(is_flat=True),
}
