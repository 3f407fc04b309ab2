"""One metric of an autoscaler: what it asks for, how it is told, and what its status says. Called by `autoscaler`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.controllers.builtin.autoscaler_counts import (
    Asked,
    Count,
    NoCount,
    Reading,
    Tolerances,
    count_by_average,
    count_by_share,
    count_by_utilization,
    count_by_value,
)
from muster.controllers.builtin.autoscaler_sources import MetricSource
from muster.model.fields import Fields
from muster.model.labels import Selector, read_selector
from muster.model.quantity import parse_quantity, quantity_text
from muster.store.kinds import Object

_MOST = 2**53
REASONS = {
    "Resource": "FailedGetResourceMetric",
    "ContainerResource": "FailedGetContainerResourceMetric",
    "Pods": "FailedGetPodsMetric",
    "Object": "FailedGetObjectMetric",
    "External": "FailedGetExternalMetric",
}


class Found(NamedTuple):
    """What a metric asks for."""

    replicas: int
    name: str  # as it is told
    status: Object


class Failed(Exception):
    """A metric that says nothing."""

    def __init__(self, kind: str, problem: str, whole: str) -> None:
        super().__init__(problem)
        self.reason = REASONS[kind]
        self.problem = problem  # as a condition and an event tell it
        self.whole = whole  # as the event about all metrics tells it


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is scaled, as far as metrics are concerned."""

    namespace: str
    current: int
    running: int  # as its status says
    pods: Sequence[Object]
    now_s: float
    tolerances: Tolerances


def evaluated(metric: Object, target: Target, source: MetricSource) -> Found:
    """What one metric asks for; raises `Failed`."""
    match metric["type"]:
        case "Resource":
            return _of_resource(metric, metric["resource"], target, source)
        case "ContainerResource":
            return _of_resource(metric, metric["containerResource"], target, source)
        case "Pods":
            return _of_pods(metric["pods"], target, source)
        case "Object":
            return _of_object(metric["object"], target, source)
        case kind:
            assert kind == "External", f"there is no metric of the type {kind}"
            return _of_external(metric["external"], target, source)


def _asked(target: Target, readings: Mapping[str, Reading], *, is_cpu: bool = False) -> Asked:
    return Asked(
        current=target.current,
        pods=target.pods,
        readings=readings,
        now_s=target.now_s,
        is_cpu=is_cpu,
        tolerances=target.tolerances,
    )


def _of_resource(metric: Object, given: Object, target: Target, source: MetricSource) -> Found:
    kind, resource, container = metric["type"], given["name"], given.get("container") or ""
    wanted, place = given["target"], "container resource" if given.get("container") else "resource"
    is_share = wanted.get("averageUtilization") is not None
    try:
        readings = source.of_resource(target.pods, resource, container)
        if not readings:
            raise NoCount(
                f"unable to get metrics for resource {resource}: no metrics returned from resource metrics API"
            )
        asked = _asked(target, readings, is_cpu=resource == "cpu")
        if is_share:
            requests = _requests(target.pods, resource, container)
            count = count_by_utilization(asked, requests, wanted["averageUtilization"])
        else:
            count = count_by_average(asked, _thousandths(wanted["averageValue"]))
    except NoCount as problem:
        text = f"failed to get {resource} {'utilization' if is_share else 'usage'}: {problem}"
        raise Failed(kind, text, f"failed to get {resource} {place} metric value: {text}") from None
    current: Object = {"averageValue": _text(count.average)}
    if count.utilization is not None:
        current = {"averageUtilization": count.utilization, **current}
    shown = {"name": resource, **({"container": container} if container else {}), "current": current}
    name = f"{resource} {place}{' utilization (percentage of request)' if is_share else ''}"
    return Found(count.replicas, name, {"type": kind, _field(kind): shown})


