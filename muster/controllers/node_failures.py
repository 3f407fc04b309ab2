"""Tells of the nodes that workloads have lost: the engine moves their pods, or evicts them where there is no room.

Started by `app` beside the scheduler. A node is lost to a workload once it has been gone or not ready for a while and
none of the workload's pods there is expected to go on. While all nodes are well this costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.controllers.belonging import PODS, WORKLOADS, has_condition, object_key, pods_of, workload_of
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.dialects.kueue.topology_assignment import domains_of
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.times import parse_moment
from muster.model.topology import HOSTNAME
from muster.store.kinds import Object
from muster.store.records import Key

NODES = "nodes"
DELAY_S = 30.0  # that a node may be away
LOST_MOST = 8  # nodes that a status may tell of; the others are told of when these are replaced
_ALL = Key("nodefailures", "", "all")  # all workloads are looked at when nodes go or come
_ENDED = ("Succeeded", "Failed")


class NodeFailures:
    """The controller of lost nodes."""

    name = "node failures"

    def __init__(self, *, waits_for_pods: bool = True) -> None:
        self._waits_for_pods = waits_for_pods
        self._gone_since_s: dict[str, float] = {}  # nodes that workloads have places on and that are not there
        self._is_any_away = False

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == NODES:
            if _is_ready(seen.before) != _is_ready(seen.now):
                yield _ALL
        elif not self._is_any_away:
            return
        elif seen.key.resource == WORKLOADS:
            yield seen.key
        elif seen.key.resource == PODS and (pod := seen.now or seen.before) is not None:
            node = pod["spec"].get("nodeName") or ""
            if node and not _is_ready(view.get(Key(NODES, "", node))) and (key := workload_of(pod, view)) is not None:
                yield key

    async def reconcile(self, turn: Turn) -> None:
        if turn.key != _ALL:
            await self._tell(turn, turn.key)
            return
        there = {node["metadata"]["name"]: _is_ready(node) for node in turn.view.all(NODES)}
        self._gone_since_s = {name: since for name, since in self._gone_since_s.items() if name not in there}
        self._is_any_away = True  # until all have been looked at
        for workload in list(turn.view.all(WORKLOADS)):
            await self._tell(turn, object_key(WORKLOADS, workload))
        self._is_any_away = bool(self._gone_since_s) or not all(there.values())

    async def _tell(self, turn: Turn, key: Key) -> None:
        workload = turn.view.get(key)
        if workload is None or not _runs(workload):
            return
        known = [one["name"] for one in workload["status"].get("unhealthyNodes") or ()]
        away = [node for node in sorted(_nodes_of(workload)) if self._is_away(turn, node)]
        live = self._with_live_pods(key, workload, turn.view) if away else set()
        lost = [node for node in away if node not in live][:LOST_MOST]
        if lost == known:
            return
        status = {**workload["status"], "unhealthyNodes": [{"name": name} for name in lost]}
        await turn.update_status(key, {**workload, "status": status})

    def _is_away(self, turn: Turn, name: str) -> bool:
        """Whether a node has been away for long enough; if it is not clear yet it is looked at again."""
        node = turn.view.get(Key(NODES, "", name))
        if _is_ready(node):
            return False
        if node is None:
            since_s = self._gone_since_s.setdefault(name, turn.now_s)
            self._is_any_away = True
        else:
            since_s = _unready_since_s(node)
        left_s = since_s + DELAY_S - turn.now_s
        if left_s > 0:
            turn.look_again(left_s)
        return left_s <= 0

    def _with_live_pods(self, key: Key, workload: Object, view: View) -> set[str]:
        """The nodes on which a workload has pods that neither have ended nor were told to go."""
        if not self._waits_for_pods:
            return set()
        return {
            str(pod["spec"].get("nodeName"))
            for pod in pods_of(key, workload, view).values()
            if (pod.get("status") or {}).get("phase") not in _ENDED and not pod["metadata"].get("deletionTimestamp")
        }


def _runs(workload: Object) -> bool:
    is_over = has_condition(workload, "Evicted") or has_condition(workload, "Finished")
    return has_condition(workload, "Admitted") and not is_over and not workload["metadata"].get("deletionTimestamp")


def _nodes_of(workload: Object) -> set[str]:
    """The nodes that a topology has given to a workload.

    Other places stay as they are: a binding to one that is still under way would come after the place was given away.
    """
    try:
        return set(_hosts_of(Fields(workload)))
    except InvalidObject:
        return set()  # what cannot be read is nobody's place


def _hosts_of(workload: Fields) -> Iterator[str]:
    for given in workload.child("status").child("admission").children("podSetAssignments"):
        place = given.child("topologyAssignment")
        if place.texts("levels")[-1:] == (HOSTNAME,):
            yield from (domain.values[-1] for domain in domains_of(place.values, place.path))


def _is_ready(node: Object | None) -> bool:
    return node is not None and has_condition(node, "Ready")


def _unready_since_s(node: Object) -> float:
    for one in (node.get("status") or {}).get("conditions") or ():
        if one.get("type") == "Ready" and one.get("lastTransitionTime"):
            return parse_moment(one["lastTransitionTime"], "status.conditions")
    return 0.0
