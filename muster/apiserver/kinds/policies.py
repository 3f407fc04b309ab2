"""Policies of admission in CEL, and their bindings: judged as in Kubernetes. `webhooks.policies` has them obeyed."""

from __future__ import annotations

import re
from typing import Any

from muster.apiserver.cel import BOOL, DYN, STRING, STRING_OR_NULL, CelProblem, Type, compile_expression
from muster.apiserver.kinds.access import path_segment_problem
from muster.apiserver.kinds.admission_variables import OF_POLICIES, own_variables
from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import dns_subdomain, each, fields, label_selector, needed, one_of, qualified_name
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, not_supported, required
from muster.model.labels import dns1035_label_problem, dns1123_subdomain_problem

Object = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_OPERATIONS = one_of("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_ACTIONS = ("Audit", "Deny", "Warn")
_REASONS = one_of("Forbidden", "Invalid", "RequestEntityTooLarge")
_FAILURE = one_of("Fail", "Ignore")
_SCOPES = one_of("*", "Cluster", "Namespaced")
_PATCHES = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)


# Which requests ------------------------------------------------------------------------------------------------------


def _fill_match(match: Object | None) -> None:
    if match is None:
        return
    fill(match, {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})
    for rule in (*(match.get("resourceRules") or ()), *(match.get("excludeResourceRules") or ())):
        fill(rule, {"scope": "*"})


def _all_or_some(values: list[str], path: str) -> Problems:
    if not values:
        yield required(path)
    elif len(values) > 1 and "*" in values:
        yield invalid(path, values, "if '*' is present, must not specify others")


def _rule(rule: Object, path: str) -> Problems:
    for name in ("apiGroups", "apiVersions", "resources", "operations"):
        values = rule.get(name) or []
        yield from _all_or_some(values, f"{path}.{name}")
        for index, one in enumerate(values):
            where = f"{path}.{name}[{index}]"
            if name == "operations":
                yield from _OPERATIONS(one, where)
            elif name != "apiGroups" and not one:
                yield required(where)
    for index, one in enumerate(rule.get("resourceNames") or ()):
        if one and (problem := path_segment_problem(one)):
            yield invalid(f"{path}.resourceNames[{index}]", one, problem)
    if rule.get("scope") is not None:
        yield from _SCOPES(rule["scope"], f"{path}.scope")


_MATCH = fields(
    "",
    {
        "matchPolicy": one_of("Equivalent", "Exact"),
        "namespaceSelector": label_selector,
        "objectSelector": label_selector,
        "resourceRules": each(_rule),
        "excludeResourceRules": each(_rule),
    },
)


def _constraints(spec: Object) -> Problems:
    match = spec.get("matchConstraints")
    if match is None:
        yield required("spec.matchConstraints")
        return
    yield from _MATCH(match, "spec.matchConstraints")
    if not match.get("resourceRules"):
        yield required("spec.matchConstraints.resourceRules")


# Expressions ---------------------------------------------------------------------------------------------------------


def expression_variables(spec: Object, known: list[str]) -> dict[str, Type]:
    """The variables that the expressions of a policy know, with those of its own that are defined so far."""
    parameters = {"params": DYN} if spec.get("paramKind") is not None else {}
    return {**OF_POLICIES, **parameters, "variables": own_variables(known)}


def _expression(text: str, path: str, variables: dict[str, Type], result: Type | None) -> Problems:
    try:
        compile_expression(text, variables, result, is_strict=True)
    except CelProblem as problem:
        yield invalid(path, text, problem.message)


def _conditions(spec: Object, variables: dict[str, Type]) -> Problems:
    seen = set()
    for index, one in enumerate(spec.get("matchConditions") or ()):
        path, name, text = f"spec.matchConditions[{index}]", one.get("name") or "", one.get("expression") or ""
        if not text.strip():
            yield required(f"{path}.expression")
        else:
            yield from _expression(text, f"{path}.expression", variables, BOOL)
        yield from needed(qualified_name)(name, f"{path}.name")
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)


def _own_variables(spec: Object, known: list[str]) -> Problems:
    """The variables of a policy, each of which may use those before it; their names are added to the known ones."""
    for index, one in enumerate(spec.get("variables") or ()):
        path, name, text = f"spec.variables[{index}]", one.get("name") or "", one.get("expression") or ""
        if not name:
            yield required(f"{path}.name")
        elif not _IDENTIFIER.fullmatch(name):
            yield invalid(f"{path}.name", name, "is not a valid CEL identifier")
        if not text.strip():
            yield required(f"{path}.expression")
            continue
        yield from _expression(text, f"{path}.expression", expression_variables(spec, known), None)
        if _IDENTIFIER.fullmatch(name):
            known.append(name)


def _validation(one: Object, path: str, variables: dict[str, Type]) -> Problems:
    text, message = one.get("expression") or "", one.get("messageExpression") or ""
    if not text.strip():
        yield required(f"{path}.expression")
    else:
        yield from _expression(text, f"{path}.expression", variables, BOOL)
    if message.strip():
        yield from _expression(message, f"{path}.messageExpression", variables, STRING)
    if "\n" in (one.get("message") or ""):
        yield invalid(f"{path}.message", one["message"], "message must not contain line breaks")
    if one.get("reason") is not None:
        yield from _REASONS(one["reason"], f"{path}.reason")


def _annotations(policy: Object, variables: dict[str, Type]) -> Problems:
    seen = set()
    for index, one in enumerate(policy["spec"].get("auditAnnotations") or ()):
        path, key, text = f"spec.auditAnnotations[{index}]", one.get("key") or "", one.get("valueExpression") or ""
        whole = f"{policy['metadata'].get('name') or ''}/{key}"
        if any(qualified_name(whole, path)):
            yield invalid(f"{path}.key", key, "must make a qualified name with the name of the policy")
        if key and key in seen:
            yield duplicate(f"{path}.key", key)
        seen.add(key)
        if not text.strip():
            yield required(f"{path}.valueExpression")
        else:
            yield from _expression(text, f"{path}.valueExpression", variables, STRING_OR_NULL)


