"""What one pod asks for: its resources as quota counts them, and where it may run.

Read from a pod's spec, or from the spec in a template. The sums are those of the kube-scheduler and the kubelet;
negative quantities count as nothing, as in Kueue, because refusing them is the business of validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from muster.model.fields import Fields
from muster.model.labels import (
    NodeTerms,
    PreferredTerm,
    Toleration,
    read_preferred_terms,
    read_required_terms,
    read_tolerations,
)
from muster.model.quantity import FINEST_POWER, Format, Quantity, parse_quantity, quantity_text
from muster.model.resources import AMOUNT_MAX, CPU, CPU_POWER, amount_of, amount_text

CONTAINER = "Container"
POD = "Pod"

Quantities = Mapping[str, Quantity]  # by resource

# Exact amounts per resource, in billionths of its base unit: no quantity is finer, so no sum is rounded twice.
_Exact = dict[str, int]
_EXACT_MAX = AMOUNT_MAX * 10**-FINEST_POWER


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShape:
    """What the engine knows of a pod."""

    requests: Mapping[str, int] = field(default_factory=dict)  # by resource, in the unit that quota counts
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: NodeTerms | None = None  # required; None: anywhere
    preferred: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority_class: str = ""
    runtime_class: str = ""
    scheduler: str = ""


def pod_shape(spec: Fields, *, limits_as_requests: bool = True) -> PodShape:
    """Reads a pod's spec; where a request is missing, the limit stands in for it unless told otherwise."""
    return PodShape(
        requests=_rounded(_total_requests(spec, limits_as_requests)),
        node_selector=spec.text_map("nodeSelector"),
        affinity=read_required_terms(spec),
        preferred=read_preferred_terms(spec),
        tolerations=read_tolerations(spec),
        priority_class=spec.text("priorityClassName"),
        runtime_class=spec.text("runtimeClassName"),
        scheduler=spec.text("schedulerName"),
    )


# Sums -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Container:
    """The part of a container, or of the pod as a whole, that counts."""

    path: str
    requests: Quantities
    limits: Quantities
    is_sidecar: bool = False  # an init container that keeps running

    @staticmethod
    def read(fields: Fields, *, is_init: bool = False) -> _Container:
        resources = fields.child("resources")
        return _Container(
            path=fields.path,
            requests=resources.quantities("requests"),
            limits=resources.quantities("limits"),
            is_sidecar=is_init and fields.text("restartPolicy") == "Always",
        )

    @property
    def requests_or_limits(self) -> Quantities:
        return {**self.limits, **self.requests}


_Part = Callable[[_Container], Quantities]


def _init_containers(spec: Fields) -> list[_Container]:
    return [_Container.read(fields, is_init=True) for fields in spec.children("initContainers")]


def _containers(spec: Fields) -> list[_Container]:
    return [_Container.read(fields) for fields in spec.children("containers")]


def _total_requests(spec: Fields, limits_as_requests: bool) -> _Exact:
    """What the scheduler sets aside for the pod."""
    part: _Part = (lambda one: one.requests_or_limits) if limits_as_requests else (lambda one: one.requests)
    total = _sum_of_containers(spec, part)
    pod = _Container.read(spec)
    for resource, quantity in pod.requests.items():
        if not _is_pod_level(resource):
            continue
        if quantity.is_negative:
            # It would replace what the containers ask for by nothing, so it is dropped and only its name stays.
            total.setdefault(resource, 0)
        else:
            total[resource] = _exact(quantity)
    if limits_as_requests:
        _let_pod_limits_stand_in(pod, total)
    _add(total, _exact_amounts(spec.quantities("overhead")))
    return total


def total_requests(spec: Fields) -> dict[str, Quantity]:
    """What the pod as a whole asks for, with its overhead."""
    return _as_quantities(_total_requests(spec, False), spec, lambda one: one.requests)


def total_limits(spec: Fields) -> dict[str, Quantity]:
    """What the pod as a whole may use at most; overhead counts only where there is a limit."""
    total = _sum_of_containers(spec, lambda one: one.limits)
    for resource, quantity in _Container.read(spec).limits.items():
        if _is_pod_level(resource):
            total[resource] = _exact(quantity)
    overhead = _exact_amounts(spec.quantities("overhead"))
    _add(total, {resource: amount for resource, amount in overhead.items() if total.get(resource)})
    return _as_quantities(total, spec, lambda one: one.limits)


