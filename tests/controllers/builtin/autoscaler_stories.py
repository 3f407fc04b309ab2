"""Autoscalers, the pods that they see, and what they do: played to Muster's controller and to the real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muster.model.times import moment_text
from tests.kubernetes.client import Json

LABEL = "story"
LONG_AGO_S = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of the target: what it asks for and uses, and how it stands with it."""

    cpu: str | None = None  # in use; None: it is not known
    memory: str = "0"
    request: str | None = "100m"
    phase: str = "Running"
    is_ready: bool = True
    age_s: float = LONG_AGO_S
    unready_after_s: float | None = None  # of an unready pod: when it became so, counted from its start


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """An autoscaler that looks once."""

    title: str
    pods: list[Pod]
    want: int
    told: dict[str, str]  # the reasons of its conditions
    metrics: list[Json] = field(default_factory=list)
    behavior: Json | None = None
    current: int | None = None  # pods that the target wants; None: as many as there are
    least: int = 1
    most: int = 10
    external: list[str] = field(default_factory=list)  # values of the external metric `jobs`

    @property
    def wanted(self) -> int:
        return len(self.pods) if self.current is None else self.current


def cpu(percent: int) -> Json:
    return {"type": "Resource", "resource": {"name": "cpu", "target": _of("Utilization", percent)}}


def amount(name: str, value: str) -> Json:
    return {"type": "Resource", "resource": {"name": name, "target": _of("AverageValue", value)}}


