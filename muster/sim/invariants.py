"""What must hold in every cluster at every moment, and what must hold once it has come to rest. Checked by `storm`.

| id | holds | checked |
|---|---|---|
| I1 | no admission takes a queue or a cohort beyond its quota | each step, `invariants_quota` |
| I2 | what a workload held is given back exactly once | each step in the engine's state; at rest in queues' counts |
| I3 | the pods of a node ask for no more than it has | each step, `invariants_places` |
| I4 | a gang has all its places or none, and all its pods at rest | each step in the engine's state; at rest |
| I5 | no card has given out more than it has, and pods have the cards they ask for | each step, `invariants_places` |
| I6 | locks have an owner and an end | leases at rest; take-overs in `take_overs` |
| I7 | nobody who was submitted is lost | at rest |
| I8 | with nothing broken, everything comes to its end, and has the size that it should have | at rest |
| I9 | a restart changes nothing | at rest |
| I10 | what the scheduler knows is what it would know after a restart | now and then, and at rest |
| I11 | what a status says is true | each step and at rest |
| I12 | who has nothing to do writes nothing | at rest |
| I13 | who an object belongs to goes by uid | at rest |
| I14 | nobody is preempted for ever | at rest |
| I15 | work of one instant ends | `loop` and `scheduler` count it |
| I16 | no process ends by itself, and none reports a fault of its own | each step |
| I17 | what is remembered is about objects that are there | with I10 |
| I18 | what was acknowledged stays | tests/store; here revisions only grow |
| I19 | a watch tells everything in order | tests/store, tests/properties/test_store.py |
| I20 | nobody writes over what he has not seen, and only one leader writes | each step; leaders in `take_overs` |
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.controllers.belonging import PODS, WORKLOADS, has_condition, object_key
from muster.controllers.cache import CLUSTER_QUEUES, Cache
from muster.controllers.nodes.pools import POOL
from muster.controllers.seating import SLOT_ANNOTATION, number_of
from muster.dialects.kueue.slots_text import recorded_slots
from muster.engine.invariants import differences, violations
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.quantity import parse_quantity
from muster.model.resources import amount_of
from muster.sim.census import Census, Change
from muster.sim.invariants_places import NODES, crowded_cards, crowded_nodes, wrong_cards
from muster.sim.invariants_quota import Quotas, usage_by_queue
from muster.sim.network import Landed
from muster.sim.objects import LOAD, LOAD_OF_ONE, QUEUE_LABEL, SCALED_MOST, TOUCHED
from muster.store.kinds import Object
from muster.store.records import Key

JOBS, DEPLOYMENTS, LEASES = "jobs.batch", "deployments.apps", "leases.coordination.k8s.io"
AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
PREEMPTIONS_MOST = 3


class Invariants:
    """The checks of one world."""

    def __init__(self, census: Census) -> None:
        self._census = census
        self._quotas = Quotas()
        self._found: list[str] = []

    def after_step(self, landed: list[Landed]) -> Iterator[str]:
        """What the last step has broken, one sentence each."""
        census = self._census
        self._found.clear()
        census.look(self._note)
        yield from self._found
        yield from self._quotas.violations(census, landed)
        yield from crowded_nodes(census)
        yield from crowded_cards(census)
        yield from wrong_cards(census)

    def _note(self, change: Change) -> None:
        if change.now is not None and change.key.resource == WORKLOADS:
            self._found += _false_workload(change.key, change.now)
        elif change.now is not None and change.key.resource == PODS:
            self._found += _false_pod(change.key, change.now)
            self._found += _false_slot(self._census, change)
        self._found += _overwritten(change)

    def at_rest(self) -> Iterator[str]:
        """What must not be once nothing is broken and everybody has had time enough."""
        census = self._census
        yield from unfinished(census)
        yield from lost(census)
        yield from half_bound(census)
        yield from miscounted(census)
        yield from strangers(census)
        yield from dead_locks(census)


# Each step -----------------------------------------------------------------------------------------------------------


def _false_workload(key: Key, workload: Object) -> Iterator[str]:
    """I11: conditions that contradict each other."""
    has_admission = bool((workload.get("status") or {}).get("admission"))
    is_reserved, is_admitted = has_condition(workload, "QuotaReserved"), has_condition(workload, "Admitted")
    if is_admitted and not is_reserved:
        yield f"I11: {key} is admitted without quota"
    if is_admitted and has_condition(workload, "Evicted"):
        yield f"I11: {key} is admitted and evicted"
    if is_reserved != has_admission:
        yield f"I11: {key} {'has' if has_admission else 'lacks'} an admission, and QuotaReserved is {is_reserved}"
    kinds = [one["type"] for one in (workload.get("status") or {}).get("conditions") or ()]
    if len(kinds) != len(set(kinds)):
        yield f"I11: {key} has a condition twice: {kinds}"


def _false_pod(key: Key, pod: Object) -> Iterator[str]:
    """I11: a pod that says other than it is."""
    has_node = bool(pod["spec"].get("nodeName"))
    if has_node != has_condition(pod, "PodScheduled"):
        yield f"I11: {key} {'has' if has_node else 'lacks'} a node, and PodScheduled says otherwise"


def _false_slot(census: Census, change: Change) -> Iterator[str]:
    """I11: a pod that was just bound to another place than the one that is on record for it."""
    pod, before = change.now, change.before
    if pod is None or not pod["spec"].get("nodeName") or (before or {}).get("spec", {}).get("nodeName"):
        return
    name, number = number_of((pod["metadata"].get("annotations") or {}).get(SLOT_ANNOTATION, ""))
    for workload in census.all(WORKLOADS):
        owners = {one["uid"] for one in workload["metadata"].get("ownerReferences") or ()}
        if not _owners(pod) & owners or not has_condition(workload, "Admitted"):
            continue
        slots = recorded_slots(Fields(workload)).get(name, ())
        node = slots[number].node if 0 <= number < len(slots) else ""
        if node and node != pod["spec"]["nodeName"]:
            yield f"I11: {change.key} is bound to {pod['spec']['nodeName']}, and its slot is on {node}"


def _overwritten(change: Change) -> Iterator[str]:
    """I20: an edit that somebody wrote over without having seen it."""
    if change.before is None or change.now is None:
        return
    before, now = (one["metadata"].get("annotations") or {} for one in (change.before, change.now))
    if TOUCHED in before and TOUCHED not in now:
        yield f"I20: {change.key} has lost what a user had written"


def broken_state(cache: Cache) -> Iterator[str]:
    """I2 and I4: what the engine's own state must not be."""
    return (f"I2: {one}" for one in violations(cache.state))


