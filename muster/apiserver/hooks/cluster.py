"""What the webhooks need of the cluster that they serve: a few objects, and a word on somebody's rights.

`Cluster` is filled in by `app` with a client of the real API server. The rules are plain functions and cannot wait:
what they look at and is not here yet is fetched, and they begin anew (`looked_up`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from muster.apiserver.admission.jobs import Look
from muster.apiserver.requests import User
from muster.apiserver.rights.access import refusal
from muster.apiserver.rights.submission import question_of_use
from muster.store.kinds import Object
from muster.store.records import Key

Result = TypeVar("Result")
_REVIEWS = "subjectaccessreviews.authorization.k8s.io"
_MOST_LOOKS = 32  # more than any rule has: labels, queues, classes, and the owners of owners


class Cluster(Protocol):
    """Reads and writes of single objects; raises a `StoreError` where something is in the way."""

    async def get(self, key: Key) -> Object | None:
        """An object as it is now; None where there is none."""

    async def create(self, resource: str, given: Object) -> Object:
        """Add an object; gives it as it is kept, or a review with its answer."""

    async def update(self, key: Key, given: Object) -> Object:
        """Replace an object; refused when it has another revision than the one given."""


class _Unknown(Exception):
    """Something that has to be fetched first."""

    def __init__(self, key: Key) -> None:
        super().__init__(f"{key} is not here yet")
        self.key = key


async def looked_up(cluster: Cluster, rule: Callable[[Look], Result]) -> Result:
    """What a rule says that looks at objects of the cluster; each is fetched once."""
    found: dict[Key, Object | None] = {}

    def look(key: Key) -> Object | None:
        if key not in found:
            raise _Unknown(key)
        return found[key]

    for _ in range(_MOST_LOOKS):
        try:
            return rule(look)
        except _Unknown as missing:
            found[missing.key] = await cluster.get(missing.key)
    raise AssertionError(f"a rule looks at more than {_MOST_LOOKS} objects")


async def check_use(cluster: Cluster, user: User, namespace: str, queue: str) -> None:
    """Refuse whoever may not use a queue, in the words in which Kubernetes refuses everything."""
    asked = question_of_use(namespace, queue)
    attributes = {name: getattr(asked, name) for name in ("verb", "group", "resource", "namespace", "name")}
    spec: Object = {"user": user.name, "groups": list(user.groups), "resourceAttributes": attributes}
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {name: list(values) for name, values in user.extra}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
    status = (await cluster.create(_REVIEWS, review)).get("status") or {}
    if status.get("allowed") is not True:
        raise refusal(user, asked)
