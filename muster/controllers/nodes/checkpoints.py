"""What pods say about saving their work, and how far simulated ones had come when they had to leave.

The names are read by every kind of node. A simulated pod has nothing to save but the time it has run: that is kept in a
config map of its job, so that the pod that takes its place has so much less to do.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.controllers.belonging import INDEX_LABELS
from muster.controllers.loop import Turn
from muster.controllers.view import View
from muster.model.times import parse_moment
from muster.store.kinds import Object
from muster.store.records import Key

COMMAND, SIGNAL, GRACE = (f"muster.dev/checkpoint-{name}" for name in ("command", "signal", "grace"))
CONFIG_MAPS = "configmaps"
SHARED = "all"


def saves_work(pod: Object) -> bool:
    """Whether a pod says how it saves its work."""
    annotations = pod["metadata"].get("annotations") or {}
    return COMMAND in annotations or SIGNAL in annotations


def owner_of(pod: Object) -> Object | None:
    """Whoever makes a pod anew when it has left."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)


def index_of(pod: Object) -> str:
    """Which of its owner's pods it is; those that have no number go by one name."""
    labels = pod["metadata"].get("labels") or {}
    return next((str(labels[name]) for name in INDEX_LABELS if labels.get(name)), SHARED)


def done_s(pod: Object, view: View) -> float:
    """How long the pods in whose place a simulated one stands have run."""
    owner = owner_of(pod)
    if owner is None or not saves_work(pod):
        return 0.0
    kept = view.get(_key(pod, owner)) or {}
    try:
        return max(0.0, float((kept.get("data") or {}).get(index_of(pod), "0")))
    except ValueError:
        return 0.0  # somebody has written something else there


async def save(turn: Turn, pod: Object) -> None:
    """Keep how far a simulated pod has come that was asked to leave and has ended; again, nothing changes."""
    owner = owner_of(pod)
    if owner is None or not saves_work(pod):
        return
    key = _key(pod, owner)
    kept = turn.view.get(key)
    before: Mapping[str, str] = (kept or {}).get("data") or {}
    index, uid = index_of(pod), pod["metadata"]["uid"]
    if before.get(f"{index}.saved-by") == uid:
        return
    data = {**before, index: f"{_whole_s(turn.view, pod, owner):g}", f"{index}.saved-by": uid}
    if kept is not None:
        await turn.update(key, {**kept, "data": data})
        return
    reference = {name: owner[name] for name in ("apiVersion", "kind", "name", "uid")}
    metadata = {"name": key.name, "namespace": key.namespace, "ownerReferences": [reference]}
    await turn.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _whole_s(view: View, pod: Object, owner: Object) -> float:
    """What is done with this pod's part. Of several without numbers nobody knows what each began with."""
    before_s, ran_s = done_s(pod, view), _ran_s(pod)
    has_others = len(view.owned(owner["uid"], "pods")) > 1
    return max(before_s, ran_s) if index_of(pod) == SHARED and has_others else before_s + ran_s


def _key(pod: Object, owner: Object) -> Key:
    return Key(CONFIG_MAPS, pod["metadata"]["namespace"], f"checkpoint-{owner['uid']}")


def _ran_s(pod: Object) -> float:
    """How long the present run of its first container has taken until it was asked to leave."""
    metadata, statuses = pod["metadata"], (pod.get("status") or {}).get("containerStatuses") or ()
    running = ((statuses[0].get("state") or {}).get("running") or {}) if statuses else {}
    if not running.get("startedAt"):
        return 0.0
    asked_s = parse_moment(metadata["deletionTimestamp"], "metadata.deletionTimestamp")
    asked_s -= metadata.get("deletionGracePeriodSeconds") or 0
    return max(0.0, asked_s - parse_moment(running["startedAt"], "status"))
