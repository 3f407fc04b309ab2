"""Which nodes a daemon set runs on, and how its pod for a node looks. Pure; called by `daemonset`."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from muster.controllers.builtin.pods import pod_from
from muster.controllers.builtin.revisions import REVISION_LABEL
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.labels import (
    NO_EXECUTE,
    NODE_NAME_FIELD,
    first_untolerated,
    node_matches,
    read_required_terms,
    read_taints,
    read_tolerations,
)
from muster.store.kinds import Object

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_OF_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Suits:
    """Whether a node is one for a daemon set."""

    should_run: bool
    may_stay: bool  # a pod that is there already


def suits(owner: Object, node: Object) -> Suits:
    """Whether a daemon set's pod is to run on a node, or may stay there; terms that cannot be read suit no node."""
    try:
        return _suits(owner, node)
    except InvalidObject:
        return Suits(False, False)


def _suits(owner: Object, node: Object) -> Suits:
    spec = owner["spec"]["template"].get("spec") or {}
    fields = Fields.of({**spec, "tolerations": tolerations_of(spec)}, "spec.template.spec")
    metadata = node["metadata"]
    wanted = spec.get("nodeName")
    if wanted and wanted != metadata["name"]:
        return Suits(False, False)
    terms = read_required_terms(fields)
    selector = fields.text_map("nodeSelector")
    if not node_matches(metadata.get("labels") or {}, selector=selector, affinity=terms, node_name=metadata["name"]):
        return Suits(False, False)
    taints = read_taints(Fields.of(node.get("spec"), "spec"))
    tolerations = read_tolerations(fields)
    if first_untolerated(taints, tolerations) is None:
        return Suits(True, True)
    return Suits(False, first_untolerated(taints, tolerations, (NO_EXECUTE,)) is None)


def tolerations_of(spec: Object) -> list[Object]:
    """The tolerations of a pod that is to run whatever ails its node."""
    wanted = [*_TOLERATED, *((_OF_HOST_NETWORK,) if spec.get("hostNetwork") else ())]
    given = list(spec.get("tolerations") or ())
    for key, effect in wanted:
        new = {"key": key, "operator": "Exists", "effect": effect}
        if new not in given:
            given.append(new)
    return given


def pod_for(owner: Object, node: str, revision: str) -> Object:
    """The pod of a daemon set for a node, still without a name."""
    labels = {REVISION_LABEL: revision}
    if generation := (owner["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION):
        labels["pod-template-generation"] = generation
    pod = pod_from(owner["spec"]["template"], owner, labels=labels)
    pod["spec"]["tolerations"] = tolerations_of(pod["spec"])
    pod["spec"]["affinity"] = _bound_to(pod["spec"].get("affinity") or {}, node)
    return pod


def node_of(pod: Object) -> str:
    """The node of a pod, or the one that it is made for."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == NODE_NAME_FIELD and field.get("operator") == "In" and len(field["values"]) == 1:
                return str(field["values"][0])
    return ""


def _bound_to(affinity: Object, node: str) -> Object:
    """An affinity that lets the scheduler choose this node alone."""
    fields = [{"key": NODE_NAME_FIELD, "operator": "In", "values": [node]}]
    by_node = deepcopy(affinity.get("nodeAffinity") or {})
    terms = (by_node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    by_node[_REQUIRED] = {"nodeSelectorTerms": [{**term, "matchFields": fields} for term in terms]}
    return {**affinity, "nodeAffinity": by_node}
