"""Autoscalers do what their metrics ask for, within their limits and no faster than they may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from muster.controllers.builtin import FOLLOWED
from muster.controllers.builtin.autoscaler import AUTOSCALERS, RESOURCES, Autoscalers
from muster.controllers.builtin.autoscaler_sources import EXTERNAL, PREFIX, WrittenMetrics
from muster.controllers.builtin.autoscaler_targets import BuiltinTargets
from muster.model.quantity import parse_quantity
from muster.model.usage import Measure, Usage
from muster.store.objects import Part
from muster.store.records import Key
from tests.controllers.builtin.autoscaler_stories import (
    LABEL,
    STORIES,
    Pod,
    Story,
    autoscaler,
    cpu,
    pod_object,
    pods,
    reasons,
)
from tests.controllers.builtin.workload_cluster import Cluster, played, workload

SETS = "replicasets.apps"
TARGET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a"}


class Usages:
    """What pods use, as a test says."""

    def __init__(self, cluster: Scaled) -> None:
        self._cluster = cluster

    def of_node(self, _node: Mapping[str, Any], /) -> Measure | None:
        return None

    def of_pod(self, pod: Mapping[str, Any], /) -> Measure | None:
        known = self._cluster.used.get(pod["metadata"]["name"])
        if known is None or known.cpu is None:
            return None
        usage = Usage(cpu_nanos=_scaled(known.cpu, 9), memory_bytes=_scaled(known.memory, 0))
        return Measure(at_s=self._cluster.clock.now_s(), window_s=10.0, parts={"c": usage})


def _scaled(text: str, power: int) -> int:
    return parse_quantity(text).scaled(power, 2**62)


class Scaled(Cluster):
    """A cluster in which nobody but the autoscaler does anything."""

    def __init__(self) -> None:
        self.used: dict[str, Pod] = {}
        super().__init__([self._controller], resources=FOLLOWED | RESOURCES)

    def _controller(self) -> Autoscalers:
        return Autoscalers(WrittenMetrics(self.view, Usages(self), self._find), BuiltinTargets())

    def _find(self, _version: str, kind: str, _namespace: str, name: str) -> Any:
        found = [one for one in self.all(f"{kind.lower()}s.apps") if one["metadata"]["name"] == name]
        return found[0] if found else None

    async def put_pods(self, given: list[Pod]) -> None:
        """Have exactly these pods."""
        for name in self.used:
            await self.delete("pods", name)
        self.used = {f"p-{number}": one for number, one in enumerate(given)}
        for name, one in self.used.items():
            pod, status = pod_object(one, name, "a", self.clock.now_s())
            kept = await self.create("pods", pod)
            await self.client.update(Key("pods", "x", name), {**kept, "status": status}, Part.STATUS)

    async def put_target(self, wanted: int, running: int) -> None:
        selector = {"matchLabels": {LABEL: "a"}}
        given = workload("ReplicaSet", replicas=wanted, selector=selector)
        given["spec"]["template"]["metadata"]["labels"] = {LABEL: "a"}
        kept = await self.create(SETS, given)
        await self.client.update(Key(SETS, "x", "a"), {**kept, "status": {"replicas": running}}, Part.STATUS)

    @property
    def wanted(self) -> int:
        return int(self.get(SETS, "a")["spec"]["replicas"])

    @property
    def status(self) -> Any:
        return self.get(AUTOSCALERS, "a")["status"]


async def begun(story: Story) -> Scaled:
    cluster = Scaled()
    await cluster.put_pods(story.pods)
    await cluster.put_target(story.wanted, len(story.pods))
    for number, value in enumerate(story.external):
        metadata = {"name": f"m-{number}", "namespace": "x", "labels": {EXTERNAL: "true"}}
        data = {"jobs": value}
        await cluster.create(
            "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        )
    await cluster.settle()
    await cluster.create(AUTOSCALERS, autoscaler(story, "a", TARGET))
    await cluster.settle()
    return cluster


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.title)
def test_one_look(story: Story) -> None:
    async def told() -> None:
        cluster = await begun(story)
        assert cluster.wanted == story.want
        assert reasons(cluster.get(AUTOSCALERS, "a")) == story.told
        await cluster.stop()

    played(told)


def test_the_status_says_what_was_measured() -> None:
    async def told() -> None:
        cluster = await begun(Story(title="", pods=pods("100m", "51m"), want=3, told={}))
        assert cluster.status["currentReplicas"] == 2
        assert cluster.status["desiredReplicas"] == 3
        assert cluster.status["currentMetrics"] == [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": 75, "averageValue": "75m"}},
            }
        ]
        (event,) = cluster.all("events")
        assert event["reason"] == "SuccessfulRescale"
        assert event["message"] == "New size: 3; reason: cpu resource utilization (percentage of request) above target"
        await cluster.stop()

    played(told)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param({**TARGET, "name": "b"}, 'replicasets.apps "b" not found', id="not there"),
        pytest.param(
            {"apiVersion": "foo/v1", "kind": "Bar", "name": "b"},
            'no matches for kind "Bar" in group "foo"',
            id="no kind",
        ),
    ],
)
def test_a_target_that_is_not_there(target: Any, message: str) -> None:
    async def told() -> None:
        cluster = Scaled()
        await cluster.create(AUTOSCALERS, autoscaler(STORIES[0], "a", target))
        await cluster.settle()
        (condition,) = cluster.status["conditions"]
        assert (condition["reason"], condition["status"]) == ("FailedGetScale", "False")
        assert condition["message"] == f"the HPA controller was unable to get the target's current scale: {message}"
        await cluster.stop()

    played(told)


def test_five_minutes_pass_before_it_shrinks() -> None:
    async def told() -> None:
        cluster = await begun(Story(title="", pods=pods("50m", "50m", "50m", "50m"), want=4, told={}))
        await cluster.put_pods(pods("25m", "25m", "25m", "25m"))
        await cluster.settle(280.0)
        assert (cluster.wanted, reasons({"status": cluster.status})["AbleToScale"]) == (4, "ScaleDownStabilized")
        await cluster.settle(45.0)
        assert cluster.wanted == 2
        await cluster.stop()

    played(told)


def test_a_policy_counts_what_its_period_has_seen() -> None:
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}

    async def told() -> None:
        cluster = await begun(Story(title="", pods=pods("900m"), behavior=behavior, want=3, told={}))
        assert cluster.wanted == 3
        await cluster.put_pods(pods("900m", "900m", "900m"))
        await cluster.settle(30.0)
        assert cluster.wanted == 3
        await cluster.settle(45.0)
        assert cluster.wanted == 5
        await cluster.stop()

    played(told)


def test_growth_waits_for_its_window() -> None:
    behavior = {
        "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]}
    }

    async def told() -> None:
        cluster = await begun(Story(title="", pods=pods("100m"), behavior=behavior, want=1, told={}))
        assert (cluster.wanted, reasons({"status": cluster.status})["AbleToScale"]) == (1, "ScaleUpStabilized")
        await cluster.settle(76.0)
        assert cluster.wanted == 2
        await cluster.stop()

    played(told)


def test_a_smaller_tolerance_is_kept_to() -> None:
    async def told() -> None:
        behavior = {"scaleUp": {"tolerance": "20m"}}
        cluster = await begun(Story(title="", pods=pods("53m", "53m"), behavior=behavior, want=3, told={}))
        assert cluster.wanted == 3
        await cluster.stop()

    played(told)


def of_pods(value: str) -> Any:
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target}}


def of_object(kind: str, value: str) -> Any:
    target = {"type": kind, "value" if kind == "Value" else "averageValue": value}
    about = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": about, "target": target}}


@pytest.mark.parametrize(
    ("metric", "want", "name"),
    [
        pytest.param(of_pods("10"), 4, "pods metric rps", id="pods"),
        pytest.param(of_object("Value", "30"), 4, "Deployment metric hits", id="object"),
        pytest.param(of_object("AverageValue", "20"), 3, "Deployment metric hits", id="object for each pod"),
    ],
)
def test_metrics_that_are_written_on_objects(metric: Any, want: int, name: str) -> None:
    async def told() -> None:
        cluster = Scaled()
        await cluster.put_pods(pods("1m", "1m"))
        for number, value in enumerate(("15", "25")):
            await _annotate(cluster, "pods", f"p-{number}", "rps", value)
        await cluster.put_target(2, 2)
        await cluster.create("deployments.apps", workload("Deployment", "web"))
        await _annotate(cluster, "deployments.apps", "web", "hits", "60")
        await cluster.settle()
        await cluster.create(
            AUTOSCALERS, autoscaler(Story(title="", pods=[], want=0, told={}, metrics=[metric]), "a", TARGET)
        )
        await cluster.settle()
        assert cluster.wanted == want
        active = next(one for one in cluster.status["conditions"] if one["type"] == "ScalingActive")
        assert active["message"] == f"the HPA was able to successfully calculate a replica count from {name}"
        await cluster.stop()

    played(told)


async def _annotate(cluster: Scaled, resource: str, name: str, metric: str, value: str) -> None:
    def how(given: Any) -> None:
        given["metadata"].setdefault("annotations", {})[PREFIX + metric] = value

    await cluster.change(resource, name, how)


def test_a_metric_that_cannot_be_read_is_none() -> None:
    async def told() -> None:
        cluster = Scaled()
        await cluster.put_pods(pods("1m"))
        await _annotate(cluster, "pods", "p-0", "rps", "many")
        await cluster.put_target(1, 1)
        await cluster.settle()
        story = Story(title="", pods=[], want=0, told={}, metrics=[of_pods("1")])
        await cluster.create(AUTOSCALERS, autoscaler(story, "a", TARGET))
        await cluster.settle()
        assert reasons({"status": cluster.status})["ScalingActive"] == "FailedGetPodsMetric"
        await cluster.stop()

    played(told)


def test_what_is_gone_is_forgotten() -> None:
    async def told() -> None:
        cluster = await begun(Story(title="", pods=pods("50m"), want=1, told={}, metrics=[cpu(50)]))
        await cluster.delete(AUTOSCALERS, "a")
        await cluster.settle(40.0)
        assert cluster.all(AUTOSCALERS) == []
        await cluster.stop()

    played(told)
