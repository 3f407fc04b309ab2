"""Checks of limits for users and groups: each by itself, against its queue, and against the queues above."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from muster.dialects.yunikorn.amounts import is_within, least_of, parse_amounts
from muster.dialects.yunikorn.configuration import ROOT, Limit, QueueSettings
from muster.dialects.yunikorn.validate_names import EVERYBODY, GROUP_NAME, USER_NAME
from muster.model.errors import InvalidObject
from muster.model.fields import shown

Value = TypeVar("Value")
Who = tuple[str, str]  # "user" or "group", and its name
Amounts = dict[str, int]


def limit_problems(limits: Iterable[Limit], queue: QueueSettings, path: str) -> Iterator[InvalidObject]:
    """What is wrong with the limits of one queue as they stand."""
    users: set[str] = set()
    groups: set[str] = set()
    for index, limit in enumerate(limits):
        at = f"{path}[{index}]"
        if not limit.users and not limit.groups:
            yield InvalidObject(at, "names no users and no groups", "say for whom it is")
        for what, names, pattern, seen in (
            ("users", limit.users, USER_NAME, users),
            ("groups", limit.groups, GROUP_NAME, groups),
        ):
            yield from _name_problems(names, f"{at}.{what}", seen, pattern)
        if groups == {EVERYBODY}:
            hint = "limit the queue itself, or name a group before"
            yield InvalidObject(f"{at}.groups", "limits all groups and none by name", hint)
        yield from _most_problems(limit, queue, at)


def _name_problems(
    names: tuple[str, ...], path: str, seen: set[str], pattern: re.Pattern[str]
) -> Iterator[InvalidObject]:
    for place, name in enumerate(names):
        at = f"{path}[{place}]"
        if name != EVERYBODY and not pattern.fullmatch(name):
            yield InvalidObject(at, f"is {shown(name)}", f"give a name, or {EVERYBODY} for everybody else")
        if name in seen:
            yield InvalidObject(at, f"is {shown(name)} again", "limit each once")
        elif EVERYBODY in seen:
            yield InvalidObject(at, f"is {shown(name)} and comes after {EVERYBODY}", f"give {EVERYBODY} last")
        seen.add(name)


def _most_problems(limit: Limit, queue: QueueSettings, path: str) -> Iterator[InvalidObject]:
    try:
        most = parse_amounts(limit.most, f"{path}.maxresources")
        most_of_queue = parse_amounts(queue.resources.most, "resources.max") if queue.name != ROOT else {}
    except InvalidObject as problem:
        yield problem
        return
    if limit.most and not any(most.values()):
        yield InvalidObject(f"{path}.maxresources", "are all 0", "give more than 0 of one, or leave them out")
    if not limit.applications_most and not limit.most:
        yield InvalidObject(path, "limits nothing", "give maxresources or maxapplications")
    if 0 < queue.applications_most < limit.applications_most:
        hint = f"give up to {queue.applications_most}, as the queue has"
        yield InvalidObject(f"{path}.maxapplications", f"is {limit.applications_most}", hint)
    if not is_within(most, most_of_queue):
        yield InvalidObject(f"{path}.maxresources", "are above the max of the queue", "give less")


# Down the tree -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Above(Generic[Value]):
    """What the queues above allow each, by who it is; a queue's own entries are taken back when it is left.

    One table for the whole walk: a copy for every queue would cost as much as all queues times all users.
    """

    known: dict[Who, Value] = field(default_factory=dict)
    undo: list[tuple[Who, Value | None]] = field(default_factory=list)

    def of(self, who: Who) -> Value | None:
        """What is allowed to one by name, else to everybody."""
        by_name = self.known.get(who)
        return by_name if by_name is not None else self.known.get((who[0], EVERYBODY))

    def put(self, who: Who, value: Value) -> None:
        self.undo.append((who, self.known.get(who)))
        self.known[who] = value

    def go_back(self, mark: int) -> None:
        while len(self.undo) > mark:
            who, before = self.undo.pop()
            if before is None:
                del self.known[who]
            else:
                self.known[who] = before


def limit_tree_problems(root: QueueSettings, path: str) -> Iterator[InvalidObject]:
    """Limits that allow more than a queue above allows the same user or group."""
    yield from _tree_problems(root, path, _Above(), _Above())


def _tree_problems(
    queue: QueueSettings, path: str, amounts: _Above[Amounts], counts: _Above[int]
) -> Iterator[InvalidObject]:
    marks = len(amounts.undo), len(counts.undo)
    new_amounts: list[tuple[Who, Amounts]] = []
    new_counts: list[tuple[Who, int]] = []
    for index, limit in enumerate(queue.limits):
        at = f"{path}.limits[{index}]"
        try:
            most = parse_amounts(limit.most, at)
        except InvalidObject:
            most = {}  # said already, of the limit itself
        for who in (*(("user", name) for name in limit.users), *(("group", name) for name in limit.groups)):
            above = amounts.of(who)
            if above is not None and not is_within(most, above):
                problem = f"allow {' '.join(who)} more than a queue above it does"
                yield InvalidObject(f"{at}.maxresources", problem, "give less")
            new_amounts.append((who, most if above is None else least_of(most, above)))
            count_above = counts.of(who)
            count = limit.applications_most
            if count_above and not 0 < count <= count_above:
                problem = f"is {count} for {' '.join(who)}"
                yield InvalidObject(f"{at}.maxapplications", problem, f"give 1 to {count_above}, as a queue above it")
            new_counts.append((who, count if count_above is None else min(count, count_above)))
    for whom, amount in new_amounts:
        amounts.put(whom, amount)
    for whom, number in new_counts:
        counts.put(whom, number)
    for index, child in enumerate(queue.children):
        yield from _tree_problems(child, f"{path}.queues[{index}]", amounts, counts)
    amounts.go_back(marks[0])
    counts.go_back(marks[1])
