"""Which pod of a workload with a place goes to which part of it, so that its gate can be opened. Pure.

Called by the controller of places. Pods that are numbered fill the parts in the order of their numbers, all others take
what is free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.dialects.kueue import names
from muster.dialects.kueue.topology_assignment import domains_of
from muster.model.fields import Fields

Part = tuple[str, ...]  # the values of the levels, from the widest on
_ENDED = ("Succeeded", "Failed")
_NUMBER_LENGTH = 9


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The labels that number the pods of a set, by themselves or within equal groups that are numbered too."""

    index: str = ""
    group: str = ""
    group_size: int = 0

    @staticmethod
    def of(request: Fields, total: int) -> _Numbers:
        count = request.integer("subGroupCount", 0)
        group = request.text("subGroupIndexLabel") if count > 0 else ""
        return _Numbers(request.text("podIndexLabel"), group, total // count if group else 0)

    def number_of(self, pod: Fields) -> int | None:
        index = _number(pod, self.index)
        if not self.group or index is None:
            return index
        group = _number(pod, self.group)
        return None if group is None else group * self.group_size + index


def placed_pods(workload: Fields, pods: Sequence[Fields]) -> Iterator[dict[str, Any]]:
    """The pods that may look for a node now, each with the labels of its part and its gate open."""
    requests = {one.text("name"): one.child("topologyRequest") for one in workload.child("spec").children("podSets")}
    for given in workload.child("status").child("admission").children("podSetAssignments"):
        if not given.has("topologyAssignment"):
            continue
        name, place = given.text("name", "main"), given.child("topologyAssignment")
        own = [pod for pod in pods if pod.child("metadata").text_map("labels").get(names.POD_SET) == name]
        levels = place.texts("levels")
        parts = [(tuple(one.values), one.count) for one in domains_of(place.values, place.path)]
        total = sum(count for _, count in parts)
        numbers = _Numbers.of(requests[name], total) if name in requests else _Numbers()
        for pod, part in _assigned(own, levels, parts, numbers):
            yield _opened(pod, dict(zip(levels, part, strict=True)))


def _assigned(
    pods: Sequence[Fields], levels: Sequence[str], parts: Sequence[tuple[Part, int]], labels: _Numbers
) -> Iterator[tuple[Fields, Part]]:
    there = [pod for pod in pods if pod.child("status").text("phase") not in _ENDED]
    waiting = sorted((pod for pod in there if _is_gated(pod)), key=_name)
    taken = Counter(_part_of(pod, levels) for pod in there if not _is_gated(pod))
    by_number = [part for part, count in parts for _ in range(count)]
    numbers = [labels.number_of(pod) for pod in waiting]
    if labels.index and all(number is not None and number < len(by_number) for number in numbers):
        room = Counter(dict(parts))
        for pod, number in zip(waiting, numbers, strict=True):
            assert number is not None, "all of them are numbers"
            part = by_number[number]
            if taken[part] < room[part]:
                taken[part] += 1
                yield pod, part
        return
    free = [part for part, count in parts for _ in range(count - taken[part])]
    yield from zip(waiting, free, strict=False)


def _opened(pod: Fields, labels: Mapping[str, str]) -> dict[str, Any]:
    spec = pod.child("spec")
    left = [gate for gate in spec.items("schedulingGates") if gate.get("name") != names.TOPOLOGY_GATE]
    kept = {name: value for name, value in spec.values.items() if name != "schedulingGates"}
    changed = {**kept, "nodeSelector": {**spec.text_map("nodeSelector"), **labels}}
    return {**pod.values, "spec": {**changed, **({"schedulingGates": left} if left else {})}}


def _is_gated(pod: Fields) -> bool:
    return any(gate.text("name") == names.TOPOLOGY_GATE for gate in pod.child("spec").children("schedulingGates"))


def _part_of(pod: Fields, levels: Sequence[str]) -> Part:
    selector = pod.child("spec").text_map("nodeSelector")
    return tuple(selector.get(level, "") for level in levels)


def _number(pod: Fields, label: str) -> int | None:
    text = pod.child("metadata").text_map("labels").get(label, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _NUMBER_LENGTH else None


def _name(pod: Fields) -> str:
    return pod.child("metadata").text("name")
