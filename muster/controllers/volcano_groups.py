"""Makes a PodGroup of Volcano's for pods of its scheduler that name none, and writes its name on them. Run by a loop.

As Volcano does it: the pods of one controller share a group, and a pod by itself has one of its own; the group goes
with its owner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from muster.controllers.belonging import PODS, workload_of
from muster.controllers.group_objects import names_group
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.dialects.volcano.jobs import group_of_pod
from muster.dialects.volcano.names import GROUP_NAMES, POD_GROUPS, SCHEDULER
from muster.model.fields import Fields
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key


class GroupMaker:
    """Looks at one pod at a time."""

    name = "volcano groups"

    def __init__(self, schedulers: Collection[str]) -> None:
        self._is_ours = SCHEDULER in schedulers

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        """Pods that are for this scheduler and name no group."""
        if self._is_ours and seen.key.resource == PODS and seen.now is not None and _lacks_group(seen.now):
            yield seen.key

    async def reconcile(self, turn: Turn) -> None:
        pod = turn.view.get(turn.key)
        if pod is None or not _lacks_group(pod) or workload_of(pod, turn.view) is not None:
            return
        group = group_of_pod(Fields(pod))
        name = group["metadata"]["name"]
        if turn.view.record(Key(POD_GROUPS, turn.key.namespace, name)) is None:
            with suppress(AlreadyExists):  # for another pod of the same owner
                await turn.create(POD_GROUPS, group)
        metadata = pod["metadata"]
        annotations = {**(metadata.get("annotations") or {}), GROUP_NAMES[0]: name}
        await turn.update(turn.key, {**pod, "metadata": {**metadata, "annotations": annotations}})


def _lacks_group(pod: Object) -> bool:
    return pod["spec"].get("schedulerName") == SCHEDULER and not names_group(pod) and not is_deleting(pod)
