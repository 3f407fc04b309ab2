"""Reading Kueue's objects into a snapshot. Called by the command line, the controllers' cache and the simulator.

Objects are taken in the hub version and as they are: conversion, defaulting and validation run before, or, for a
replay of recorded objects, not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.dialects.kueue import names
from muster.dialects.kueue.read_queues import (
    Known,
    implied_cohorts,
    read_check,
    read_cluster_queue,
    read_cohort,
    read_flavor,
    read_submit_queue,
    read_topology_levels,
)
from muster.dialects.kueue.read_workloads import WorkloadReader
from muster.dialects.kueue.transformations import RequestRules
from muster.engine.reading import PlacementReader
from muster.model.fields import Fields
from muster.model.flavor import Flavor
from muster.model.podspec import LimitRangeItem, read_limit_range
from muster.model.queue import Queue, SubmitQueue
from muster.model.settings import Settings
from muster.model.snapshot import Snapshot
from muster.model.topology import BoundPod, Node, levels_of, read_bound_pod, read_node

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How objects are read."""

    settings: Settings = field(default_factory=Settings)
    request_rules: RequestRules = field(default_factory=RequestRules)
    queued_by_eviction: bool = True
    now: float = 0.0
    seed: int = 0
    needs_objects: bool = True  # a queue whose flavors or checks are missing is inactive
    assumes_namespaces: bool = False  # a namespace that objects name exists, as on a cluster it must
    counts_limits_as_requests: bool = True
    derives_topologies: bool = False  # a topology without an object is what the nodes' own labels say
    placement: PlacementReader | None = None  # where Muster decides on nodes


def read(objects: Iterable[Object], options: ReadOptions) -> Snapshot:
    """The snapshot that the objects describe; kinds that have no part in it are passed over."""
    by_kind: dict[str, list[Fields]] = {}
    for obj in objects:
        fields = Fields.of(obj)
        by_kind.setdefault(fields.text("kind"), []).append(fields)
    placement = options.placement
    if placement is not None:
        claims, volumes = by_kind.get("PersistentVolumeClaim", ()), by_kind.get("PersistentVolume", ())
        placement = placement.with_volumes(claims, volumes)
    nodes = {node.name: node for node in _read_nodes(by_kind.get("Node", ()), placement)}
    flavors, known = _read_known(by_kind, nodes, options)
    queues = [read_cluster_queue(obj, known) for obj in by_kind.get("ClusterQueue", ())]
    queues += [read_cohort(obj) for obj in by_kind.get("Cohort", ())]
    queues += implied_cohorts(queues)
    submit_queues = {submit.key: submit for submit in map(read_submit_queue, by_kind.get("LocalQueue", ()))}
    limit_ranges = by_kind.get("LimitRange", ())
    reader = workload_reader(submit_queues, limit_ranges, replace(options, placement=placement))
    workloads = {workload.key: workload for workload in map(reader.read, by_kind.get("Workload", ()))}
    return Snapshot(
        queues=_by_name(queues),
        submit_queues=submit_queues,
        flavors=flavors,
        workloads=workloads,
        nodes=nodes,
        bound_pods={pod.key: pod for pod in _read_pods(by_kind.get("Pod", ()), nodes, placement)},
        namespaces=_read_namespaces(by_kind, options),
        settings=options.settings,
        now=options.now,
        seed=options.seed,
    )


def workload_reader(
    submit_queues: Mapping[str, SubmitQueue], limit_ranges: Iterable[Fields], options: ReadOptions
) -> WorkloadReader:
    """What reads single workloads among these queues and limits; the options' reader of pods is taken as it is."""
    return WorkloadReader(
        settings=options.settings,
        submit_queues=submit_queues,
        limit_ranges=_read_limit_ranges(limit_ranges),
        request_rules=options.request_rules,
        queued_by_eviction=options.queued_by_eviction,
        counts_limits_as_requests=options.counts_limits_as_requests,
        placement=options.placement,
    )


def _read_nodes(objects: Iterable[Fields], placement: PlacementReader | None) -> Iterator[Node]:
    for obj in objects:
        node = read_node(obj)
        yield placement.node(node, obj) if placement is not None else node


def _read_pods(
    objects: Iterable[Fields], nodes: Mapping[str, Node], placement: PlacementReader | None
) -> Iterator[BoundPod]:
    """Pods that occupy their nodes; those of a workload with a place are counted through the workload."""
    for obj in objects:
        metadata = obj.child("metadata")
        if names.TOPOLOGY_MANAGED in metadata.text_map("labels"):
            continue
        pod = read_bound_pod(obj)
        if pod is not None:
            yield placement.bound_pod(pod, obj, nodes.get(pod.node)) if placement is not None else pod


def _by_name(queues: Iterable[Queue]) -> dict[str, Queue]:
    return {queue.name: queue for queue in queues}


def _read_known(
    by_kind: Mapping[str, list[Fields]], nodes: Mapping[str, Node], options: ReadOptions
) -> tuple[dict[str, Flavor], Known]:
    topologies = {obj.child("metadata").text("name"): read_topology_levels(obj) for obj in by_kind.get("Topology", ())}
    if options.derives_topologies:
        derived = levels_of(nodes.values())
        for obj in by_kind.get("ResourceFlavor", ()):
            if derived:
                topologies.setdefault(obj.child("spec").text("topologyName"), derived)
    flavors = {
        flavor.name: flavor for flavor in (read_flavor(obj, topologies) for obj in by_kind.get("ResourceFlavor", ()))
    }
    checks = {obj.child("metadata").text("name"): read_check(obj) for obj in by_kind.get("AdmissionCheck", ())}
    known = Known(flavors=flavors, topologies=topologies, checks=checks, needs_objects=options.needs_objects)
    return flavors, known


def _read_limit_ranges(objects: Iterable[Fields]) -> dict[str, list[LimitRangeItem]]:
    result: dict[str, list[LimitRangeItem]] = {}
    for obj in objects:
        namespace = obj.child("metadata").text("namespace")
        result.setdefault(namespace, []).extend(read_limit_range(obj))
    return result


def _read_namespaces(by_kind: Mapping[str, list[Fields]], options: ReadOptions) -> dict[str, dict[str, str]]:
    namespaces = {}
    for obj in by_kind.get("Namespace", ()):
        metadata = obj.child("metadata")
        namespaces[metadata.text("name")] = metadata.text_map("labels")
    if options.assumes_namespaces:
        for kind in ("Workload", "LocalQueue"):
            for obj in by_kind.get(kind, ()):
                namespaces.setdefault(obj.child("metadata").text("namespace"), {})
        for name, labels in namespaces.items():
            labels.setdefault(names.NAMESPACE_NAME_LABEL, name)
    return namespaces
