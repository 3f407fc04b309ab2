"""Readiness and shares that go back, as the status of a workload tells them."""

from __future__ import annotations

import pytest

from muster.dialects.kueue.job_statuses import readiness, reclaimed
from muster.model.fields import Fields


def workload(admitted: str = "True", ready: tuple[str, str] | None = None, reclaimable: int | None = None) -> Fields:
    stamp = {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": "Admitted", "status": admitted, "reason": "Admitted", **stamp}]
    if ready is not None:
        conditions.append({"type": "PodsReady", "status": ready[0], "reason": ready[1], **stamp})
    pods = [] if reclaimable is None else [{"name": "main", "count": reclaimable}]
    status = {"conditions": conditions, "reclaimablePods": pods}
    return Fields({"spec": {"podSets": [{"name": "main", "count": 3}]}, "status": status})


@pytest.mark.parametrize(
    ("value", "is_ready", "want"),
    [
        pytest.param(workload("False"), False, None, id="not admitted: nothing to say"),
        pytest.param(workload("False", ("True", "Started")), False, ("False", "WaitForStart"), id="admission lost"),
        pytest.param(workload(), False, ("False", "WaitForStart"), id="just admitted"),
        pytest.param(workload(ready=("False", "WaitForStart")), False, None, id="still starting"),
        pytest.param(workload(ready=("False", "WaitForStart")), True, ("True", "Started"), id="ready"),
        pytest.param(workload(ready=("True", "Started")), True, None, id="still ready"),
        pytest.param(workload(ready=("True", "Started")), False, ("False", "WaitForRecovery"), id="a pod is lost"),
        pytest.param(workload(ready=("False", "WaitForRecovery")), True, ("True", "Recovered"), id="it is back"),
        pytest.param(workload(ready=("True", "Recovered")), False, ("False", "WaitForRecovery"), id="lost again"),
    ],
)
def test_readiness(value, is_ready, want):
    status = readiness(value, is_ready, 1_800_000_000.0)
    if want is None:
        assert status is None
        return
    (condition,) = [one for one in status["conditions"] if one["type"] == "PodsReady"]
    assert (condition["status"], condition["reason"]) == want
    assert condition["message"]


@pytest.mark.parametrize(
    ("before", "counts", "want"),
    [
        pytest.param(None, {}, None, id="none"),
        pytest.param(None, {"main": 1}, 1, id="the first"),
        pytest.param(1, {"main": 1}, None, id="known"),
        pytest.param(2, {"main": 1}, None, id="what was given stays given"),
        pytest.param(2, {}, None, id="even if the job forgets it"),
        pytest.param(1, {"main": 9}, 3, id="never more than there are"),
    ],
)
def test_reclaimed(before, counts, want):
    status = reclaimed(workload(reclaimable=before), counts)
    assert (None if status is None else status["reclaimablePods"][0]["count"]) == want
