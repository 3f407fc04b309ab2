"""Preferences over the nodes that fit, worked out by hand from the kube-scheduler's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from muster.engine.fit_scores import (
    Candidates,
    has_preferences,
    node_affinity_scores,
    pod_affinity_scores,
    spread_scores,
    taint_scores,
)
from muster.model.labels import PREFER_NO_SCHEDULE, Taint
from muster.model.pod_rules import ANYWHERE
from muster.model.topology import Node
from tests.engine.fit_builders import (
    HOSTNAME,
    PREFERRED,
    SOFT,
    ZONE,
    affinity,
    app,
    expression,
    likes,
    near,
    node,
    put,
    rules,
    spread,
    spreads,
    world,
)

A = rules({"app": "a"})


def cluster():
    return world(node("x-1"), node("x-2"), node("y-1"), Node(name="bare"))


def scores(ask, place, one, rows=None, **more):
    """What each of some rows scores; all rows when none are named."""
    index = np.arange(place.table.row_count) if rows is None else np.array(rows)
    return ask(Candidates(one, index, place.pods), **more).tolist()


def prefers(*terms):
    weighed = [{"weight": weight, "preference": {"matchExpressions": list(term)}} for weight, term in terms]
    return rules(spec={"affinity": {"nodeAffinity": {PREFERRED: weighed}}})


# Nodes ---------------------------------------------------------------------------------------------------------------

SSD, BIG = expression("disk", "In", "ssd"), expression("cores", "Gt", "8")


@pytest.mark.parametrize(
    ("wanted", "rows", "want"),
    [
        pytest.param(rules(), None, [0, 0, 0], id="nothing preferred"),
        pytest.param(prefers((10, [SSD])), None, [100, 100, 0], id="one term"),
        pytest.param(prefers((10, [SSD]), (20, [BIG])), None, [33, 100, 0], id="the best has a hundred"),
        pytest.param(prefers((10, [SSD]), (20, [BIG])), [0, 2], [100, 0], id="of those that fit"),
        pytest.param(prefers((10, [SSD, BIG])), None, [0, 100, 0], id="a term as a whole"),
        pytest.param(prefers((10, [])), None, [0, 0, 0], id="an empty term likes nobody"),
        pytest.param(prefers((10, [expression("nobody", "Exists")])), None, [0, 0, 0], id="nobody is liked"),
    ],
)
def test_node_affinity(wanted, rows, want):
    place = world(node("a", {"disk": "ssd", "cores": "4"}), node("b", {"disk": "ssd", "cores": "16"}), node("c"))
    assert scores(node_affinity_scores, place, wanted, rows) == want


@pytest.mark.parametrize(
    ("tolerations", "rows", "want"),
    [
        pytest.param([], None, [100, 50, 0], id="the fewer the better"),
        pytest.param([], [0, 1], [100, 0], id="of those that fit"),
        pytest.param([{"key": "one", "operator": "Exists"}], None, [100, 100, 0], id="those tolerated do not count"),
        pytest.param([{"operator": "Exists"}], None, [100, 100, 100], id="all tolerated"),
        pytest.param([{"operator": "Exists", "effect": "NoSchedule"}], None, [100, 50, 0], id="another effect"),
    ],
)
def test_taints(tolerations, rows, want):
    mild = [Taint(key, "", PREFER_NO_SCHEDULE) for key in ("one", "two")]
    place = world(node("a"), node("b", {}, mild[0]), node("c", {}, *mild))
    assert scores(taint_scores, place, rules(spec={"tolerations": tolerations}), rows) == want


# Pods ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, [0, 0, 0, 0], id="nothing preferred"),
        pytest.param(likes("podAffinity", (5, near(ZONE, app("a")))), [100, 100, 0, 0], id="near"),
        pytest.param(likes("podAntiAffinity", (5, near(ZONE, app("a")))), [0, 0, 100, 100], id="away"),
        pytest.param(
            likes("podAffinity", (10, near(ZONE, app("a"))), (5, near(HOSTNAME, app("b")))),
            [100, 100, 25, 0],
            id="every pod counts: two of ten, one of five",
        ),
        pytest.param(likes("podAffinity", (5, near(ZONE, app("nobody")))), [0, 0, 0, 0], id="near nobody"),
    ],
)
def test_own_pod_preferences(spec, want):
    place = cluster()
    put(place, "x-1", A, 2)
    put(place, "y-1", rules({"app": "b"}))
    assert scores(pod_affinity_scores, place, rules({"app": "me"}, spec)) == want


@pytest.mark.parametrize(
    ("spec", "weight", "want"),
    [
        pytest.param(likes("podAffinity", (5, near(ZONE, app("me")))), 1, [100, 100, 0, 0], id="likes it near"),
        pytest.param(likes("podAntiAffinity", (5, near(ZONE, app("me")))), 1, [0, 0, 100, 100], id="dislikes it"),
        pytest.param(likes("podAffinity", (5, near(ZONE, app("you")))), 1, [0, 0, 0, 0], id="does not care"),
        pytest.param(affinity("podAffinity", near(ZONE, app("me"))), 1, [100, 100, 0, 0], id="needs it near"),
        pytest.param(affinity("podAffinity", near(ZONE, app("me"))), 0, [0, 0, 0, 0], id="need does not count"),
    ],
)
def test_preferences_of_pods_that_are_there(spec, weight, want):
    place = cluster()
    put(place, "x-2", rules({"app": "other"}, spec))
    assert scores(pod_affinity_scores, place, rules({"app": "me"}), need_weight=weight) == want


# Spreading -----------------------------------------------------------------------------------------------------------


def wish(key, **fields):
    return spread(key, app("a"), whenUnsatisfiable=SOFT, **fields)


def test_spreading_by_zone():
    place = cluster()
    put(place, "x-1", A, 3)
    put(place, "y-1", A)
    # Two zones weigh ln 4 each: 4.16 and 1.39 pods are 4 and 1, of which 4 is the most.
    assert scores(spread_scores, place, rules({"app": "a"}, spreads(wish(ZONE)))) == [25, 25, 100, 0]


def test_spreading_by_host():
    place = cluster()
    put(place, "x-1", A, 3)
    # Three hosts weigh ln 5: 3 pods are 4.83, that is 5.
    assert round(3 * math.log(5)) == 5
    assert scores(spread_scores, place, rules({"app": "a"}, spreads(wish(HOSTNAME)))) == [0, 100, 100, 0]


def test_spreading_with_nobody_there():
    place = cluster()
    assert scores(spread_scores, place, rules({"app": "a"}, spreads(wish(ZONE)))) == [100, 100, 100, 0]
    # A skew that is allowed is added for every node alike, so that all are as good.
    assert scores(spread_scores, place, rules({"app": "a"}, spreads(wish(ZONE, maxSkew=3)))) == [100, 100, 100, 0]


def test_spreading_where_no_node_has_the_label():
    assert scores(spread_scores, cluster(), rules({"app": "a"}, spreads(wish("rack")))) == [0, 0, 0, 0]
    assert scores(spread_scores, cluster(), rules({"app": "a"}, spreads(spread(ZONE, app("a"))))) == [0, 0, 0, 0]


def test_spreading_counts_nodes_that_do_not_fit_but_takes_part():
    place = cluster()
    put(place, "x-1", A, 3)
    wanted = rules({"app": "a"}, spreads(wish(ZONE)))
    assert scores(spread_scores, place, wanted, [1, 2]) == [0, 100]
    barred = rules({"app": "a"}, {"nodeSelector": {HOSTNAME: "x-2"}, **spreads(wish(ZONE))})
    assert scores(spread_scores, place, barred, [1]) == [100]


# Whether there is anything to compare --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "there", "has"),
    [
        pytest.param(ANYWHERE, A, False, id="nothing"),
        pytest.param(prefers((1, [SSD])), A, True, id="nodes"),
        pytest.param(rules({}, likes("podAffinity", (1, near()))), A, True, id="pods"),
        pytest.param(rules({}, spreads(wish(ZONE))), A, True, id="spreading"),
        pytest.param(rules({}, spreads(spread(ZONE))), A, False, id="no wish"),
        pytest.param(ANYWHERE, rules({}, likes("podAffinity", (1, near(ZONE, {})))), True, id="pods that are there"),
    ],
)
def test_has_preferences(wanted, there, has):
    place = cluster()
    put(place, "x-1", there)
    assert has_preferences(place.pods, wanted) is has


def test_mild_taints_are_something_to_compare():
    place = world(node("a", {}, Taint("t", "", PREFER_NO_SCHEDULE)))
    assert has_preferences(place.pods, ANYWHERE)
