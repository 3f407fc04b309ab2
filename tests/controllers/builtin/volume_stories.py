"""Stories of claims and volumes, and what comes of each: played to Muster's controllers and to the real ones.

Names begin with the number of their story, so that the stories of one cluster do not meet. `want` says the phase of
each claim and volume with what it is bound to, and `told` the reasons of the events about the claims.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes.client import Json
from tests.kubernetes.workload_sides import Side

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"
Act = tuple[str, str, Any]  # what, of which resource, the object or its name (and a change)


@dataclass(frozen=True, slots=True)
class Story:
    """What people do, one after the other, and what comes of it."""

    title: str
    acts: list[Act]
    want: dict[str, str]
    told: dict[str, set[str]] = field(default_factory=dict)


def volume(name: str, size: str = "1Gi", modes: str = "ReadWriteOnce", labels: Any = None, **spec: Any) -> Act:
    whole = {"capacity": {"storage": size}, "accessModes": modes.split(), "nfs": {"server": "s", "path": "/x"}, **spec}
    metadata = {"name": name, "labels": labels or {}}
    return "create", VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": whole}


def protected(name: str) -> Act:
    """A volume that stays while it is bound, as admission has it."""
    what, resource, given = volume(name)
    return what, resource, {**given, "metadata": {**given["metadata"], "finalizers": ["kubernetes.io/pv-protection"]}}


def claim(name: str, size: str = "1Gi", modes: str = "ReadWriteOnce", **spec: Any) -> Act:
    asked = {"accessModes": modes.split(), "resources": {"requests": {"storage": size}}, "storageClassName": "", **spec}
    metadata = {"name": name, "namespace": "x"}
    return "create", CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": asked}


def storage_class(name: str, provisioner: str, mode: str = "Immediate") -> Act:
    given = {"provisioner": provisioner, "volumeBindingMode": mode, "metadata": {"name": name}}
    return "create", CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **given}


def reference(name: str, **more: str) -> Json:
    return {"claimRef": {"namespace": "x", "name": name, **more}}


def gone(resource: str, name: str) -> Act:
    return "delete", resource, name


def changed(resource: str, name: str, change: Json) -> Act:
    return "patch", resource, (name, change)


SMALL, BIG = volume("small", "1Gi"), volume("big", "5Gi")
STORIES = [
    Story(
        "the smallest volume that is large enough",
        [BIG, volume("fit", "2Gi"), SMALL, claim("c", "2Gi")],
        {"c": "Bound fit", "fit": "Bound c", "big": "Available", "small": "Available"},
    ),
    Story("a volume that comes later", [claim("c"), BIG], {"c": "Bound big", "big": "Bound c"}),
    Story(
        "no volume has the access mode",
        [BIG, claim("c", modes="ReadWriteMany")],
        {"c": "Pending", "big": "Available"},
        {"c": {"FailedBinding"}},
    ),
    Story(
        "a volume with more access modes than needed",
        [volume("v", modes="ReadWriteOnce ReadOnlyMany ReadWriteMany"), claim("c", modes="ReadOnlyMany")],
        {"c": "Bound v", "v": "Bound c"},
    ),
    Story(
        "labels that the claim selects",
        [SMALL, volume("fast", "5Gi", labels={"disk": "fast"}), claim("c", selector={"matchLabels": {"disk": "fast"}})],
        {"c": "Bound fast", "fast": "Bound c", "small": "Available"},
    ),
    Story(
        "another volume mode",
        [volume("v", volumeMode="Block"), claim("c")],
        {"c": "Pending", "v": "Available"},
        {"c": {"FailedBinding"}},
    ),
    Story(
        "another class",
        [storage_class("k", "kubernetes.io/no-provisioner"), volume("v"), claim("c", storageClassName="k")],
        {"c": "Pending", "v": "Available"},
        {"c": {"ProvisioningFailed"}},
    ),
    Story(
        "a volume of the class",
        [
            storage_class("k", "kubernetes.io/no-provisioner"),
            SMALL,
            volume("v", "5Gi", storageClassName="k"),
            claim("c", storageClassName="k"),
        ],
        {"c": "Bound v", "v": "Bound c", "small": "Available"},
    ),
    Story(
        "a class that is not there",
        [claim("c", storageClassName="k")],
        {"c": "Pending"},
        {"c": {"ProvisioningFailed"}},
    ),
    Story(
        "a class of another provisioner",
        [storage_class("k", "example.com/disks"), claim("c", storageClassName="k")],
        {"c": "Pending"},
        {"c": {"ExternalProvisioning"}},
    ),
    Story(
        "a class that waits for the first pod",
        [
            storage_class("k", "example.com/disks", "WaitForFirstConsumer"),
            volume("v", storageClassName="k"),
            claim("c", storageClassName="k"),
        ],
        {"c": "Pending", "v": "Available"},
        {"c": {"WaitForFirstConsumer"}},
    ),
    Story(
        "the volume that the claim names",
        [SMALL, BIG, claim("c", volumeName="big")],
        {"c": "Bound big", "big": "Bound c", "small": "Available"},
    ),
    Story("a volume that the claim names and that is not there", [claim("c", volumeName="big")], {"c": "Pending"}),
    Story(
        "the volume that the claim names is too small",
        [SMALL, claim("c", "2Gi", volumeName="small")],
        {"c": "Pending", "small": "Available"},
        {"c": {"VolumeMismatch"}},
    ),
    Story(
        "the volume that the claim names is another's",
        [volume("v", **reference("other")), claim("c", volumeName="v")],
        {"c": "Pending", "v": "Available"},
        {"c": {"FailedBinding"}},
    ),
    Story(
        "a volume that names the claim comes before a smaller one",
        [SMALL, volume("own", "5Gi", **reference("c")), claim("c")],
        {"c": "Bound own", "own": "Bound c", "small": "Available"},
    ),
    Story(
        "a volume that names a claim by a uid that is gone",
        [volume("v", **reference("c", uid="not-this-one")), claim("c")],
        {"c": "Pending", "v": "Released"},
        {"c": {"FailedBinding"}},
    ),
    Story(
        "one volume, two claims",
        [SMALL, claim("c"), claim("d")],
        {"c": "Bound small", "small": "Bound c", "d": "Pending"},
    ),
    Story(
        "the claim goes, the volume is kept",
        [SMALL, claim("c"), gone(CLAIMS, "c")],
        {"small": "Released"},
    ),
    Story(
        "a kept volume is offered again when somebody clears it",
        [SMALL, claim("c"), gone(CLAIMS, "c"), changed(VOLUMES, "small", {"spec": {"claimRef": None}}), claim("d")],
        {"d": "Bound small", "small": "Bound d"},
    ),
    Story(
        "a kept volume is nobody's until then",
        [SMALL, claim("c"), gone(CLAIMS, "c"), claim("d")],
        {"d": "Pending", "small": "Released"},
        {"d": {"FailedBinding"}},
    ),
    Story(
        "the claim goes, and nobody can delete the volume",
        [volume("v", persistentVolumeReclaimPolicy="Delete"), claim("c"), gone(CLAIMS, "c")],
        {"v": "Failed"},
    ),
    Story(
        "the volume goes before the claim",
        [
            protected("small"),
            claim("c"),
            gone(VOLUMES, "small"),
            changed(VOLUMES, "small", {"metadata": {"finalizers": None}}),
        ],
        {"c": "Lost"},
        {"c": {"ClaimLost"}},
    ),
]


def numbered(story: Story, number: int) -> Story:
    """A story with names of its own."""
    names = {str(given["metadata"]["name"]) for what, _, given in story.acts if what == "create"} | {"other"}

    def renamed(given: Any) -> Any:
        if isinstance(given, dict):
            return {name: renamed(value) for name, value in given.items()}
        if isinstance(given, (list, tuple)):
            return type(given)(renamed(one) for one in given)
        return f"s{number}-{given}" if given in names else given

    return Story(story.title, [(what, resource, renamed(given)) for what, resource, given in story.acts], story.want)


async def play(act: Act, side: Side) -> None:
    """Do one thing."""
    what, resource, given = act
    if what == "create":
        await side.create(resource, given)
    elif what == "patch":
        await side.patch(resource, *given)
    else:
        await side.delete(resource, given)


async def outcome(side: Side, number: int) -> dict[str, str]:
    """The phases of all claims and volumes of a story, and what each is bound to."""
    prefix = f"s{number}-"
    found: dict[str, str] = {}
    for one in [*await side.all(CLAIMS), *await side.all(VOLUMES)]:
        name, spec, phase = one["metadata"]["name"], one["spec"], one["status"]["phase"]
        if name.startswith(prefix):
            bound = spec.get("volumeName") or (spec.get("claimRef") or {}).get("name") or ""
            text = f"{phase} {bound.removeprefix(prefix)}" if phase == "Bound" else phase
            found[name.removeprefix(prefix)] = text
    return found


async def reasons(side: Side, number: int) -> dict[str, set[str]]:
    """The reasons of all events about the claims of a story."""
    found: dict[str, set[str]] = {}
    prefix = f"s{number}-"
    for one in await side.all("events"):
        about = one["involvedObject"]
        if about["kind"] == "PersistentVolumeClaim" and about["name"].startswith(prefix):
            found.setdefault(about["name"].removeprefix(prefix), set()).add(one["reason"])
    return found
