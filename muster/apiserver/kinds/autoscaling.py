"""Horizontal pod autoscalers: stored as v2, and served as v1 too, where only the processor counts."""

from __future__ import annotations

import json
from typing import Any

from muster.apiserver.kinds.access import path_segment_problem
from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import Check, amount, at_least, between, fields, named, one_of, quantity
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, not_supported, required
from muster.apiserver.kinds.resources import container_resource_name

Object = dict[str, Any]

V1, V2 = "autoscaling/v1", "autoscaling/v2"
WINDOW_MOST_S = 3600
PERIOD_MOST_S = 1800
DEFAULT_UTILIZATION = 80
_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, BEHAVIOR = _PREFIX + "metrics", _PREFIX + "behavior"
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


# Defaults ------------------------------------------------------------------------------------------------------------


def _fill(autoscaler: Object) -> None:
    spec = autoscaler["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": DEFAULT_UTILIZATION}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        up = behavior.setdefault("scaleUp", {})
        fill(up, {"selectPolicy": "Max", "stabilizationWindowSeconds": 0})
        up.setdefault(
            "policies",
            [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        )
        down = behavior.setdefault("scaleDown", {})
        down.setdefault("selectPolicy", "Max")
        down.setdefault("policies", [{"type": "Percent", "value": 100, "periodSeconds": 15}])


# Rules ---------------------------------------------------------------------------------------------------------------

_SEGMENT = named(path_segment_problem)
_NAMES = fields("kind name", {"kind": _SEGMENT, "name": _SEGMENT})


def _reference(value: Object, path: str) -> Problems:
    yield from _NAMES(value, path)
    version = value.get("apiVersion") or ""
    is_of_core = value.get("kind") == "ReplicationController" and "/" not in version
    if version.count("/") != 1 and not is_of_core:
        yield invalid(f"{path}.apiVersion", version, "must specify an API group, as in apps/v1")


_POLICY = fields(
    "",
    {"type": one_of("Pods", "Percent"), "value": at_least(1), "periodSeconds": between(1, PERIOD_MOST_S)},
)


def _check(autoscaler: Object) -> Problems:
    spec = autoscaler["spec"]
    least, most = spec["minReplicas"], spec.get("maxReplicas") or 0
    yield from at_least(1)(least, "spec.minReplicas")
    if least == 0 and not any(one.get("type") in ("Object", "External") for one in spec["metrics"]):
        yield forbidden("spec.metrics", "an Object or External metric is needed to scale to zero")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    yield from _reference(spec["scaleTargetRef"], "spec.scaleTargetRef")
    for index, metric in enumerate(spec["metrics"]):
        yield from _metric(metric, f"spec.metrics[{index}]")
    for name, rules in (spec.get("behavior") or {}).items():
        yield from _scaling(rules, f"spec.behavior.{name}")


def _scaling(rules: Object, path: str) -> Problems:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None:
        yield from between(0, WINDOW_MOST_S)(window, f"{path}.stabilizationWindowSeconds")
    if rules.get("selectPolicy") is not None:
        yield from one_of("Max", "Min", "Disabled")(rules["selectPolicy"], f"{path}.selectPolicy")
    if (tolerance := rules.get("tolerance")) is not None:
        yield from amount(tolerance, f"{path}.tolerance")
    if not rules.get("policies"):
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        yield from _POLICY(policy, f"{path}.policies[{index}]")


def _metric(metric: Object, path: str) -> Problems:
    kind = metric.get("type") or ""
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        yield not_supported(f"{path}.type", kind, _SOURCES)
    wanted = _SOURCES.get(kind, "")
    if wanted and metric.get(wanted) is None:
        yield required(f"{path}.{wanted}", "must populate information for the given metric source")
    for name in _SOURCES.values():
        if metric.get(name) is not None:
            if name != "containerResource" or wanted in ("", name):
                yield from _source(metric[name], f"{path}.{name}", name)
            if wanted and name != wanted:
                yield forbidden(f"{path}.{name}", "must populate the given metric source only")


_NAMED: dict[str, Check] = {
    "resource": fields("name", {}),
    "containerResource": fields("name container", {"name": container_resource_name}),
    "pods": fields("", {"metric": fields("name", {"name": _SEGMENT})}),
    "external": fields("", {"metric": fields("name", {"name": _SEGMENT})}),
    "object": fields("", {"metric": fields("name", {"name": _SEGMENT}), "describedObject": _NAMES}),
}
# What a target may be set as; the first is the one that is missed where there is none.
_TARGETS = {
    "resource": ("averageUtilization", "averageValue"),
    "containerResource": ("averageUtilization", "averageValue"),
    "pods": ("averageValue",),
    "external": ("averageValue", "value"),
    "object": ("averageValue", "value"),
}


def _source(source: Object, path: str, kind: str) -> Problems:
    yield from _NAMED[kind](source, path)
    target, where = source.get("target") or {}, f"{path}.target"
    yield from _target(target, where)
    given = [name for name in _TARGETS[kind] if target.get(name) is not None]
    if not given:
        yield required(f"{where}.{_TARGETS[kind][0]}", "a target has to be set")
    elif len(given) > 1 and kind != "object":
        yield forbidden(f"{where}.{given[1]}", "only one target may be set")


def _target(target: Object, path: str) -> Problems:
    kind = target.get("type") or ""
    if not kind:
        yield required(f"{path}.type", "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        yield invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        text = target.get(name)
        if text is not None and (quantity(text).is_negative or quantity(text).is_zero):
            yield invalid(f"{path}.{name}", text, "must be positive")
    if (utilization := target.get("averageUtilization")) is not None and utilization < 1:
        yield invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")


# The older version ---------------------------------------------------------------------------------------------------


def convert(given: Object, api_version: str) -> Object:
    """An autoscaler in the other version; v1 keeps what it has no field for in annotations."""
    to_other = _to_v1 if api_version == V1 else _to_v2
    spec, annotations = to_other(dict(given.get("spec") or {}), dict(_annotations(given)))
    metadata = {**(given.get("metadata") or {}), "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    result = {**given, "apiVersion": api_version, "metadata": metadata, "spec": spec}
    if (status := given.get("status")) is not None:
        result["status"] = _status(dict(status), api_version)
    return result


def _annotations(given: Object) -> Object:
    metadata = given.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _is_processor(metric: Object) -> bool:
    resource = metric.get("resource") or {}
    is_utilization = (resource.get("target") or {}).get("averageUtilization") is not None
    return metric.get("type") == "Resource" and resource.get("name") == "cpu" and is_utilization


def _to_v1(spec: Object, annotations: Object) -> tuple[Object, Object]:
    metrics = spec.pop("metrics", None) or []
    processor = next((metric for metric in metrics if _is_processor(metric)), None)
    others = [metric for metric in metrics if metric is not processor]
    if processor is not None:
        spec["targetCPUUtilizationPercentage"] = processor["resource"]["target"]["averageUtilization"]
    if others:
        annotations[METRICS] = json.dumps(others)
    if (behavior := spec.pop("behavior", None)) is not None:
        annotations[BEHAVIOR] = json.dumps(behavior)
    return spec, annotations


def _to_v2(spec: Object, annotations: Object) -> tuple[Object, Object]:
    share = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _kept(annotations.pop(METRICS, ""), list)
    if share is not None:
        target = {"type": "Utilization", "averageUtilization": share}
        metrics = [*(metrics or []), {"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if metrics:
        spec["metrics"] = metrics
    if behavior := _kept(annotations.pop(BEHAVIOR, ""), dict):
        spec["behavior"] = behavior
    return spec, annotations


def _kept(text: Any, wanted: type) -> Any:
    """What an annotation holds of the other version; nothing where somebody wrote something else there."""
    try:
        found = json.loads(text) if isinstance(text, str) and text else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, wanted) else None


def _status(status: Object, api_version: str) -> Object:
    if api_version == V1:
        status.pop("conditions", None)
        metrics = status.pop("currentMetrics", None) or []
        shares = [(one.get("resource") or {}).get("current") or {} for one in metrics if one.get("type") == "Resource"]
        if shares and shares[0].get("averageUtilization") is not None:
            status["currentCPUUtilizationPercentage"] = shares[0]["averageUtilization"]
        return status
    status.pop("currentCPUUtilizationPercentage", None)
    return status


KINDS = (
    kind_rules(
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        fill=_fill,
        check=_check,
        convert=convert,
        has_generation=False,
    ),
)
