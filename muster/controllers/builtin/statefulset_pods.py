"""The pods and claims of a stateful set: numbered, and with names that follow from the number. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from muster.controllers.builtin.owners import reference_to
from muster.controllers.builtin.pods import pod_from
from muster.controllers.builtin.revisions import REVISION_LABEL, template_in
from muster.store.kinds import Object

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


def number_of(owner: Object, pod: Object) -> int | None:
    """The number of a pod; `None` when its name is not one that the set gives."""
    name, dash, digits = str(pod["metadata"]["name"]).rpartition("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 10
    return int(digits) if dash and is_number and name == owner["metadata"]["name"] else None


def first_number(owner: Object) -> int:
    """The number of the first pod."""
    return int((owner["spec"].get("ordinals") or {}).get("start") or 0)


def pod_of(owner: Object, number: int, revision: Object) -> Object:
    """A pod as a revision of the set describes it."""
    name = f"{owner['metadata']['name']}-{number}"
    labels = {POD_NAME: name, POD_INDEX: str(number), REVISION_LABEL: revision["metadata"]["name"]}
    pod = pod_from(template_in(revision), owner, name=name, labels=labels)
    pod["metadata"]["generateName"] = f"{owner['metadata']['name']}-"
    spec = pod["spec"]
    spec["hostname"] = name
    spec["subdomain"] = owner["spec"].get("serviceName") or ""
    own = volumes_of(owner, number)
    if own:
        named = {one["name"] for one in own}
        spec["volumes"] = [*own, *(one for one in spec.get("volumes") or () if one["name"] not in named)]
    return pod


def volumes_of(owner: Object, number: int) -> list[Object]:
    """The volumes of a pod that are its own claims."""
    return [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(owner, template, number)},
        }
        for template in owner["spec"].get("volumeClaimTemplates") or ()
    ]


def claim_name(owner: Object, template: Object, number: int) -> str:
    """The name of a claim of one pod."""
    return f"{template['metadata']['name']}-{owner['metadata']['name']}-{number}"


def claims_of(owner: Object, number: int) -> Iterator[Object]:
    """The claims of a pod as they are made, with the owner that the retention policy gives them."""
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        metadata = deepcopy(template["metadata"])
        metadata["name"] = claim_name(owner, template, number)
        metadata["namespace"] = owner["metadata"]["namespace"]
        selected = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
        metadata["labels"] = {**(metadata.get("labels") or {}), **selected}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": deepcopy(template.get("spec") or {}),
        }
        yield with_retention(owner, claim, None)


def with_retention(owner: Object, claim: Object, leaving: Object | None) -> Object:
    """A claim with the owners that make it go when it should; `leaving` is its pod when the set shrinks."""
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    goes_with_set = policy.get("whenDeleted") == "Delete"
    goes_with_pod = policy.get("whenScaled") == "Delete" and leaving is not None
    metadata = claim["metadata"]
    kept = [one for one in metadata.get("ownerReferences") or () if one["kind"] not in ("Pod", "StatefulSet")]
    if goes_with_pod and leaving is not None:
        kept.append(reference_to(leaving))
    elif goes_with_set:
        kept.append(reference_to(owner))
    if kept == (metadata.get("ownerReferences") or []):
        return claim
    rest = {name: value for name, value in metadata.items() if name != "ownerReferences"}
    return {**claim, "metadata": {**rest, "ownerReferences": kept} if kept else rest}


def has_identity(owner: Object, pod: Object, number: int) -> bool:
    """Whether a pod is labelled by its number and has the volumes of it."""
    labels = pod["metadata"].get("labels") or {}
    claims = {
        one["name"]: (one.get("persistentVolumeClaim") or {}).get("claimName")
        for one in pod["spec"].get("volumes") or ()
    }
    is_named = labels.get(POD_NAME) == pod["metadata"]["name"] and labels.get(POD_INDEX) == str(number)
    own = volumes_of(owner, number)
    return is_named and all(claims.get(one["name"]) == one["persistentVolumeClaim"]["claimName"] for one in own)
