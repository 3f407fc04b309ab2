"""ControllerRevisions: the templates that a stateful set or daemon set has had. Used by both of their controllers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from muster.controllers.builtin.gathering import all_done
from muster.controllers.builtin.names import revision_name, template_hash
from muster.controllers.builtin.owners import key_of, reference_to
from muster.controllers.loop import Turn
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object
from muster.store.rules import Deletion

REVISIONS = "controllerrevisions.apps"
REVISION_LABEL = "controller-revision-hash"  # of a pod: which template it was made from


@dataclass(frozen=True, slots=True)
class History:
    """The revisions of an owner after a look: the newest is what its template is now."""

    known: Sequence[Object]  # the oldest first
    newest: Object
    collisions: int

    def named(self, name: str) -> Object | None:
        """The revision of a name."""
        return next((one for one in (*self.known, self.newest) if one["metadata"]["name"] == name), None)


def by_number(revisions: Iterable[Object]) -> list[Object]:
    """The oldest first."""
    return sorted(revisions, key=lambda one: (one["revision"], one["metadata"]["name"]))


def data_of(template: Object) -> Object:
    """What a revision keeps: a patch that puts the template back."""
    return {"spec": {"template": {**deepcopy(template), "$patch": "replace"}}}


def template_in(revision: Object) -> Object:
    """The template that a revision keeps."""
    template: Object = revision["data"]["spec"]["template"]
    return {name: value for name, value in template.items() if name != "$patch"}


def new_revision(owner: Object, number: int, *, collisions: int, hash_label: str) -> Object:
    """A revision of the template that an owner has now."""
    template = owner["spec"]["template"]
    text = template_hash(template, collisions)
    metadata: Object = {
        "name": revision_name(owner["metadata"]["name"], text),
        "namespace": owner["metadata"]["namespace"],
        "labels": {**((template.get("metadata") or {}).get("labels") or {}), hash_label: text},
        "ownerReferences": [reference_to(owner)],
    }
    if annotations := owner["metadata"].get("annotations"):
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": data_of(template),
        "revision": number,
    }


async def history(turn: Turn, owner: Object, known: Iterable[Object], hash_label: str) -> History:
    """The revisions of an owner, with one of its present template that has the highest number."""
    ordered = by_number(known)
    collisions = int((owner.get("status") or {}).get("collisionCount") or 0)
    number = ordered[-1]["revision"] + 1 if ordered else 1
    wanted = data_of(owner["spec"]["template"])
    same = [one for one in ordered if one["data"] == wanted]
    if same and same[-1] is ordered[-1]:
        return History(ordered, same[-1], collisions)
    if same:  # the template was put back
        newest = await turn.update(key_of(REVISIONS, same[-1]), {**same[-1], "revision": number})
        return History(by_number([*(one for one in ordered if one is not same[-1]), newest]), newest, collisions)
    while True:
        new = new_revision(owner, number, collisions=collisions, hash_label=hash_label)
        try:
            newest = await turn.create(REVISIONS, new)
        except AlreadyExists:
            there = turn.view.get(key_of(REVISIONS, new))
            if there is None or there["data"] == wanted:
                raise  # it is on its way here
            collisions += 1
        else:
            return History([*ordered, newest], newest, collisions)


async def truncate(turn: Turn, owner: Object, past: History, live: Collection[str]) -> None:
    """Delete the oldest revisions that nothing uses, as far as there are more than the history has room for."""
    limit = owner["spec"].get("revisionHistoryLimit")
    unused = [one for one in past.known if one["metadata"]["name"] not in live]
    spare = unused[: max(0, len(unused) - (10 if limit is None else int(limit)))]
    await all_done(turn.delete(key_of(REVISIONS, one), Deletion(uid=one["metadata"]["uid"])) for one in spare)


def revision_label(pod: Object) -> Any:
    """Which revision a pod was made from."""
    return (pod["metadata"].get("labels") or {}).get(REVISION_LABEL, "")
