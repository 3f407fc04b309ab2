"""How far an autoscaler goes at once: its limits, what was recommended lately, and how fast it may go. Pure.

Called by `autoscaler`. Without a `behavior` the rules of old hold: at most twice the pods or four of them, and down to
the highest recommendation of five minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.store.kinds import Object

DOWN_WINDOW_S = 300.0
_FACTOR, _LEAST = 2, 4  # how far up without a behavior
_NO_LIMIT = 2**31 - 1


class Recommended(NamedTuple):
    """What the metrics asked for at a moment."""

    at_s: float
    replicas: int


class Step(NamedTuple):
    """By how many pods a target was changed at a moment."""

    at_s: float
    change: int  # above zero: grown


@dataclass(slots=True)
class Memory:
    """What is remembered of an autoscaler; after a restart it begins anew, as in Kubernetes."""

    recommended: list[Recommended] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


class Told(NamedTuple):
    """Something that a condition says."""

    kind: str
    is_true: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the metrics ask for, and where the target stands."""

    current: int
    desired: int
    least: int
    most: int
    now_s: float


HIGHER = "recent recommendations were higher than current one, applying the highest recent recommendation"
LOWER = "recent recommendations were lower than current one, applying the lowest recent recommendation"
_READY = Told("AbleToScale", True, "ReadyForNewScale", "recommended size matches current size")
_WITHIN = Told("ScalingLimited", False, "DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FEW = "the desired replica count is less than the minimum replica count"
_TOO_MANY = "the desired replica count is more than the maximum replica count"
_TOO_FAST = "the desired replica count is increasing faster than the maximum scale rate"
_TOO_FAST_DOWN = "the desired replica count is decreasing faster than the maximum scale rate"


def limited(wish: Wish, behavior: Object | None, memory: Memory) -> tuple[int, list[Told]]:
    """How many pods there shall be, and what is told of it; the recommendation is remembered."""
    if behavior is None:
        return _without_behavior(wish, memory)
    up, down = behavior["scaleUp"], behavior["scaleDown"]
    settled = _settled(wish, up, down, memory)
    told = _READY
    if settled != wish.desired:
        is_up = wish.desired >= wish.current
        told = Told("AbleToScale", True, *(("ScaleUpStabilized", LOWER) if is_up else ("ScaleDownStabilized", HIGHER)))
    count, limit = _paced(wish, settled, behavior, memory.steps)
    return count, [told, limit]


def _without_behavior(wish: Wish, memory: Memory) -> tuple[int, list[Told]]:
    recent = _recent(memory.recommended, wish.now_s, DOWN_WINDOW_S)
    settled = max([wish.desired, *(one.replicas for one in recent)])
    _remember(wish, memory, DOWN_WINDOW_S)
    told = _READY if settled == wish.desired else Told("AbleToScale", True, "ScaleDownStabilized", HIGHER)
    fast = max(_FACTOR * wish.current, _LEAST)
    if settled < wish.least:
        return wish.least, [told, Told("ScalingLimited", True, "TooFewReplicas", _TOO_FEW)]
    if settled > min(wish.most, fast):
        is_pace = wish.most > fast
        reason, text = ("ScaleUpLimit", _TOO_FAST) if is_pace else ("TooManyReplicas", _TOO_MANY)
        return min(wish.most, fast), [told, Told("ScalingLimited", True, reason, text)]
    return settled, [told, _WITHIN]


def _settled(wish: Wish, up: Object, down: Object, memory: Memory) -> int:
    """What is left of a wish after a look at those before it."""
    up_s, down_s = _window_s(up, 0.0), _window_s(down, DOWN_WINDOW_S)
    lowest = min([wish.desired, *(one.replicas for one in _recent(memory.recommended, wish.now_s, up_s))])
    highest = max([wish.desired, *(one.replicas for one in _recent(memory.recommended, wish.now_s, down_s))])
    _remember(wish, memory, max(up_s, down_s))
    return min(max(wish.current, lowest), highest)


def _paced(wish: Wish, settled: int, behavior: Object, steps: Sequence[Step]) -> tuple[int, Told]:
    if settled > wish.current:
        pace = max(wish.current, _up_to(wish, behavior["scaleUp"], steps))
        if settled > min(wish.most, pace):
            is_pace = wish.most > pace
            reason, text = ("ScaleUpLimit", _TOO_FAST) if is_pace else ("TooManyReplicas", _TOO_MANY)
            return min(wish.most, pace), Told("ScalingLimited", True, reason, text)
    elif settled < wish.current:
        pace = min(wish.current, _down_to(wish, behavior["scaleDown"], steps))
        if settled < max(wish.least, pace):
            is_pace = wish.least < pace
            reason, text = ("ScaleDownLimit", _TOO_FAST_DOWN) if is_pace else ("TooFewReplicas", _TOO_FEW)
            return max(wish.least, pace), Told("ScalingLimited", True, reason, text)
    return settled, _WITHIN


def _up_to(wish: Wish, rules: Object, steps: Sequence[Step]) -> int:
    """The most pods that the policies for growth allow."""
    found = [
        start + by if is_pods else math.ceil(start * (1 + by / 100))
        for start, by, is_pods in _allowances(wish, rules, steps)
    ]
    choose = min if rules.get("selectPolicy") == "Min" else max
    return min(choose(found, default=wish.current), _NO_LIMIT)


def _down_to(wish: Wish, rules: Object, steps: Sequence[Step]) -> int:
    """The fewest pods that the policies for shrinking allow."""
    found = [
        start - by if is_pods else int(start * (1 - by / 100)) for start, by, is_pods in _allowances(wish, rules, steps)
    ]
    choose = max if rules.get("selectPolicy") == "Min" else min
    return choose(found, default=wish.current)


def _allowances(wish: Wish, rules: Object, steps: Sequence[Step]) -> Iterator[tuple[int, int, bool]]:
    """From which number of pods each policy counts, how far it goes, and whether that is pods and not per cent."""
    if rules.get("selectPolicy") != "Disabled":
        for policy in rules.get("policies") or ():
            start = wish.current - _changed(steps, wish.now_s, policy["periodSeconds"])
            yield start, policy["value"], policy["type"] == "Pods"


def _changed(steps: Sequence[Step], now_s: float, period_s: float) -> int:
    """By how many pods the target has grown in a time, less those that went."""
    return sum(one.change for one in steps if one.at_s > now_s - period_s)


def _window_s(rules: Object, usual_s: float) -> float:
    given = rules.get("stabilizationWindowSeconds")
    return usual_s if given is None else float(given)


def _recent(known: Iterable[Recommended], now_s: float, window_s: float) -> list[Recommended]:
    return [one for one in known if one.at_s > now_s - window_s]


def _remember(wish: Wish, memory: Memory, window_s: float) -> None:
    memory.recommended = _recent(memory.recommended, wish.now_s, window_s)
    memory.recommended.append(Recommended(wish.now_s, wish.desired))