def drifted_state(cache: Cache, fresh: Cache) -> Iterator[str]:
    """I10 and I17: what is known and would not be known to a scheduler that starts now, by the same objects."""
    if leftovers := cache.leftovers():
        yield f"I17: it still remembers {leftovers}"
    for one in differences(cache.state, fresh.state):
        yield f"I10: {one}"
    known, anew = _known(cache), _known(fresh)
    if known != anew:
        yield f"I10: it knows of {sorted(known - anew)} too many and {sorted(anew - known)} too few"
    for key in sorted(known & anew):
        now, then = cache.state.workloads[key], fresh.state.workloads[key]
        if (now.admission is None, now.is_finished) != (then.admission is None, then.is_finished):
            yield f"I10: {key} is known as {now.admission}, and is {then.admission}"


def _known(cache: Cache) -> set[str]:
    """Who is known; whether a bound pod is known by itself or by its node depends on when its node's cards were."""
    return {key for key, one in cache.state.workloads.items() if not one.is_pod or one.admission is None}


# At rest -------------------------------------------------------------------------------------------------------------


def unfinished(census: Census) -> Iterator[str]:
    """I8: work that would fit and has not come to its end."""
    for job in census.all(JOBS):
        if not has_condition(job, "Complete") and not has_condition(job, "Failed"):
            yield f"I8: {object_key(JOBS, job)} has not ended: {_standing(census, job)}"
    for pod in census.all(PODS):
        is_alone = not pod["metadata"].get("ownerReferences")
        if is_alone and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            yield f"I8: {object_key(PODS, pod)} has not ended: {_standing(census, pod)}"
        node = pod["spec"].get("nodeName")
        if node and census.get(Key(NODES, "", node)) is None:
            yield f"I8: {object_key(PODS, pod)} is on {node}, which is gone"
    for one in census.all(DEPLOYMENTS):
        status = one.get("status") or {}
        if status.get("availableReplicas", 0) != one["spec"]["replicas"]:
            yield f"I8: {object_key(DEPLOYMENTS, one)} is not there: {status}"
    yield from unscaled(census)
    for resource in (JOBS, PODS, DEPLOYMENTS, WORKLOADS):
        for one in census.all(resource):
            if one["metadata"].get("deletionTimestamp"):
                yield f"I8: {object_key(resource, one)} is still being deleted: {one['metadata'].get('finalizers')}"


