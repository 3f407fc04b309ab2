"""Explanations: everyone who does not run is told why, what is short, who holds it and what would help."""

from __future__ import annotations

import pytest

from muster.engine.assignment import Assignment
from muster.engine.explain import in_full, reserve_reason, untried, verdicts_of_all
from muster.model.flavor import Flavor
from muster.model.labels import Taint
from muster.model.queue import CheckRule, Order, Stop, SubmitQueue
from muster.model.reason import TEMPLATES, Code, Reason, Shortage, Verdict, because, shortened
from muster.model.resources import UNLIMITED
from muster.model.workload import CheckState
from tests.engine.builders import (
    ANY,
    CPU,
    FLAVOR,
    GPU,
    GPUS,
    LOWER,
    NOW,
    cohort,
    name_of,
    node_of,
    pod_set,
    preempts,
    queue,
    quota,
    run_cycle,
    running,
    state_of,
    workload,
)


def told(state, name):
    """What a workload is told after a cycle, in full."""
    verdicts = verdicts_of_all(state, run_cycle(state))
    return in_full(state, verdicts[f"default/{name}"])


# Words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_sentence_that_always_comes_out(code):
    text = because(code).text
    assert text and "{" not in text
    assert text[0] in "-" or text[0].islower() or text[0].isdigit()


def test_templates_name_nothing_else():
    assert set(TEMPLATES) == set(Code)


def test_reason_knows_its_values():
    reason = because(Code.SHORT_OF_QUOTA, asked=8, free=3)
    assert (reason.value("asked"), reason.value("nothing")) == ("8", "")
    assert reason == Reason(Code.SHORT_OF_QUOTA, (("asked", 8), ("free", 3)))


@pytest.mark.parametrize(
    ("shortage", "text"),
    [
        pytest.param(
            Shortage(flavor="red", resource=GPU, asked=8, free=3, most=16),
            "nvidia.com/gpu in red: asks for 8, 3 free, 5 short",
            id="short",
        ),
        pytest.param(
            Shortage(flavor="red", resource=GPU, asked=8, free=3, most=16, holders=("a", "b")),
            "nvidia.com/gpu in red: asks for 8, 3 free, 5 short, held by a, b",
            id="and who holds it",
        ),
        pytest.param(
            Shortage(flavor="red", resource=CPU, asked=8500, free=500, most=8000),
            "cpu in red: asks for 8500m, 500m free, 8 at the very most",
            id="more than there could be",
        ),
        pytest.param(
            Shortage(flavor="red", resource="memory", asked=3 * 2**30, free=4 * 2**30, most=UNLIMITED),
            "memory in red: asks for 3Gi, 4Gi free, 0 short",
            id="enough",
        ),
        pytest.param(
            Shortage(flavor="red", resource=GPU, asked=UNLIMITED, free=1, most=UNLIMITED),
            "nvidia.com/gpu in red: asks for unlimited, 1 free, unlimited short",
            id="without end",
        ),
    ],
)
def test_shortage_in_words(shortage, text):
    assert shortage.text == text


def test_long_lists_are_shortened():
    assert shortened(tuple("abcdefg")) == "a, b, c, d, e and 2 more"
    assert shortened(("a",)) == "a"


def test_admission_names_the_flavors_that_pay():
    state = state_of(queue("team-a", title="Team A"))
    used = Assignment(pod_sets=(), usage={("red", GPU): 1, ("blue", CPU): 1}, level=0)
    assert reserve_reason(node_of(state, "team-a"), used).text == "queue Team A has the quota in blue, red"
    nothing = Assignment(pod_sets=(), usage={}, level=0)
    assert reserve_reason(node_of(state, "team-a"), nothing).text == (
        "queue Team A has the quota in no flavor, for it asks for nothing that is counted"
    )


# Those who were tried --------------------------------------------------------------------------------------------


def test_one_that_waits_for_quota_is_told_who_holds_it():
    state = state_of(
        queue("team-a", cohort="x", gpus=4, preemption=preempts(reclaim=ANY)),
        queue("b", cohort="x", gpus=4),
        running("small", gpus=1),
        running("large", gpus=6, queue="b"),
        running("none", gpus=0, queue="b"),
        workload("w", gpus=4),
    )
    verdict = told(state, "w")
    assert verdict.code is Code.WAITING_FOR_QUOTA
    (shortage,) = verdict.shortages
    assert (shortage.asked, shortage.free, shortage.short, shortage.most) == (4, 1, 3, 8)
    assert [name_of(key) for key in shortage.holders] == ["large", "small"]
    assert verdict.unblocked_by == (
        "3 of nvidia.com/gpu in default given back by those who hold it: default/large, default/small",
        "queue team-a being allowed to preempt within itself (preemption.withinClusterQueue)",
    )
    assert verdict.text.startswith(
        "queue team-a does not have enough free quota; nvidia.com/gpu in default: asks for 4"
    )


