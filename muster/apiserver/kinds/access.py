"""Roles, and who has them."""

from __future__ import annotations

from typing import Any

from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import dns_subdomain, label_selector
from muster.apiserver.kinds.problems import Problems, invalid, not_supported, required

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"


def path_segment_problem(text: str) -> str:
    """What is wrong with a name that only has to fit into a path."""
    if not text:
        return "is empty"
    if text in (".", ".."):
        return f"may not be '{text}'"
    return "may not contain '/' or '%'" if "/" in text or "%" in text else ""


def _rules(rules: list[Object], *, is_namespaced: bool) -> Problems:
    for index, rule in enumerate(rules):
        where = f"rules[{index}]"
        urls = rule.get("nonResourceURLs") or []
        if not rule.get("verbs"):
            yield required(f"{where}.verbs", "verbs must contain at least one value")
        if urls:
            if is_namespaced:
                yield invalid(f"{where}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                yield invalid(f"{where}.nonResourceURLs", urls, "rules cannot apply to both resources and URLs")
            continue
        if not rule.get("apiGroups"):
            yield required(f"{where}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{where}.resources", "resource rules must supply at least one resource")


def _check_role(role: Object) -> Problems:
    yield from _rules(role.get("rules") or [], is_namespaced=True)


def _check_cluster_role(role: Object) -> Problems:
    yield from _rules(role.get("rules") or [], is_namespaced=False)
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return
    selectors = aggregation.get("clusterRoleSelectors") or []
    if not selectors:
        yield required("aggregationRule.clusterRoleSelectors", "at least one selector is needed")
    for index, selector in enumerate(selectors):
        yield from label_selector(selector, f"aggregationRule.clusterRoleSelectors[{index}]")


def _fill_binding(binding: Object) -> None:
    if not binding["roleRef"].get("apiGroup"):
        binding["roleRef"]["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def _binding_check(kinds: tuple[str, ...], *, is_namespaced: bool) -> Any:
    def check(binding: Object) -> Problems:
        role = binding["roleRef"]
        if role.get("apiGroup") != GROUP:
            yield not_supported("roleRef.apiGroup", role.get("apiGroup"), (GROUP,))
        if role.get("kind") not in kinds:
            yield not_supported("roleRef.kind", role.get("kind") or "", kinds)
        if not role.get("name"):
            yield required("roleRef.name")
        elif problem := path_segment_problem(role["name"]):
            yield invalid("roleRef.name", role["name"], problem)
        for index, subject in enumerate(binding.get("subjects") or ()):
            yield from _subject(subject, f"subjects[{index}]", is_namespaced=is_namespaced)

    return check


def _subject(subject: Object, path: str, *, is_namespaced: bool) -> Problems:
    name, group = subject.get("name") or "", subject.get("apiGroup") or ""
    if not name:
        yield required(f"{path}.name")
    match subject.get("kind"):
        case "ServiceAccount":
            if name:
                yield from dns_subdomain(name, f"{path}.name")
            if group:
                yield not_supported(f"{path}.apiGroup", group, ("",))
            if not is_namespaced and not subject.get("namespace"):
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != GROUP:
                yield not_supported(f"{path}.apiGroup", group, (GROUP,))
        case other:
            yield not_supported(f"{path}.kind", other or "", ("ServiceAccount", "User", "Group"))


def _change_binding(new: Object, before: Object) -> Problems:
    if new["roleRef"] != before.get("roleRef"):
        yield invalid("roleRef", new["roleRef"], "cannot change roleRef")


_COMMON: dict[str, Any] = {"name_problem": path_segment_problem, "has_generation": False}
KINDS = (
    kind_rules((GROUP, "v1", "Role"), check=_check_role, **_COMMON),
    kind_rules((GROUP, "v1", "ClusterRole"), check=_check_cluster_role, **_COMMON),
    kind_rules(
        (GROUP, "v1", "RoleBinding"),
        fill=_fill_binding,
        check=_binding_check(("Role", "ClusterRole"), is_namespaced=True),
        change=_change_binding,
        **_COMMON,
    ),
    kind_rules(
        (GROUP, "v1", "ClusterRoleBinding"),
        fill=_fill_binding,
        check=_binding_check(("ClusterRole",), is_namespaced=False),
        change=_change_binding,
        **_COMMON,
    ),
)
