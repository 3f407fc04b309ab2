"""The check `kueue.x-k8s.io/provisioning-request`: a workload starts when there are nodes for it. Made by `app`.

It asks for them with a ProvisioningRequest, which an autoscaler or, on the embedded cluster, the pools of nodes fulfil,
and follows what becomes of that. Every try is a request of its own, owned by the workload.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.belonging import WORKLOADS, has_condition
from muster.controllers.checks.base import PENDING, READY, Answer, Asked
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.dialects.kueue.check_kinds import PROVISIONING_REQUESTS
from muster.dialects.kueue.gates import FeatureGates
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.provisioning import NAME, Wanted, outcome_of, request_name, updates_of, wanted_of
from muster.model.fields import Fields
from muster.store.errors import AlreadyExists
from muster.store.kinds import Object
from muster.store.records import Key

CONFIGS, FLAVORS, TEMPLATES = f"provisioningrequestconfigs.{GROUP}", f"resourceflavors.{GROUP}", "podtemplates"


class ProvisioningJudge:
    """Asks for nodes."""

    name = NAME
    parameters = CONFIGS
    kind = (GROUP, "ProvisioningRequestConfig")
    resources = frozenset((CONFIGS, FLAVORS, PROVISIONING_REQUESTS, TEMPLATES))
    is_exclusive = False

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def problem(self, _parameters: Object) -> str:
        return ""

    def concerned(self, seen: Seen, _view: View) -> Iterable[Key]:
        if seen.key.resource != PROVISIONING_REQUESTS:
            return
        for owner in ((seen.now or seen.before or {}).get("metadata") or {}).get("ownerReferences") or ():
            if owner.get("kind") == "Workload":
                yield Key(WORKLOADS, seen.key.namespace, owner["name"])

    async def judge(self, turn: Turn, asked: Asked) -> Answer | None:
        if asked.state.get("state") not in (PENDING, READY):
            return None
        workload, config = Fields(asked.workload), Fields(asked.parameters)
        name = request_name(turn.key.name, asked.check, asked.attempt)
        await self._forget_others(turn, asked)
        flavors = {one["metadata"]["name"]: Fields(one) for one in turn.view.all(FLAVORS)}
        wanted = wanted_of(workload, config, name, flavors=flavors, gates=self._gates)
        if wanted is None:
            return Answer(state=READY, message="No pods need to be provided for")
        request = turn.view.get(Key(PROVISIONING_REQUESTS, turn.key.namespace, name))
        if request is None:
            await self._ask(turn, asked.workload, wanted)
            return None
        is_admitted = has_condition(asked.workload, "Admitted")
        outcome = outcome_of(Fields(request), config, asked.attempt, is_admitted=is_admitted)
        updates = updates_of(wanted.pod_sets, Fields(request), config, outcome.details or {})
        return Answer(
            state=outcome.state,
            message=outcome.message,
            requeue_after_s=outcome.requeue_after_s,
            pod_set_updates=tuple(updates) if outcome.state == READY else (),
        )

    async def _ask(self, turn: Turn, workload: Object, wanted: Wanted) -> None:
        """Make a request; its templates first, so that whoever sees it finds them."""
        owner = {name: workload["metadata"][name] for name in ("name", "uid")}
        owners = [{"apiVersion": workload["apiVersion"], "kind": "Workload", "controller": True, **owner}]
        made = [(TEMPLATES, one) for one in wanted.templates] + [(PROVISIONING_REQUESTS, wanted.request)]
        for resource, obj in made:
            if turn.view.record(Key(resource, turn.key.namespace, obj["metadata"]["name"])) is not None:
                continue
            try:
                await turn.create(resource, {**obj, "metadata": {**obj["metadata"], "ownerReferences": owners}})
            except AlreadyExists:
                continue  # it was made, and the answer was lost

    async def _forget_others(self, turn: Turn, asked: Asked) -> None:
        """Delete the requests of earlier tries: nobody waits for them any more."""
        for number in range(max(1, asked.attempt - 2), asked.attempt):
            old = request_name(turn.key.name, asked.check, number)
            key = Key(PROVISIONING_REQUESTS, turn.key.namespace, old)
            if turn.view.record(key) is not None:
                await turn.delete(key)
