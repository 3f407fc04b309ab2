"""Which pods go first when there are too many: those that are worth least. Pure; called by `replicaset`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key

from muster.controllers.builtin.pods import created_s, is_active, is_ready, phase_of, ready_since_s
from muster.model.fields import INT32_MAX
from muster.store.kinds import Object

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST_LENGTH = 11


def to_delete(pods: Sequence[Object], count: int, related: Iterable[Object], now_s: float) -> list[Object]:
    """As many pods as asked for, the least valued first; `related` are all that do the same work."""
    if count >= len(pods):
        return list(pods)
    crowd = Counter(node for pod in related if is_active(pod) and (node := _node(pod)))
    before = _order(crowd, now_s)
    by_name = sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
    return sorted(by_name, key=cmp_to_key(before))[:count]


def deletion_cost(pod: Object) -> int:
    """How dear a pod is to its user; what cannot be read is 0."""
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "")
    digits = text.removeprefix("-")
    if len(text) > _COST_LENGTH or not digits.isascii() or not digits.isdigit():
        return 0
    if (digits != "0" and digits.startswith("0")) or text == "-0":
        return 0
    cost = int(text)
    return cost if -INT32_MAX - 1 <= cost <= INT32_MAX else 0


def _order(crowd: Counter[str], now_s: float) -> Callable[[Object, Object], int]:
    """The order of two pods; below 0 the first one goes first."""

    def before(one: Object, other: Object) -> int:
        mine, theirs = _plain_worth(one, crowd), _plain_worth(other, crowd)
        if mine != theirs:
            return -1 if mine < theirs else 1
        mine_s, theirs_s = ready_since_s(one), ready_since_s(other)
        if mine_s is not None and theirs_s is not None and mine_s != theirs_s:
            return _by_age(one, other, (mine_s, theirs_s), now_s)
        if (restarts := _restarts(one)) != (other_restarts := _restarts(other)):
            return -1 if restarts > other_restarts else 1
        mine_s, theirs_s = created_s(one), created_s(other)
        return 0 if mine_s == theirs_s else _by_age(one, other, (mine_s, theirs_s), now_s)

    return before


def _plain_worth(pod: Object, crowd: Counter[str]) -> tuple[bool, int, bool, int, int]:
    node = _node(pod)
    return (bool(node), _PHASES.get(phase_of(pod), 0), is_ready(pod), deletion_cost(pod), -crowd[node])


def _by_age(one: Object, other: Object, since_s: tuple[float, float], now_s: float) -> int:
    """The younger first, but ages of the same order count as one, so that it is not always the newest that goes."""
    mine, theirs = _magnitude(now_s - since_s[0]), _magnitude(now_s - since_s[1])
    if mine != theirs:
        return -1 if mine < theirs else 1
    return -1 if one["metadata"]["uid"] < other["metadata"]["uid"] else 1


def _magnitude(age_s: float) -> int:
    return int(math.log2(age_s * 1e9)) if age_s > 0 else -1


def _restarts(pod: Object) -> tuple[int, int]:
    """The most restarts of its containers, and of those that run beside them."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    beside = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    plain = [one.get("restartCount", 0) for one in status.get("containerStatuses") or ()]
    helpers = [
        one.get("restartCount", 0) for one in status.get("initContainerStatuses") or () if one.get("name") in beside
    ]
    return max(plain, default=0), max(helpers, default=0)


def _node(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
