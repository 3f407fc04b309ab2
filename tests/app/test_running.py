"""Running pods are charged once: as slots of the workload that they belong to, else by themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.app.running import left_without_nodes, with_running_pods
from muster.model.pod_rules import PodIdentity, PodRules
from muster.model.slices import Slices
from muster.model.snapshot import Snapshot
from muster.model.topology import BoundPod, Node
from muster.model.workload import Admission, PodSetAdmission, Slot, Workload

CARD = "nvidia.com/gpu"
Owners = list[dict[str, Any]]


def owned_by(name: str) -> Owners:
    return [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"u-{name}", "controller": True}]


def pod_object(name: str, owners: Owners) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"namespace": "team", "name": name, "ownerReferences": owners}}


def bound(name: str, cards: int = 1, label: str = "", slices: Slices | None = None) -> BoundPod:
    labels = (("kueue.x-k8s.io/podset", label),) if label else ()
    rules = PodRules(who=PodIdentity(namespace="team", labels=labels))
    return BoundPod(key=f"team/{name}", node="n1", requests={CARD: cards}, rules=rules, slices=slices)


def workload(*counts: int) -> Workload:
    names = ["leader", "worker"][: len(counts)] if len(counts) > 1 else ["main"]
    given = tuple(
        PodSetAdmission(name=name, count=count, flavors={}, usage={}) for name, count in zip(names, counts, strict=True)
    )
    admission = Admission(queue="lab", pod_sets=given)
    return Workload(key="team/w", uid="w", namespace="team", admission=admission, is_admitted=True)


def snapshot(held: Workload, *pods: BoundPod, cards: int = 8) -> Snapshot:
    node = Node(name="n1", labels={}, allocatable={CARD: cards})
    return Snapshot(workloads={held.key: held}, nodes={"n1": node}, bound_pods={pod.key: pod for pod in pods})


def slots_of(seen: Snapshot) -> dict[str, tuple[Slot, ...]]:
    admission = seen.workloads["team/w"].admission
    assert admission is not None
    return {one.name: one.slots for one in admission.pod_sets}


JOBS = {"team/w": "Job team/train"}


def test_pods_of_a_workload_are_its_slots():
    objects = [pod_object(name, owned_by("train")) for name in ("b", "a")]
    seen = with_running_pods(snapshot(workload(2), bound("b", 2), bound("a", 1)), objects, JOBS)
    assert slots_of(seen) == {"main": (Slot("n1", (0,)), Slot("n1", (1, 2)))}, "in the order of their names"
    assert not seen.bound_pods and seen.workloads["team/w"].pods_bound == 2


def test_the_workload_itself_may_name_its_owner():
    objects = [
        {"kind": "Workload", "metadata": {"namespace": "team", "name": "w", "ownerReferences": owned_by("train")}},
        pod_object("a", owned_by("train")),
    ]
    seen = with_running_pods(snapshot(workload(1), bound("a")), objects, {})
    assert slots_of(seen) == {"main": (Slot("n1", (0,)),)}


def test_a_pod_may_be_its_own_job():
    seen = with_running_pods(snapshot(workload(1), bound("a")), [pod_object("a", [])], {"team/w": "Pod team/a"})
    assert slots_of(seen) == {"main": (Slot("n1", (0,)),)}


def test_labels_say_which_pod_set():
    pods = [bound("a", label="worker"), bound("b", label="leader"), bound("c")]
    objects = [pod_object(name, owned_by("train")) for name in "abc"]
    seen = with_running_pods(snapshot(workload(1, 1), *pods), objects, JOBS)
    assert slots_of(seen) == {"leader": (Slot("n1", (1,)),), "worker": (Slot("n1", (0,)),)}
    assert list(seen.bound_pods) == ["team/c"], "nobody knows whose it is"


@pytest.mark.parametrize(
    ("held", "pods", "left"),
    [
        pytest.param(workload(1), [bound("a"), bound("b")], ["team/b"], id="more pods than it was given"),
        pytest.param(workload(1), [bound("a", 9)], ["team/a"], id="more cards than the node has"),
        pytest.param(replace(workload(1), admission=None), [bound("a")], ["team/a"], id="no quota"),
        pytest.param(replace(workload(1), is_finished=True), [bound("a")], ["team/a"], id="over"),
    ],
)
def test_the_rest_is_counted_by_itself(held, pods, left):
    objects = [pod_object(pod.key.partition("/")[2], owned_by("train")) for pod in pods]
    assert list(with_running_pods(snapshot(held, *pods), objects, JOBS).bound_pods) == left


def test_pods_of_others_stay_as_they_are():
    seen = snapshot(workload(1), bound("a"))
    assert with_running_pods(seen, [pod_object("a", owned_by("other"))], JOBS) == seen


def test_slices_stay_on_their_cards():
    slices = Slices(())
    seen = with_running_pods(
        snapshot(workload(1), bound("a", slices=slices)), [pod_object("a", owned_by("train"))], JOBS
    )
    assert slots_of(seen) == {"main": (Slot("n1", (), slices),)}


def test_who_has_no_pods_is_named():
    seen = snapshot(workload(1), bound("a"))
    assert [one.object for one in left_without_nodes(seen)] == ["Workload team/w"]
    assert not list(left_without_nodes(with_running_pods(seen, [pod_object("a", owned_by("train"))], JOBS)))
