"""Where an autoscaler's metrics come from. Used by `autoscaler_metrics`; another source implements `MetricSource`.

Processors and memory come from the nodes. What a metrics adapter would serve is written on objects instead:

    metrics.muster.dev/NAME: "12"      an annotation of a pod (Pods metrics) or of any object (Object metrics)
    metrics.muster.dev/external        a label of config maps, whose data are External metrics; they are selected by
                                       their other labels, and several of one name are added up
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from muster.controllers.builtin.autoscaler_counts import Reading
from muster.controllers.view import View
from muster.model.labels import Selector
from muster.model.quantity import InvalidQuantity, parse_quantity
from muster.model.usage import Usage, Usages
from muster.store.kinds import Object

PREFIX = "metrics.muster.dev/"
EXTERNAL = PREFIX + "external"
MAPS = "configmaps"
WINDOW_S = 60.0
_MOST = 2**53  # thousandths; beyond it ratios are not exact any more

Find = Callable[[str, str, str, str], Object | None]  # by apiVersion, kind, namespace and name


class MetricSource(Protocol):
    """Answers for one look at a time; amounts are thousandths."""

    def of_resource(self, pods: Iterable[Object], resource: str, container: str) -> dict[str, Reading]:
        """By pod, what it or one of its containers uses."""

    def of_pods(self, pods: Iterable[Object], metric: str, now_s: float) -> dict[str, Reading]:
        """By pod, a metric of its own."""

    def of_object(self, reference: Object, namespace: str, metric: str) -> int | None:
        """A metric of another object; `None` where it has none."""

    def of_external(self, namespace: str, metric: str, selector: Selector) -> list[int]:
        """All values of a metric of something outside."""


class WrittenMetrics:
    """Metrics that nodes say, and that people or programs write on objects."""

    def __init__(self, view: View, usages: Usages, find: Find) -> None:
        self._view = view
        self._usages = usages
        self._find = find

    def of_resource(self, pods: Iterable[Object], resource: str, container: str) -> dict[str, Reading]:
        found = {}
        for pod in pods:
            measure = self._usages.of_pod(pod)
            usage = None if measure is None else measure.parts.get(container) if container else measure.total
            if measure is not None and usage is not None:
                found[pod["metadata"]["name"]] = Reading(_amount(usage, resource), measure.at_s, measure.window_s)
        return found

    def of_pods(self, pods: Iterable[Object], metric: str, now_s: float) -> dict[str, Reading]:
        values = {pod["metadata"]["name"]: _written(pod, metric) for pod in pods}
        return {name: Reading(value, now_s, WINDOW_S) for name, value in values.items() if value is not None}

    def of_object(self, reference: Object, namespace: str, metric: str) -> int | None:
        given = self._find(reference.get("apiVersion") or "v1", reference["kind"], namespace, reference["name"])
        return None if given is None else _written(given, metric)

    def of_external(self, namespace: str, metric: str, selector: Selector) -> list[int]:
        found = []
        for one in self._view.all(MAPS, namespace):
            labels = one["metadata"].get("labels") or {}
            if EXTERNAL in labels and selector.matches(labels):
                value = _thousandths((one.get("data") or {}).get(metric))
                found += [] if value is None else [value]
        return found


def _amount(usage: Usage, resource: str) -> int:
    if resource == "cpu":
        return -(-usage.cpu_nanos // 1_000_000)
    return usage.memory_bytes * 1000 if resource == "memory" else 0


def _written(given: Mapping[str, Any], metric: str) -> int | None:
    return _thousandths((given["metadata"].get("annotations") or {}).get(PREFIX + metric))


def _thousandths(text: object) -> int | None:
    """What was written as a metric; what cannot be read is none."""
    if not isinstance(text, str):
        return None
    try:
        return parse_quantity(text).scaled(3, _MOST)
    except InvalidQuantity:
        return None
