"""Pods that stand for themselves, read as workloads of one pod. Called by the controllers' cache.

No queue counts them: they wait in the queue without limits, by priority, and take nodes and cards like everybody else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any

from muster.engine.reading import PlacementReader
from muster.model.fields import Fields
from muster.model.flavor import ANY_FLAVOR
from muster.model.podspec import pod_shape
from muster.model.resources import PODS
from muster.model.times import moment
from muster.model.topology import BoundPod
from muster.model.workload import Admission, PodSet, PodSetAdmission, Slot, Workload

Pod = Mapping[str, Any]  # as it is stored, and so of the right shape
POD_SET = "main"
SCHEDULERS = frozenset(
    {"", "default-scheduler", "muster", "volcano", "yunikorn"}
)  # whose pods are bound where nobody else binds any


def workload_key(namespace: str, name: str) -> str:
    """How the engine calls a pod that stands for itself; no workload can be called so."""
    return f"{namespace}/pod/{name}"


def read_alone(pod: Fields, queue: str, placement: PlacementReader) -> Workload:
    """A pod as a workload of one pod."""
    metadata, spec = pod.child("metadata"), pod.child("spec")
    namespace = metadata.text("namespace")
    shape = pod_shape(spec)
    rules, cards = placement.rules_of(pod), placement.cards_of(pod)
    priority = spec.integer("priority")
    created_at = moment(metadata, "creationTimestamp") or 0.0
    kind = repr((shape, rules.of_kind, cards, priority))
    alone = PodSet(name=POD_SET, count=1, count_least=1, requests=shape.requests, shape=shape, rules=rules, cards=cards)
    return Workload(
        key=workload_key(namespace, metadata.text("name")),
        uid=metadata.text("uid"),
        namespace=namespace,
        queue=queue,
        priority=priority,
        created_at=created_at,
        queued_at=created_at,
        pod_sets=(alone,),
        is_pod=True,
        kind_key=blake2b(kind.encode(), digest_size=12).hexdigest(),
    )


def as_holder(
    pod: Fields, bound: BoundPod, waiting: Workload, *, schedulers: Collection[str] = SCHEDULERS
) -> Workload | None:
    """A bound pod as a workload that holds its node, so that a more important one may take its place.

    `None` where its cards are not known one by one: nobody may choose by what a pod says of whole cards.
    """
    if (bound.slices is None and bound.cards is not None) or pod.child("spec").text("schedulerName") not in schedulers:
        return None
    slot = Slot(bound.node, (), bound.slices)
    # As the engine gives it where nothing is counted.
    given = PodSetAdmission(name=POD_SET, count=1, flavors={PODS: ANY_FLAVOR}, usage={}, slots=(slot,))
    return waiting.changed(
        admission=Admission(queue=waiting.queue, pod_sets=(given,)),
        is_admitted=True,
        is_evicted=pod.child("metadata").has("deletionTimestamp"),
        is_ready=True,
        pods_bound=1,
        reserved_at=waiting.created_at,
    )


def is_over(pod: Pod) -> bool:
    """Whether a pod has ended and holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def waits_for_node(pod: Pod, schedulers: Collection[str] = SCHEDULERS) -> bool:
    """Whether a pod may be bound now, by one of these schedulers."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and pod["metadata"].get("deletionTimestamp") is None
        and (spec.get("schedulerName") or "") in schedulers
        and not is_over(pod)
    )
