"""What the claims of a pod allow: whether it may be placed yet, and where. Used by cache, scheduler and binder.

Kubernetes' rules and words: a claim has to be there and bound, unless its class waits for the first pod. Then the pod
is placed first, its node is written on the claim, and the pod is bound when the claim is: until then it holds no room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from muster.controllers.belonging import PODS, WORKLOADS
from muster.controllers.builtin.owners import is_controlled_by
from muster.controllers.view import Seen, Terms, View
from muster.controllers.volume_matching import (
    CLAIMS,
    CLASSES,
    NOT_PROVISIONED,
    SELECTED_NODE,
    VOLUMES,
    annotations_of,
    best_volume,
    claim_term,
    class_of,
    is_bound,
    is_delayed,
    is_reached,
)
from muster.engine.reading import terms_of_volume
from muster.model.fields import Fields
from muster.model.labels import NodeTerms
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key

BY_CLAIM = "claim"  # the index of pods by the claims that they use
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NONE_FREE = "node(s) didn't find available persistent volumes to bind"
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"


class ClaimState(NamedTuple):
    """How far the claims of a pod are."""

    problem: str = ""  # why the pod cannot be placed, in Kubernetes' words
    unplaced: tuple[Object, ...] = ()  # claims that wait to hear on which node the pod goes
    is_waiting: bool = False  # a node was chosen, and the claims are not bound yet

    @property
    def is_ready(self) -> bool:
        return not (self.problem or self.unplaced or self.is_waiting)


READY = ClaimState()


def claim_names(pod: Object) -> Iterator[tuple[str, bool]]:
    """The claims that a pod uses, and whether each is made for it alone."""
    for volume in pod["spec"].get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            yield claim.get("claimName") or "", False
        elif volume.get("ephemeral") is not None:
            yield f"{pod['metadata'].get('name')}-{volume.get('name')}", True


def _terms(pod: Object) -> Iterable[str]:
    namespace = pod["metadata"].get("namespace")
    return [f"{namespace}/{name}" for name, _ in claim_names(pod)]


def _workload_terms(workload: Object) -> Iterable[str]:
    namespace = workload["metadata"].get("namespace")
    templates = [one.get("template") or {} for one in workload["spec"].get("podSets") or ()]
    pods = [{"metadata": {}, "spec": one.get("spec") or {}} for one in templates]
    return {f"{namespace}/{name}": None for pod in pods for name, is_own in claim_names(pod) if not is_own}


INDEXES: Mapping[tuple[str, str], Terms] = {(PODS, BY_CLAIM): _terms, (WORKLOADS, BY_CLAIM): _workload_terms}
RESOURCES = (CLAIMS, VOLUMES, CLASSES)


def claim_of(seen: Seen) -> str:
    """The one claim that a change of storage is about, as namespace/name; empty where it may be about any."""
    if seen.key.resource == CLAIMS:
        return f"{seen.key.namespace}/{seen.key.name}"
    given = seen.now or seen.before
    return claim_term(given) if seen.key.resource == VOLUMES and given is not None else ""


def claim_state(pod: Object, view: View) -> ClaimState:
    """How far the claims of a pod are that waits for a node."""
    if not pod["spec"].get("volumes"):
        return READY
    unplaced, has_unbound, is_waiting = [], False, False
    for name, is_own in claim_names(pod):
        claim = view.get(Key(CLAIMS, pod["metadata"]["namespace"], name))
        if claim is None or (problem := _problem(pod, claim, is_own=is_own)):
            return ClaimState(_absent(name, is_own=is_own) if claim is None else problem)
        if is_bound(claim):
            volume = claim["spec"].get("volumeName") or ""
            if view.record(Key(VOLUMES, "", volume)) is None:
                return ClaimState(f'persistentvolume "{volume}" not found')
            continue
        if not is_delayed(view.get(Key(CLASSES, "", class_of(claim)))):
            has_unbound = True
        elif SELECTED_NODE in annotations_of(claim):
            is_waiting = True
        else:
            unplaced.append(claim)
    if has_unbound:
        return ClaimState(UNBOUND)
    if any(_candidates(claim, view) == [] for claim in unplaced):
        return ClaimState(f"{view.count('nodes')} {NONE_FREE}")
    if tied := [one for one in _volumes_of(pod, view) if one["spec"].get("nodeAffinity")]:
        labels = (one["metadata"].get("labels") or {} for one in view.all("nodes"))
        if not any(all(is_reached(volume, one) for volume in tied) for one in labels):
            return ClaimState(f"{view.count('nodes')} {OUT_OF_REACH}")
    return ClaimState("", tuple(unplaced), is_waiting)


def _volumes_of(pod: Object, view: View) -> Iterator[Object]:
    """The volumes that a pod's claims are bound to."""
    for name, _ in claim_names(pod):
        claim = view.get(Key(CLAIMS, pod["metadata"]["namespace"], name))
        volume = None if claim is None else view.get(Key(VOLUMES, "", claim["spec"].get("volumeName") or ""))
        if volume is not None:
            yield volume


