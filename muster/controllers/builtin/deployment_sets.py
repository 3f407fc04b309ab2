"""The replica sets of a deployment: which is the new one, how it is made, what its annotations say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from muster.controllers.builtin.names import template_hash
from muster.controllers.builtin.owners import reference_to
from muster.controllers.builtin.pods import created_s
from muster.controllers.builtin.portions import share
from muster.store.kinds import Object

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
    }
)
_HISTORY_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class Sets:
    """The replica sets as they are to be; none is changed in place."""

    old: tuple[Object, ...]
    new: Object | None

    @property
    def all(self) -> tuple[Object, ...]:
        return self.old if self.new is None else (*self.old, self.new)

    def scaled(self, one: Object, size: int, deployment: Object) -> Sets:
        """The sets when one of them has another size, and notes what the deployment wants."""
        changed = _with_sizes({**one, "spec": {**one["spec"], "replicas": size}}, deployment)
        if one is self.new:
            return replace(self, new=changed)
        return replace(self, old=tuple(changed if other is one else other for other in self.old))


def size(one: Object) -> int:
    """How many pods a deployment or set is to have."""
    wanted = one["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)


def counted(one: Object, name: str) -> int:
    """A count of a status, 0 when absent."""
    return int((one.get("status") or {}).get(name) or 0)


def is_rolling(deployment: Object) -> bool:
    return bool((deployment["spec"].get("strategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


def most_surge(deployment: Object) -> int:
    """How many pods there may be above the wanted ones."""
    return _bounds(deployment)[0] if is_rolling(deployment) else 0


def most_unavailable(deployment: Object) -> int:
    """How many of the wanted pods may be missing."""
    if not is_rolling(deployment) or not size(deployment):
        return 0
    return min(_bounds(deployment)[1], size(deployment))


def _bounds(deployment: Object) -> tuple[int, int]:
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge"), size(deployment), is_rounded_up=True)
    unavailable = share(rolling.get("maxUnavailable"), size(deployment), is_rounded_up=False)
    return surge, 1 if not surge and not unavailable else unavailable  # nothing could move with neither


def by_age(sets: Iterable[Object]) -> list[Object]:
    """The oldest first."""
    return sorted(sets, key=lambda one: (created_s(one), one["metadata"]["name"]))


def revision_of(given: Object) -> int:
    """The revision that an annotation tells, 0 when it tells none."""
    text = annotations_of(given).get(REVISION, "")
    return int(text) if len(text) < 20 and text.isascii() and text.isdigit() else 0


def annotations_of(given: Object) -> dict[str, str]:
    """The annotations of an object."""
    return given["metadata"].get("annotations") or {}


def find_new(deployment: Object, sets: Iterable[Object]) -> Object | None:
    """The oldest set with the template that the deployment has now."""
    template = deployment["spec"]["template"]
    return next((one for one in by_age(sets) if bare_template(one) == template), None)


def bare_template(one: Object) -> Any:
    """A set's template without the label that tells the sets apart."""
    template = one["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def sorted_out(deployment: Object, sets: Sequence[Object]) -> Sets:
    """The old sets and the new one, if it is there, with the annotations that it should have."""
    new = find_new(deployment, sets)
    old = tuple(one for one in sets if one is not new)
    if new is None:
        return Sets(old, None)
    changed = _annotated(deployment, new, _next_revision(old))
    least_s = deployment["spec"].get("minReadySeconds") or 0
    if (changed["spec"].get("minReadySeconds") or 0) != least_s:
        changed = {**changed, "spec": {**changed["spec"], "minReadySeconds": least_s}}
    return Sets(old, changed)


def with_new(deployment: Object, sets: Sets) -> Sets:
    """The sets with a new one, as it is to be made."""
    template = deployment["spec"]["template"]
    text = template_hash(template, counted(deployment, "collisionCount"))
    metadata = deployment["metadata"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: text}
    selector = deepcopy(deployment["spec"]["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH: text}
    spec = {
        "replicas": 0,
        "minReadySeconds": deployment["spec"].get("minReadySeconds") or 0,
        "selector": selector,
        "template": {**deepcopy(template), "metadata": {**(template.get("metadata") or {}), "labels": labels}},
    }
    new = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{text}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [reference_to(deployment)],
        },
        "spec": spec,
    }
    new = _annotated(deployment, new, _next_revision(sets.old))
    spec["replicas"] = new_size(deployment, Sets(sets.old, new))
    return Sets(sets.old, _with_sizes(new, deployment))


def new_size(deployment: Object, sets: Sets) -> int:
    """How big the new set may be now."""
    assert sets.new is not None, "only a set that is there has a size"
    if not is_rolling(deployment):
        return size(deployment)
    room = size(deployment) + most_surge(deployment) - sum(map(size, sets.all))
    if room <= 0:
        return size(sets.new)
    return size(sets.new) + min(room, size(deployment) - size(sets.new))


def _next_revision(old: Iterable[Object]) -> int:
    return max(map(revision_of, old), default=0) + 1


def _annotated(deployment: Object, one: Object, revision: int) -> Object:
    """A set with the deployment's annotations and its revision; what it was before is remembered."""
    mine = annotations_of(one)
    copied = {name: value for name, value in annotations_of(deployment).items() if name not in _NOT_COPIED}
    wanted = {**mine, **copied}
    if revision_of(one) < revision:
        wanted[REVISION] = str(revision)
        if before := mine.get(REVISION):
            wanted[HISTORY] = _history(mine.get(HISTORY, ""), before)
    if wanted == mine:
        return one
    return {**one, "metadata": {**one["metadata"], "annotations": wanted}}


def _history(known: str, revision: str) -> str:
    revisions = [*(known.split(",") if known else ()), revision]
    while len(revisions) > 1 and len(",".join(revisions)) > _HISTORY_LENGTH:
        del revisions[0]
    return ",".join(revisions)


def _with_sizes(one: Object, deployment: Object) -> Object:
    wanted = size(deployment)
    sizes = {DESIRED: str(wanted), MOST: str(wanted + most_surge(deployment))}
    if sizes.items() <= annotations_of(one).items():
        return one
    return {**one, "metadata": {**one["metadata"], "annotations": {**annotations_of(one), **sizes}}}


def has_noted_size(one: Object, deployment: Object) -> bool:
    """Whether a set has noted the size that its deployment has now."""
    return annotations_of(one).get(DESIRED, str(size(deployment))) == str(size(deployment))
