"""Who gets which shares: what was decided for a pod, checked, and kept for as long as the pod is there.

The kubelet does not say for which pod it asks. Where it can be asked back (when a container starts) the answer is by
the pod's own uid. Where the answer has to be given before that, it is a guess among the pods that wait for so many
cards, and is checked against the pod's uid before the container starts. What was granted stands, whatever the pod's
annotations say later. No input or output here; used by `service`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.agent.plugin.containers import OPT_OUT, SET_ELSEWHERE
from muster.dialects.hami.claims import ALLOCATING, BOUND_AT, PHASE, claim_problem, container_claims
from muster.dialects.hami.filter import HeldShares
from muster.dialects.hami.node_lock import BINDERS, FENCE, LOCK, read_binders, read_lock
from muster.dialects.hami.read import ENDED
from muster.dialects.hami.requests import containers_of, init_count
from muster.engine.contracts import Vendor
from muster.model.device import Device, Share, standing_shares
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object


class NotGranted(Exception):
    """Why a container gets no cards."""


@dataclass(frozen=True, slots=True)
class Whose:
    """A container of a pod."""

    uid: str
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one container was given."""

    whose: Whose
    pod: str  # namespace/name
    shares: tuple[Share, ...]
    is_init: bool = False  # runs before the others of its pod, and gives its shares back to them
    is_opted_out: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)  # priority and policy, as the container's spec has them


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node as it is now: what it has, who is on it, and who is on the way."""

    name: str
    annotations: Mapping[str, str]
    devices: tuple[Device, ...]
    pods: Sequence[Object]


class Grants:
    """What the containers of one node were given, of one vendor's cards."""

    def __init__(self, vendor: Vendor, known: Iterable[Grant] = ()) -> None:
        self._vendor = vendor
        self.given: dict[Whose, Grant] = {grant.whose: grant for grant in known}
        self._whole: set[str] = set()  # uids of pods that have all that they were given, and ask for nothing more

    def forget_gone(self, pods: Iterable[Object]) -> list[Grant]:
        """Take back what pods had that are there no longer; gives what that is."""
        live = {_uid(pod) for pod in pods if not _is_over(pod)}
        gone = [grant for whose, grant in self.given.items() if whose.uid not in live]
        for grant in gone:
            del self.given[grant.whose]
        self._whole &= live
        return gone

    def grant(self, pod: str, container: str, node: Node) -> Grant:
        """The shares of a container, by its pod's namespace and name; raises `NotGranted`."""
        found = [one for one in node.pods if _name(one) == pod and not _is_over(one)]
        if len(found) != 1:
            raise NotGranted(f"there is no pod {pod} on this node that could use cards")
        whose = Whose(_uid(found[0]), container)
        known = self.given.get(whose)
        if known is not None:
            return known
        made = {one.whose: one for one in self._checked(found[0], node)}
        if whose not in made:
            raise NotGranted(f"container {container} of pod {pod} was given no cards")
        self.given[whose] = made[whose]
        return made[whose]

    def waiting(self, count: int, node: Node, taken: Collection[Whose] = ()) -> list[Grant]:
        """The containers that wait for so many cards, the likeliest first; none of them has them, or is taken to."""
        lock = read_lock(node.annotations.get(LOCK, ""))
        holder = lock.pod if lock is not None else ""
        found = []
        for pod in sorted(node.pods, key=lambda pod: _turn(pod, holder)):
            if _is_over(pod) or _uid(pod) in self._whole:
                continue
            try:
                made = self._checked(pod, node)
            except NotGranted:
                continue
            own = [one for one in made if one.whose not in self.given and one.whose not in taken]
            found += [one for one in own[:1] if len(one.shares) == count]  # containers are asked for in their order
        return found

    def is_served(self, uid: str, node: Node) -> bool:
        """Whether every container of a pod that was given cards has them."""
        pod = next((one for one in node.pods if _uid(one) == uid), None)
        if pod is None:
            return False
        try:
            claims = container_claims(Fields.of(pod), self._vendor)
        except InvalidObject:
            return False
        is_whole = all(Whose(uid, name) in self.given for name, _, _ in claims)
        if is_whole:
            self._whole.add(uid)
        return is_whole

    def _held_by_others(self, uid: str, node: str) -> list[HeldShares]:
        by_pod: dict[str, list[Grant]] = {}
        for whose, grant in self.given.items():
            if whose.uid != uid:
                by_pod.setdefault(whose.uid, []).append(grant)
        held = []
        for other, grants in by_pod.items():
            grants.sort(key=lambda grant: not grant.is_init)
            first = sum(grant.is_init for grant in grants)
            shares = standing_shares(tuple(grant.shares for grant in grants), first)
            held.append(HeldShares(uid=other, namespace="", node=node, shares={self._vendor.name: shares}))
        return held

    def _checked(self, pod: Object, node: Node) -> list[Grant]:
        """What a pod's containers were given, if it is what they ask for and nobody else has it; in their order."""
        fields = Fields.of(pod)
        uid = _uid(pod)
        if pod.get("spec", {}).get("nodeName") != node.name:
            raise NotGranted(f"pod {_name(pod)} is not on this node")
        has_any = any(whose.uid == uid for whose in self.given)
        others = self._held_by_others(uid, node.name)
        try:
            if not has_any:
                _check_fence(fields, node)
            problem = claim_problem(fields, (self._vendor,), node.devices, others)
            claims = container_claims(fields, self._vendor)
        except InvalidObject as mistake:
            raise NotGranted(f"pod {_name(pod)}: {mistake}") from None
        if problem:
            raise NotGranted(f"pod {_name(pod)}: {problem}")
        specs = {
            one.text("name"): (one, number < init_count(fields)) for number, one in enumerate(containers_of(fields))
        }
        return [_made(pod, *specs[name], shares) for name, shares, _ in claims]


def _made(pod: Object, container: Fields, is_init: bool, shares: tuple[Share, ...]) -> Grant:
    given = {one.text("name"): one.text("value") for one in container.children("env") if not one.has("valueFrom")}
    return Grant(
        whose=Whose(_uid(pod), container.text("name")),
        pod=_name(pod),
        shares=shares,
        is_init=is_init,
        is_opted_out=given.get(OPT_OUT, "").lower() in ("true", "1"),
        settings={name: given[name] for name in SET_ELSEWHERE if given.get(name, "").isalnum()},
    )


def _check_fence(pod: Fields, node: Node) -> None:
    """A pod that was bound under a lock has to have it still."""
    number = pod.child("metadata").text_map("annotations").get(FENCE)
    if number is None:
        return
    entry = read_binders(node.annotations.get(BINDERS, "")).of(pod.child("metadata").text("uid"))
    if entry is None or str(entry.fence) != number:
        raise NotGranted("its bind was overtaken by another, and its cards may be gone")


def _turn(pod: Object, holder: str) -> tuple[bool, bool, str, str, str]:
    """Who is likely asked for first: who holds the lock, who was told to be allocated, who came first."""
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    is_told = annotations.get(PHASE) == ALLOCATING
    created = str(metadata.get("creationTimestamp") or "")
    return _name(pod) != holder, not is_told, str(annotations.get(BOUND_AT, "")).zfill(20), created, _name(pod)


def _uid(pod: Object) -> str:
    return str(pod["metadata"].get("uid") or "")


def _name(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata'].get('name')}"


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED
