"""What a stateful set needs next: pods one after the other, or all at once, in the order of their numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.controllers.builtin.pods import ENDED, is_available, is_ready, phase_of
from muster.controllers.builtin.revisions import revision_label
from muster.controllers.builtin.statefulset_pods import first_number, number_of, pod_of
from muster.store.kinds import Object
from muster.store.metadata import is_deleting


@dataclass(slots=True)
class Steps:
    """The pods to make and to delete, in order, and the status that follows."""

    status: Object
    create: list[tuple[int, Object]] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    leaving: list[tuple[int, Object]] = field(default_factory=list)  # of those: whose number is no longer wanted


@dataclass(frozen=True, slots=True)
class Versions:
    """The revision that pods have had so far, and the one they are to get."""

    current: Object
    update: Object
    collisions: int = 0

    @property
    def current_name(self) -> str:
        return str(self.current["metadata"]["name"])

    @property
    def update_name(self) -> str:
        return str(self.update["metadata"]["name"])


class Look:
    """One look at a stateful set and its pods."""

    def __init__(self, owner: Object, pods: Iterable[Object], versions: Versions, now_s: float) -> None:
        spec = owner["spec"]
        wanted = spec.get("replicas")
        self.owner = owner
        self.versions = versions
        self.now_s = now_s
        self.least_s = spec.get("minReadySeconds") or 0
        self.is_ordered = spec.get("podManagementPolicy", "OrderedReady") != "Parallel"
        self.numbers = range(first_number(owner), first_number(owner) + (1 if wanted is None else int(wanted)))
        known = {number: pod for pod in pods if (number := number_of(owner, pod)) is not None}
        self.there = {number: pod for number, pod in known.items() if number in self.numbers}
        self.spare = sorted((one for one in known.items() if one[0] not in self.numbers), reverse=True)
        self.steps = Steps(self._counts(known.values()))

    def _counts(self, pods: Iterable[Object]) -> Object:
        status: Object = dict.fromkeys(
            ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"), 0
        )
        for pod in pods:
            status["replicas"] += 1
            if phase_of(pod) == "Running" and is_ready(pod):
                status["readyReplicas"] += 1
                status["availableReplicas"] += is_available(pod, self.least_s, self.now_s)
            if not is_deleting(pod):
                self._count_revision(status, revision_label(pod), 1)
        return status

    def _count_revision(self, status: Object, revision: str, count: int) -> None:
        if revision == self.versions.current_name:
            status["currentReplicas"] += count
        if revision == self.versions.update_name:
            status["updatedReplicas"] += count

    def is_healthy(self, pod: Object) -> bool:
        """Whether a pod runs, has done so for long enough, and stays."""
        is_running = phase_of(pod) == "Running" and is_available(pod, self.least_s, self.now_s)
        return is_running and not is_deleting(pod)

    def revision_for(self, number: int) -> Object:
        """The revision that a new pod gets: below the partition the one that pods have had."""
        strategy = self.owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return self.versions.update
        is_kept = number < self.numbers.start + int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        return self.versions.current if is_kept else self.versions.update

    def create(self, number: int) -> None:
        revision = self.revision_for(number)
        self.steps.create.append((number, pod_of(self.owner, number, revision)))
        self.steps.status["replicas"] += 1
        self._count_revision(self.steps.status, revision["metadata"]["name"], 1)

    def delete(self, pod: Object) -> None:
        self.steps.delete.append(pod)
        self._count_revision(self.steps.status, revision_label(pod), -1)

    @property
    def first_unhealthy(self) -> Object | None:
        """The pod that keeps others waiting: a number without a pod does as well, and is `None` like no such pod."""
        for number in self.numbers:
            pod = self.there.get(number)
            if pod is None:
                return None
            if not self.is_healthy(pod):
                return pod
        return next((pod for _, pod in self.spare if not self.is_healthy(pod)), None)


def stateful_steps(owner: Object, pods: Iterable[Object], versions: Versions, now_s: float) -> Steps:
    """The next steps, and the status after them."""
    look = Look(owner, pods, versions, now_s)
    if not is_deleting(owner):
        _ = _fill(look) and _shrink(look) and _roll(look)
    status = look.steps.status
    for name in ("currentReplicas", "updatedReplicas"):
        status[name] = max(0, status[name])
    current = versions.current_name
    if _is_rolling(owner) and status["updatedReplicas"] == status["replicas"] == status["readyReplicas"]:
        status["currentReplicas"] = status["updatedReplicas"]
        current = versions.update_name
    kept = {name: count for name, count in status.items() if count or name in ("replicas", "availableReplicas")}
    look.steps.status = {
        **kept,
        "currentRevision": current,
        "updateRevision": versions.update_name,
        "collisionCount": versions.collisions,
        "observedGeneration": owner["metadata"].get("generation", 0),
    }
    return look.steps


def _is_rolling(owner: Object) -> bool:
    return bool((owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def _fill(look: Look) -> bool:
    """Make what is missing; gives whether there is nothing to wait for."""
    for number in look.numbers:
        pod = look.there.get(number)
        if pod is None:
            look.create(number)
        elif phase_of(pod) in ENDED:
            if not is_deleting(pod):
                look.steps.delete.append(pod)
        elif look.is_healthy(pod):
            continue
        if look.is_ordered:
            return False
    return True


def _shrink(look: Look) -> bool:
    """Delete what is too many, the highest number first; gives whether there is nothing to wait for."""
    blocker = look.first_unhealthy
    for number, pod in look.spare:
        if is_deleting(pod):
            if look.is_ordered:
                return False
            continue
        if look.is_ordered and not look.is_healthy(pod) and pod is not blocker:
            return False
        look.steps.leaving.append((number, pod))
        look.delete(pod)
        if look.is_ordered:
            return False
    return True


def _roll(look: Look) -> bool:
    """Delete one pod of an older revision, the highest number first, once those above it are well."""
    if not _is_rolling(look.owner):
        return True
    rolling = (look.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    least = look.numbers.start + int(rolling.get("partition") or 0)
    for number in reversed(look.numbers):
        pod = look.there.get(number)
        if number < least or pod is None:
            return False
        if revision_label(pod) != look.versions.update_name and not is_deleting(pod):
            look.delete(pod)
            return False
        if not look.is_healthy(pod):
            return False
    return True
