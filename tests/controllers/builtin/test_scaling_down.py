"""Of too many pods those that are worth least go first."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controllers.builtin.scaling_down import DELETION_COST, deletion_cost, to_delete
from muster.model.times import moment_text

NOW_S = 1_700_000_000.0


def pod(name: str, *, node: str = "n", phase: str = "Running", ready_s: float | None = 100.0, **more: Any) -> Any:
    """A pod that became ready so many seconds ago; more: cost, restarts, age_s."""
    conditions = []
    if ready_s is not None:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": moment_text(NOW_S - ready_s)}]
    return {
        "metadata": {
            "name": name,
            "uid": more.get("uid", name),
            "annotations": {DELETION_COST: more["cost"]} if "cost" in more else {},
            "creationTimestamp": moment_text(NOW_S - more.get("age_s", 1000)),
        },
        "spec": {"nodeName": node, "initContainers": [{"name": "side", "restartPolicy": "Always"}]},
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"restartCount": more.get("restarts", 0)}],
            "initContainerStatuses": [{"name": "side", "restartCount": more.get("side", 0)}],
        },
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(pod("z", node=""), pod("a", phase="Pending", ready_s=None), id="without a node"),
        pytest.param(pod("z", phase="Pending"), pod("a", phase="Unknown"), id="pending"),
        pytest.param(pod("z", phase="Unknown"), pod("a", ready_s=None), id="unknown"),
        pytest.param(pod("z", ready_s=None), pod("a", cost="-9"), id="not ready"),
        pytest.param(pod("z", cost="-1"), pod("a", ready_s=1), id="cheaper"),
        pytest.param(pod("z", ready_s=1), pod("a", ready_s=1000, restarts=9), id="ready for less long"),
        pytest.param(pod("a", ready_s=100), pod("z", ready_s=101), id="about as long: by uid"),
        pytest.param(pod("z", restarts=2), pod("a", age_s=1), id="restarted more often"),
        pytest.param(pod("z", side=2), pod("a", age_s=1), id="its helper restarted more often"),
        pytest.param(pod("z", age_s=1), pod("a", age_s=900), id="younger"),
    ],
)
def test_the_first_goes_before_the_second(first, second):
    assert to_delete([second, first], 1, [], NOW_S) == [first]
    assert to_delete([first, second], 1, [], NOW_S) == [first]


def test_a_crowded_node_gives_first():
    pods = [pod("a", node="m"), pod("b", node="n"), pod("c", node="n")]
    assert to_delete(pods, 1, pods, NOW_S)[0]["spec"]["nodeName"] == "n"
    assert to_delete(pods, 5, pods, NOW_S) == pods


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("+5", 0),
        ("05", 0),
        ("-0", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("9" * 5000, 0),
        ("x", 0),
        ("", 0),
        ("٣", 0),
    ],
)
def test_deletion_cost(text, cost):
    assert deletion_cost(pod("a", cost=text)) == cost
