"""Claims of pods' ephemeral volumes: made from the template in the pod, and gone with it. Listed in `workloads`."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from muster.controllers.builtin.owners import controller_of, is_controlled_by, reference_to
from muster.controllers.builtin.pods import PODS, is_active
from muster.controllers.events import WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.controllers.volume_matching import CLAIMS
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object
from muster.store.records import Key


def ephemeral_claims(pod: Object) -> Iterator[Object]:
    """The claims that a pod's templates ask for."""
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is None:
            continue
        metadata: Object = {
            "name": f"{pod['metadata']['name']}-{volume['name']}",
            "namespace": pod["metadata"]["namespace"],
            "ownerReferences": [reference_to(pod)],
        }
        given = template.get("metadata") or {}
        metadata |= {part: dict(given[part]) for part in ("labels", "annotations") if given.get(part)}
        spec = deepcopy(template["spec"])
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


class EphemeralClaims:
    """The controller of ephemeral volumes."""

    name = "ephemeral volume"

    def __init__(self) -> None:
        self._events = Events("ephemeral_volume")

    def keys(self, seen: Seen, _view: View) -> Iterator[Key]:
        if seen.key.resource == PODS and seen.now is not None:
            if any(one.get("ephemeral") for one in seen.now["spec"].get("volumes") or ()):
                yield seen.key
        elif seen.key.resource == CLAIMS and seen.before is not None:
            owner = controller_of(seen.before)
            if owner is not None and owner["kind"] == "Pod":
                yield Key(PODS, seen.key.namespace, owner["name"])

    async def reconcile(self, turn: Turn) -> None:
        pod = turn.view.get(turn.key)
        if pod is None or not is_active(pod):
            return
        for claim in ephemeral_claims(pod):
            name = claim["metadata"]["name"]
            known = turn.view.get(Key(CLAIMS, turn.key.namespace, name))
            if known is None:
                try:
                    await turn.create(CLAIMS, claim)
                except AlreadyExists:
                    turn.look_again(0.0)  # it is seen soon
            elif not is_controlled_by(known, pod):
                owner = f"{turn.key.namespace}/{turn.key.name}"
                text = f"PVC {turn.key.namespace}/{name} was not created for pod {owner} (pod is not owner)"
                note = Note(WARNING, "FailedBinding", f"ephemeral volume controller: {text}")
                await self._events.tell(turn, pod, note)