def _parameters(spec: Object) -> Problems:
    kind = spec.get("paramKind")
    if kind is not None:
        for name in ("apiVersion", "kind"):
            text, path = kind.get(name) or "", f"spec.paramKind.{name}"
            if not text:
                yield required(path)
            elif name == "apiVersion":
                yield from _group_version(text, path)
            elif problem := dns1035_label_problem(text.lower()):
                yield invalid(path, text, problem)


def _group_version(text: str, path: str) -> Problems:
    group, slash, version = text.rpartition("/")
    if slash and (problem := dns1123_subdomain_problem(group)):
        yield invalid(path, text, f"the group {problem}")
    if problem := dns1035_label_problem(version):
        yield invalid(path, text, f"the version {problem}")


# Policies ------------------------------------------------------------------------------------------------------------


def _fill_policy(policy: Object) -> None:
    fill(policy["spec"], {"failurePolicy": "Fail"})
    _fill_match(policy["spec"].get("matchConstraints"))


def _check_common(spec: Object, known: list[str]) -> Problems:
    yield from _FAILURE(spec["failurePolicy"], "spec.failurePolicy")
    yield from _parameters(spec)
    yield from _constraints(spec)
    yield from _conditions(spec, expression_variables(spec, []))
    yield from _own_variables(spec, known)


def _check_validating(policy: Object) -> Problems:
    spec = policy["spec"]
    known: list[str] = []
    yield from _check_common(spec, known)
    variables = expression_variables(spec, known)
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        yield required("spec.validations", "validations or auditAnnotations must be specified")
        yield required("spec.auditAnnotations", "validations or auditAnnotations must be specified")
    for index, one in enumerate(spec.get("validations") or ()):
        yield from _validation(one, f"spec.validations[{index}]", variables)
    yield from _annotations(policy, variables)


def _check_mutating(policy: Object) -> Problems:
    spec = policy["spec"]
    yield from _check_common(spec, [])
    again = spec.get("reinvocationPolicy") or ""
    yield from needed(one_of("IfNeeded", "Never"))(again, "spec.reinvocationPolicy")
    if not spec.get("mutations"):
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, one in enumerate(spec.get("mutations") or ()):
        yield from _mutation(one, f"spec.mutations[{index}]")


def _mutation(one: Object, path: str) -> Problems:
    """A mutation; its expression makes objects, which nothing here evaluates, and is taken as it is."""
    kind = one.get("patchType") or ""
    if kind not in _PATCHES:
        yield not_supported(f"{path}.patchType", kind, _PATCHES) if kind else required(f"{path}.patchType")
        return
    for other, name in _PATCHES.items():
        if other != kind and one.get(name) is not None:
            yield invalid(f"{path}.{name}", one[name], f"must not be given when patchType is {kind}")
    name = _PATCHES[kind]
    if one.get(name) is None:
        yield required(f"{path}.{name}", f"must be specified when patchType is {kind}")
    elif not (one[name].get("expression") or "").strip():
        yield required(f"{path}.{name}.expression")


# Bindings ------------------------------------------------------------------------------------------------------------


def _fill_binding(binding: Object) -> None:
    _fill_match(binding["spec"].get("matchResources"))


def _reference(reference: Object, path: str) -> Problems:
    if bool(reference.get("name")) == (reference.get("selector") is not None):
        problem = "one of name or selector must be specified"
        yield forbidden(f"{path}.name", problem) if reference.get("name") else required(path, problem)
    if reference.get("name") and (problem := path_segment_problem(reference["name"])):
        yield invalid(f"{path}.name", reference["name"], problem)
    if not reference.get("parameterNotFoundAction"):
        yield required(f"{path}.parameterNotFoundAction")
    else:
        yield from one_of("Allow", "Deny")(reference["parameterNotFoundAction"], f"{path}.parameterNotFoundAction")


def _check_binding(binding: Object) -> Problems:
    spec = binding["spec"]
    yield from needed(dns_subdomain)(spec.get("policyName") or "", "spec.policyName")
    if spec.get("paramRef") is not None:
        yield from _reference(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        yield from _MATCH(spec["matchResources"], "spec.matchResources")


def _check_validating_binding(binding: Object) -> Problems:
    yield from _check_binding(binding)
    actions, path = binding["spec"].get("validationActions") or [], "spec.validationActions"
    if not actions:
        yield required(path, "at least one validation action is required")
    seen = set()
    for index, one in enumerate(actions):
        if one not in _ACTIONS:
            yield not_supported(f"{path}[{index}]", one, _ACTIONS)
        elif one in seen:
            yield duplicate(f"{path}[{index}]", one)
        seen.add(one)
    if {"Deny", "Warn"} <= seen:
        yield invalid(path, actions, "must not contain both Deny and Warn")


KINDS = (
    kind_rules(
        (_GROUP, "v1", "ValidatingAdmissionPolicy"), fill=_fill_policy, check=_check_validating, status_metadata=()
    ),
    kind_rules((_GROUP, "v1", "ValidatingAdmissionPolicyBinding"), fill=_fill_binding, check=_check_validating_binding),
    kind_rules((_GROUP, "v1", "MutatingAdmissionPolicy"), fill=_fill_policy, check=_check_mutating),
    kind_rules((_GROUP, "v1", "MutatingAdmissionPolicyBinding"), fill=_fill_binding, check=_check_binding),
)