def unscaled(census: Census) -> Iterator[str]:
    """I8: deployments that have another size than their load asks their autoscaler for."""
    for one in census.all(AUTOSCALERS):
        target = one["spec"]["scaleTargetRef"]["name"]
        scaled = census.get(Key(DEPLOYMENTS, one["metadata"]["namespace"], target))
        text = ((scaled or {}).get("metadata", {}).get("annotations") or {}).get(LOAD)
        if scaled is None or text is None:
            continue
        wanted = min(max(-(-int(text) // LOAD_OF_ONE), 1), SCALED_MOST)
        if scaled["spec"]["replicas"] != wanted:
            yield f"I8: {target} wants {scaled['spec']['replicas']} pods, and its load asks for {wanted}"


def oversized(census: Census, pools: Object) -> Iterator[str]:
    """I8: pools of nodes that are larger than they have to be; asked where all work comes to an end."""
    for pool in pools["pools"]:
        least = pool.get("minimum")
        found = [one for one in census.all(NODES) if one["metadata"]["annotations"].get(POOL) == pool["name"]]
        if least is not None and len(found) != least:
            yield f"I8: the pool {pool['name']} has {len(found)} nodes with nothing to do, and needs {least}"


def _standing(census: Census, owner: Object) -> str:
    """How the workload of a job stands, for whoever has to find out."""
    for workload in census.all(WORKLOADS):
        if any(one.get("uid") == owner["metadata"]["uid"] for one in workload["metadata"].get("ownerReferences") or ()):
            conditions = (workload.get("status") or {}).get("conditions") or ()
            told = [f"{one['type']}={one['status']} {one.get('message', '')[:90]}" for one in conditions]
            return f"{workload['metadata']['name']}: {'; '.join(told)}"
    return f"no workload; {(owner.get('status') or {}).get('conditions')} suspend={owner['spec'].get('suspend')}"


def lost(census: Census) -> Iterator[str]:
    """I7: jobs with a queue that no workload stands for, and workloads that are nowhere."""
    owners: dict[str, int] = {}
    for workload in census.all(WORKLOADS):
        for owner in workload["metadata"].get("ownerReferences") or ():
            owners[owner["uid"]] = owners.get(owner["uid"], 0) + (not has_condition(workload, "Finished"))
        is_over = has_condition(workload, "Evicted") and has_condition(workload, "Admitted")
        if is_over and not has_condition(workload, "Finished"):
            yield f"I7: {object_key(WORKLOADS, workload)} was evicted and does not wait again"
    for resource in (JOBS, PODS):
        for job in census.all(resource):
            metadata = job["metadata"]
            if (
                QUEUE_LABEL in (metadata.get("labels") or {})
                and not metadata.get("ownerReferences")
                and not _is_over(job)
            ):
                if metadata["uid"] not in owners:
                    yield f"I7: {object_key(resource, job)} has no workload"
                elif owners[metadata["uid"]] > 1:
                    yield f"I7: {object_key(resource, job)} has several workloads that go on"


def _is_over(job: Object) -> bool:
    phase = (job.get("status") or {}).get("phase")
    return has_condition(job, "Complete") or has_condition(job, "Failed") or phase in ("Succeeded", "Failed")


def half_bound(census: Census) -> Iterator[str]:
    """I4: gangs of which some pods have a place and others wait."""
    for workload in census.all(WORKLOADS):
        if not has_condition(workload, "Admitted") or has_condition(workload, "Finished"):
            continue
        owners = {one["uid"] for one in workload["metadata"].get("ownerReferences") or ()}
        pods = [pod for pod in census.all(PODS) if _owners(pod) & owners]
        waiting = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
        if waiting:
            yield f"I4: {object_key(WORKLOADS, workload)} is admitted, and {waiting} have no node"


def _owners(pod: Object) -> set[str]:
    return {one["uid"] for one in pod["metadata"].get("ownerReferences") or ()} | {pod["metadata"]["uid"]}


def miscounted(census: Census) -> Iterator[str]:
    """I2 and I11: queues whose status counts other than what their workloads hold."""
    held = usage_by_queue(census)
    for queue in census.all(CLUSTER_QUEUES):
        name, status = queue["metadata"]["name"], queue.get("status") or {}
        for flavor in status.get("flavorsReservation") or ():
            for one in flavor["resources"]:
                told = amount_of(one["name"], parse_quantity(str(one.get("total", "0"))))
                real = held.get(name, {}).get((flavor["name"], one["name"]), 0)
                if told != real:
                    yield f"I11: {name} counts {told} of {one['name']}, its workloads hold {real}"


def strangers(census: Census) -> Iterator[str]:
    """I13 and I11: owners that are not there, and pods that are not where their slot is."""
    uids = {one["metadata"]["uid"]: one for resource in (*_OWNERS, PODS, WORKLOADS) for one in census.all(resource)}
    for resource in (PODS, WORKLOADS):
        for one in census.all(resource):
            for owner in one["metadata"].get("ownerReferences") or ():
                if owner["uid"] not in uids:
                    yield f"I13: {object_key(resource, one)} belongs to {owner['kind']} {owner['name']}, which is gone"
    for workload in census.all(WORKLOADS):
        if not has_condition(workload, "Admitted") or has_condition(workload, "Finished"):
            continue
        try:
            slots = recorded_slots(Fields(workload))
        except InvalidObject as problem:
            yield f"I11: {object_key(WORKLOADS, workload)}: {problem}"
            continue
        nodes = {slot.node for given in slots.values() for slot in given}
        owners = {one["uid"] for one in workload["metadata"].get("ownerReferences") or ()}
        for pod in census.all(PODS):
            node = pod["spec"].get("nodeName")
            is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if node and not is_over and _owners(pod) & owners and node not in nodes:
                yield f"I11: {object_key(PODS, pod)} is on {node}, its workload has {sorted(nodes)}"


_OWNERS = (JOBS, DEPLOYMENTS, "replicasets.apps", "cronjobs.batch", "nodes")


def dead_locks(census: Census) -> Iterator[str]:
    """I6: leases of nodes without a holder or an end."""
    for lease in census.all(LEASES):
        spec = lease.get("spec") or {}
        if not spec.get("holderIdentity") or not spec.get("leaseDurationSeconds") or not spec.get("renewTime"):
            yield f"I6: {object_key(LEASES, lease)} says {spec}"
