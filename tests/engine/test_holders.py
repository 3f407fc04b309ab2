"""Who holds quota, how much of it after pods have finished, and the index by queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.holders import Holders, holder_of, usage_of
from muster.engine.tree import QuotaNode
from muster.model.workload import Admission, PodSetAdmission
from tests.engine.builders import CPU, FLAVOR, GPU, GPUS, pod_set, queue, running, workload

TEAM_A = QuotaNode(queue("team-a"))
TEAM_B = QuotaNode(queue("team-b"))


def held(one, node=TEAM_A, *, releases=True):
    return holder_of(one, node, releases_finished_pods=releases)


def four_pods(*, finished=0, **fields):
    pods = pod_set(count=4, gpus=2, finished_pods=finished)
    return running("train", pod_sets=(pods,), **fields)


@pytest.mark.parametrize(
    ("one", "releases", "used"),
    [
        pytest.param(four_pods(), True, 8, id="all pods run"),
        pytest.param(four_pods(finished=1), True, 6, id="a finished pod gives its quota back"),
        pytest.param(four_pods(finished=1), False, 8, id="unless the setting is off"),
        pytest.param(four_pods(finished=4), True, 0, id="all have finished"),
        pytest.param(four_pods(finished=9), True, 0, id="more than there are"),
    ],
)
def test_finished_pods_release_their_share(one, releases, used):
    assert held(one, releases=releases).usage.get(GPUS, 0) == used


def test_share_of_one_pod_is_rounded_down():
    given = PodSetAdmission(name="main", count=3, flavors={CPU: FLAVOR}, usage={CPU: 10})
    one = replace(
        running("train", pod_sets=(pod_set(count=3, finished_pods=1),)),
        admission=Admission(queue="team-a", pod_sets=(given,)),
    )
    assert one.admission is not None
    assert usage_of(one, one.admission, releases_finished_pods=True) == {(FLAVOR, CPU): 6}


def test_workload_admitted_smaller_than_asked_releases_only_below_that():
    one = four_pods(finished=1)
    given = PodSetAdmission(name="main", count=2, flavors={GPU: FLAVOR}, usage={GPU: 4})
    small = replace(one, admission=Admission(queue="team-a", pod_sets=(given,)))
    assert held(small).usage == {GPUS: 4}


def test_admission_of_no_pods_holds_nothing_more_or_less():
    given = PodSetAdmission(name="main", count=0, flavors={GPU: FLAVOR}, usage={GPU: 0})
    one = replace(four_pods(finished=1), admission=Admission(queue="team-a", pod_sets=(given,)))
    assert held(one).usage == {GPUS: 0}


def test_pod_sets_unknown_to_the_workload_keep_theirs():
    given = PodSetAdmission(name="other", count=2, flavors={GPU: FLAVOR}, usage={GPU: 4})
    one = replace(four_pods(finished=4), admission=Admission(queue="team-a", pod_sets=(given,)))
    assert held(one).usage == {GPUS: 4}


def test_resource_without_a_flavor_is_not_counted():
    given = PodSetAdmission(name="main", count=1, flavors={GPU: FLAVOR}, usage={GPU: 1, CPU: 500})
    one = replace(running("train"), admission=Admission(queue="team-a", pod_sets=(given,)))
    assert held(one).usage == {GPUS: 1}


def test_usage_is_told_from_zero_by_flavor():
    given = PodSetAdmission(name="main", count=1, flavors={GPU: FLAVOR, CPU: "spot"}, usage={GPU: 0})
    holder = held(replace(running("train"), admission=Admission(queue="team-a", pod_sets=(given,))))
    assert holder.uses_any([GPUS])
    assert holder.uses_any([("spot", CPU)])
    assert not holder.uses_any([("spot", GPU)])
    assert not holder.uses_any([])


def test_workload_without_admission_is_no_holder():
    with pytest.raises(AssertionError, match="default/train holds no quota"):
        held(workload("train"))


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        pytest.param(held(running("train", gpus=2, priority=9)), True, id="a changed object"),
        pytest.param(held(running("train", gpus=3)), False, id="another amount"),
        pytest.param(held(running("train", gpus=2, flavor="spot")), False, id="another flavor"),
        pytest.param(held(running("train", gpus=2), TEAM_B), False, id="another queue"),
    ],
)
def test_same_charge(other, is_same):
    assert held(running("train", gpus=2)).is_same_charge(other) is is_same


def test_index_by_workload_and_queue():
    holders, one, two = Holders(), held(running("one")), held(running("two"), TEAM_B)
    holders.add(one)
    holders.add(two)
    assert len(holders) == 2
    assert holders.get("default/one") is one
    assert list(holders.in_queue("team-b").values()) == [two]
    assert list(holders.all()) == [one, two]
    newer = held(running("one", priority=5))
    holders.replace(newer)
    assert (holders.get("default/one"), list(holders.in_queue("team-a").values())) == (newer, [newer])
    assert holders.remove("default/one") is newer
    assert (holders.get("default/one"), dict(holders.in_queue("team-a"))) == (None, {})
    assert holders.remove("default/one") is None
    assert dict(holders.in_queue("nowhere")) == {}


def test_workload_holds_quota_once():
    holders = Holders()
    holders.add(held(running("one")))
    with pytest.raises(AssertionError, match="default/one holds quota already"):
        holders.add(held(running("one"), TEAM_B))