def _as_quantities(total: _Exact, spec: Fields, part: _Part) -> dict[str, Quantity]:
    """The sums, each written in the manner of the first amount that is part of it."""
    named: dict[str, Quantity] = {}
    for container in (_Container.read(spec), *_init_containers(spec), *reversed(_containers(spec))):
        named.update((name, one) for name, one in part(container).items() if not one.is_zero)
    result = {}
    for resource, amount in total.items():
        is_binary = resource in named and named[resource].format is Format.BINARY
        result[resource] = parse_quantity(quantity_text(amount, power=-FINEST_POWER, binary=is_binary))
    return result


def _let_pod_limits_stand_in(pod: _Container, total: _Exact) -> None:
    """Kubernetes: a pod's own limit is its request where neither it nor, but for huge pages, a container has one."""
    for resource, quantity in pod.limits.items():
        is_asked = resource in total and not resource.startswith("hugepages-")
        if _is_pod_level(resource) and resource not in pod.requests and not is_asked:
            total[resource] = _exact(quantity)


def _sum_of_containers(spec: Fields, part: _Part) -> _Exact:
    """All containers at once, or the hungriest moment before they start."""
    running: _Exact = {}
    for container in _containers(spec):
        _add(running, _exact_amounts(part(container)))
    sidecars: _Exact = {}
    starting: _Exact = {}
    for container in _init_containers(spec):
        asked = _exact_amounts(part(container))
        if container.is_sidecar:
            # From now on it runs beside every later step and beside the containers.
            _add(running, asked)
            _add(sidecars, asked)
            _raise_to(starting, sidecars)
        else:
            _add(asked, sidecars)
            _raise_to(starting, asked)
    _raise_to(running, starting)
    return running


def _is_pod_level(resource: str) -> bool:
    """Whether Kubernetes lets a pod ask for this as a whole."""
    return resource in (CPU, "memory") or resource.startswith("hugepages-")


def _exact(quantity: Quantity) -> int:
    return max(0, quantity.scaled(-FINEST_POWER, _EXACT_MAX))


def _exact_amounts(quantities: Quantities) -> _Exact:
    return {resource: _exact(quantity) for resource, quantity in quantities.items()}


def _add(total: _Exact, more: Mapping[str, int]) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount


def _raise_to(total: _Exact, other: Mapping[str, int]) -> None:
    for resource, amount in other.items():
        total[resource] = max(total.get(resource, 0), amount)