def test_what_one_holds_for_later_is_free_to_it():
    state = state_of(queue("team-a", gpus=4), running("r", gpus=2), workload("w", gpus=4))
    (shortage,) = told(state, "w").shortages
    assert (shortage.free, shortage.short) == (2, 2)


def test_one_that_may_preempt_is_not_told_to_be_allowed_to():
    state = state_of(
        queue("team-a", gpus=4, preemption=preempts(within=LOWER, reclaim=ANY)),
        running("r", gpus=2, priority=9),
        workload("w", gpus=4),
    )
    assert told(state, "w").unblocked_by == (
        "2 of nvidia.com/gpu in default given back by those who hold it: default/r",
    )


def test_one_that_asks_for_too_much_is_told_the_most():
    state = state_of(queue("team-a", flavors={"red": 4, "blue": 2}), workload("w", gpus=5))
    verdict = told(state, "w")
    assert verdict.code is Code.EXCEEDS_MAX_QUOTA
    assert verdict.unblocked_by == (
        "asking for at most 4 of nvidia.com/gpu in red, or a larger quota there",
        "asking for at most 2 of nvidia.com/gpu in blue, or a larger quota there",
    )
    assert [detail.code for detail in verdict.details] == [Code.ABOVE_MAXIMUM, Code.ABOVE_MAXIMUM]


def test_pod_sets_are_added_up():
    state = state_of(
        queue("team-a", gpus=6, preemption=preempts(reclaim=ANY)),
        running("r", gpus=4),
        workload("w", pod_sets=(pod_set("a", gpus=2), pod_set("b", gpus=1))),
    )
    (shortage,) = told(state, "w").shortages
    assert (shortage.asked, shortage.free) == (3, 2)


def test_only_resources_of_the_flavors_group_are_short():
    state = state_of(
        queue("team-a", flavors={FLAVOR: {GPU: 2, CPU: 2000}}),
        running("r", gpus=2),
        workload("w", pod_sets=(pod_set(requests={GPU: 1, CPU: 1000, "exotic": 0}),)),
    )
    assert [(s.resource, s.short) for s in told(state, "w").shortages] == [(GPU, 1)]


def test_flavors_that_do_not_suit_are_named():
    state = state_of(
        queue("team-a", flavors={"red": 4}), Flavor(name="red", taints=(Taint("dedicated", "ml"),)), workload("w")
    )
    verdict = told(state, "w")
    assert (verdict.code, verdict.shortages) == (Code.NO_MATCHING_FLAVOR, ())
    assert [d.text for d in verdict.details] == [
        "the pods do not tolerate the taint dedicated=ml:NoSchedule of flavor red"
    ]
    assert len(verdict.unblocked_by) == 1


def test_resources_without_quota_are_named():
    state = state_of(
        queue("team-a", gpus=4), workload("w", pod_sets=(pod_set(requests={"tpu": 1, GPU: 1, "fpga": 2}),))
    )
    verdict = told(state, "w")
    assert verdict.unblocked_by == ("quota for fpga, tpu in queue team-a, or pods that do not ask for it",)


def test_flavors_that_do_not_suit_are_not_short_of_quota():
    tainted = Flavor(name="red", taints=(Taint("dedicated", "ml"),))
    state = state_of(queue("team-a", flavors={"red": 1, "blue": 1}), tainted, workload("w", gpus=2))
    assert [shortage.flavor for shortage in told(state, "w").shortages] == ["blue"]


def test_at_most_eight_flavors_are_listed():
    state = state_of(queue("team-a", flavors={f"f{n:02}": 1 for n in range(20)}), workload("w", gpus=2))
    assert len(told(state, "w").shortages) == 8


# Those who were not tried ----------------------------------------------------------------------------------------

