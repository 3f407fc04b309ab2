"""hcclrank: numbers the pods of a job for Ascend's communication. Volcano's plugin of that name."""

from __future__ import annotations

from muster.dialects.volcano.job.plugins.contract import Flags, JobPlugin, Object
from muster.dialects.volcano.job.pods import PodPlace, containers_of

RANK = "hccl/rankIndex"


def _add(pod: Object, place: PodPlace, flags: Flags) -> None:
    notes = pod["metadata"]["annotations"]
    if RANK in notes:
        return
    given = (
        one.get("value")
        for container in containers_of(pod, has_init=False)
        for one in container.get("env") or ()
        if one.get("name") == "RANK" and one.get("value")
    )
    rank = next(given, None)
    master = place.job.task(flags["master"])
    if rank is None and place.task.name == flags["master"]:
        rank = str(place.index)
    elif rank is None and place.task.name == flags["worker"]:
        rank = str((master.replicas if master is not None else 0) + place.index)
    if rank is not None:
        notes[RANK] = rank


PLUGIN = JobPlugin(name="hcclrank", flags={"master": "master", "worker": "worker"}, add=_add, is_told=False)
