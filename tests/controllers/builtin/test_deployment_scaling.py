"""Replica sets of a deployment grow and shrink within what surge and unavailability allow."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from muster.controllers.builtin.deployment_scaling import resized, rolled, to_clean
from muster.controllers.builtin.deployment_sets import (
    HISTORY,
    MOST,
    REVISION,
    Sets,
    counted,
    find_new,
    most_surge,
    most_unavailable,
    size,
    sorted_out,
    with_new,
)
from tests.controllers.builtin.workload_cluster import template, workload
from tests.support import assert_sound, proof_count


def deployment(replicas: int, surge: int | str = 1, unavailable: int | str = 0, **spec: Any) -> Any:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    made = workload("Deployment", replicas=replicas, **{"strategy": rolling, "revisionHistoryLimit": 10, **spec})
    made["metadata"] |= {"uid": "u", "generation": 1}
    return made


def one_set(name: str, replicas: int, available: int = 0, **more: Any) -> Any:
    """A replica set: its size and how many of its pods serve; more: most, revision, age, image."""
    made = workload("ReplicaSet", name, replicas=replicas, template=template(image=more.get("image", "i:0")))
    made["metadata"] |= {
        "uid": name,
        "generation": 1,
        "creationTimestamp": f"2026-01-01T00:00:{more.get('age', 0):02}Z",
        "annotations": {REVISION: str(more.get("revision", 1)), MOST: str(more.get("most", 0))},
    }
    made["status"] = {"replicas": replicas, "availableReplicas": available, "observedGeneration": 1}
    return made


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "want"),
    [
        (10, "25%", "25%", (3, 2)),
        (10, 0, 0, (0, 1)),
        (1, "25%", "25%", (1, 0)),
        (4, 0, "10%", (0, 1)),
        (2, 1, 5, (1, 2)),
        (0, 1, 1, (1, 0)),
    ],
)
def test_bounds(replicas, surge, unavailable, want):
    given = deployment(replicas, surge, unavailable)
    assert (most_surge(given), most_unavailable(given)) == want


@pytest.mark.parametrize(
    ("given", "old", "new", "want"),
    [
        pytest.param(deployment(4), (4, 4), (0, 0), (4, 1), id="the new grows by the surge"),
        pytest.param(deployment(4), (4, 4), (1, 0), (4, 1), id="the old stays until the new serves"),
        pytest.param(deployment(4), (4, 4), (1, 1), (3, 1), id="the old gives what the new serves"),
        pytest.param(deployment(4, 0, 2), (4, 4), (0, 0), (2, 0), id="the old gives what may be missing"),
        pytest.param(deployment(4, 0, 2), (4, 2), (0, 0), (2, 0), id="the broken go first"),
        pytest.param(deployment(4, 2, 0), (4, 1), (2, 0), (4, 2), id="nothing goes while too few serve"),
        pytest.param(deployment(7, 3, 2), (6, 8), (4, 0), (6, 4), id="nothing goes while a set still shrinks"),
        pytest.param(deployment(2), (0, 0), (5, 5), (0, 2), id="the new shrinks to the wanted"),
    ],
)
def test_rolled(given, old, new, want):
    sets = rolled(given, Sets((one_set("old", *old),), one_set("new", *new)))
    assert sets.new is not None
    assert (size(sets.old[0]), size(sets.new)) == want


@pytest.mark.parametrize(
    ("given", "sizes", "most", "want"),
    [
        pytest.param(deployment(20, 3, 2), (8, 5), 13, (14, 9), id="up in proportion"),
        pytest.param(deployment(5, 3, 2), (8, 5), 13, (5, 3), id="down in proportion"),
        pytest.param(deployment(0, 3, 2), (8, 5), 13, (0, 0), id="to nothing"),
        pytest.param(deployment(12, 0, 1), (5, 5), 10, (6, 6), id="halves"),
        pytest.param(deployment(11, 0, 1), (5, 5), 10, (5, 6), id="what is left goes to the newest of the biggest"),
        pytest.param(deployment(9, 0, 1), (5, 5), 10, (4, 5), id="what goes is taken from the oldest of the biggest"),
    ],
)
def test_resized_in_proportion(given, sizes, most, want):
    old, new = one_set("old", sizes[0], most=most), one_set("new", sizes[1], most=most, age=1)
    sets = resized(given, Sets((old,), new))
    assert sets.new is not None
    assert (size(sets.old[0]), size(sets.new)) == want


def test_only_one_set_takes_the_whole_size():
    old = one_set("old", 3)
    assert size(resized(deployment(7), Sets((old,), None)).old[0]) == 7
    empty = Sets((one_set("a", 0), one_set("b", 0, age=5)), None)
    assert [size(one) for one in resized(deployment(7), empty).old] == [0, 7]


def test_a_new_set_has_the_next_revision_and_the_deployments_annotations():
    given = deployment(3)
    given["metadata"]["annotations"] = {
        "why": "x",
        REVISION: "9",
        "kubectl.kubernetes.io/last-applied-configuration": "",
    }
    sets = with_new(given, Sets((one_set("a", 1, revision=4),), None))
    assert sets.new is not None
    annotations = sets.new["metadata"]["annotations"]
    assert (annotations[REVISION], annotations["why"]) == ("5", "x")
    assert not any("last-applied" in name for name in annotations)
    assert find_new(given, [sets.new]) is sets.new


def test_a_set_that_is_new_again_remembers_its_revisions():
    given = deployment(3)
    back = one_set("a", 0, revision=1, image="i:1")
    back["metadata"]["annotations"][HISTORY] = "0"
    sets = sorted_out(given, [back, one_set("b", 3, revision=2)])
    assert sets.new is not None
    assert sets.new["metadata"]["annotations"][REVISION] == "3"
    assert sets.new["metadata"]["annotations"][HISTORY] == "0,1"


def test_only_empty_sets_beyond_the_limit_are_forgotten():
    old = (one_set("a", 0, revision=1), one_set("b", 1, revision=2), one_set("c", 0, revision=3))
    given = deployment(1, revisionHistoryLimit=1)
    assert [one["metadata"]["name"] for one in to_clean(given, Sets(old, None))] == ["a"]
    assert to_clean(deployment(1), Sets(old, None)) == []


@pytest.mark.prove
def test_a_rollout_stays_within_its_bounds_and_ends():
    def check(chance: Random) -> None:
        given = deployment(chance.randrange(12), chance.choice([0, 1, 3, "25%"]), chance.choice([0, 1, 2, "50%"]))
        wanted = size(given)
        sets = Sets((one_set("old", wanted, wanted),), one_set("new", 0))
        for _ in range(500):
            before, sets = sets, rolled(given, sets)
            assert sum(map(size, sets.all)) <= wanted + most_surge(given)
            serving = sum(min(size(one), counted(one, "availableReplicas")) for one in sets.all)
            assert serving >= wanted - most_unavailable(given)
            assert sets.new is not None
            if sets == before and counted(sets.new, "availableReplicas") == wanted:
                break
            sets = Sets(tuple(_served(one) for one in sets.old), _served(sets.new, chance))
        assert sets.new is not None
        assert (size(sets.old[0]), size(sets.new)) == (0, wanted)

    assert_sound(check, range(proof_count(2_000)))


def _served(one: Any, chance: Random | None = None) -> Any:
    """A set after its pods came or went; some of the new ones take their time."""
    available = min(size(one), counted(one, "availableReplicas"))
    if chance is not None:
        available = chance.randint(available, size(one))
    return {**one, "status": {**one["status"], "replicas": size(one), "availableReplicas": available}}
