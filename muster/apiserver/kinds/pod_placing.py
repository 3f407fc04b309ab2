"""The rules for where a pod may run: affinity, tolerations, spreading, gates. Called by `pod_specs` and for volumes."""

from __future__ import annotations

import re
from typing import Any

from muster.apiserver.kinds.checks import (
    at_least,
    between,
    dns_label,
    dns_subdomain,
    each,
    fields,
    label_requirement,
    label_selector,
    one_of,
    qualified_name,
)
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, not_supported, required
from muster.model.labels import EFFECTS, label_value_problem

Object = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = between(1, 100)
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)


# Nodes ---------------------------------------------------------------------------------------------------------------


def _node_field(value: Object, path: str) -> Problems:
    values = value.get("values") or ()
    if value.get("operator") not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", value.get("operator"), "is no operator for fields")
    elif len(values) != 1:
        yield required(f"{path}.values", "must be only one value for a field")
    if value.get("key") != "metadata.name":
        yield invalid(f"{path}.key", value.get("key"), "is no field that can be selected by")
    else:
        for index, one in enumerate(values):
            yield from dns_subdomain(one, f"{path}.values[{index}]")


def _node_term(value: Object, path: str, *, checks_values: bool = True) -> Problems:
    for index, one in enumerate(value.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        yield from label_requirement(one, where, compares=True, checks_values=checks_values)
    for index, one in enumerate(value.get("matchFields") or ()):
        yield from _node_field(one, f"{path}.matchFields[{index}]")


def node_selector(value: Object, path: str) -> Problems:
    """A node selector: at least one term."""
    terms = value.get("nodeSelectorTerms") or ()
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}.nodeSelectorTerms[{index}]")


def _preferred_node(value: Object, path: str) -> Problems:
    yield from _WEIGHT(value.get("weight") or 0, f"{path}.weight")
    # Kubernetes does not look at the values here.
    yield from _node_term(value.get("preference") or {}, f"{path}.preference", checks_values=False)


# Other pods ----------------------------------------------------------------------------------------------------------


def _pod_term(value: Object, path: str) -> Problems:
    for name in ("labelSelector", "namespaceSelector"):
        if value.get(name) is not None:
            yield from label_selector(value[name], f"{path}.{name}")
    for name in value.get("namespaces") or ():
        yield from dns_label(name, f"{path}.namespace")
    yield from _label_keys(value, path)
    key = value.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from qualified_name(key, f"{path}.topologyKey")


def _label_keys(value: Object, path: str) -> Problems:
    """Keys whose values come from the pod itself; they need a selector to be added to."""
    matched, mismatched = value.get("matchLabelKeys") or (), value.get("mismatchLabelKeys") or ()
    if (matched or mismatched) and value.get("labelSelector") is None:
        for name, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
            if keys:
                yield forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set")
        return
    for name, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        for index, key in enumerate(keys):
            yield from qualified_name(key, f"{path}.{name}[{index}]")
    both = set(matched) & set(mismatched)
    for index, key in enumerate(matched):
        if key in both:
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, "exists in both lists")


def _weighted_pod_term(value: Object, path: str) -> Problems:
    yield from _WEIGHT(value.get("weight") or 0, f"{path}.weight")
    yield from _pod_term(value.get("podAffinityTerm") or {}, f"{path}.podAffinityTerm")


_POD_TERMS = fields("", {_REQUIRED: each(_pod_term), _PREFERRED: each(_weighted_pod_term)})
affinity = fields(
    "",
    {
        "nodeAffinity": fields("", {_REQUIRED: node_selector, _PREFERRED: each(_preferred_node)}),
        "podAffinity": _POD_TERMS,
        "podAntiAffinity": _POD_TERMS,
    },
)


# Tolerations, gates, spreading ---------------------------------------------------------------------------------------


def toleration(value: Object, path: str) -> Problems:
    """One toleration."""
    key, operator, text = value.get("key") or "", value.get("operator") or "", value.get("value") or ""
    effect = value.get("effect") or ""
    if key:
        yield from qualified_name(key, f"{path}.key")
    elif operator != "Exists":
        yield invalid(f"{path}.operator", operator, "must be Exists when the key is empty")
    if value.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "must be NoExecute when tolerationSeconds is set")
    match operator:
        case "" | "Equal":
            if problem := label_value_problem(text):
                yield invalid(f"{path}.operator", text, problem)
        case "Exists":
            if text:
                yield invalid(f"{path}.operator", text, "the value must be empty for Exists")
        case other:
            yield not_supported(f"{path}.operator", other, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


tolerations = each(toleration)


def gates(value: list[Object], path: str) -> Problems:
    """What holds a pod back from being scheduled."""
    seen = set()
    for index, gate in enumerate(value):
        name = gate.get("name") or ""
        yield from qualified_name(name, f"{path}[{index}]")
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


_SPREAD = fields(
    "topologyKey",
    {
        "maxSkew": at_least(1),
        "whenUnsatisfiable": one_of("DoNotSchedule", "ScheduleAnyway"),
        "minDomains": at_least(1),
        "nodeAffinityPolicy": one_of("Honor", "Ignore"),
        "nodeTaintsPolicy": one_of("Honor", "Ignore"),
        "labelSelector": label_selector,
    },
)


def spread_constraints(value: list[Object], path: str) -> Problems:
    """How a pod's siblings are spread."""
    identities = [(one.get("topologyKey"), one.get("whenUnsatisfiable")) for one in value]
    last_places = {identity: place for place, identity in enumerate(identities)}
    for index, (one, identity) in enumerate(zip(value, identities, strict=True)):
        where = f"{path}[{index}]"
        yield from _SPREAD(one, where)
        if last_places[identity] > index:
            yield duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{identity[0]}, {identity[1]}}}")
        if one.get("minDomains") is not None and one.get("whenUnsatisfiable") != "DoNotSchedule":
            yield invalid(f"{where}.minDomains", one["minDomains"], "can only be used with DoNotSchedule")
        yield from _label_keys({**one, "mismatchLabelKeys": ()}, where)
