"""Volumes and claims: binds each claim to a volume, makes volumes of the local class, and reclaims them afterwards.

A claim and its volume name each other; who of the two was written when the server died is finished from there. Listed
in `workloads`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.controllers.builtin.owners import key_of
from muster.controllers.events import NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.provisioning import (
    PROVISIONED_BY,
    PROVISIONER,
    hindrance,
    provisioned_volume,
    reference_to_claim,
)
from muster.controllers.view import Seen, Terms, View
from muster.controllers.volume_matching import (
    CLAIMS,
    CLASSES,
    IS_BOUND,
    NOT_PROVISIONED,
    SELECTED_NODE,
    VOLUMES,
    annotations_of,
    best_volume,
    claim_term,
    class_of,
    is_bound,
    is_delayed,
    is_for,
    mismatch,
    size_of,
)
from muster.model.times import moment_text
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.records import Key

BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"
_PROVISIONERS = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_WAITING, _FREE, _VOLUME, _CLAIM = "waiting", "free", "volume", "claim"

INDEXES: Mapping[tuple[str, str], Terms] = {
    (CLAIMS, _WAITING): lambda claim: () if is_bound(claim) else (class_of(claim),),
    (CLAIMS, _VOLUME): lambda claim: [claim["spec"]["volumeName"]] if claim["spec"].get("volumeName") else (),
    (VOLUMES, _FREE): lambda volume: () if claim_term(volume) else (class_of(volume),),
    (VOLUMES, _CLAIM): lambda volume: [claim_term(volume)] if claim_term(volume) else (),
}
RESOURCES = frozenset({CLAIMS, VOLUMES, CLASSES, "nodes"})


class Volumes:
    """The controller of claims and volumes: a key is either."""

    name = "persistentvolume"

    def __init__(self) -> None:
        self._events = Events("persistentvolume-controller")

    def keys(self, seen: Seen, view: View) -> Iterator[Key]:
        if seen.key.resource == CLAIMS:
            yield seen.key
            named = view.with_term(VOLUMES, _CLAIM, f"{seen.key.namespace}/{seen.key.name}")
            yield from (key_of(VOLUMES, one) for one in named)
        elif seen.key.resource == VOLUMES:
            yield seen.key
            yield from (key_of(CLAIMS, one) for one in view.with_term(CLAIMS, _VOLUME, seen.key.name))
            yield from (_claim_of(one) for one in (seen.before, seen.now) if one is not None and claim_term(one))
            if seen.now is not None and _is_free(seen.now) and _offer(seen.now) != _offer(seen.before):
                yield from (key_of(CLAIMS, one) for one in view.with_term(CLAIMS, _WAITING, class_of(seen.now)))
        elif seen.key.resource == CLASSES and seen.now is not None:
            yield from (key_of(CLAIMS, one) for one in view.with_term(CLAIMS, _WAITING, seen.key.name))

    async def reconcile(self, turn: Turn) -> None:
        given = turn.view.get(turn.key)
        if given is None:
            return
        if turn.key.resource == VOLUMES:
            await self._settle_volume(turn, given)
        elif is_bound(given):
            await self._keep(turn, given)
        elif not is_deleting(given):
            await self._find_volume(turn, given)

    # Claims that wait ------------------------------------------------------------------------------------------------

    async def _find_volume(self, turn: Turn, claim: Object) -> None:
        name = claim["spec"].get("volumeName")
        if name:
            await self._take_named(turn, claim, turn.view.get(Key(VOLUMES, "", name)))
            return
        class_name = class_of(claim)
        storage_class = turn.view.get(Key(CLASSES, "", class_name)) if class_name else None
        node = turn.view.get(Key("nodes", "", annotations_of(claim).get(SELECTED_NODE) or ""))
        is_early = is_delayed(storage_class) and node is None
        metadata = claim["metadata"]
        named = turn.view.with_term(VOLUMES, _CLAIM, f"{metadata['namespace']}/{metadata['name']}")
        free = [] if is_early else turn.view.with_term(VOLUMES, _FREE, class_name)
        labels = None if node is None else node["metadata"].get("labels") or {}
        if volume := best_volume(claim, [*named, *free], labels):
            await self._bind(turn, claim, volume)
            return
        await self._put_phase(turn, claim, "Pending")
        if is_delayed(storage_class) and SELECTED_NODE in annotations_of(claim) and _is_in_vain(storage_class, node):
            await turn.update(turn.key, _annotated(turn.view.get(turn.key) or claim, {SELECTED_NODE: None}))
        elif is_early:
            text = "waiting for first consumer to be created before binding"
            await self._tell(turn, claim, NORMAL, "WaitForFirstConsumer", text)
        elif class_name:
            await self._provision(turn, claim, storage_class, node if is_delayed(storage_class) else None)
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            await self._tell(turn, claim, NORMAL, "FailedBinding", text)

    async def _take_named(self, turn: Turn, claim: Object, volume: Object | None) -> None:
        """Bind a claim to the volume that it names, if that may be."""
        if volume is None:
            await self._put_phase(turn, claim, "Pending")
        elif is_for(volume, claim):
            await self._bind(turn, claim, volume)
        elif claim_term(volume):
            await self._put_phase(turn, claim, "Pending")
            text = f'volume "{volume["metadata"]["name"]}" already bound to a different claim.'
            await self._tell(turn, claim, WARNING, "FailedBinding", text)
        elif problem := mismatch(volume, claim):
            await self._put_phase(turn, claim, "Pending")
            text = f'Cannot bind to requested volume "{volume["metadata"]["name"]}": {problem}'
            await self._tell(turn, claim, WARNING, "VolumeMismatch", text)
        else:
            await self._bind(turn, claim, volume)

    async def _provision(self, turn: Turn, claim: Object, storage_class: Object | None, node: Object | None) -> None:
        name = class_of(claim)
        if storage_class is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            await self._tell(turn, claim, WARNING, "ProvisioningFailed", text)
            return
        provisioner = storage_class["provisioner"]
        if provisioner == NOT_PROVISIONED:
            text = f"no volume plugin matched name: {provisioner}"
            await self._tell(turn, claim, WARNING, "ProvisioningFailed", text)
            return
        if any(annotations_of(claim).get(one) != provisioner for one in _PROVISIONERS):
            claim = await turn.update(turn.key, _annotated(claim, dict.fromkeys(_PROVISIONERS, provisioner)))
        if provisioner != PROVISIONER:
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by"
                " the system administrator. If volume creation is delayed, please verify that the provisioner is"
                " running and correctly registered."
            )
            await self._tell(turn, claim, NORMAL, "ExternalProvisioning", text)
        elif problem := hindrance(claim, storage_class):
            text = f'failed to provision volume with StorageClass "{name}": {problem}'
            await self._tell(turn, claim, WARNING, "ProvisioningFailed", text)
        else:
            await self._make(turn, claim, provisioned_volume(claim, storage_class, node))

    async def _make(self, turn: Turn, claim: Object, volume: Object) -> None:
        try:
            made = await turn.create(VOLUMES, volume)
        except AlreadyExists:
            turn.look_again(0.0)  # it was made before its answer was lost, and is seen soon
            return
        text = f"Successfully provisioned volume {made['metadata']['name']}"
        await self._tell(turn, claim, NORMAL, "ProvisioningSucceeded", text)
        await self._bind(turn, claim, made)

    # Both sides of a bond --------------------------------------------------------------------------------------------

    async def _bind(self, turn: Turn, claim: Object, volume: Object) -> None:
        """Have a volume and a claim name each other; each write is left out where it was made before."""
        volume = await self._claimed(turn, claim, volume)
        await _put_volume_phase(turn, volume, "Bound")
        is_own_choice = not claim["spec"].get("volumeName")
        if is_own_choice or not is_bound(claim):
            notes = {IS_BOUND: "yes", **({BOUND_BY_US: "yes"} if is_own_choice else {})}
            spec = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
            claim = await turn.update(turn.key, _annotated({**claim, "spec": spec}, notes))
        await self._put_bound(turn, claim, volume)

    async def _claimed(self, turn: Turn, claim: Object, volume: Object) -> Object:
        reference = volume["spec"].get("claimRef") or {}
        if reference.get("uid") == claim["metadata"]["uid"]:
            return volume
        new = {**volume, "spec": {**volume["spec"], "claimRef": {**reference, **reference_to_claim(claim)}}}
        if not reference:
            new = _annotated(new, {BOUND_BY_US: "yes"})
        return await turn.update(key_of(VOLUMES, volume), new)

    async def _put_bound(self, turn: Turn, claim: Object, volume: Object) -> None:
        volume = await self._grown(turn, claim, volume)
        before = claim.get("status") or {}
        held = {"accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"], "phase": "Bound"}
        if {**before, **held} != before:
            await turn.update_status(turn.key, {**claim, "status": {**before, **held}})

    async def _grown(self, turn: Turn, claim: Object, volume: Object) -> Object:
        """The volume of a claim that has grown: a folder of ours holds as much as the disk, so it grows at once."""
        if annotations_of(volume).get(PROVISIONED_BY) != PROVISIONER or not size_of(volume) < size_of(claim):
            return volume
        spec = {**volume["spec"], "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]}}
        volume = await turn.update(key_of(VOLUMES, volume), {**volume, "spec": spec})
        await self._tell(turn, claim, NORMAL, "VolumeResizeSuccessful", "Resize volume succeeded")
        return volume

    async def _keep(self, turn: Turn, claim: Object) -> None:
        """See that a claim that was bound still has its volume."""
        name = claim["spec"].get("volumeName")
        volume = turn.view.get(Key(VOLUMES, "", name or ""))
        if volume is not None and is_for(volume, claim):
            await self._bind(turn, claim, volume)
        elif not name:
            await self._lose(turn, claim, "ClaimLost", "Bound claim has lost reference to PersistentVolume")
        elif volume is None:
            await self._lose(turn, claim, "ClaimLost", "Bound claim has lost its PersistentVolume")
        elif not claim_term(volume):
            await self._bind(turn, claim, volume)
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(turn, claim, "ClaimMisbound", text)

    async def _lose(self, turn: Turn, claim: Object, reason: str, text: str) -> None:
        if (claim.get("status") or {}).get("phase") == "Lost":
            return
        await turn.update_status(turn.key, {**claim, "status": {"phase": "Lost"}})
        told = f"{text}. Data on the volume is lost!" if reason == "ClaimLost" else text
        await self._tell(turn, claim, WARNING, reason, told)

    async def _put_phase(self, turn: Turn, claim: Object, phase: str) -> None:
        if claim.get("status") != {"phase": phase}:
            await turn.update_status(turn.key, {**claim, "status": {"phase": phase}})

    # Volumes ---------------------------------------------------------------------------------------------------------

    async def _settle_volume(self, turn: Turn, volume: Object) -> None:
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            if not is_deleting(volume):
                await _put_volume_phase(turn, volume, "Available")
            return
        claim = turn.view.get(_claim_of(volume))
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            await self._reclaim(turn, volume)
        elif claim["spec"].get("volumeName") == volume["metadata"]["name"]:
            await _put_volume_phase(turn, volume, "Bound")
        elif claim["spec"].get("volumeName"):
            await self._let_go(turn, volume)  # the claim has chosen another one

    async def _let_go(self, turn: Turn, volume: Object) -> None:
        if annotations_of(volume).get(PROVISIONED_BY) == PROVISIONER:
            await turn.delete(turn.key)
            return
        spec = dict(volume["spec"])
        reference = {one: value for one, value in spec.pop("claimRef").items() if one in ("namespace", "name")}
        if BOUND_BY_US not in annotations_of(volume):
            spec["claimRef"] = reference
        freed = await turn.update(turn.key, _annotated({**volume, "spec": spec}, {BOUND_BY_US: None}))
        await _put_volume_phase(turn, freed, "Available")

    async def _reclaim(self, turn: Turn, volume: Object) -> None:
        """A volume whose claim is gone: kept or deleted, as it says."""
        if (volume.get("status") or {}).get("phase") == "Failed":
            return
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        volume = await _put_volume_phase(turn, volume, "Released")
        maker = annotations_of(volume).get(PROVISIONED_BY)
        if policy == "Retain" or is_deleting(volume):
            return
        if policy == "Recycle":
            await self._fail(turn, volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
        elif maker == PROVISIONER:
            await turn.delete(turn.key)
        elif not maker:  # another provisioner deletes what it has made
            text = f'error getting deleter volume plugin for volume "{volume["metadata"]["name"]}"'
            await self._fail(turn, volume, "VolumeFailedDelete", f"{text}: no deletable volume plugin matched")

    async def _fail(self, turn: Turn, volume: Object, reason: str, text: str) -> None:
        await _put_volume_phase(turn, volume, "Failed", text)
        await self._tell(turn, volume, WARNING, reason, text)

    async def _tell(self, turn: Turn, about: Object, kind: str, reason: str, text: str) -> None:
        await self._events.tell(turn, about, Note(kind, reason, text))


async def _put_volume_phase(turn: Turn, volume: Object, phase: str, message: str = "") -> Object:
    before = volume.get("status") or {}
    if before.get("phase") == phase:
        return volume
    status = {"phase": phase, "lastPhaseTransitionTime": moment_text(turn.now_s)}
    if message:
        status["message"] = message
    return await turn.update_status(key_of(VOLUMES, volume), {**volume, "status": status})


def _claim_of(volume: Object) -> Key:
    reference = volume["spec"]["claimRef"]
    return Key(CLAIMS, reference.get("namespace") or "", reference.get("name") or "")


def _is_in_vain(storage_class: Object | None, node: Object | None) -> bool:
    """Whether the node that was chosen for a claim's first pod is gone, or has no volume for it: another is chosen."""
    return node is None or (storage_class is not None and storage_class["provisioner"] == NOT_PROVISIONED)


def _is_free(volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") == "Available" and not is_deleting(volume)


def _offer(volume: Object | None) -> object:
    """What of a volume decides on who may have it."""
    if volume is None:
        return None
    return _is_free(volume), volume["spec"], volume["metadata"].get("labels")


def _annotated(given: Object, notes: Mapping[str, str | None]) -> Object:
    """An object with more annotations; those without a value are taken away."""
    every = {**annotations_of(given), **notes}
    kept = {name: value for name, value in every.items() if value is not None}
    rest = {name: value for name, value in given["metadata"].items() if name != "annotations"}
    return {**given, "metadata": {**rest, "annotations": kept} if kept else rest}