def _absent(name: str, *, is_own: bool) -> str:
    told = f'persistentvolumeclaim "{name}"'
    return f"waiting for ephemeral volume controller to create the {told}" if is_own else f"{told} not found"


def _problem(pod: Object, claim: Object, *, is_own: bool) -> str:
    name = claim["metadata"]["name"]
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = claim["spec"].get("volumeName") or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    if is_deleting(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    if is_own and not is_controlled_by(claim, pod):
        own, theirs = (f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in (pod, claim))
        return f"PVC {theirs} was not created for pod {own} (pod is not owner)"
    return ""


def _candidates(claim: Object, view: View) -> list[Object] | None:
    """The volumes that a claim could get once there is a node; `None` where one is made for it."""
    storage_class = view.get(Key(CLASSES, "", class_of(claim)))
    if storage_class is None or storage_class.get("provisioner") != NOT_PROVISIONED:
        return None
    return [one for one in view.all(VOLUMES) if best_volume(claim, [one]) is not None]


def unreached(pod: Object, claims: ClaimState, node: Object | None, view: View) -> str:
    """Why a pod cannot go to a node for its volumes; empty where it can."""
    labels = {} if node is None else node["metadata"].get("labels") or {}
    if not all(is_reached(volume, labels) for volume in _volumes_of(pod, view)):
        return f"1 {OUT_OF_REACH}"
    taken: set[str] = set()
    for claim in claims.unplaced:
        found = _candidates(claim, view)
        if found is None:
            continue
        best = best_volume(claim, (one for one in found if one["metadata"]["name"] not in taken), labels)
        if best is None:
            return f"1 {NONE_FREE}"
        taken.add(best["metadata"]["name"])
    return ""


def with_node(claim: Object, node: str) -> Object:
    """A claim that knows on which node its first pod goes."""
    metadata = claim["metadata"]
    return {**claim, "metadata": {**metadata, "annotations": {**annotations_of(claim), SELECTED_NODE: node}}}


def told(problem: str, view: View) -> str:
    """A problem as the pod tells it."""
    return f"0/{view.count('nodes')} nodes are available: {problem}."


class ReachOfClaims(Mapping[str, tuple[NodeTerms, ...]]):
    """By namespace/claim: the nodes from which its volume can be reached, as the view has it when it is asked."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __getitem__(self, name: str) -> tuple[NodeTerms, ...]:
        claim = self._view.get(Key(CLAIMS, *name.split("/", 1)))
        if claim is None:
            raise KeyError(name)
        volume = self._view.get(Key(VOLUMES, "", claim["spec"].get("volumeName") or ""))
        if volume is not None:
            found = terms_of_volume(Fields(volume))
            return () if found is None else (found,)
        candidates = _candidates(claim, self._view) if not is_bound(claim) else None
        terms = [terms_of_volume(Fields(one)) for one in candidates or ()]
        known = [one for one in terms if one is not None]
        return (tuple(term for one in known for term in one),) if terms and len(known) == len(terms) else ()

    def __iter__(self) -> Iterator[str]:
        for claim in self._view.all(CLAIMS):
            yield f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"

    def __len__(self) -> int:
        return self._view.count(CLAIMS)
