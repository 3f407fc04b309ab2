"""YuniKorn's part of a plan: its queues and applications beside those of others, in one snapshot. Called by `plan`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from muster.app.intake import Intake, NotManaged, Remark
from muster.app.policies import build_tiers
from muster.dialects.yunikorn.amounts import VCORE
from muster.dialects.yunikorn.applications import PodOfApplication
from muster.dialects.yunikorn.configuration import BINPACKING, DEFAULT_PARTITION, QueueConfiguration
from muster.dialects.yunikorn.names import ALLOW_PREEMPTION, CONFIG_MAP
from muster.dialects.yunikorn.read import Reading, Surroundings, assumed_configuration, read_pods
from muster.dialects.yunikorn.read_queues import FLAVOR, PREFIX
from muster.engine.profile import PolicyUse, tier
from muster.engine.reading import PlacementReader
from muster.engine.slots import HooksOf
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.flavor import Flavor
from muster.model.resources import CPU, UNLIMITED, sum_amounts
from muster.model.snapshot import Snapshot


def with_yunikorn(
    intake: Intake, snapshot: Snapshot, *, placement: PlacementReader | None = None
) -> tuple[Intake, Snapshot]:
    """The snapshot with YuniKorn's queues and applications, and what is to be said of them."""
    given = intake.yunikorn
    objects = [Fields(obj) for obj in intake.objects]
    surroundings = Surroundings(
        now=snapshot.now,
        total=_total(snapshot, placement) if snapshot.nodes else None,
        placement=_with_volumes(placement, objects),
        namespace_annotations={
            one.child("metadata").text("name"): one.child("metadata").text_map("annotations")
            for one in _of_kind(objects, "Namespace")
        },
        spared_classes=frozenset(
            one.child("metadata").text("name")
            for one in _of_kind(objects, "PriorityClass")
            if one.child("metadata").text_map("annotations").get(ALLOW_PREEMPTION, "").lower() == "false"
        ),
    )
    reading = read_pods(given.pods, given.configuration or assumed_configuration(), surroundings)
    snapshot = replace(
        snapshot,
        queues={**snapshot.queues, **reading.queues},
        shared_limits=reading.shared_limits,
        flavors={**snapshot.flavors, FLAVOR: Flavor(name=FLAVOR)},
        workloads={**snapshot.workloads, **reading.workloads},
        namespaces={**{pod.namespace: {} for pod in given.pods}, **snapshot.namespaces},
    )
    return _told(intake, reading), snapshot


def node_order(configuration: QueueConfiguration) -> HooksOf | None:
    """How YuniKorn's pods choose nodes, where the configuration has a nodesortpolicy; `None`: as everybody's."""
    partition = next((one for one in configuration.partitions if one.name == DEFAULT_PARTITION), None)
    if partition is None or not partition.node_sort.kind:
        return None
    weights = {CPU if name == VCORE else name: weight for name, weight in (partition.node_sort.weights or {}).items()}
    arguments = {"fills": partition.node_sort.kind == BINPACKING, **({"weights": weights} if weights else {})}
    hooks = build_tiers((tier(PolicyUse(name="nodesort", arguments=arguments)),)).hooks
    return lambda workload: hooks if workload.queue.startswith(PREFIX) else None


def _total(snapshot: Snapshot, placement: PlacementReader | None) -> dict[str, int]:
    """What all nodes have; of what each card has its own, the cards are the limit."""
    parts = placement.card_parts if placement is not None else frozenset()
    return {
        **dict.fromkeys(parts, UNLIMITED),
        **sum_amounts(node.allocatable for node in snapshot.nodes.values()),
    }


def _with_volumes(placement: PlacementReader | None, objects: list[Fields]) -> PlacementReader | None:
    if placement is None:
        return None
    return placement.with_volumes(_of_kind(objects, "PersistentVolumeClaim"), _of_kind(objects, "PersistentVolume"))


def _of_kind(objects: list[Fields], kind: str) -> Iterator[Fields]:
    return (one for one in objects if one.text("kind") == kind)


def _told(intake: Intake, reading: Reading) -> Intake:
    """The intake with what reading had to say."""
    rejected = {(pod.owner, why): pod for pod, why in reading.rejected}  # the pods of a job say the same
    left_out = tuple(NotManaged(source=pod.source, object=owner, why=why) for (owner, why), pod in rejected.items())
    return replace(
        intake,
        owners={**intake.owners, **reading.owners},
        not_managed=(*intake.not_managed, *left_out),
        warnings=(*intake.warnings, *(_remark(pod, doubt) for pod, doubt in reading.doubts)),
    )


def _remark(pod: PodOfApplication | None, doubt: InvalidObject) -> Remark:
    source, owner = (pod.source, pod.owner) if pod is not None else ("", f"ConfigMap {CONFIG_MAP}")
    return Remark(source=source, object=owner, path=doubt.path, problem=doubt.problem, hint=doubt.hint)
