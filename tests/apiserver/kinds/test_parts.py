"""Rules of single kinds that the comparison with a real server does not reach: state, views, dialects, deletion."""

from __future__ import annotations

import pytest

from muster.apiserver.kinds import ALL, BUILTIN
from muster.apiserver.kinds.autoscaling import METRICS, V1, V2, convert
from muster.apiserver.kinds.jobs import is_schedule
from muster.apiserver.kinds.pod_defaults import pull_policy
from muster.apiserver.kinds.pods import quality_of, with_priority
from muster.apiserver.statuses import Problem
from muster.model.errors import InvalidObject
from muster.store.kinds import Propagation


def pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


HIGH = {"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"}
USUAL = {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}


@pytest.mark.parametrize(
    ("spec", "classes", "want"),
    [
        ({}, {}, {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}),
        ({"priorityClassName": "high"}, {"high": HIGH}, {"priority": 10, "preemptionPolicy": "Never"}),
        ({"priority": 10, "priorityClassName": "high"}, {"high": HIGH}, {"priority": 10}),
        ({}, {"usual": USUAL}, {"priority": 5, "priorityClassName": "usual"}),
        ({"priorityClassName": "system-node-critical"}, {}, {"priority": 2_000_001_000}),
    ],
)
def test_a_pod_gets_the_priority_of_its_class(spec, classes, want):
    given = with_priority(pod(**spec), classes)["spec"]
    assert {name: given.get(name) for name in want} == want


@pytest.mark.parametrize("spec", [{"priorityClassName": "none"}, {"priority": 3}])
def test_a_priority_that_is_nobodys_is_forbidden(spec):
    with pytest.raises(Problem) as caught:
        with_priority(pod(**spec), {})
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/a/b", "Always"),
        ("host:5000/a/b:v1", "IfNotPresent"),
        ("a@sha256:00", "IfNotPresent"),
        ("a:latest@sha256:00", "Always"),
        ("Upper", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_how_an_image_is_pulled(image, policy):
    assert pull_policy(image) == policy


def asks(requests=None, limits=None):
    amounts = {"requests": requests, "limits": limits}
    return {"resources": {name: one for name, one in amounts.items() if one}}


ALL_OF_IT = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "want"),
    [
        ([asks()], "BestEffort"),
        ([asks({"cpu": "0"}), asks({"nvidia.com/gpu": "1"})], "BestEffort"),
        ([asks({"cpu": "1"})], "Burstable"),
        ([asks(ALL_OF_IT, ALL_OF_IT)], "Guaranteed"),
        ([asks(ALL_OF_IT, {"cpu": "1000m", "memory": "1024Mi"})], "Guaranteed"),
        ([asks(ALL_OF_IT, {**ALL_OF_IT, "cpu": "2"})], "Burstable"),
        ([asks(ALL_OF_IT, ALL_OF_IT), asks()], "Burstable"),
    ],
)
def test_the_quality_of_a_pod(containers, want):
    assert quality_of({"containers": containers}) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("*/5 * * * *", True),
        ("0 0 1 JAN sun", True),
        ("1,2,3-5/2 0-23 ? * *", True),
        ("@daily", True),
        ("@every 1h30m", True),
        ("@sometimes", False),
        ("* * * *", False),
        ("60 * * * *", False),
        ("* * 0 * *", False),
        ("5-1 * * * *", False),
        ("*/0 * * * *", False),
        ("²  * * * *", False),
        ("*" * 5000, False),
    ],
)
def test_schedules(text, want):
    assert is_schedule(text) is want


def autoscaler(version, **spec):
    return {"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec}


PROCESSOR = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
OTHER = {"type": "Pods", "pods": {"metric": {"name": "requests"}}}


def test_an_autoscaler_in_its_older_form_loses_nothing():
    newer = autoscaler(V2, maxReplicas=3, metrics=[OTHER, {"type": "Resource", "resource": PROCESSOR}])
    older = convert(newer, V1)
    assert older["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}
    assert METRICS in older["metadata"]["annotations"]
    assert convert(older, V2) == newer


@pytest.mark.parametrize("text", ["", "{", "3", '"text"'])
def test_an_annotation_that_somebody_else_wrote_is_no_metric(text):
    given = autoscaler(V1, maxReplicas=3)
    given["metadata"]["annotations"] = {METRICS: text}
    assert "metrics" not in convert(given, V2)["spec"]


def test_how_long_a_pod_takes_to_stop():
    grace_s = BUILTIN["pods"].grace_s
    running = pod(nodeName="n", terminationGracePeriodSeconds=20)
    assert grace_s(running, None) == 20
    assert grace_s(running, 5) == 5
    assert grace_s(pod(), 5) == 0
    assert grace_s({**running, "status": {"phase": "Failed"}}, None) == 0
    assert grace_s(pod(nodeName="n", terminationGracePeriodSeconds=-7), None) == 1


def test_what_becomes_of_dependents_unless_somebody_says_so():
    assert BUILTIN["jobs.batch"].propagation is Propagation.ORPHAN
    assert BUILTIN["deployments.apps"].propagation is Propagation.BACKGROUND


def test_the_dialects_kinds_bring_their_rules():
    rules = ALL["clusterqueues.kueue.x-k8s.io"]
    old = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {}}
    stored = rules.default(rules.convert(old, rules.api_version), None)
    assert stored["apiVersion"] == rules.api_version == "kueue.x-k8s.io/v1beta2"
    assert stored["spec"]["queueingStrategy"] == "BestEffortFIFO"
    rules.validate(stored, None)
    with pytest.raises(InvalidObject):
        rules.validate({**stored, "spec": {**stored["spec"], "queueingStrategy": "Random"}}, None)
    assert not rules.is_namespaced and ALL["workloads.kueue.x-k8s.io"].has_status
