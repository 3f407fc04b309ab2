"""What a daemon set needs next: a pod on each of its nodes, and newer pods for older ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from muster.controllers.builtin.daemonset_nodes import Suits, node_of, suits
from muster.controllers.builtin.pods import ENDED, created_s, is_available, is_ready, phase_of
from muster.controllers.builtin.portions import share
from muster.controllers.builtin.revisions import revision_label
from muster.store.kinds import Object
from muster.store.metadata import is_deleting

_PHASES = {"": 0, "Pending": 1}  # of pods of one age the running ones count first


@dataclass(slots=True)
class Steps:
    """Where to make pods, and which to delete."""

    create: list[str] = field(default_factory=list)  # names of nodes
    delete: list[Object] = field(default_factory=list)
    ended: list[tuple[str, Object]] = field(default_factory=list)  # by node: to be deleted, but not too often


class Look:
    """One look at a daemon set, its pods and the nodes."""

    def __init__(self, owner: Object, pods: Iterable[Object], nodes: Iterable[Object], now_s: float) -> None:
        self.owner = owner
        self.now_s = now_s
        self.least_s = owner["spec"].get("minReadySeconds") or 0
        self.suits: dict[str, Suits] = {node["metadata"]["name"]: suits(owner, node) for node in nodes}
        self.pods: dict[str, list[Object]] = {}
        for pod in sorted(pods, key=_seniority):
            if not (phase_of(pod) in ENDED and is_deleting(pod)):
                self.pods.setdefault(node_of(pod), []).append(pod)

    @property
    def wanted(self) -> int:
        """How many nodes are to run a pod."""
        return sum(one.should_run for one in self.suits.values())

    @property
    def surge(self) -> int:
        return self._bound("maxSurge")

    @property
    def unavailable(self) -> int:
        most = self._bound("maxUnavailable")
        return 1 if not most and not self.surge else most  # nothing could move with neither

    @property
    def is_rolling(self) -> bool:
        return bool((self.owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")

    def is_available(self, pod: Object) -> bool:
        return is_available(pod, self.least_s, self.now_s)

    def _bound(self, name: str) -> int:
        rolling = (self.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return share(rolling.get(name), self.wanted, is_rounded_up=True) if self.is_rolling else 0


def _seniority(pod: Object) -> tuple[bool, float, int, str]:
    is_placed = bool(pod["spec"].get("nodeName"))
    return (not is_placed, created_s(pod), -_PHASES.get(phase_of(pod), 2), str(pod["metadata"]["name"]))


def daemon_steps(look: Look, revision: str) -> Steps:
    """The pods to make and delete now: first every node its pod, and only then newer pods for older ones."""
    steps = Steps()
    if is_deleting(look.owner):
        return steps
    for node in sorted(look.suits):
        _tend(look, steps, node, revision)
    for node, pods in sorted(look.pods.items()):
        if node not in look.suits:  # the node is gone; what never ran there never will
            steps.delete += [pod for pod in pods if not pod["spec"].get("nodeName") and not is_deleting(pod)]
    if steps.create or steps.delete or steps.ended or not look.is_rolling:
        return steps
    return _surged(look, revision) if look.surge else _rolled(look, revision)


def _tend(look: Look, steps: Steps, node: str, revision: str) -> None:
    one = look.suits[node]
    pods = look.pods.get(node, [])
    if one.should_run and not pods:
        steps.create.append(node)
    elif not one.may_stay:
        steps.delete += [pod for pod in pods if not is_deleting(pod)]
    else:
        staying = [pod for pod in pods if not is_deleting(pod)]
        steps.ended += [(node, pod) for pod in staying if phase_of(pod) in ENDED]
        running = [pod for pod in staying if phase_of(pod) not in ENDED]
        if not look.surge:
            steps.delete += running[1:]
        else:  # one of the newest template may be there, and one that it is to take the place of
            new, old = _by_template(running, revision)
            steps.delete += [*new[1:], *old[1:]]


def _by_template(pods: Sequence[Object], revision: str) -> tuple[list[Object], list[Object]]:
    """The pods of a node that stay: those of the newest template, and the others."""
    staying = [pod for pod in pods if not is_deleting(pod)]
    new = [pod for pod in staying if revision_label(pod) == revision]
    return new, [pod for pod in staying if revision_label(pod) != revision]


def _rolled(look: Look, revision: str) -> Steps:
    """Delete older pods as far as others may be missing; those that do not serve go in any case."""
    missing, broken, candidates = 0, list[Object](), list[Object]()
    for _, pods in sorted(look.pods.items()):
        new, old = _by_template(pods, revision)
        if len(new) + len(old) != 1:
            missing += 1
        elif new:
            missing += not look.is_available(new[0])
        elif not look.is_available(old[0]):
            missing += 1
            broken.append(old[0])
        else:
            candidates.append(old[0])
    room = max(0, look.unavailable - missing)
    return Steps(delete=[*broken, *candidates[:room]])


def _surged(look: Look, revision: str) -> Steps:
    """Make newer pods beside older ones as far as there may be more; an older one goes when the newer serves."""
    steps, surge, broken, candidates = Steps(), 0, list[str](), list[str]()
    for node, pods in sorted(look.pods.items()):
        new, old = _by_template(pods, revision)
        if len(new) > 1 or len(old) > 1:
            surge += 1
        elif old and new:
            if look.is_available(new[0]):
                steps.delete.append(old[0])
            else:
                surge += 1
        elif old and look.suits.get(node, Suits(False, False)).should_run:
            (candidates if look.is_available(old[0]) else broken).append(node)
    steps.create = [*broken, *candidates[: max(0, look.surge - surge)]]
    return steps


def daemon_status(look: Look, revision: str, collisions: int) -> Object:
    """The counts of a daemon set."""
    status = dict.fromkeys(("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0)
    updated = available = 0
    for node, one in look.suits.items():
        pods = look.pods.get(node, [])
        if not one.should_run:
            status["numberMisscheduled"] += bool(pods)
            continue
        status["desiredNumberScheduled"] += 1
        for pod in pods[:1]:
            status["currentNumberScheduled"] += 1
            status["numberReady"] += is_ready(pod)
            available += is_ready(pod) and look.is_available(pod)
            updated += revision_label(pod) == revision
    rest = {
        "observedGeneration": look.owner["metadata"].get("generation", 0),
        "updatedNumberScheduled": updated,
        "numberAvailable": available,
        "numberUnavailable": status["desiredNumberScheduled"] - available,
        "collisionCount": collisions,
    }
    return {**status, **{name: count for name, count in rest.items() if count}}