def _requests(pods: Sequence[Object], resource: str, container: str) -> dict[str, int]:
    """By pod, what its containers ask for; raises where one asks for nothing, since nothing has no share."""
    found: dict[str, int] = {}
    for pod in pods:
        name, total = pod["metadata"]["name"], 0
        kept = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
        for one in (*pod["spec"]["containers"], *kept):
            if container and one["name"] != container:
                continue
            amount = ((one.get("resources") or {}).get("requests") or {}).get(resource)
            if amount is None:
                raise NoCount(f"missing request for {resource} in container {one['name']} of Pod {name}")
            total += _thousandths(amount)
        found[name] = total
    return found


def _of_pods(given: Object, target: Target, source: MetricSource) -> Found:
    metric, wanted = given["metric"]["name"], given["target"]
    try:
        readings = source.of_pods(target.pods, metric, target.now_s)
        if not readings:
            raise NoCount(f"unable to get metric {metric}: no metrics returned from custom metrics API")
        count = count_by_average(_asked(target, readings), _thousandths(wanted["averageValue"]))
    except NoCount as problem:
        text = f"failed to get pods metric value: {problem}"
        raise Failed("Pods", text, text) from None
    shown = {"metric": given["metric"], "current": {"averageValue": _text(count.average)}}
    return Found(count.replicas, f"pods metric {metric}", {"type": "Pods", "pods": shown})


def _of_object(given: Object, target: Target, source: MetricSource) -> Found:
    metric, about = given["metric"]["name"], given["describedObject"]
    usage = source.of_object(about, target.namespace, metric)
    if usage is None:
        where = f"{about['kind']} on {target.namespace} {about['name']}"
        text = f"failed to get object metric value: unable to get metric {metric}: {where}/no metrics returned"
        raise Failed("Object", text, text)
    count, current = _divided(given["target"], usage, target)
    shown = {"metric": given["metric"], "describedObject": about, "current": current}
    return Found(count.replicas, f"{about['kind']} metric {metric}", {"type": "Object", "object": shown})


def _of_external(given: Object, target: Target, source: MetricSource) -> Found:
    metric = given["metric"]["name"]
    selector = read_selector(Fields.of(given["metric"], "metric"), "selector") or Selector()
    values = source.of_external(target.namespace, metric, selector)
    told = _selector_text(given["metric"].get("selector"))
    if not values:
        why = f"unable to get external metric {target.namespace}/{metric}/{told}"
        problem = f"failed to get {metric} external metric: {why}: no metrics returned from external metrics API"
        raise Failed("External", problem, f"failed to get {metric} external metric value: {problem}")
    count, current = _divided(given["target"], sum(values), target)
    shown = {"metric": given["metric"], "current": current}
    return Found(count.replicas, f"external metric {metric}({told})", {"type": "External", "external": shown})


def _divided(wanted: Object, usage: int, target: Target) -> tuple[Count, Object]:
    """What a metric of something else asks for: by its value, or by its share for each pod."""
    asked = _asked(target, {})
    if wanted["type"] == "AverageValue":
        count = count_by_share(asked, usage, _thousandths(wanted["averageValue"]), running=target.running)
        return count, {"averageValue": _text(count.average)}
    count = count_by_value(asked, usage, _thousandths(wanted["value"]))
    return count, {"value": _text(count.average)}


def _field(kind: str) -> str:
    return kind[0].lower() + kind[1:]


def _thousandths(amount: object) -> int:
    return parse_quantity(str(amount)).scaled(3, _MOST)


def _text(amount: int) -> str:
    return quantity_text(amount, power=3, binary=False)


def _selector_text(selector: Object | None) -> str:
    """A selector as Go prints it, which is how users know it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{name}: {value}," for name, value in sorted((selector.get("matchLabels") or {}).items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{one['key']},Operator:{one['operator']},Values:{_go_list(one)},}},"
        for one in selector.get("matchExpressions") or ()
    )
    inside = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{terms}}},"
    return f"&LabelSelector{{{inside}}}"


def _go_list(requirement: Object) -> str:
    return f"[{' '.join(requirement.get('values') or ())}]"
