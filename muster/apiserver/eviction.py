"""Evictions: a pod is deleted if the disruption budget that covers it allows that, in one write. Called by `asgi`."""

from __future__ import annotations

from dataclasses import replace

from muster.apiserver.admission.review import admitted_part
from muster.apiserver.answers import Answer, json_answer
from muster.apiserver.api import Api
from muster.apiserver.deletion import deletion_in
from muster.apiserver.requests import Request, Target, read_object
from muster.apiserver.statuses import Problem, bad_request
from muster.model.fields import Fields
from muster.model.labels import read_selector, selects
from muster.model.times import moment_text
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.objects import By, Objects, Part, decode
from muster.store.port import Change, Transaction
from muster.store.records import Key, Scope
from muster.store.rules import Deletion, check_meant

BUDGETS = "poddisruptionbudgets.policy"
_RETRY_S = 10
_TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_DONE = ("Succeeded", "Failed")


async def evict(api: Api, request: Request, target: Target) -> Answer:
    """Delete a pod unless a budget forbids it."""
    by = request.writer("CreateOptions")
    sent = read_object(request, await request.body(), "Eviction")
    eviction = Fields.of(await admitted_part(api, request, target, sent))
    if eviction.child("metadata").text("name") not in ("", target.name):
        raise bad_request("name in URL does not match name in Eviction object")
    deletion = deletion_in(eviction.child("deleteOptions"))
    await api.store.write(evicted(api.objects, target.key, deletion, by))
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return json_answer(status, 201)


def evicted(objects: Objects, key: Key, deletion: Deletion, by: By) -> Change[None]:
    """A write that deletes a pod and takes it off the budget that covers it."""

    def change(write: Transaction) -> None:
        record = write.get(key)
        if record is None:
            raise NotFound(key)
        pod = decode(record)
        if _is_counted(pod):
            budgets = _budgets_for(write, pod)
            if len(budgets) > 1:
                message = (
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                )
                raise Problem(500, "InternalError", message)
            for budget in budgets:
                _take_from(objects, write, budget, key.name)
        check_meant(key, pod, deletion)
        objects.modify(key, lambda before: _told(before, write.now_s), part=Part.STATUS)(write)
        objects.delete(key, replace(deletion, revision=None), by=by)(write)
        if by.is_dry_run:
            write.discard()

    return change


def _told(pod: Object, now_s: float) -> Object:
    """The pod with the condition that says why it goes."""
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one.get("type") != _TARGET["type"]]
    condition = {**_TARGET, "lastTransitionTime": moment_text(now_s)}
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


def _is_counted(pod: Object) -> bool:
    """Whether the pod is one that a budget protects: it runs, or is about to."""
    phase = (pod.get("status") or {}).get("phase", "")
    return not is_deleting(pod) and phase not in (*_DONE, "Pending")


def _budgets_for(write: Transaction, pod: Object) -> list[Object]:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
    budgets = [decode(record) for record in write.page(Scope(BUDGETS, namespace), 0)]
    return [one for one in budgets if selects(read_selector(Fields.of(one.get("spec"), "spec"), "selector"), labels)]


def _take_from(objects: Objects, write: Transaction, budget: Object, pod: str) -> None:
    metadata, status = budget["metadata"], dict(budget.get("status") or {})
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _blocked(f"The disruption budget {name} is still being processed by the server.", retry_s=_RETRY_S)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _blocked(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: moment_text(write.now_s)}
    key = Key(BUDGETS, metadata["namespace"], name)
    objects.modify(key, lambda before: {**before, "status": status}, part=Part.STATUS)(write)


def _blocked(why: str, retry_s: int = 0) -> Problem:
    """Why a pod stays; clients that are told when to try again do so by themselves, and say nothing meanwhile."""
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry_s:
        details["retryAfterSeconds"] = retry_s
    return Problem(429, "TooManyRequests", message, details=details)