def _rounded(total: Mapping[str, int]) -> dict[str, int]:
    """The sums in the unit that quota counts. Kubernetes rounds up once, after adding."""
    result = {}
    for resource, amount in total.items():
        unit = 10 ** (-FINEST_POWER - (CPU_POWER if resource == CPU else 0))
        result[resource] = min(-(-amount // unit), AMOUNT_MAX)
    return result


# Requests above limits --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AboveLimits:
    """A container, or the pod's own resources, with requests above its limits."""

    path: str
    resources: tuple[str, ...]  # sorted


def requests_above_limits(spec: Fields) -> tuple[AboveLimits, ...]:
    """Who asks for more than it may use: init containers first, then containers, then the pod as a whole."""
    pod = _Container.read(spec)
    found = []
    for part in (*_init_containers(spec), *_containers(spec), pod):
        resources = tuple(sorted(_greater(_amounts(part.requests), _amounts(part.limits))))
        if resources:
            found.append(AboveLimits(spec.at("resources") if part is pod else part.path, resources))
    return tuple(found)


def _amounts(quantities: Quantities) -> dict[str, int]:
    return {resource: amount_of(resource, quantity) for resource, quantity in quantities.items()}


def _greater(left: Mapping[str, int], right: Mapping[str, int]) -> Iterator[str]:
    """The resources of which both have some and the left one has more; what either leaves open is not judged."""
    return (resource for resource, amount in left.items() if resource in right and amount > right[resource])


# Limit ranges -----------------------------------------------------------------------------------------------------


class RangeProblem(Enum):
    """Which bound of a limit range does not hold."""

    ABOVE_MAX = "max"
    BELOW_MIN = "min"
    ABOVE_RATIO = "maxLimitRequestRatio"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRangeItem:
    """The bounds of a namespace for its containers, or for its pods."""

    kind: str = CONTAINER  # other kinds than Container and Pod have nothing to do with pods
    most: Quantities = field(default_factory=dict)
    least: Quantities = field(default_factory=dict)
    ratio_most: Quantities = field(default_factory=dict)  # limit divided by request


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeViolation:
    """One bound that one container or pod does not keep."""

    path: str
    resource: str
    problem: RangeProblem
    found: str  # as Kubernetes would write it
    allowed: str


def read_limit_range(limit_range: Fields) -> tuple[LimitRangeItem, ...]:
    """The bounds that a LimitRange object sets."""
    return tuple(
        LimitRangeItem(
            kind=fields.text("type"),
            most=fields.quantities("max"),
            least=fields.quantities("min"),
            ratio_most=fields.quantities("maxLimitRequestRatio"),
        )
        for fields in limit_range.child("spec").children("limits")
    )


def limit_range_violations(spec: Fields, items: Iterable[LimitRangeItem]) -> tuple[RangeViolation, ...]:
    """Which bounds the pod breaks: init containers first, then containers, then the pod; sorted by resource.

    What a container leaves open is not judged: the API server fills it in, or refuses it, when the pod is made.
    """
    known = tuple(items)
    found: list[RangeViolation] = []
    if bounds := _strictest(known, CONTAINER):
        for container in (*_init_containers(spec), *_containers(spec)):
            requests, limits = _exact_amounts(container.requests), _exact_amounts(container.limits)
            both = requests.keys() & limits.keys()
            low = {**requests, **limits} | {name: min(requests[name], limits[name]) for name in both}
            high = low | {name: max(requests[name], limits[name]) for name in both}
            found += _outside(container.path, bounds, _rounded(low), _rounded(high))
            found += _above_ratio(container.path, bounds, requests, limits)
    if bounds := _strictest(known, POD):
        total = _total_requests(spec, limits_as_requests=True)
        found += _outside(spec.path, bounds, _rounded(total), _rounded(total))
        found += _above_ratio(spec.path, bounds, total, _sum_of_containers(spec, lambda one: one.limits))
    return tuple(found)


def _strictest(items: Iterable[LimitRangeItem], kind: str) -> LimitRangeItem | None:
    """All bounds of one kind in one: the lowest of the upper ones and the highest of the lower ones."""
    most: dict[str, Quantity] = {}
    least: dict[str, Quantity] = {}
    ratio_most: dict[str, Quantity] = {}
    of_kind = [item for item in items if item.kind == kind]
    for item in of_kind:
        for resource, quantity in item.most.items():
            most[resource] = min(quantity, most.get(resource, quantity))
        for resource, quantity in item.least.items():
            least[resource] = max(quantity, least.get(resource, quantity))
        for resource, quantity in item.ratio_most.items():
            ratio_most[resource] = min(quantity, ratio_most.get(resource, quantity))
    return LimitRangeItem(kind=kind, most=most, least=least, ratio_most=ratio_most) if of_kind else None


def _outside(
    path: str, bounds: LimitRangeItem, low: Mapping[str, int], high: Mapping[str, int]
) -> Iterator[RangeViolation]:
    """Where the higher of request and limit is above the upper bound, or the lower of them below the lower one."""
    most, least = _amounts(bounds.most), _amounts(bounds.least)
    for resource in sorted(_greater(high, most)):
        found, allowed = amount_text(resource, high[resource]), bounds.most[resource].canonical()
        problem = RangeProblem.ABOVE_MAX
        yield RangeViolation(path=path, resource=resource, problem=problem, found=found, allowed=allowed)
    for resource in sorted(_greater(least, low)):
        found, allowed = amount_text(resource, low[resource]), bounds.least[resource].canonical()
        problem = RangeProblem.BELOW_MIN
        yield RangeViolation(path=path, resource=resource, problem=problem, found=found, allowed=allowed)


def _above_ratio(
    path: str, bounds: LimitRangeItem, requests: Mapping[str, int], limits: Mapping[str, int]
) -> Iterator[RangeViolation]:
    """Where the limit is too many times the request; compared as products, so that nothing is divided by zero."""
    for resource in sorted(bounds.ratio_most.keys() & requests.keys() & limits.keys()):
        allowed = bounds.ratio_most[resource]
        if limits[resource] * 10**-FINEST_POWER <= _exact(allowed) * requests[resource]:
            continue
        asked = _rounded({resource: requests[resource]})[resource]
        limit = _rounded({resource: limits[resource]})[resource]
        yield RangeViolation(
            path=path,
            resource=resource,
            problem=RangeProblem.ABOVE_RATIO,
            found=f"{amount_text(resource, limit)} to {amount_text(resource, asked)}",
            allowed=allowed.canonical(),
        )
