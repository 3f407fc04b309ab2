"""What a cluster is made of: namespaces, nodes, classes of priority, leases and events."""

from __future__ import annotations

from typing import Any

from muster.apiserver import event_views
from muster.apiserver.kinds.access import path_segment_problem
from muster.apiserver.kinds.base import is_new, kind_rules
from muster.apiserver.kinds.checks import (
    address_range,
    at_least,
    dns_subdomain,
    fields,
    labels,
    named,
    one_of,
    qualified_name,
)
from muster.apiserver.kinds.pod_placing import tolerations
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, not_supported, required
from muster.apiserver.kinds.resources import container_resource_name, resource_amount
from muster.model.labels import EFFECTS, dns1123_label_problem, label_value_problem

Object = dict[str, Any]

NAME_LABEL = "kubernetes.io/metadata.name"
FINALIZER = "kubernetes"
USER_PRIORITY_MOST = 1_000_000_000
REPORT_MOST = 128
MESSAGE_MOST = 1024
SYSTEM_PREFIX = "system-"
NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_SECURITY = ("privileged", "baseline", "restricted")
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


# Namespaces ----------------------------------------------------------------------------------------------------------


def _fill_namespace(namespace: Object) -> None:
    labels = namespace["metadata"].setdefault("labels", {})
    if name := namespace["metadata"].get("name"):
        labels[NAME_LABEL] = name
    if is_new(namespace):
        finalizers = namespace["spec"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        namespace["status"] = {"phase": "Active"}


def _check_namespace(namespace: Object) -> Problems:
    labels = namespace["metadata"].get("labels") or {}
    for mode in ("enforce", "audit", "warn"):
        name = f"pod-security.kubernetes.io/{mode}"
        if labels.get(name, _SECURITY[0]) not in _SECURITY:
            yield invalid(f"metadata.labels[{name}]", labels[name], f"must be one of {', '.join(_SECURITY)}")
    for finalizer in namespace["spec"].get("finalizers") or ():
        yield from qualified_name(finalizer, "spec.finalizers")
        if "/" not in finalizer and finalizer != FINALIZER:
            yield invalid("spec.finalizers", finalizer, "name is neither a standard finalizer name nor fully qualified")


def _change_namespace(new: Object, before: Object) -> Problems:
    """A plain write leaves the finalizers of the spec as they are: they have a way of their own."""
    new["spec"] = dict(before.get("spec") or {})
    yield from ()


# Nodes ---------------------------------------------------------------------------------------------------------------


def _fill_node(node: Object) -> None:
    if is_new(node):
        # Until somebody says that the node is ready, nothing is to be placed on it.
        taints = node["spec"].setdefault("taints", [])
        if not any(one.get("key") == NOT_READY_TAINT["key"] and one.get("effect") == "NoSchedule" for one in taints):
            taints.append(dict(NOT_READY_TAINT))
    node["spec"].pop("configSource", None)  # of a feature that is gone
    _mirror_range(node["spec"])
    if node["status"].get("capacity"):
        node["status"].setdefault("allocatable", dict(node["status"]["capacity"]))
    if (kubelet := node["status"].get("daemonEndpoints", {}).get("kubeletEndpoint")) is not None:
        kubelet.setdefault("Port", 0)


def _mirror_range(spec: Object) -> None:
    """The range of a node's pods has two names, of which one is old."""
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and ranges[0]:
        spec["podCIDR"] = ranges[0]


def taint(value: Object, path: str) -> Problems:
    """One taint of a node."""
    yield from qualified_name(value.get("key") or "", f"{path}.key")
    if problem := label_value_problem(value.get("value") or ""):
        yield invalid(f"{path}.value", value.get("value"), problem)
    effect = value.get("effect") or ""
    if not effect:
        yield required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def _check_node(node: Object) -> Problems:
    seen = set()
    for index, one in enumerate(node["spec"].get("taints") or ()):
        yield from taint(one, f"spec.taints[{index}]")
        identity = (one.get("key"), one.get("effect"))
        if identity in seen:
            yield duplicate(f"spec.taints[{index}]", one)
        seen.add(identity)
    ranges = node["spec"].get("podCIDRs") or []
    for index, one in enumerate(ranges):
        yield from address_range(one, f"spec.podCIDRs[{index}]")
    if len(ranges) > 1 and len({":" in one for one in ranges}) < len(ranges):
        yield invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")
    for kind in ("capacity", "allocatable"):
        for name, amount in (node["status"].get(kind) or {}).items():
            yield from resource_amount(name, amount, f"status.{kind}[{name}]")


def _change_node(new: Object, before: Object) -> Problems:
    spec, old = new["spec"], before["spec"]
    for name in ("podCIDRs", "providerID"):
        if old.get(name) and spec.get(name) != old[name]:
            yield forbidden(f"spec.{name}", f'node updates may not change {name} except from "" to valid')
    seen = set()
    for index, address in enumerate(new["status"].get("addresses") or ()):
        identity = (address.get("type"), address.get("address"))
        if identity in seen:
            yield duplicate(f"status.addresses[{index}]", address)
        seen.add(identity)


# Priorities ----------------------------------------------------------------------------------------------------------


def _fill_priority(priority: Object) -> None:
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _check_priority(priority: Object) -> Problems:
    name, value = priority["metadata"].get("name") or "", priority.get("value") or 0
    if name.startswith(SYSTEM_PREFIX):
        if _SYSTEM_CLASSES.get(name) != value:
            yield forbidden("metadata.name", f"names that start with '{SYSTEM_PREFIX}' are for the system only")
    elif value > USER_PRIORITY_MOST:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {USER_PRIORITY_MOST}")
    yield from one_of("PreemptLowerPriority", "Never")(priority["preemptionPolicy"], "preemptionPolicy")


def _change_priority(new: Object, before: Object) -> Problems:
    if new.get("value") != before.get("value"):
        yield forbidden("value", "may not be changed in an update.")
    if new["preemptionPolicy"] != before.get("preemptionPolicy"):
        yield invalid("preemptionPolicy", new["preemptionPolicy"], "field is immutable")


# Leases and events ---------------------------------------------------------------------------------------------------

_LEASE = fields("", {"leaseDurationSeconds": at_least(1), "leaseTransitions": at_least(0)})


def _fill_lease(lease: Object) -> None:
    for name in ("strategy", "preferredHolder"):
        lease["spec"].pop(name, None)  # of a feature that is off


def _check_lease(lease: Object) -> Problems:
    yield from _LEASE(lease["spec"], "spec")


def _fill_event(given: Object) -> None:
    """An event always says that it has no times."""
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        given.setdefault(name, None)


def _check_event(event: Object) -> Problems:
    about = event["involvedObject"].get("namespace") or ""
    own = event["metadata"].get("namespace") or ""
    if about != own and (about or own != "default"):
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")
    if event.get("eventTime"):
        yield from _reported(event)


def _reported(event: Object) -> Problems:
    """An event with an exact time says who reports what."""
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        yield required("reportingComponent")
    yield from qualified_name(reporter, "reportingComponent")
    for name in ("reportingInstance", "action"):
        text = event.get(name) or ""
        if not text:
            yield required(name)
        elif len(text) > REPORT_MOST:
            yield invalid(name, text, f"can have at most {REPORT_MOST} characters")
    if not event.get("reason"):
        yield required("reason")
    if len(event.get("message") or "") > MESSAGE_MOST:
        yield invalid("message", "", f"can have at most {MESSAGE_MOST} characters")


def _check_runtime_class(runtime_class: Object) -> Problems:
    handler = runtime_class.get("handler") or ""
    if not handler:
        yield required("handler")
    elif problem := dns1123_label_problem(handler):
        yield invalid("handler", handler, problem)
    for name, one in ((runtime_class.get("overhead") or {}).get("podFixed") or {}).items():
        # Kubernetes looks at these as at the limits of a container.
        yield from container_resource_name(name, f"overhead.limits[{name}]")
        yield from resource_amount(name, one, f"overhead.limits[{name}]")
    scheduling = runtime_class.get("scheduling") or {}
    yield from labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    yield from tolerations(scheduling.get("tolerations") or [], "scheduling.tolerations")


def _change_runtime_class(new: Object, before: Object) -> Problems:
    if new.get("handler") != before.get("handler"):
        yield invalid("handler", new.get("handler"), "field is immutable")


def _check_ingress_class(ingress_class: Object) -> Problems:
    controller = (ingress_class.get("spec") or {}).get("controller") or ""
    domain, slash, rest = controller.partition("/")
    if not controller:
        yield required("spec.controller")
    elif not slash or not rest:
        yield invalid("spec.controller", controller, "must be a domain and a path such as example.com/name")
    else:
        yield from dns_subdomain(domain, "spec.controller")
    if (parameters := (ingress_class.get("spec") or {}).get("parameters")) is not None:
        yield from _parameters(parameters, "spec.parameters")


def _fill_ingress_class(ingress_class: Object) -> None:
    if (parameters := (ingress_class.get("spec") or {}).get("parameters")) is not None:
        parameters.setdefault("scope", "Cluster")


_SEGMENT = named(path_segment_problem)
_PARAMETERS = fields("kind name", {"apiGroup": dns_subdomain, "kind": _SEGMENT, "name": _SEGMENT})


def _parameters(value: Object, path: str) -> Problems:
    """What an ingress class is set up with: an object of the cluster or of a namespace."""
    yield from _PARAMETERS(value, path)
    scope, namespace = value.get("scope") or "", value.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        yield not_supported(f"{path}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Cluster":
        if namespace is not None:
            yield forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
    elif not namespace:
        yield required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif problem := dns1123_label_problem(namespace):
        yield invalid(f"{path}.namespace", namespace, problem)


def _change_ingress_class(new: Object, before: Object) -> Problems:
    if (new.get("spec") or {}).get("controller") != (before.get("spec") or {}).get("controller"):
        yield invalid("spec.controller", (new.get("spec") or {}).get("controller"), "field is immutable")


KINDS = (
    kind_rules(
        ("", "v1", "Namespace"),
        fill=_fill_namespace,
        check=_check_namespace,
        change=_change_namespace,
        name_problem=dns1123_label_problem,
        has_generation=False,
    ),
    kind_rules(
        ("", "v1", "Node"),
        fill=_fill_node,
        check=_check_node,
        change=_change_node,
        has_generation=False,
        is_status_kept=True,
    ),
    kind_rules(
        ("scheduling.k8s.io", "v1", "PriorityClass"),
        fill=_fill_priority,
        check=_check_priority,
        change=_change_priority,
    ),
    kind_rules(("coordination.k8s.io", "v1", "Lease"), fill=_fill_lease, check=_check_lease, has_generation=False),
    kind_rules(
        ("", "v1", "Event"),
        fill=_fill_event,
        check=_check_event,
        convert=event_views.convert,
        name_problem=path_segment_problem,
        has_generation=False,
        can_own=False,
    ),
    kind_rules(
        ("node.k8s.io", "v1", "RuntimeClass"),
        check=_check_runtime_class,
        change=_change_runtime_class,
        has_generation=False,
    ),
    kind_rules(
        ("networking.k8s.io", "v1", "IngressClass"),
        fill=_fill_ingress_class,
        check=_check_ingress_class,
        change=_change_ingress_class,
    ),
)
