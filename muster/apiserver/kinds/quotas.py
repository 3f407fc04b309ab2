"""Limits on what a namespace may hold: quotas, ranges of limits, and budgets of disruption."""

from __future__ import annotations

from typing import Any

from muster.apiserver.kinds.access import path_segment_problem
from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import label_selector, one_of, qualified_name, quantity
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, required
from muster.apiserver.kinds.resources import (
    STANDARD,
    STANDARD_OF_QUOTAS,
    is_huge_pages,
    is_native,
    resource_amount,
    resource_name,
)
from muster.apiserver.kinds.workloads import at_most_all, count_or_percent
from muster.model.fields import INT64_MAX

Object = dict[str, Any]
Amounts = dict[str, str]

_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_NEED_EXISTS = ("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "Terminating")
_RANGE_TYPES = ("Container", "PersistentVolumeClaim", "Pod")


# Quotas --------------------------------------------------------------------------------------------------------------


def _quota_amounts(amounts: Amounts, path: str) -> Problems:
    for name, amount in amounts.items():
        where = f"{path}[{name}]"
        yield from resource_name(name, where) if "/" in name else qualified_name(name, where)
        if "/" not in name and name not in STANDARD_OF_QUOTAS and not _is_of_huge_pages(name):
            yield invalid(where, name, "must be a standard resource for quota")
        yield from resource_amount(name, amount, where)


def _is_of_huge_pages(name: str) -> bool:
    return is_huge_pages(name.removeprefix("requests."))


def _check_quota(quota: Object) -> Problems:
    spec = quota["spec"]
    yield from _quota_amounts(spec.get("hard") or {}, "spec.hard")
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
    for first, second in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if first in scopes and second in scopes:
            yield invalid("spec.scopes", scopes, "conflicting scopes")
    for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        yield from _scope_requirement(one, "spec.scopeSelector.matchExpressions")


def _scope_requirement(value: Object, path: str) -> Problems:
    if value.get("scopeName") not in _SCOPES:
        yield invalid(f"{path}.scopeName", value.get("scopeName"), "unsupported scope")
    match value.get("operator"):
        case "In" | "NotIn":
            if not value.get("values"):
                yield required(f"{path}.values", "must be at least one value for In and NotIn")
        case "Exists" | "DoesNotExist":
            if value["operator"] == "DoesNotExist" and value.get("scopeName") in _NEED_EXISTS:
                yield invalid(f"{path}.operator", "DoesNotExist", "must be 'Exists' for this scope")
                yield invalid(path, value, "unsupported scope applied to resource")
            if value.get("values"):
                yield invalid(f"{path}.values", value["values"], "must be no value for Exists and DoesNotExist")
        case other:
            yield invalid(f"{path}.operator", other, "not a valid selector operator")


def _change_quota(new: Object, before: Object) -> Problems:
    scopes = new["spec"].get("scopes") or []
    if set(scopes) != set(before["spec"].get("scopes") or []):
        yield invalid("spec.scopes", scopes, "field is immutable")


# Ranges of limits ----------------------------------------------------------------------------------------------------


def _fill_range(limit_range: Object) -> None:
    # Kubernetes names a range of limits itself where its author does not.
    if not limit_range["metadata"].get("name"):
        limit_range["metadata"]["name"] = limit_range["metadata"]["uid"]
    for limit in limit_range["spec"].get("limits") or ():
        if limit.get("type") != "Container":
            continue
        defaults = {**(limit.get("max") or {}), **(limit.get("default") or {})}
        requests = {**(limit.get("min") or {}), **defaults, **(limit.get("defaultRequest") or {})}
        if defaults:
            limit["default"] = defaults
        if requests:
            limit["defaultRequest"] = requests


def _check_range(limit_range: Object) -> Problems:
    seen = set()
    for index, limit in enumerate(limit_range["spec"].get("limits") or ()):
        where = f"spec.limits[{index}]"
        kind = limit.get("type") or ""
        if "/" not in kind and kind not in _RANGE_TYPES:
            yield invalid(f"{where}.type", kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            yield duplicate(f"{where}.type", kind)
        seen.add(kind)
        if kind == "Pod":
            for name in ("default", "defaultRequest"):
                if limit.get(name):
                    yield forbidden(f"{where}.{name}", "may not be specified when `type` is 'Pod'")
        sizes = {**(limit.get("min") or {}), **(limit.get("max") or {})}
        if kind == "PersistentVolumeClaim" and "storage" not in sizes:
            yield required(f"{where}.limits", "either minimum or maximum storage value is required")
        yield from _bounds(limit, where)


# What must not be above what, and which field is to blame.
_ORDERED = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)


def _bounds(limit: Object, path: str) -> Problems:
    for kind in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
        for name, amount in (limit.get(kind) or {}).items():
            if "/" not in name and name not in STANDARD and not is_huge_pages(name):
                yield invalid(f"{path}.{kind}[{name}]", name, "must be a standard resource type or fully qualified")
            yield from resource_amount(name, amount, f"{path}.{kind}[{name}]")
    for low, high, blamed in _ORDERED:
        for name in (limit.get(low) or {}).keys() & (limit.get(high) or {}).keys():
            least, most = limit[low][name], limit[high][name]
            if quantity(least) > quantity(most):
                yield invalid(f"{path}.{blamed}[{name}]", least, f"{low} {least} is greater than {high} {most}")
    for name, ratio in (limit.get("maxLimitRequestRatio") or {}).items():
        if quantity(ratio) < quantity("1"):
            yield invalid(f"{path}.maxLimitRequestRatio[{name}]", ratio, "is less than 1")
        least, most = (limit.get("min") or {}).get(name), (limit.get("max") or {}).get(name)
        if least is not None and most is not None and _exceeds(ratio, least, most):
            yield invalid(f"{path}.maxLimitRequestRatio[{name}]", ratio, "is greater than max/min")
    for name in (limit.get("default") or {}).keys() & (limit.get("defaultRequest") or {}).keys():
        given, request = limit["default"][name], limit["defaultRequest"][name]
        is_fixed = not is_native(name) or is_huge_pages(name)
        if is_fixed and quantity(given) != quantity(request):
            yield invalid(f"{path}.defaultRequest[{name}]", request, "must equal the default")


def _exceeds(ratio: str, least: str, most: str) -> bool:
    """Whether a ratio is above that of the two amounts, in thousandths as Kubernetes counts."""
    times, low, high = (quantity(text).scaled(3, INT64_MAX) for text in (ratio, least, most))
    return low > 0 and times * low > high * 1000


# Budgets of disruption -----------------------------------------------------------------------------------------------


def _check_budget(budget: Object) -> Problems:
    spec = budget["spec"]
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        if spec.get(name) is not None:
            yield from count_or_percent(spec[name], f"spec.{name}")
            yield from at_most_all(spec[name], f"spec.{name}")
    if spec.get("selector") is not None:
        yield from label_selector(spec["selector"], "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        yield from one_of("AlwaysAllow", "IfHealthyBudget")(policy, "spec.unhealthyPodEvictionPolicy")


KINDS = (
    kind_rules(("", "v1", "ResourceQuota"), check=_check_quota, change=_change_quota, has_generation=False),
    kind_rules(("", "v1", "LimitRange"), fill=_fill_range, check=_check_range, has_generation=False),
    kind_rules(("policy", "v1", "PodDisruptionBudget"), check=_check_budget, name_problem=path_segment_problem),
)
