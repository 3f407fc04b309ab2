"""RayCluster and RayService: both run until somebody deletes them, and say differently that their pods are there."""

from __future__ import annotations

from typing import Any

import pytest

from muster.jobs import raycluster, rayservice
from muster.model.errors import InvalidObjects
from muster.model.fields import Fields


def told(status: Any) -> Fields:
    return Fields({"metadata": {"name": "serve"}, "spec": {}, "status": status})


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({}, (False, False)),
        ({"head": {"podName": "head-1"}}, (True, False)),
        ({"state": "ready"}, (True, True)),
        ({"state": "suspended", "head": {"podName": "head-1"}}, (False, False)),
        ({"state": "failed"}, (False, False)),
    ],
)
def test_a_cluster(status, want):
    kind = raycluster.INTEGRATION
    assert (kind.is_active(told(status)), kind.is_ready(told(status))) == want
    assert kind.finished(told(status)) is None


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({}, (False, False)),
        ({"pendingServiceStatus": {"rayClusterName": "a"}}, (True, False)),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, (False, True)),
    ],
)
def test_a_service(status, want):
    kind = rayservice.INTEGRATION
    assert (kind.is_active(told(status)), kind.is_ready(told(status))) == want
    assert kind.finished(told(status)) is None


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        (raycluster.INTEGRATION, "spec.headGroupSpec.template.spec.containers"),
        (rayservice.INTEGRATION, "rayClusterConfig"),
    ],
)
def test_one_without_pods_is_refused(kind, want):
    with pytest.raises(InvalidObjects, match=want):
        kind.pod_sets(told({}))
