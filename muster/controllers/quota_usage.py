"""What an object counts for in a quota, and which quotas it counts for, as in Kubernetes. Pure; used by `quotas`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.model.fields import Fields
from muster.model.labels import label_key_problem
from muster.model.podspec import total_limits, total_requests
from muster.model.quantity import Quantity, parse_quantity

Object = dict[str, Any]
Usage = dict[str, Quantity]

PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
NEVER_COUNTED = frozenset({"events"})
_ONE = parse_quantity("1")
_BY_NAME = frozenset({"configmaps", "replicationcontrollers", "resourcequotas", "secrets", SERVICES, CLAIMS})
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_COMPUTED = frozenset({name for one in _OF_CONTAINERS for name in (one, f"requests.{one}", f"limits.{one}")})
# What every container has to name where a quota limits it.
_NEEDED = frozenset({name for one in ("cpu", "memory") for name in (one, f"requests.{one}", f"limits.{one}")})
_CLASS = ".storageclass.storage.k8s.io/"
_DONE = ("Succeeded", "Failed")


def resource_of(name: str) -> str:
    """The resource whose objects count for a name in a quota; empty where nothing does."""
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name in (PODS, *_COMPUTED) or _is_of_pods(name):
        return PODS
    if name in ("services.nodeports", "services.loadbalancers"):
        return SERVICES
    if name == "requests.storage" or _CLASS in name:
        return CLAIMS
    return name if name in _BY_NAME else ""


def _is_of_pods(name: str) -> bool:
    """Huge pages, and other resources that are asked for by pods alone."""
    asked = name.removeprefix("requests.")
    if asked.startswith("hugepages-"):
        return True
    if name == asked or "/" not in asked or "kubernetes.io/" in asked:
        return False
    return not label_key_problem(name)


def usage_of(resource: str, given: Object) -> Usage:
    """What one object counts for."""
    usage = {} if resource in NEVER_COUNTED else {f"count/{resource}": _ONE}
    if resource in _BY_NAME:
        usage[resource] = _ONE
    spec = given.get("spec") or {}
    if resource == PODS:
        if (given.get("status") or {}).get("phase") not in _DONE:
            fields = Fields.of(spec, "spec")
            usage |= {PODS: _ONE, **_computed(total_requests(fields), total_limits(fields))}
    elif resource == SERVICES:
        usage.update(_of_service(spec))
    elif resource == CLAIMS:
        usage.update(_of_claim(given))
    return usage


def _computed(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Usage:
    usage: Usage = {}
    for name, amount in requests.items():
        if name in _OF_CONTAINERS or name.startswith("hugepages-"):
            usage[name] = amount
        usage[f"requests.{name}"] = amount
    usage.update((f"limits.{name}", amount) for name, amount in limits.items() if name in _OF_CONTAINERS)
    return usage


def _of_service(spec: Object) -> Iterator[tuple[str, Quantity]]:
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    if kind not in ("NodePort", "LoadBalancer"):
        return
    if kind == "LoadBalancer":
        yield "services.loadbalancers", _ONE
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
    yield "services.nodeports", parse_quantity(str(len(ports)))


def _of_claim(claim: Object) -> Iterator[tuple[str, Quantity]]:
    spec = claim["spec"]
    sizes = ((spec.get("resources") or {}).get("requests"), (claim.get("status") or {}).get("allocatedResources"))
    size = max(parse_quantity((one or {}).get("storage", "0")) for one in sizes)
    annotations = claim["metadata"].get("annotations") or {}
    name = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName") or ""
    yield "requests.storage", size
    if name:
        yield f"{name}{_CLASS}requests.storage", size
        yield f"{name}{_CLASS}persistentvolumeclaims", _ONE


def unnamed_amounts(pod: Object, names: Iterable[str]) -> str:
    """Which containers do not say what a quota limits, as a sentence; empty where all do."""
    spec = pod.get("spec") or {}
    if spec.get("resources"):
        return ""
    missing: dict[str, list[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = Fields.of(container.get("resources"), "resources")
        said = _computed(resources.quantities("requests"), resources.quantities("limits"))
        for name in _NEEDED & set(names) - said.keys():
            missing.setdefault(name, []).append(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


# Scopes --------------------------------------------------------------------------------------------------------------


def is_in_scope(quota: Object, resource: str, given: Object) -> bool:
    """Whether a quota is about such an object; scopes are of pods, and one of claims."""
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return all(_is_of(scope, resource, given) for scope in scopes)


def _is_of(scope: Object, resource: str, given: Object) -> bool:
    spec = given.get("spec") or {}
    name: str = scope["scopeName"]
    if resource == CLAIMS and name == "VolumeAttributesClass":
        return _selects(scope, spec.get("volumeAttributesClassName") or "")
    if resource != PODS:
        return False
    match name:
        case "Terminating" | "NotTerminating":
            is_ending = spec.get("activeDeadlineSeconds") is not None
            return is_ending == (name == "Terminating")
        case "BestEffort" | "NotBestEffort":
            is_modest = (given.get("status") or {}).get("qosClass") == "BestEffort"
            return is_modest == (name == "BestEffort")
        case "PriorityClass":
            return _selects(scope, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return _reaches_out(spec.get("affinity") or {})
    return False


def _selects(scope: Object, found: str) -> bool:
    values = scope.get("values") or ()
    operator: str = scope["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return bool(found) == (operator == "Exists")
    is_named = bool(found) and found in values
    return is_named == (operator == "In")


def _reaches_out(affinity: Object) -> bool:
    """Whether the place of a pod depends on pods of other namespaces."""
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [one.get("podAffinityTerm") or {} for one in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
