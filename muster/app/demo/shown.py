"""What a teller shows of a cluster: jobs, queues, nodes, slices of cards, and who waits for what. Used by `telling`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.app.demo.story import KUEUE, Stage, pods_of
from muster.app.plugins import vendors
from muster.dialects.pods import is_over
from muster.model.fields import Fields
from muster.model.quantity import parse_quantity
from muster.store.kinds import Object

_PHASES = {"Pending": "waiting", "Running": "running", "Succeeded": "done", "Failed": "failed"}
CARDS = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a heading; without one each row is a sentence."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def jobs(stage: Stage) -> Table:
    """Each job with its pods."""
    pods = stage.all("pods")
    rows = []
    for job in stage.all("jobs.batch"):
        phases = Counter(_PHASES[pod["status"]["phase"]] for pod in pods_of(job, pods))
        counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
        rows.append((_name(job), str(job["spec"]["parallelism"]), counts or "none", _stands(job)))
    return Table(("JOB", "ASKS FOR", "PODS", "STATE"), tuple(rows))


def _stands(job: Object) -> str:
    conditions = {one["type"] for one in (job.get("status") or {}).get("conditions") or () if one["status"] == "True"}
    if "Complete" in conditions:
        return "complete"
    if "Suspended" in conditions:
        return "waits in its queue"
    return "works" if job["status"].get("ready") == job["spec"]["parallelism"] else "cannot work yet"


def queues(stage: Stage) -> Table:
    """Each queue with its first resource, which is what a story is about."""
    rows = []
    for queue in stage.all(f"clusterqueues.{KUEUE}"):
        status = queue["status"]
        resource = queue["spec"]["resourceGroups"][0]["coveredResources"][0]
        for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
            own = next(one["nominalQuota"] for one in flavor["resources"] if one["name"] == resource)
            used = _reserved(status, flavor["name"], resource)
            counts = (str(status["admittedWorkloads"]), str(status["pendingWorkloads"]))
            amounts = (str(own), str(used.get("total", 0)), str(used.get("borrowed", 0)))
            rows.append((queue["metadata"]["name"], *counts, f"{resource} of {flavor['name']}", *amounts))
    return Table(("QUEUE", "RUN", "WAIT", "RESOURCE", "OWN", "USED", "BORROWED"), tuple(rows))


def _reserved(status: Object, flavor: str, resource: str) -> Mapping[str, Any]:
    for one in status.get("flavorsReservation") or ():
        for amount in one["resources"]:
            if one["name"] == flavor and amount["name"] == resource:
                return dict(amount)
    return {}


def nodes(stage: Stage) -> Table:
    """Each node with whose pods hold its cards."""
    pods = [pod for pod in stage.all("pods") if not is_over(pod)]
    rows = []
    for node in stage.all("nodes"):
        name = node["metadata"]["name"]
        held = Counter[str]()
        for pod in pods:
            if pod["spec"].get("nodeName") == name:
                held[_owner(pod)] += _cards(pod)
        shown = ", ".join(f"{owner} {count}" for owner, count in sorted(held.items()))
        rows.append((name, node["status"]["capacity"].get(CARDS, "0"), str(held.total()), shown))
    return Table(("NODE", "CARDS", "IN USE", "BY"), tuple(rows))


def _cards(pod: Object) -> int:
    asked = (container["resources"]["limits"].get(CARDS, "0") for container in pod["spec"]["containers"])
    return sum(parse_quantity(str(one)).scaled(0, 2**31) for one in asked)


def slices(stage: Stage) -> Table:
    """Each card that is in use, with its slices."""
    cards: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for pod in stage.all("pods"):
        if is_over(pod):
            continue
        for uuid, memory_mib, cores in _shares(pod):
            cards.setdefault((pod["spec"]["nodeName"], uuid), []).append((_owner(pod), memory_mib, cores))
    rows = []
    for (node, uuid), held in sorted(cards.items()):
        owners = ", ".join(f"{owner} {count}" for owner, count in sorted(Counter(one[0] for one in held).items()))
        memory, cores = sum(one[1] for one in held), sum(one[2] for one in held)
        rows.append((node, uuid, str(len(held)), f"{memory:,} MB", f"{cores} %", owners))
    return Table(("NODE", "CARD", "SLICES", "MEMORY", "COMPUTING", "BY"), tuple(rows))


def _shares(pod: Object) -> Iterator[tuple[str, int, int]]:
    """The cards that a pod has a part of, with memory and share of computing."""
    for vendor in vendors().values():
        for container in vendor.shares_of(Fields(pod)):
            for share in container:
                yield share.uuid, share.memory_mib, share.cores


def workloads(stage: Stage) -> Table:
    """Those that wait, with the reason that they are told."""
    rows = []
    for one in stage.all(f"workloads.{KUEUE}"):
        for condition in one["status"].get("conditions") or ():
            if condition["type"] == "QuotaReserved" and condition["status"] == "False":
                rows.append((f"{_owner(one)} waits: {condition['message']}",))
    return Table((), tuple(rows))


def _owner(obj: Object) -> str:
    owners = obj["metadata"].get("ownerReferences") or ()
    return str(owners[0]["name"]) if owners else str(obj["metadata"]["name"])


def _name(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


SHOWN: Mapping[str, Callable[[Stage], Table]] = {
    "jobs": jobs,
    "queues": queues,
    "nodes": nodes,
    "slices": slices,
    "workloads": workloads,
}