def container(percent: int, name: str = "c") -> Json:
    target = _of("Utilization", percent)
    return {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": name, "target": target}}


def jobs(kind: str, value: str) -> Json:
    return {"type": "External", "external": {"metric": {"name": "jobs"}, "target": _of(kind, value)}}


def _of(kind: str, value: Any) -> Json:
    field_of = {"Utilization": "averageUtilization", "AverageValue": "averageValue", "Value": "value"}
    return {"type": kind, field_of[kind]: value}


def pods(*amounts: str, **more: Any) -> list[Pod]:
    return [Pod(cpu=one, **more) for one in amounts]


def policies(direction: str, *given: tuple[str, int], select: str = "Max", **more: Any) -> Json:
    rules = [{"type": kind, "value": value, "periodSeconds": 60} for kind, value in given]
    none = {"stabilizationWindowSeconds": 0}
    return {direction: {"policies": rules, "selectPolicy": select, **none, **more}}


STEADY = {
    "AbleToScale": "ReadyForNewScale",
    "ScalingActive": "ValidMetricFound",
    "ScalingLimited": "DesiredWithinRange",
}
MOVED = {**STEADY, "AbleToScale": "SucceededRescale"}
HELD = {**STEADY, "AbleToScale": "ScaleDownStabilized"}
NO_METRIC = {"AbleToScale": "SucceededGetScale", "ScalingActive": "FailedGetResourceMetric"}
AT_ONCE = policies("scaleDown", ("Percent", 100))

STORIES = [
    Story(title="usage is as wanted", pods=pods("50m", "50m"), want=2, told=STEADY),
    Story(title="a little more is tolerated", pods=pods("55m", "55m"), want=2, told=STEADY),
    Story(title="a little less is tolerated", pods=pods("45m", "45m"), want=2, told=STEADY),
    Story(title="more than is tolerated", pods=pods("56m", "56m"), want=3, told=MOVED),
    Story(title="twice as much", pods=pods("100m", "100m"), want=4, told=MOVED),
    Story(title="half, and nobody has hurried", pods=pods("25m", "25m", "25m", "25m"), want=4, told=HELD),
    Story(title="half, at once", pods=pods("25m", "25m", "25m", "25m"), behavior=AT_ONCE, want=2, told=MOVED),
    Story(
        title="half, with a floor",
        pods=pods("10m", "10m", "10m", "10m"),
        behavior=AT_ONCE,
        least=3,
        want=3,
        told={**MOVED, "ScalingLimited": "TooFewReplicas"},
    ),
    Story(
        title="as many as allowed",
        pods=pods("100m", "100m"),
        most=3,
        want=3,
        told={**MOVED, "ScalingLimited": "TooManyReplicas"},
    ),
    Story(
        title="no faster than twice as many",
        pods=pods("900m", "900m", "900m"),
        most=50,
        want=6,
        told={**MOVED, "ScalingLimited": "ScaleUpLimit"},
    ),
    Story(
        title="four are always allowed",
        pods=pods("900m"),
        want=4,
        told={**MOVED, "ScalingLimited": "ScaleUpLimit"},
    ),
    Story(title="below the floor", pods=pods("50m"), least=3, want=3, told={"AbleToScale": "SucceededRescale"}),
    Story(
        title="above the top", pods=pods("50m", "50m", "50m"), most=2, want=2, told={"AbleToScale": "SucceededRescale"}
    ),
    Story(
        title="a target without pods is left alone",
        pods=[],
        current=0,
        want=0,
        told={"AbleToScale": "SucceededGetScale", "ScalingActive": "ScalingDisabled"},
    ),
    Story(title="no metrics at all", pods=[Pod(), Pod()], want=2, told=NO_METRIC),
    Story(title="a container asks for nothing", pods=pods("50m", request=None), want=1, told=NO_METRIC),
    Story(title="a pod that has no metric does not help to grow", pods=[*pods("100m"), Pod()], want=2, told=STEADY),
    Story(
        title="a pod that has no metric counts as busy when shrinking",
        pods=[*pods("10m", "10m"), Pod()],
        behavior=AT_ONCE,
        want=3,
        told=STEADY,
    ),
    Story(
        title="a pod that waits counts as idle when growing",
        pods=[*pods("150m", "150m"), Pod(phase="Pending", is_ready=False)],
        want=6,
        told=MOVED,
    ),
    Story(
        title="a pod that waits does not count when shrinking",
        pods=[*pods("20m", "20m"), Pod(phase="Pending", is_ready=False)],
        behavior=AT_ONCE,
        want=1,
        told=MOVED,
    ),
    Story(
        title="a pod that has failed does not count",
        pods=[*pods("100m", "100m"), Pod(cpu="500m", phase="Failed", is_ready=False)],
        current=2,
        want=4,
        told=MOVED,
    ),
    Story(
        title="a pod that was never ready counts as idle",
        pods=[*pods("150m"), Pod(cpu="500m", is_ready=False, unready_after_s=5.0)],
        want=3,
        told=MOVED,
    ),
    Story(
        title="a pod that was ready once counts as it is",
        pods=[*pods("100m"), Pod(cpu="100m", is_ready=False, unready_after_s=600.0)],
        want=4,
        told=MOVED,
    ),
    Story(
        title="a pod that has just started and is not ready counts as idle",
        pods=[*pods("150m"), Pod(cpu="500m", is_ready=False, age_s=60.0, unready_after_s=50.0)],
        want=3,
        told=MOVED,
    ),
    Story(
        title="an amount of memory",
        pods=[Pod(cpu="0", memory="200Mi")],
        metrics=[amount("memory", "100Mi")],
        want=2,
        told=MOVED,
    ),
    Story(
        title="an amount of processors", pods=pods("300m", "100m"), metrics=[amount("cpu", "100m")], want=4, told=MOVED
    ),
    Story(title="one container of the pods", pods=pods("100m"), metrics=[container(50)], want=2, told=MOVED),
    Story(
        title="a container that is not there",
        pods=pods("100m"),
        metrics=[container(50, "other")],
        want=1,
        told={"AbleToScale": "SucceededGetScale", "ScalingActive": "FailedGetContainerResourceMetric"},
    ),
    Story(
        title="the metric that asks for most decides",
        pods=[Pod(cpu="100m", memory="300Mi")],
        metrics=[cpu(50), amount("memory", "100Mi")],
        want=3,
        told=MOVED,
    ),
    Story(
        title="a metric outside, by its value",
        pods=pods("0", "0"),
        metrics=[jobs("Value", "10")],
        external=["15", "5"],
        want=4,
        told=MOVED,
    ),
    Story(
        title="a metric outside, for each pod",
        pods=pods("0", "0"),
        metrics=[jobs("AverageValue", "10")],
        external=["35"],
        want=4,
        told=MOVED,
    ),
    Story(
        title="a metric outside that is near enough",
        pods=pods("0", "0"),
        metrics=[jobs("AverageValue", "10")],
        external=["21"],
        want=2,
        told=STEADY,
    ),
    Story(
        title="one metric is missing, and the other one asks for more",
        pods=pods("100m"),
        metrics=[cpu(50), jobs("Value", "10")],
        want=2,
        told=MOVED,
    ),
    Story(
        title="one metric is missing, and the other one asks for less",
        pods=pods("10m", "10m"),
        behavior=AT_ONCE,
        metrics=[cpu(50), jobs("Value", "10")],
        want=2,
        told={"AbleToScale": "SucceededGetScale", "ScalingActive": "FailedGetExternalMetric"},
    ),
    Story(
        title="growth by a number of pods",
        pods=pods("500m", "500m"),
        behavior=policies("scaleUp", ("Pods", 1)),
        want=3,
        told={**MOVED, "ScalingLimited": "ScaleUpLimit"},
    ),
    Story(
        title="growth by the policy that allows least",
        pods=pods("500m", "500m"),
        behavior=policies("scaleUp", ("Pods", 4), ("Percent", 50), select="Min"),
        want=3,
        told={**MOVED, "ScalingLimited": "ScaleUpLimit"},
    ),
    Story(
        title="growth by the policy that allows most",
        pods=pods("500m", "500m"),
        behavior=policies("scaleUp", ("Pods", 4), ("Percent", 50)),
        want=6,
        told={**MOVED, "ScalingLimited": "ScaleUpLimit"},
    ),
    Story(
        title="growth is turned off",
        pods=pods("500m", "500m"),
        behavior=policies("scaleUp", ("Pods", 4), select="Disabled"),
        want=2,
        told={**STEADY, "ScalingLimited": "ScaleUpLimit"},
    ),
    Story(
        title="shrinking by a number of pods",
        pods=pods("5m", "5m", "5m", "5m"),
        behavior=policies("scaleDown", ("Pods", 1)),
        want=3,
        told={**MOVED, "ScalingLimited": "ScaleDownLimit"},
    ),
    Story(
        title="shrinking by the policy that allows least",
        pods=pods("5m", "5m", "5m", "5m"),
        behavior=policies("scaleDown", ("Pods", 1), ("Percent", 50), select="Min"),
        want=3,
        told={**MOVED, "ScalingLimited": "ScaleDownLimit"},
    ),
    Story(
        title="shrinking by a share",
        pods=pods("5m", "5m", "5m", "5m", "5m"),
        behavior=policies("scaleDown", ("Percent", 50)),
        want=2,
        told={**MOVED, "ScalingLimited": "ScaleDownLimit"},
    ),
]


def pod_object(pod: Pod, name: str, app: str, now_s: float) -> tuple[Json, Json]:
    """A pod and its status."""
    requests = {} if pod.request is None else {"cpu": pod.request, "memory": "1Mi"}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
    metadata = {"name": name, "namespace": "x", "labels": {LABEL: app}}
    started_s = now_s - pod.age_s
    changed_s = started_s + (1.0 if pod.unready_after_s is None else pod.unready_after_s)
    condition = {"type": "Ready", "status": str(pod.is_ready), "lastTransitionTime": moment_text(changed_s)}
    status: Json = {"phase": pod.phase, "conditions": [condition], "startTime": moment_text(started_s)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, status


def autoscaler(story: Story, name: str, target: Json) -> Json:
    """The autoscaler of a story."""
    spec: Json = {"minReplicas": story.least, "maxReplicas": story.most, "scaleTargetRef": target}
    spec["metrics"] = story.metrics or [cpu(50)]
    if story.behavior is not None:
        spec["behavior"] = story.behavior
    metadata = {"name": name, "namespace": "x"}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def reasons(given: Json) -> dict[str, str]:
    """The reasons of all conditions of an autoscaler."""
    return {one["type"]: one["reason"] for one in (given.get("status") or {}).get("conditions") or ()}
