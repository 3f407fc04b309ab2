"""Reading Workload objects: pod sets, priority, place in line, what they hold and what holds them back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from muster.dialects.kueue import names
from muster.dialects.kueue.topology_assignment import domains_of
from muster.dialects.kueue.transformations import RequestRules
from muster.engine.reading import PlacementReader, template_as_pod
from muster.model.fields import INT32_MAX, Fields
from muster.model.pod_rules import ANYWHERE
from muster.model.podspec import (
    LimitRangeItem,
    PodShape,
    RangeProblem,
    limit_range_violations,
    pod_shape,
    requests_above_limits,
)
from muster.model.queue import SubmitQueue
from muster.model.reason import Code, Reason, because
from muster.model.resources import amount_of
from muster.model.settings import Settings
from muster.model.times import moment
from muster.model.topology import PlacedPods, TopologyAssignment, TopologyRequest
from muster.model.workload import Admission, CheckState, PodSet, PodSetAdmission, Workload

# One millisecond behind the moment of its preemption, so that the preemptor goes first.
AFTER_PREEMPTION_S = 0.001


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a status."""

    is_true: bool
    reason: str
    at: float
    is_false: bool


NO_CONDITION = Condition(False, "", 0.0, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadReader:
    """Reads workloads against the queues, limits and settings that they meet."""

    settings: Settings
    submit_queues: Mapping[str, SubmitQueue] = field(default_factory=dict)
    limit_ranges: Mapping[str, Sequence[LimitRangeItem]] = field(default_factory=dict)  # by namespace
    request_rules: RequestRules = field(default_factory=RequestRules)
    queued_by_eviction: bool = True
    counts_limits_as_requests: bool = True
    placement: PlacementReader | None = None

    def read(self, obj: Fields, like: Workload | None = None) -> Workload:
        """One Workload object of the hub version; `like` is what was read of it before with the same spec, if known."""
        metadata, spec, status = obj.child("metadata"), obj.child("spec"), obj.child("status")
        namespace = metadata.text("namespace")
        conditions = read_conditions(status)
        annotations = metadata.text_map("annotations")
        submit_queue = f"{namespace}/{spec.text('queueName')}"
        finished = {item.text("name"): item.integer("count") for item in status.children("reclaimablePods")}
        if like is None:
            pod_sets = tuple(self._pod_set(item, finished, namespace) for item in spec.children("podSets"))
            faults = tuple(self._faults(spec, namespace))
        else:
            pod_sets = tuple(_with_finished(pod_set, finished) for pod_set in like.pod_sets)
            faults = like.faults
        priority = self._priority(spec, annotations)
        allowed = _allowed_flavors(annotations)
        submitted = self.submit_queues.get(submit_queue)
        requeue = status.child("requeueState")
        reserved = conditions.get("QuotaReserved", NO_CONDITION)
        preempted = conditions.get("Preempted", NO_CONDITION)
        created_at = moment(metadata, "creationTimestamp") or 0.0
        return Workload(
            key=f"{namespace}/{metadata.text('name')}",
            uid=metadata.text("uid"),
            namespace=namespace,
            submit_queue=submit_queue,
            queue=submitted.queue if submitted is not None else "",
            priority=priority,
            created_at=created_at,
            queued_at=self._queued_at(conditions, created_at),
            pod_sets=pod_sets,
            admission=read_admission(status.child("admission"))
            if reserved.is_true and status.has("admission")
            else None,
            reserved_at=reserved.at if reserved.is_true else None,
            is_admitted=conditions.get("Admitted", NO_CONDITION).is_true,
            is_evicted=conditions.get("Evicted", NO_CONDITION).is_true,
            is_finished=conditions.get("Finished", NO_CONDITION).is_true,
            is_active=spec.flag("active", True),
            is_ready=conditions.get("PodsReady", NO_CONDITION).is_true,
            is_preemptible=annotations.get(names.PREEMPTIBLE) != "false",
            preempted_at=preempted.at if preempted.reason else None,
            checks={check.text("name"): _check_state(check) for check in status.children("admissionChecks")},
            held_until=moment(requeue, "requeueAt"),
            is_held=conditions.get("Requeued", NO_CONDITION).is_false,
            gates=_split(annotations.get(names.ADMISSION_GATED_BY, "")),
            preemption_gates=_closed_gates(spec, status),
            allowed_flavors=allowed,
            replaces=annotations.get(names.SLICE_REPLACEMENT_FOR, ""),
            unhealthy_nodes=tuple(node.text("name") for node in status.children("unhealthyNodes")),
            is_pod=_is_pod(metadata, annotations),
            variant_of=_variant_of(metadata),
            is_split=self.settings.concurrent_admission
            and metadata.text_map("labels").get(names.VARIANT_PARENT) == "true",
            kind_key=like.kind_key
            if like is not None
            and (like.pod_sets, like.priority, like.allowed_flavors) == (pod_sets, priority, allowed)
            else _kind_key(pod_sets, priority, allowed),
            faults=faults,
        )

    def _priority(self, spec: Fields, annotations: Mapping[str, str]) -> int:
        priority = spec.integer("priority")
        if not self.settings.priority_boost:
            return priority
        try:
            boost = int(annotations.get(names.PRIORITY_BOOST, "0")[:12])
        except ValueError:
            boost = 0  # Kueue: a boost that is no number is none.
        return max(-INT32_MAX - 1, min(INT32_MAX, priority + boost))

    def _queued_at(self, conditions: Mapping[str, Condition], created_at: float) -> float:
        is_moved_back = not self.settings.orders_by_priority
        return queued_at(conditions, created_at, by_eviction=self.queued_by_eviction, is_moved_back=is_moved_back)

    def _pod_set(self, item: Fields, finished: Mapping[str, int], namespace: str) -> PodSet:
        name = item.text("name", "main")
        count = item.integer("count", 1, least=0)
        least = item.integer("minCount", count, least=0) if self.settings.partial_admission else count
        shape = self._shape(item)
        rules, cards = ANYWHERE, None
        if self.placement is not None:
            pod = template_as_pod(item.child("template"), namespace)
            rules, cards = self.placement.rules_of(pod), self.placement.cards_of(pod)
        return PodSet(
            name=name,
            count=count,
            count_least=min(least, count),
            requests=self.request_rules.counted(shape.requests),
            shape=shape,
            topology=read_topology_request(item.child("topologyRequest")) if item.has("topologyRequest") else None,
            finished_pods=_finished_of(name, finished),
            rules=rules,
            cards=cards,
        )

    def _shape(self, item: Fields) -> PodShape:
        spec = item.child("template").child("spec")
        return pod_shape(spec, limits_as_requests=self.counts_limits_as_requests)

    def _faults(self, spec: Fields, namespace: str) -> list[Reason]:
        """Why the pods could never run: requests above limits, or a LimitRange of the namespace broken."""
        faults = []
        for item in spec.children("podSets"):
            pod_spec = item.child("template").child("spec")
            for above in requests_above_limits(pod_spec):
                faults.append(because(Code.REQUEST_ABOVE_LIMIT, path=above.path, resources=", ".join(above.resources)))
            for broken in limit_range_violations(pod_spec, self.limit_ranges.get(namespace, ())):
                if broken.problem is RangeProblem.ABOVE_RATIO:
                    continue  # Kueue: the ratio is left to the API server.
                bound = f"{broken.resource} is {broken.found}, {broken.problem.value} is {broken.allowed}"
                faults.append(because(Code.LIMIT_RANGE, path=broken.path, problem=bound))
        return faults


def _with_finished(pod_set: PodSet, finished: Mapping[str, int]) -> PodSet:
    count = _finished_of(pod_set.name, finished)
    return pod_set if pod_set.finished_pods == count else replace(pod_set, finished_pods=count)


def _finished_of(name: str, finished: Mapping[str, int]) -> int:
    return max(0, finished.get(name, 0))


def queued_at(
    conditions: Mapping[str, Condition], created_at: float, *, by_eviction: bool = True, is_moved_back: bool
) -> float:
    """A workload's place among equals: when it came, or when it was last sent back."""
    evicted = conditions.get("Evicted", NO_CONDITION)
    if by_eviction and evicted.is_true and evicted.reason == "PodsReadyTimeout":
        return evicted.at
    if evicted.is_true and evicted.reason == "AdmissionCheck":
        return evicted.at
    preempted = conditions.get("Preempted", NO_CONDITION)
    was_reclaimed = preempted.is_true and preempted.reason == Code.RECLAIMED_WHILE_BORROWING.value
    if was_reclaimed and is_moved_back:
        return preempted.at + AFTER_PREEMPTION_S
    return created_at


def read_conditions(status: Fields) -> dict[str, Condition]:
    """The conditions of a status by type."""
    return {
        item.text("type"): Condition(
            is_true=item.text("status") == "True",
            reason=item.text("reason"),
            at=moment(item, "lastTransitionTime") or 0.0,
            is_false=item.text("status") == "False",
        )
        for item in status.children("conditions")
    }


def read_admission(admission: Fields) -> Admission:
    """What a workload was given, as its status records it."""
    return Admission(
        queue=admission.text("clusterQueue"),
        pod_sets=tuple(_given(item) for item in admission.children("podSetAssignments")),
    )


def _given(item: Fields) -> PodSetAdmission:
    usage = {name: max(0, amount_of(name, quantity)) for name, quantity in item.quantities("resourceUsage").items()}
    return PodSetAdmission(
        name=item.text("name", "main"),
        count=item.integer("count", 1, least=0),
        flavors=item.text_map("flavors"),
        usage=usage,
        place=_read_place(item.child("topologyAssignment")) if item.has("topologyAssignment") else None,
        is_delayed=item.text("delayedTopologyRequest") == "Pending",
    )


def _read_place(assignment: Fields) -> TopologyAssignment:
    domains = domains_of(assignment.values, assignment.path)
    return TopologyAssignment(
        levels=assignment.texts("levels"),
        domains=tuple(PlacedPods(domain.values, domain.count) for domain in domains),
    )


def read_topology_request(request: Fields) -> TopologyRequest:
    layers = tuple(
        (layer.text("topology"), layer.integer("size"))
        for layer in request.children("podsetSliceRequiredTopologyConstraints")
    )
    return TopologyRequest(
        required=request.text("required"),
        preferred=request.text("preferred"),
        is_unconstrained=request.flag("unconstrained"),
        slice_level=request.text("podSetSliceRequiredTopology"),
        slice_size=request.integer("podSetSliceSize"),
        layers=layers,
        group=request.text("podSetGroupName"),
    )


def _check_state(check: Fields) -> CheckState:
    states = tuple(state.value for state in CheckState)
    return CheckState(check.choice("state", states, CheckState.PENDING.value))


def _closed_gates(spec: Fields, status: Fields) -> tuple[str, ...]:
    open_gates = {gate.text("name") for gate in status.children("preemptionGates") if gate.text("position") == "Open"}
    return tuple(name for gate in spec.children("preemptionGates") if (name := gate.text("name")) not in open_gates)


def _allowed_flavors(annotations: Mapping[str, str]) -> frozenset[str] | None:
    text = annotations.get(names.ALLOWED_FLAVORS)
    return frozenset(_split(text)) if text is not None else None


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _is_pod(metadata: Fields, annotations: Mapping[str, str]) -> bool:
    """Whether the workload stands for one single pod, which nobody would make again elsewhere."""
    owners = list(metadata.children("ownerReferences"))
    is_alone = len(owners) == 1 and owners[0].text("kind") == "Pod" and owners[0].text("apiVersion") == "v1"
    return is_alone and annotations.get(names.IS_GROUP) != "true"


def _variant_of(metadata: Fields) -> str:
    for owner in metadata.children("ownerReferences"):
        if owner.text("kind") == "Workload" and owner.text("apiVersion").startswith(names.GROUP):
            return owner.text("uid")
    return ""


def _kind_key(pod_sets: tuple[PodSet, ...], priority: int, allowed: frozenset[str] | None) -> str:
    """Equal for workloads that the engine treats alike."""
    parts = [
        [p.name, p.count, p.count_least, sorted(p.requests.items()), repr(p.shape), repr(p.topology), p.finished_pods]
        + ([repr(p.rules.of_kind), repr(p.cards)] if p.rules is not ANYWHERE else [])
        for p in pod_sets
    ]
    text = json.dumps([parts, priority, sorted(allowed) if allowed is not None else None])
    return blake2b(text.encode(), digest_size=12).hexdigest()
