"""Pods and templates of pods: their defaults, their rules, and what of a pod may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.apiserver.kinds.base import is_new, kind_rules
from muster.apiserver.kinds.checks import between, quantity
from muster.apiserver.kinds.pod_containers import tidy_images
from muster.apiserver.kinds.pod_defaults import fill_pod, fill_template
from muster.apiserver.kinds.pod_specs import pod_spec, template
from muster.apiserver.kinds.problems import Problems, forbidden, invalid
from muster.apiserver.statuses import Problem
from muster.apiserver.statuses import forbidden as forbidden_object
from muster.model.fields import INT32_MAX
from muster.store.records import Key

Object = dict[str, Any]

TOLERATED_S = 300
GRACE_S = 30
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_OF_QUALITY = ("cpu", "memory")


# Defaults ------------------------------------------------------------------------------------------------------------


def _fill(pod: Object) -> None:
    spec = pod["spec"]
    fill_pod(spec)
    tolerate_failing_nodes(spec)
    name = spec.get("priorityClassName") or ""
    if not name or name in _SYSTEM_CLASSES:
        spec.setdefault("priority", _SYSTEM_CLASSES.get(name, 0))
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    if is_new(pod):
        pod["status"] = {"phase": "Pending", "qosClass": quality_of(spec)}
        if spec.get("schedulingGates"):
            pod["status"]["conditions"] = [_held_back(pod)]


def _held_back(pod: Object) -> Object:
    """The condition of a pod that has gates."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def tolerate_failing_nodes(spec: Object) -> None:
    """A pod stays for a while on a node that fails, unless it says for how long itself."""
    given = spec.get("tolerations") or []
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_S}
        for key in (_NOT_READY, _UNREACHABLE)
        if not any(one.get("key", key) == key and one.get("effect", "NoExecute") == "NoExecute" for one in given)
    ]
    if added:
        spec["tolerations"] = given + added


