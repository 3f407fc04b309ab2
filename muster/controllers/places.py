"""Opens the gates of pods whose workload has a place: each learns to which part of it, a rack or a host, it goes.

Started by `app` beside the reconciler of jobs, which closes the gates. Who gets what follows from the pods there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.loop import Turn
from muster.controllers.view import Seen, Terms, View
from muster.dialects.kueue.job_steps import WORKLOADS
from muster.dialects.kueue.names import WORKLOAD
from muster.dialects.kueue.pod_places import placed_pods
from muster.dialects.kueue.validate_workload import has_condition
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.store.records import Key

PODS = "pods"


class Places:
    """The controller of places."""

    name = "places"

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == WORKLOADS and view.with_term(PODS, "workload", _term(seen.key)):
            yield seen.key
        elif seen.key.resource == PODS:
            names = {name for obj in (seen.before, seen.now) if obj is not None for name in _workload_of(obj)}
            for name in sorted(names):
                yield Key(WORKLOADS, seen.key.namespace, name.partition("/")[2])

    async def reconcile(self, turn: Turn) -> None:
        workload = turn.view.get(turn.key)
        if workload is None or not has_condition(Fields(workload), "Admitted"):
            return
        pods = turn.view.with_term(PODS, "workload", _term(turn.key))
        for pod in placed_pods(Fields(workload), [Fields(pod) for pod in pods]):
            await turn.update(Key(PODS, turn.key.namespace, pod["metadata"]["name"]), pod)


def _term(workload: Key) -> str:
    return f"{workload.namespace}/{workload.name}"


def _workload_of(pod: Object) -> Iterable[str]:
    name = (pod["metadata"].get("annotations") or {}).get(WORKLOAD)
    return (f"{pod['metadata']['namespace']}/{name}",) if name else ()


INDEXES: dict[tuple[str, str], Terms] = {(PODS, "workload"): _workload_of}
