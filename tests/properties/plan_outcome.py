"""A plan carried out: the objects as they would be afterwards, for those who check invariants on objects.

Who was told to go is gone, and whoever got a place is bound there with its cards written on it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from muster.app.plan import Admitted, Ended, Evicted, PlanReport, Shrunk
from muster.model.resources import amount_text
from muster.model.workload import Slot
from muster.sim.census import Change
from muster.store.records import Key
from tests.properties.mixed_files import ALLOCATED, CARD_MIB

Object = dict[str, Any]

WORKLOADS, PODS, NODES = "workloads.kueue.x-k8s.io", "pods", "nodes"
_RESOURCES = {"ClusterQueue": "clusterqueues.kueue.x-k8s.io", "Cohort": "cohorts.kueue.x-k8s.io", "Node": NODES}


class Outcome:
    """Objects by resource, as `muster.sim` looks at a census; everything that a plan added is a change."""

    quotas_since = 0

    def __init__(self, objects: list[Object], report: PlanReport) -> None:
        self.by_resource: dict[str, dict[Key, Object]] = {}
        self.changes: list[Change] = []
        self.rooms = {one["metadata"]["name"]: [one["status"]["allocatable"]] for one in objects if _is(one, "Node")}
        self.placed: dict[str, list[Slot]] = {}  # by workload or group: where its pods go
        self._specs = _specs(objects)
        gone = _gone(report)
        for one in objects:
            resource = _RESOURCES.get(one["kind"])
            if resource is not None:
                self._put(resource, one)
            elif _is(one, "Pod") and one["spec"].get("nodeName") and _key(one) not in gone:
                self._put(PODS, one)
        for step in report.steps:
            if isinstance(step, Admitted) and step.workload not in gone:
                self._admit(step, report.owners[step.workload])
        for group in report.groups:
            self.placed[group.key] = list(group.slots.values())
            for pod, slot in group.slots.items():
                self._bind(pod.partition("/")[2], slot, self._specs[group.key])

    def all(self, resource: str) -> list[Object]:
        return list(self.by_resource.get(resource, {}).values())

    def get(self, key: Key) -> Object | None:
        return self.by_resource.get(key.resource, {}).get(key)

    def held(self) -> dict[str, Counter[str]]:
        """The pods of each node, counted."""
        found: dict[str, Counter[str]] = {}
        for pod in self.all(PODS):
            cpu = int(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"]) * 1000
            found.setdefault(pod["spec"]["nodeName"], Counter()).update({"cpu": cpu, "pods": 1})
        return found

    def _admit(self, step: Admitted, owner: str) -> None:
        self.placed[step.workload] = [slot for pod_set in step.pod_sets for slot in pod_set.slots]
        for number, slot in enumerate(self.placed[step.workload]):
            self._bind(f"{step.workload.partition('/')[2]}.{number}", slot, self._specs[owner.partition(" ")[2]])
        assigned = [
            {
                "name": one.name,
                "count": one.count,
                "flavors": dict(one.flavors),
                "resourceUsage": {name: amount_text(name, amount) for name, amount in one.usage.items()},
            }
            for one in step.pod_sets
        ]
        status = {
            "admission": {"clusterQueue": step.queue, "podSetAssignments": assigned},
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
        }
        namespace, _, name = step.workload.partition("/")
        self._put(WORKLOADS, {"metadata": {"namespace": namespace, "name": name}, "status": status}, is_new=True)

    def _bind(self, name: str, slot: Slot, spec: Object) -> None:
        shares = [(card, CARD_MIB, 100) for card in slot.names]
        if slot.slices is not None:
            shares += [(one.uuid, one.memory_mib, one.cores) for one in slot.slices.shares]
        text = "".join(f"{card},NVIDIA,{memory},{cores}:" for card, memory, cores in shares)
        metadata = {"namespace": "ns", "name": name, "annotations": {ALLOCATED: text}}
        self._put(PODS, {"metadata": metadata, "spec": {**spec, "nodeName": slot.node}, "status": {}}, is_new=True)

    def _put(self, resource: str, one: Object, *, is_new: bool = False) -> None:
        key = Key(resource, one["metadata"].get("namespace", ""), one["metadata"]["name"])
        known = self.by_resource.setdefault(resource, {})
        assert key not in known, f"{key} is there twice"
        known[key] = one
        if is_new:
            self.changes.append(Change(key, None, one, 1))


def _is(one: Object, kind: str) -> bool:
    return bool(one["kind"] == kind)


def _key(one: Object) -> str:
    return f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}"


def _gone(report: PlanReport) -> set[str]:
    """Workloads and pods that were told to go and did not come back."""
    gone: set[str] = set()
    for step in report.steps:
        assert not isinstance(step, Shrunk), "nothing in a mix can shrink"
        if isinstance(step, Evicted | Ended):
            gone.add(step.workload)
        else:
            gone.discard(step.workload)
    return gone | {pod for group in report.groups for pod in group.evicted}


def _specs(objects: list[Object]) -> dict[str, Object]:
    """The spec of the pods of everything that has pods, by its name."""
    found: dict[str, Object] = {}
    for one in objects:
        if _is(one, "Pod"):
            found[_key(one)] = one["spec"]
        elif _is(one, "Job"):
            spec = one["spec"]
            template = spec["tasks"][0]["template"] if "tasks" in spec else spec["template"]
            found[_key(one)] = template["spec"]
    return found
