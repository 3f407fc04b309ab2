"""Ranges of limits: what containers get that say nothing, and what no container, pod or claim may ask for.

Kubernetes' LimitRanger. Pure; called by the chain with the ranges of the namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.apiserver.kinds.checks import quantity
from muster.model.fields import INT64_MAX, Fields
from muster.model.podspec import total_limits, total_requests
from muster.model.quantity import Quantity
from muster.store.errors import Forbidden
from muster.store.records import Key

Object = dict[str, Any]
Amounts = Mapping[str, Quantity]

ANNOTATION = "kubernetes.io/limit-ranger"
_MOST_MILLI = INT64_MAX // 1000


# Defaults ------------------------------------------------------------------------------------------------------------


def with_defaults(pod: Object, ranges: Iterable[Object]) -> Object:
    """A new pod whose containers ask for what the ranges say where they do not say themselves."""
    spec = pod["spec"]
    for one in _items(ranges, "Container"):
        spec, told = _completed(spec, one.get("defaultRequest") or {}, one.get("default") or {})
        if told:
            annotations = {**(pod["metadata"].get("annotations") or {}), ANNOTATION: _sentence(told)}
            pod = {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}
    return {**pod, "spec": spec}


def _completed(spec: Object, requests: Object, limits: Object) -> tuple[Object, list[str]]:
    told: list[str] = []
    new = dict(spec)
    for kind, called in (("containers", "container"), ("initContainers", "init container")):
        if not spec.get(kind):
            continue
        new[kind] = []
        for container in spec[kind]:
            resources = container.get("resources") or {}
            has_limits = resources.get("limits") or {}
            has = {"requests": {**has_limits, **(resources.get("requests") or {})}, "limits": has_limits}
            for part, given in (("requests", requests), ("limits", limits)):
                if added := sorted(given.keys() - has[part].keys()):
                    has[part] = {**has[part], **{name: given[name] for name in added}}
                    told.append(f"{', '.join(added)} {part[:-1]} for {called} {container.get('name')}")
            filled = {part: amounts for part, amounts in has.items() if amounts}
            new[kind].append({**container, "resources": {**resources, **filled}})
    return new, told


def _sentence(told: Iterable[str]) -> str:
    return f"LimitRanger plugin set: {'; '.join(told)}"


def _items(ranges: Iterable[Object], kind: str) -> Iterator[Object]:
    for one in ranges:
        yield from (item for item in one["spec"].get("limits") or () if item.get("type") == kind)


# Bounds --------------------------------------------------------------------------------------------------------------


def check_pod(key: Key, pod: Object, ranges: Iterable[Object]) -> None:
    """Raise Forbidden where a pod or one of its containers is outside of a range."""
    spec = pod["spec"]
    problems: list[str] = []
    for one in ranges:
        for item in _items([one], "Container"):
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = Fields.of(container.get("resources"), "resources")
                problems += _outside(item, resources.quantities("requests"), resources.quantities("limits"))
        for item in _items([one], "Pod"):
            fields = Fields.of(spec, "spec")
            problems += _outside(item, total_requests(fields), total_limits(fields))
    _refuse(key, problems)


def check_claim(key: Key, claim: Object, ranges: Iterable[Object]) -> None:
    """Raise Forbidden where the size of a claim is outside of a range."""
    requests = Fields.of(claim["spec"].get("resources"), "resources").quantities("requests")
    problems: list[str] = []
    for item in _items(ranges, "PersistentVolumeClaim"):
        problems += _below(item, requests, {})
        for name, most in sorted((item.get("max") or {}).items()):
            start = f"maximum {name} usage per {item['type']} is {most}"
            if name not in requests:
                problems.append(f"{start}.  No request is specified")
            elif requests[name] > quantity(most):
                problems.append(f"{start}, but request is {requests[name]}")
    _refuse(key, problems)


def _refuse(key: Key, problems: list[str]) -> None:
    if problems:
        raise Forbidden(key, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")


def _outside(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _below(item, requests, limits)
    for name, most in sorted((item.get("max") or {}).items()):
        start = f"maximum {name} usage per {item['type']} is {most}"
        if name not in limits:
            yield f"{start}.  No limit is specified"
        elif limits[name] > quantity(most):
            yield f"{start}, but limit is {limits[name]}"
        elif name in requests and requests[name] > quantity(most):
            yield f"{start}, but request is {requests[name]}"
    for name, most in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        if problem := _ratio_problem(most, requests.get(name), limits.get(name)):
            yield f"{name} max limit to request ratio per {item['type']} is {most}, but {problem}"


def _below(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, least in sorted((item.get("min") or {}).items()):
        start = f"minimum {name} usage per {item['type']} is {least}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif requests[name] < quantity(least):
            yield f"{start}, but request is {requests[name]}"
        elif name in limits and limits[name] < quantity(least):
            yield f"{start}, but limit is {limits[name]}"


def _ratio_problem(most: str, request: Quantity | None, limit: Quantity | None) -> str:
    """What is wrong with a limit that is so many times the request, counted as Kubernetes does."""
    if request is None or request.is_zero:
        return "no request is specified or request is 0"
    if limit is None or limit.is_zero:
        return "no limit is specified or limit is 0"
    is_large = any(one.scaled(0, INT64_MAX) > _MOST_MILLI for one in (request, limit, quantity(most)))
    power = 0 if is_large else 3
    ratio = limit.scaled(power, INT64_MAX) / request.scaled(power, INT64_MAX)
    if ratio * 1000 > quantity(most).scaled(3, INT64_MAX):
        return f"provided ratio is {ratio:.6f}"
    return ""
