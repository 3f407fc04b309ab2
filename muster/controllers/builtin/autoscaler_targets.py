"""What an autoscaler scales: anything that has a scale. Used by `autoscaler`; `app` adds those of definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from muster.controllers.builtin.deployment import DEPLOYMENTS
from muster.controllers.builtin.owners import plain_selector_of, selector_of
from muster.controllers.builtin.replicaset import REPLICA_SETS, REPLICATION_CONTROLLERS
from muster.controllers.builtin.statefulset import STATEFUL_SETS
from muster.controllers.view import View
from muster.model.labels import Selector
from muster.store.kinds import Object
from muster.store.records import Key


class NoScale(Exception):
    """Why something cannot be scaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How many pods something wants and has."""

    key: Key
    given: Object
    wanted: int
    running: int
    selector: Selector | None
    scaled: Callable[[int], Object]  # the object that wants so many


class Targets(Protocol):
    """Finds what has a scale."""

    def find(self, view: View, reference: Object, namespace: str) -> Scale:
        """The scale of what a reference names; raises `NoScale`."""


KINDS: Mapping[tuple[str, str], str] = {
    ("apps", "Deployment"): DEPLOYMENTS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
    ("", "ReplicationController"): REPLICATION_CONTROLLERS,
}


class BuiltinTargets:
    """The kinds of every cluster."""

    def find(self, view: View, reference: Object, namespace: str) -> Scale:
        version = reference.get("apiVersion") or "v1"
        group = version.partition("/")[0] if "/" in version else ""
        resource = KINDS.get((group, reference["kind"]))
        if resource is None:
            raise NoScale(f'no matches for kind "{reference["kind"]}" in group "{group}"')
        key = Key(resource, namespace, reference["name"])
        given = view.get(key)
        if given is None:
            raise NoScale(f'{resource} "{reference["name"]}" not found')
        return Scale(
            key=key,
            given=given,
            wanted=int(given["spec"].get("replicas", 1)),
            running=int((given.get("status") or {}).get("replicas") or 0),
            selector=(selector_of if group else plain_selector_of)(given),
            scaled=lambda count: {**given, "spec": {**given["spec"], "replicas": count}},
        )
