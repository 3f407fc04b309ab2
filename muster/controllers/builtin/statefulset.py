"""Stateful sets: pods with numbers, names and volumes that stay. Listed in `workloads`."""

from __future__ import annotations

from collections.abc import Iterator

from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.making import create_all
from muster.controllers.builtin.owners import claimed, is_controlled_by, key_of, owner_keys, selector_of
from muster.controllers.builtin.pods import PODS, is_active, soonest_s
from muster.controllers.builtin.revisions import REVISIONS, history, revision_label, truncate
from muster.controllers.builtin.statefulset_pods import (
    POD_INDEX,
    POD_NAME,
    claim_name,
    claims_of,
    has_identity,
    number_of,
    volumes_of,
    with_retention,
)
from muster.controllers.builtin.statefulset_steps import Steps, Versions, stateful_steps
from muster.controllers.builtin.statuses import put_status
from muster.controllers.events import NORMAL, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key
from muster.store.rules import Deletion

STATEFUL_SETS = "statefulsets.apps"
CLAIMS = "persistentvolumeclaims"
_HASH = "controller.kubernetes.io/hash"


class StatefulSets:
    """The controller of stateful sets."""

    name = "statefulset"

    def __init__(self) -> None:
        self._events = Events("statefulset-controller")

    def keys(self, seen: Seen, view: View) -> Iterator[Key]:
        if seen.key.resource == STATEFUL_SETS:
            yield seen.key
        elif seen.key.resource in (PODS, REVISIONS):
            yield from owner_keys(seen, view, STATEFUL_SETS, "StatefulSet")

    async def reconcile(self, turn: Turn) -> None:
        owner = turn.view.get(turn.key)
        if owner is None:
            return
        selector = selector_of(owner)
        if selector is None or not selector.requirements:
            return
        found = await claimed(turn, owner, PODS, selector)
        pods = [pod for pod in found if number_of(owner, pod) is not None]
        known = [one for one in turn.view.owned(owner["metadata"]["uid"], REVISIONS) if is_controlled_by(one, owner)]
        past = await history(turn, owner, known, _HASH)
        current = past.named((owner.get("status") or {}).get("currentRevision", "")) or past.newest
        versions = Versions(current, past.newest, past.collisions)
        steps = stateful_steps(owner, pods, versions, turn.now_s)
        if not is_deleting(owner):
            await self._carry_out(turn, owner, pods, steps)
        least_s = owner["spec"].get("minReadySeconds") or 0
        if (wait_s := soonest_s(filter(is_active, pods), least_s, turn.now_s)) is not None:
            turn.look_again(wait_s)
        await put_status(turn, owner, steps.status)
        live = {versions.current_name, versions.update_name, *map(revision_label, pods)}
        await truncate(turn, owner, past, live)

    async def _carry_out(self, turn: Turn, owner: Object, pods: list[Object], steps: Steps) -> None:
        leaving = {number for number, _ in steps.leaving}
        await all_done(self._mend(turn, owner, pod, leaving) for pod in pods if not is_deleting(pod))
        for number, _ in steps.create:
            await _make_claims(turn, owner, number)
        made, problem = await create_all(turn, PODS, [pod for _, pod in steps.create])
        await self._tell(turn, owner, "create", made)
        if problem is not None:
            raise problem
        await all_done(turn.delete(key_of(PODS, pod), Deletion(uid=pod["metadata"]["uid"])) for pod in steps.delete)
        await self._tell(turn, owner, "delete", steps.delete)

    async def _tell(self, turn: Turn, owner: Object, what: str, pods: list[Object]) -> None:
        set_name = owner["metadata"]["name"]
        for pod in pods:
            message = f"{what} Pod {pod['metadata']['name']} in StatefulSet {set_name} successful"
            await self._events.tell(turn, owner, Note(NORMAL, f"Successful{what.capitalize()}", message))

    async def _mend(self, turn: Turn, owner: Object, pod: Object, leaving: set[int]) -> None:
        """Give a pod back the labels and claims of its number, and its claims the owners that they should have."""
        number = number_of(owner, pod)
        assert number is not None, "only pods with a number are kept"
        if not has_identity(owner, pod, number):
            own = {POD_NAME: pod["metadata"]["name"], POD_INDEX: str(number)}
            labels = {**(pod["metadata"].get("labels") or {}), **own}
            await turn.update(key_of(PODS, pod), {**pod, "metadata": {**pod["metadata"], "labels": labels}})
        if volumes_of(owner, number):
            await _make_claims(turn, owner, number)
            await _retain(turn, owner, number, pod if number in leaving else None)


async def _make_claims(turn: Turn, owner: Object, number: int) -> None:
    for claim in claims_of(owner, number):
        if turn.view.get(key_of(CLAIMS, claim)) is None:
            try:
                await turn.create(CLAIMS, claim)
            except AlreadyExists:
                continue  # it is on its way here


async def _retain(turn: Turn, owner: Object, number: int, leaving: Object | None) -> None:
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        key = Key(CLAIMS, turn.key.namespace, claim_name(owner, template, number))
        claim = turn.view.get(key)
        if claim is not None and (wanted := with_retention(owner, claim, leaving)) is not claim:
            await turn.update(key, wanted)