STRICT = queue("team-a", gpus=4, order=Order.STRICT_FIFO)
STOPPED = SubmitQueue(key="default/stopped", queue="team-a", stop=Stop.HOLD)
CHECKED = queue("team-a", checks=(CheckRule(name="budget"), CheckRule(name="spot", flavors=frozenset(["spot"]))))


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        pytest.param([STRICT, workload("w", is_active=False)], Code.SUSPENDED, id="set inactive"),
        pytest.param([STRICT, workload("w", gates=("quota-manager",))], Code.ADMISSION_GATED, id="gated"),
        pytest.param([STRICT, workload("w", queue="")], Code.QUEUE_MISSING, id="no queue"),
        pytest.param([STRICT, workload("w", queue="nowhere")], Code.QUEUE_MISSING, id="a queue that is not there"),
        pytest.param(
            [cohort("x", parent="x"), queue("team-a", cohort="x"), workload("w")], Code.QUEUE_INACTIVE, id="a circle"
        ),
        pytest.param([queue("team-a", stop=Stop.HOLD), workload("w")], Code.QUEUE_INACTIVE, id="on hold"),
        pytest.param(
            [queue("team-a", inactive_because="flavor red is missing"), workload("w")], Code.QUEUE_INACTIVE, id="broken"
        ),
        pytest.param([STRICT, workload("w", held_until=NOW + 90)], Code.BACKING_OFF, id="backing off"),
        pytest.param(
            [STRICT, STOPPED, workload("w", submit_queue="default/stopped")],
            Code.QUEUE_INACTIVE,
            id="a stopped submit queue",
        ),
        pytest.param(
            [STRICT, workload("first", gpus=9, priority=1), workload("w")], Code.BEHIND_ANOTHER, id="behind another"
        ),
        pytest.param(
            [queue("team-a", gpus=1), *(workload(n, gpus=2, kind_key="k") for n in ("first", "w"))],
            Code.ALIKE_WAITS,
            id="like one that was tried",
        ),
        pytest.param(
            [queue("team-a", gpus=1), workload("w", is_held=True)],
            Code.WAITING_TO_REQUEUE,
            id="held until let in again",
        ),
        pytest.param(
            [STRICT, running("w", is_admitted=False, checks={"budget": CheckState.PENDING})],
            Code.WAITING_FOR_CHECKS,
            id="holds quota and waits for checks",
        ),
    ],
)
def test_reason_of_those_not_tried(parts, code):
    verdict = told(state_of(*parts), "w")
    assert verdict.code is code
    assert verdict.unblocked_by, "there is always something to say"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([STRICT, workload("w", queue="", submit_queue="default/main")], "the queue default/main that it names"),
        ([STRICT, workload("w", queue="")], "the queue (none named)"),
        ([queue("team-a", stop=Stop.HOLD_AND_DRAIN), workload("w")], "its stopPolicy is HoldAndDrain"),
        ([STRICT, workload("w", held_until=NOW + 91.2)], "for another 90 s"),
        ([STRICT, workload("w", gpus=0), workload("first", gpus=9, priority=1)], "default/first is ahead of it"),
        ([STRICT, running("w", is_admitted=False)], "waits for the checks of its queue"),
        (
            [CHECKED, running("w", is_admitted=False, checks={"own": CheckState.RETRY})],
            "waits for the checks budget, own",
        ),
        (
            [CHECKED, running("w", is_admitted=False, queue="gone", checks={"own": CheckState.PENDING})],
            "the checks own",
        ),
    ],
)
def test_words_of_those_not_tried(parts, text):
    assert text in told(state_of(*parts), "w").reason.text


def test_head_that_has_not_been_tried_yet_is_told_so():
    state = state_of(STRICT, workload("w"))
    assert untried(state, state.workloads["default/w"]).code is Code.PENDING_EVALUATION


def test_those_who_run_or_have_finished_are_told_nothing():
    state = state_of(STRICT, running("r"), workload("done", is_finished=True), workload("w"))
    assert set(verdicts_of_all(state, run_cycle(state))) == set()


def test_verdict_of_one_who_has_gone_has_advice_all_the_same():
    state = state_of(STRICT)
    verdict = untried(state, workload("w", queue="nowhere"))
    assert in_full(state, verdict).unblocked_by == ("creating the queue, or naming one that exists",)
    short = Shortage(flavor=FLAVOR, resource=GPU, asked=2, free=1, most=quota(UNLIMITED).nominal)
    waiting = Verdict(workload="w", queue="q", reason=because(Code.WAITING_FOR_QUOTA), shortages=(short,))
    assert in_full(state, waiting).unblocked_by == ("1 of nvidia.com/gpu in default given back by those who hold it",)
    exceeds = Verdict(workload="w", queue="q", reason=because(Code.EXCEEDS_MAX_QUOTA), shortages=(short,))
    assert in_full(state, exceeds).unblocked_by == ()
    assert GPUS == (FLAVOR, GPU)