def quality_of(spec: Object) -> str:
    """The class of a pod by what its containers ask for."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [container.get("resources") or {} for container in containers]
    if spec.get("resources") is not None:
        asked = [spec["resources"]]
    if not any(_asked_for(one, "requests") or _asked_for(one, "limits") for one in asked):
        return "BestEffort"
    is_guaranteed = all(_is_guaranteed(one) for one in asked)
    return "Guaranteed" if is_guaranteed else "Burstable"


def _asked_for(resources: Object, kind: str) -> dict[str, str]:
    amounts = resources.get(kind) or {}
    return {name: amounts[name] for name in _OF_QUALITY if not quantity(amounts.get(name, "0")).is_zero}


def _is_guaranteed(resources: Object) -> bool:
    limits, requests = _asked_for(resources, "limits"), _asked_for(resources, "requests")
    if set(limits) != set(_OF_QUALITY):
        return False
    return all(quantity(requests.get(name, limit)) == quantity(limit) for name, limit in limits.items())


def with_priority(pod: Object, classes: Mapping[str, Object]) -> Object:
    """A new pod with the priority of its class, given the PriorityClasses by name; raises 403 as Kubernetes does."""
    spec = dict(pod.get("spec") or {})
    name = spec.get("priorityClassName") or ""
    key = Key("pods", "", str((pod.get("metadata") or {}).get("name") or ""))
    found: Object | None = classes.get(name)
    if name in _SYSTEM_CLASSES:
        found = {"value": _SYSTEM_CLASSES[name]}
    elif not name:
        defaults = [one for one in classes.values() if one.get("globalDefault")]
        found = min(defaults, key=lambda one: int(one.get("value") or 0), default={})
    if found is None:
        raise forbidden_object(key, f"no PriorityClass with name {name} was found")
    value = int(found.get("value") or 0)
    if spec.get("priority") not in (None, value):
        raise _unwanted(key, "integer value of priority", spec["priority"], value)
    if not name and found.get("metadata"):
        spec["priorityClassName"] = found["metadata"]["name"]
    policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
    if spec.get("preemptionPolicy") not in (None, policy):
        raise _unwanted(key, "string value of PreemptionPolicy", spec["preemptionPolicy"], policy)
    return {**pod, "spec": {**spec, "priority": value, "preemptionPolicy": policy}}


def _unwanted(key: Key, what: str, given: object, computed: object) -> Problem:
    return forbidden_object(
        key,
        f"the {what} ({given}) must not be provided in pod spec; "
        f"priority admission controller computed {computed} from the given PriorityClass name",
    )


# Rules ---------------------------------------------------------------------------------------------------------------


def _check(pod: Object) -> Problems:
    spec = pod["spec"]
    yield from pod_spec(spec, "spec", is_pod=True)
    for kind in ("containers", "initContainers"):
        yield from tidy_images(spec.get(kind) or [], f"spec.{kind}")
    if not spec.get("serviceAccountName"):
        yield from _tokens_without_account(spec)
    if not is_new(pod):
        return
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _tokens_without_account(spec: Object) -> Problems:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for place, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                where = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                yield forbidden(where, "must not be specified when serviceAccountName is not set")


def _change(new: Object, before: Object) -> Problems:
    spec, old = new["spec"], before["spec"]
    if quality := (before.get("status") or {}).get("qosClass"):
        new["status"] = {**(new.get("status") or {}), "qosClass": quality}
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(old.get(kind) or ()):
            yield forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
            return
    deadline, earlier = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if deadline is not None:
        yield from between(0, INT32_MAX)(deadline, "spec.activeDeadlineSeconds")
        if earlier is not None and earlier < deadline:
            yield invalid("spec.activeDeadlineSeconds", deadline, "must be less than or equal to previous value")
            return
    elif earlier is not None:
        yield invalid("spec.activeDeadlineSeconds", None, "must not be taken away")
    yield from _changed_tolerations(spec.get("tolerations") or [], old.get("tolerations") or [])
    known = {one.get("name") for one in old.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            yield forbidden(f"spec.schedulingGates[{index}].name", "only deletion is allowed, and this one is new")
    yield from _other_changes(spec, old)


def _changed_tolerations(new: list[Object], before: list[Object]) -> Problems:
    kept = {_without_seconds(one) for one in new}
    if not all(_without_seconds(one) in kept for one in before):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _without_seconds(toleration: Object) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in toleration.items() if name != "tolerationSeconds")


_FREE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_NODE_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def _other_changes(new: Object, before: Object) -> Problems:
    """Everything but images, the deadline, tolerations and gates stays as it was."""
    is_gated = bool(before.get("schedulingGates"))
    if is_gated:
        yield from _narrowed(new, before)
    if _fixed(new, before, is_gated=is_gated) != _fixed(before, before, is_gated=is_gated):
        yield forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
            "previously negative)",
        )


def _narrowed(new: Object, before: Object) -> Problems:
    """A pod that is held back may still be told more about its node, but nothing else than before."""
    selector, old_selector = new.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in old_selector.items()):
        yield invalid("spec.nodeSelector", selector, "only additions to spec.nodeSelector are allowed")
    terms, old_terms = _node_terms(new), _node_terms(before)
    where = f"spec.affinity.nodeAffinity.{_NODE_TERMS}.nodeSelectorTerms"
    if old_terms and len(terms) != len(old_terms):
        yield invalid(where, terms, "no additions or deletions to a list that is not empty are allowed")
        return
    for index, old in enumerate(old_terms):
        if not _has_only_additions(terms[index], old):
            yield invalid(f"{where}[{index}]", terms[index], "only additions are allowed")


def _node_terms(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get(_NODE_TERMS) or {}).get("nodeSelectorTerms") or []


def _has_only_additions(new: Object, before: Object) -> bool:
    names = ("matchExpressions", "matchFields")
    if not any(before.get(name) for name in names):
        return not any(new.get(name) for name in names)
    return all((new.get(name) or [])[: len(before.get(name) or [])] == (before.get(name) or []) for name in names)


def _fixed(spec: Object, before: Object, *, is_gated: bool) -> Object:
    """What of a pod may not change."""
    fixed = {name: value for name, value in spec.items() if name not in _FREE}
    if is_gated:
        fixed.pop("nodeSelector", None)
        fixed["affinity"] = {**(spec.get("affinity") or {}), "nodeAffinity": None}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            fixed[kind] = [{**one, "image": ""} for one in spec[kind]]
    was_negative = (before.get("terminationGracePeriodSeconds") or 0) < 0
    if was_negative and spec.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    return fixed


def _grace_s(pod: Object, asked_s: int | None) -> int:
    """How long a pod may take to stop: not at all where it does not run."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    grace_s = spec.get("terminationGracePeriodSeconds", GRACE_S) if asked_s is None else asked_s
    return max(int(grace_s), 1) if grace_s < 0 else int(grace_s)


def _check_template(given: Object) -> Problems:
    yield from template(given.get("template") or {}, "template")


PODS = kind_rules(
    ("", "v1", "Pod"),
    fill=_fill,
    check=_check,
    change=_change,
    grace_s=_grace_s,
    is_marked_first=True,
    status_metadata=("labels", "annotations", "finalizers"),
)
POD_TEMPLATES = kind_rules(
    ("", "v1", "PodTemplate"), fill=lambda given: fill_template(given["template"]), check=_check_template
)
KINDS = (PODS, POD_TEMPLATES)
