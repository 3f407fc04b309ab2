"""Pods that run, charged once: through the workload that they belong to where it holds quota, else by themselves.

Called by `muster plan` where nodes are decided on. A pod of an admitted workload is one of its slots, so that it leaves
with the workload and is not counted beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from muster.app.intake import Remark
from muster.app.plugins import vendors
from muster.dialects.kueue.names import POD_SET
from muster.engine.contracts import Vendor
from muster.model.fields import Fields
from muster.model.snapshot import Snapshot
from muster.model.topology import BoundPod
from muster.model.workload import PodSetAdmission, Slot, Workload


def with_running_pods(
    snapshot: Snapshot, objects: Iterable[Mapping[str, Any]], jobs: Mapping[str, str], *, known: tuple[Vendor, ...] = ()
) -> Snapshot:
    """The snapshot with the bound pods of admitted workloads as their slots; `jobs` says what each workload is for."""
    paid = _by_workload(snapshot, [Fields(obj) for obj in objects], jobs)
    seats = _Seats(snapshot, known or tuple(vendors().values()))
    workloads, pods = dict(snapshot.workloads), dict(snapshot.bound_pods)
    for key in sorted(paid):
        workloads[key], taken = _with_slots(snapshot.workloads[key], paid[key], seats)
        for name in taken:
            del pods[name]
    return replace(snapshot, workloads=workloads, bound_pods=pods)


def left_without_nodes(snapshot: Snapshot) -> Iterator[Remark]:
    """A warning for every admitted workload of which no pod is known: its nodes look free, and need not be."""
    for key, workload in sorted(snapshot.workloads.items()):
        given = workload.admission.pod_sets if workload.admission is not None and not workload.is_finished else ()
        if given and not any(one.slots or one.place is not None for one in given):
            yield Remark(
                source="",
                object=f"Workload {key}",
                path="status.admission",
                problem="is given, and none of its pods is on a node here",
                hint="add its pods, so that what they hold is not given away",
            )


def _by_workload(snapshot: Snapshot, objects: list[Fields], jobs: Mapping[str, str]) -> dict[str, list[BoundPod]]:
    """The bound pods of every workload that holds quota, in the order of their names."""
    workload_of = {job: key for key, job in jobs.items()}
    for obj in objects:
        if obj.text("kind") == "Workload":
            metadata = obj.child("metadata")
            key = f"{metadata.text('namespace')}/{metadata.text('name')}"
            workload_of.update((owner, key) for owner in _owners(metadata))
    found: dict[str, list[BoundPod]] = {}
    for obj in objects:
        if obj.text("kind") != "Pod":
            continue
        metadata = obj.child("metadata")
        pod = snapshot.bound_pods.get(f"{metadata.text('namespace')}/{metadata.text('name')}")
        key = next((workload_of[one] for one in _called(metadata) if one in workload_of), "")
        workload = snapshot.workloads.get(key)
        if pod is not None and workload is not None and workload.admission is not None and not workload.is_finished:
            found.setdefault(key, []).append(pod)
    return {key: sorted(pods, key=lambda pod: pod.key) for key, pods in found.items()}


def _called(metadata: Fields) -> Iterator[str]:
    """What the job of a pod may be called: the pod itself, or who owns it."""
    yield f"Pod {metadata.text('namespace')}/{metadata.text('name')}"
    yield from _owners(metadata)


def _owners(metadata: Fields) -> Iterator[str]:
    for owner in metadata.children("ownerReferences"):
        yield f"{owner.text('kind')} {metadata.text('namespace')}/{owner.text('name')}"


def _with_slots(workload: Workload, pods: Iterable[BoundPod], seats: _Seats) -> tuple[Workload, list[str]]:
    """The workload with the slots of its pods, as far as it was given so many, and the names of those pods."""
    admission = workload.admission
    assert admission is not None, f"{workload.key} was asked for because it holds quota"
    slots: dict[str, list[Slot]] = {given.name: [] for given in admission.pod_sets}
    taken = []
    for pod in pods:
        given = _pod_set_of(pod, admission.pod_sets)
        if given is None or len(slots[given.name]) >= given.count:
            continue
        slot = seats.slot_of(pod)
        if slot is not None:
            slots[given.name].append(slot)
            taken.append(pod.key)
    placed = tuple(replace(one, slots=tuple(slots[one.name])) for one in admission.pod_sets)
    return replace(workload, admission=replace(admission, pod_sets=placed), pods_bound=len(taken)), taken


def _pod_set_of(pod: BoundPod, pod_sets: tuple[PodSetAdmission, ...]) -> PodSetAdmission | None:
    """The pod set that a pod's label names; without a label the only one there is."""
    label = dict(pod.rules.who.labels).get(POD_SET, pod_sets[0].name if len(pod_sets) == 1 else "")
    return next((one for one in pod_sets if one.name == label), None)


class _Seats:
    """Which cards of a node running pods have. Nothing says so of whole ones, so they are numbered one by one."""

    def __init__(self, snapshot: Snapshot, known: tuple[Vendor, ...]) -> None:
        self._nodes = snapshot.nodes
        self._counts = tuple(vendor.resources.count for vendor in known if vendor.is_counted)
        self._next: dict[str, int] = {}

    def slot_of(self, pod: BoundPod) -> Slot | None:
        """The slot of a pod; `None` where its cards are not known, so that it is counted by itself."""
        if pod.slices is not None:
            return Slot(pod.node, (), pod.slices)
        node, asked = self._nodes.get(pod.node), sum(pod.requests.get(name, 0) for name in self._counts)
        if node is None:
            return None
        first = self._next.get(pod.node, 0)
        cards = sum(node.allocatable.get(name, 0) for name in self._counts)
        if asked and (node.devices or first + asked > cards):
            return None
        self._next[pod.node] = first + asked
        return Slot(pod.node, tuple(range(first, first + asked)))
