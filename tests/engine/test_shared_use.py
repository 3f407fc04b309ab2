"""Limits that workloads of several queues share: by amounts, by numbers of applications, and given back."""

from __future__ import annotations

from typing import Any

import pytest

from muster.model.queue import SharedLimit, Turns
from muster.model.reason import Code
from tests.engine.builders import GPU, cohort, key_of, queue, reserved, run_cycles, running, state_of, waits, workload

MOST = SharedLimit(name="most", title="the pods of ann", most={GPU: 3})
FEW = SharedLimit(name="few", title="the applications of ann", applications_most=1)
PODS = SharedLimit(name="pods", title="the pods of ann", most={"pods": 2})


def tree(*parts: Any, limits: tuple[SharedLimit, ...] = (MOST, FEW, PODS)) -> Any:
    queues = [queue(name, gpus=8, cohort="top", turns=Turns()) for name in ("a", "b")]
    return state_of(
        cohort("top", turns=Turns()), *queues, *parts, shared_limits={limit.name: limit for limit in limits}
    )


def of(application: str, *limits: str, **fields: Any) -> dict[str, Any]:
    return {"application": application, "limits": limits, **fields}


def test_amounts_are_counted_over_queues() -> None:
    state = tree(
        running("r", queue="a", gpus=2, **of("one", "most")),
        workload("fits", queue="b", gpus=1, **of("two", "most", queued_at=1.0)),
        workload("does-not", queue="b", gpus=1, **of("two", "most", queued_at=2.0)),
        workload("free", queue="b", gpus=5, **of("other", queued_at=3.0)),
    )
    plans = run_cycles(state, 4)
    assert [list(reserved(plan)) for plan in plans] == [["fits"], [], ["free"], []]
    assert waits(plans[1])["does-not"] is Code.LIMIT_REACHED


def test_pods_of_one_application_count_as_one() -> None:
    state = tree(
        *(workload(name, queue="a", **of("one", "few", queued_at=1.0)) for name in ("p", "q")),
        workload("x", queue="b", **of("two", "few", queued_at=2.0)),
    )
    plans = run_cycles(state, 4)
    assert sorted(name for plan in plans for name in reserved(plan)) == ["p", "q"]


@pytest.mark.parametrize(("pods", "want"), [(2, ["w"]), (3, [])])
def test_pods_are_counted(pods: int, want: list[str]) -> None:
    state = tree(workload("w", queue="a", pods=pods, **of("one", "pods")))
    assert list(reserved(run_cycles(state, 1)[0])) == want


def test_what_is_given_back_is_free_again() -> None:
    state = tree(
        running("r", queue="a", gpus=3, **of("one", "most", "few")),
        workload("w", queue="b", gpus=3, **of("two", "most", "few")),
    )
    (plan,) = run_cycles(state, 1)
    assert waits(plan) == {"w": Code.LIMIT_REACHED}
    assert "the pods of ann may have 3 of nvidia.com/gpu" in plan.verdicts[key_of("w")].reason.text
    state.drop(key_of("r"))
    assert list(reserved(run_cycles(state, 1)[0])) == ["w"]
    assert state.shared.held_by("one") == 0.0


def test_a_limit_that_nobody_knows_limits_nothing() -> None:
    state = tree(workload("w", queue="a", **of("one", "forgotten")))
    assert list(reserved(run_cycles(state, 1)[0])) == ["w"]


def test_what_an_application_holds_is_a_part_of_its_tree() -> None:
    state = tree(running("r", queue="a", gpus=4, **of("one")))
    assert state.shared.held_by("one") == 0.25
    assert state.shared.held_by("two") == 0.0
