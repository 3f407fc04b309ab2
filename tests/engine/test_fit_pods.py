"""Rules about other pods: ports, affinity and anti-affinity, spreading; and that a discarded try leaves no trace.

Nodes are named zone-number, so that "x-1" and "x-2" are in one zone; "bare" is in none.
"""

from __future__ import annotations

import pytest

from muster.engine.fit_pods import Bond
from muster.model.labels import Taint
from muster.model.topology import Node
from tests.engine.fit_builders import (
    HARD,
    HOSTNAME,
    ZONE,
    affinity,
    app,
    asks,
    expression,
    names,
    near,
    node,
    ports,
    put,
    rules,
    spread,
    spreads,
    world,
)

EVERYWHERE = "x-1 x-2 y-1 bare"
A, B = rules({"app": "a"}), rules({"app": "b"})


def cluster():
    return world(node("x-1"), node("x-2"), node("y-1"), Node(name="bare"))


# Ports ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taken", "wanted", "want"),
    [
        pytest.param({"hostPort": 80}, {"hostPort": 80}, "x-2 y-1 bare", id="the same"),
        pytest.param({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, EVERYWHERE, id="another protocol"),
        pytest.param({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, "x-2 y-1 bare", id="one of all"),
        pytest.param({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, "x-2 y-1 bare", id="all of one"),
        pytest.param(
            {"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, EVERYWHERE, id="two"
        ),
        pytest.param({"containerPort": 80}, {"hostPort": 80}, EVERYWHERE, id="not of the host"),
    ],
)
def test_ports(taken, wanted, want):
    place = cluster()
    put(place, "x-1", rules(spec=ports(taken)))
    assert names(place, rules(spec=ports(wanted))) == want


# Affinity ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([near(ZONE, app("a"))], "x-1 x-2", id="in the zone"),
        pytest.param([near(HOSTNAME, app("a"))], "x-1", id="on the host"),
        pytest.param([near(ZONE, app("nobody"))], "", id="near nobody"),
        pytest.param([near(ZONE)], "", id="no selector is near nobody"),
        pytest.param([near(ZONE, {})], "x-1 x-2", id="an empty selector is near every pod"),
        pytest.param([near("rack", app("a"))], "", id="no node has the label"),
        pytest.param([near(ZONE, app("a"), namespaces=["other"])], "y-1", id="another namespace"),
        pytest.param([near(ZONE, app("a"), namespaces=["other", "team"])], "x-1 x-2 y-1", id="both namespaces"),
        pytest.param([near(ZONE, app("a"), namespaceSelector={})], "x-1 x-2 y-1", id="every namespace"),
        pytest.param(
            [near(ZONE, app("a"), namespaceSelector={"matchLabels": {"kind": "test"}})], "y-1", id="by its label"
        ),
        pytest.param(
            [near(ZONE, app("a"), namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team"}})],
            "x-1 x-2",
            id="by its name as a label",
        ),
        pytest.param([near(ZONE, app("a")), near(HOSTNAME, app("a"))], "x-1", id="both terms"),
        pytest.param(
            [near(ZONE, app("a")), near(ZONE, {"matchExpressions": [expression("tier", "Exists")]})],
            "",
            id="one pod must match all terms",
        ),
    ],
)
def test_affinity(terms, want):
    place = cluster()
    place.pods.put_namespace("other", {"kind": "test"})
    put(place, "x-1", A)
    put(place, "x-2", rules({"tier": "web"}))
    put(place, "y-1", rules({"app": "a"}, namespace="other"))
    put(place, "bare", A)
    assert names(place, rules({"app": "me"}, affinity("podAffinity", *terms))) == want


@pytest.mark.parametrize(
    ("labels", "term", "want", "then"),
    [
        pytest.param({"app": "a"}, near(ZONE, app("a")), "x-1 x-2 y-1", "y-1", id="the first of its group"),
        pytest.param({"app": "b"}, near(ZONE, app("a")), "", "y-1", id="not one of the group"),
        pytest.param({"app": "a"}, near(ZONE, app("a"), namespaces=["other"]), "", "", id="of another namespace"),
    ],
)
def test_the_first_pod_of_a_group(labels, term, want, then):
    place = cluster()
    put(place, "bare", A)  # on a node without a zone: near nobody
    wanted = rules(labels, affinity("podAffinity", term))
    assert names(place, wanted) == want
    put(place, "y-1", A)
    assert names(place, wanted) == then


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([near(ZONE, app("a"))], "y-1 bare", id="away from the zone; nodes without one are fine"),
        pytest.param([near(HOSTNAME, app("a"))], "x-2 y-1 bare", id="away from the host"),
        pytest.param([near(ZONE)], EVERYWHERE, id="no selector is away from nobody"),
        pytest.param([near(ZONE, {})], "bare", id="an empty selector is away from every pod"),
        pytest.param([near(ZONE, app("a")), near(ZONE, app("b"))], "bare", id="away from either"),
        pytest.param([near(ZONE, app("a"), namespaces=["other"])], EVERYWHERE, id="another namespace"),
    ],
)
def test_anti_affinity(terms, want):
    place = cluster()
    put(place, "x-1", A)
    put(place, "y-1", B)
    assert names(place, rules({"app": "me"}, affinity("podAntiAffinity", *terms))) == want


@pytest.mark.parametrize(
    ("term", "newcomer", "want"),
    [
        pytest.param(near(ZONE, app("b")), B, "y-1 bare", id="kept away"),
        pytest.param(near(ZONE, app("b")), A, EVERYWHERE, id="not meant"),
        pytest.param(near(HOSTNAME, {}), A, "x-2 y-1 bare", id="alone on its host"),
        pytest.param(near("rack", {}), A, EVERYWHERE, id="its node has not the label"),
        pytest.param(near(ZONE), B, EVERYWHERE, id="no selector"),
        pytest.param(near(ZONE, {}), rules({}, namespace="other"), EVERYWHERE, id="another namespace"),
        pytest.param(near(ZONE, {}, namespaceSelector={}), rules({}, namespace="other"), "y-1 bare", id="every one"),
    ],
)
def test_pods_that_are_there_keep_others_away(term, newcomer, want):
    place = cluster()
    guard = rules({"app": "guard"}, affinity("podAntiAffinity", term))
    put(place, "x-1", guard)
    assert names(place, newcomer) == want
    place.release(0, asks(guard), ())
    assert names(place, newcomer) == EVERYWHERE


def test_pods_on_a_node_that_is_gone_are_near_nobody():
    place = cluster()
    put(place, "y-1", A)
    wanted = rules({}, affinity("podAffinity", near(ZONE, app("a"))))
    assert names(place, wanted) == "y-1"
    place.table.drop("y-1")
    place.pods.facts.drop(2)
    assert names(place, wanted) == ""


def test_namespaces_may_change_their_labels():
    place = cluster()
    put(place, "y-1", rules({"app": "a"}, namespace="other"))
    wanted = rules({}, affinity("podAffinity", near(ZONE, {}, namespaceSelector={"matchLabels": {"kind": "test"}})))
    assert names(place, wanted) == ""
    place.pods.put_namespace("other", {"kind": "test"})
    assert names(place, wanted) == "y-1"
    place.pods.put_namespace("other", {})
    assert names(place, wanted) == ""


# Spreading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraints", "want"),
    [
        pytest.param([spread(ZONE, app("a"))], "y-1", id="two to none"),
        pytest.param([spread(ZONE, app("a"), maxSkew=2)], "y-1", id="would be three to none"),
        pytest.param([spread(ZONE, app("a"), maxSkew=3)], "x-1 x-2 y-1", id="three to none is allowed"),
        pytest.param([spread(ZONE, app("b"))], "x-1 x-2 y-1", id="others do not count"),
        pytest.param([spread(ZONE, app("me"))], "x-1 x-2 y-1", id="the first of its group"),
        pytest.param([spread(ZONE)], "x-1 x-2 y-1", id="no selector counts nobody"),
        pytest.param([spread(ZONE, {})], "x-1 x-2 y-1", id="an empty one counts nobody either"),
        pytest.param([spread(HOSTNAME, app("a"))], "x-2 y-1", id="by host"),
        pytest.param([spread("rack", app("a"))], "", id="no node has the label"),
        pytest.param([spread(ZONE, app("a"), maxSkew=3), spread(HOSTNAME, app("a"))], "x-2 y-1", id="both"),
        pytest.param([spread(ZONE, app("a"), maxSkew=3, minDomains=3)], "x-1 x-2 y-1", id="few domains: from nothing"),
        pytest.param([spread(ZONE, app("a"), whenUnsatisfiable="ScheduleAnyway")], EVERYWHERE, id="only a wish"),
    ],
)
def test_spreading(constraints, want):
    place = cluster()
    put(place, "x-1", A, 2)
    put(place, "y-1", rules({"app": "a"}, namespace="other"))
    put(place, "y-1", rules({"app": "a"}, deletionTimestamp="2026-01-01T00:00:00Z"))
    put(place, "bare", A)
    assert names(place, rules({"app": "a"}, spreads(*constraints))) == want


def test_too_few_domains_count_from_nothing():
    place = world(node("x-1"), node("y-1"))
    for name in ("x-1", "y-1"):
        put(place, name, A)
    assert names(place, rules({"app": "a"}, spreads(spread(ZONE, app("a"), minDomains=2)))) == "x-1 y-1"
    assert names(place, rules({"app": "a"}, spreads(spread(ZONE, app("a"), minDomains=3)))) == ""
    # A pod that is not one of the group makes it no more uneven.
    assert names(place, rules({"app": "b"}, spreads(spread(ZONE, app("a"), minDomains=3)))) == "x-1 y-1"


@pytest.mark.parametrize(
    ("policies", "want"),
    [
        pytest.param({}, "x-1 x-2", id="nodes that it may not go to do not count"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, "", id="they do when told so"),
    ],
)
def test_spreading_over_nodes_that_the_selector_rules_out(policies, want):
    place = world(node("x-1", {"disk": "ssd"}), node("x-2", {"disk": "ssd"}), node("y-1"))
    put(place, "x-1", A)
    constraint = spread(ZONE, app("a"), **policies)
    assert names(place, rules({"app": "a"}, {"nodeSelector": {"disk": "ssd"}, **spreads(constraint)})) == want


@pytest.mark.parametrize(
    ("policies", "want"),
    [
        pytest.param({}, "", id="tainted nodes count"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, "x-1", id="they do not when told so"),
    ],
)
def test_spreading_over_nodes_that_taints_rule_out(policies, want):
    place = world(node("x-1"), node("y-1", {}, Taint("gpu")))
    put(place, "x-1", A)
    assert names(place, rules({"app": "a"}, spreads(spread(ZONE, app("a"), **policies)))) == want


def test_only_the_own_revision_is_spread():
    place = world(node("x-1"), node("y-1"))
    put(place, "x-1", rules({"app": "a", "revision": "1"}))
    constraint = spread(ZONE, app("a"), matchLabelKeys=["revision"])
    assert names(place, rules({"app": "a", "revision": "1"}, spreads(constraint))) == "y-1"
    assert names(place, rules({"app": "a", "revision": "2"}, spreads(constraint))) == "x-1 y-1"


# Placing -------------------------------------------------------------------------------------------------------------


def test_alike_pods_that_keep_each_other_away_are_placed_one_by_one():
    place = cluster()
    alone = asks(rules({"app": "a"}, affinity("podAntiAffinity", near(HOSTNAME, app("a")))))
    found = place.place_many(alone, 5)
    # A node without the label is nobody's neighbour.
    assert found is not None and [one.row for one in found] == [0, 1, 2, 3, 3]


def test_tries_leave_no_trace():
    place = world(node("x-1"), node("y-1"))
    wanted = rules({"app": "a"}, spreads(spread(ZONE, app("a"), whenUnsatisfiable=HARD)))
    alone = rules({"app": "a"}, affinity("podAntiAffinity", near(ZONE, app("a"))))
    assert place.place_many(asks(alone), 3) is None
    assert names(place, alone) == "x-1 y-1"
    mark = place.checkpoint()
    assert len(place.place_many(asks(wanted), 3) or ()) == 3
    inner = place.checkpoint()
    place.release(0, asks(wanted), ())
    place.rollback(inner)
    assert names(place, wanted) == "y-1"
    place.rollback(mark)
    assert names(place, wanted) == "x-1 y-1"
    assert not place.pods.has_bonds(*Bond)


def test_alike_pods_are_spread_evenly():
    place = world(*(node(f"{zone}-{index}") for zone in "xyz" for index in range(2)))
    wanted = asks(rules({"app": "a"}, spreads(spread(ZONE, app("a")))))
    found = place.place_many(wanted, 7)
    assert found is not None
    assert [place.table.names[one.row][0] for one in found] == ["x", "y", "z", "x", "y", "z", "x"]


def test_pods_that_are_only_kept_away_are_placed_together():
    place = cluster()
    put(place, "x-1", rules({}, affinity("podAntiAffinity", near(ZONE, app("b")))))
    found = place.place_many(asks(B, cpu=5_000), 4)
    assert found is not None and [one.row for one in found] == [2, 2, 3, 3]
    assert place.place_many(asks(B, cpu=5_000), 1) is None


def test_charges_of_others_than_were_made_are_caught():
    place = cluster()
    put(place, "x-1", A)
    with pytest.raises(AssertionError, match="only pods that are there"):
        place.release(0, asks(B), ())


def test_counts_of_the_past_are_forgotten(monkeypatch):
    monkeypatch.setattr("muster.engine.fit_pods.COUNTS_KEPT", 2)
    place = cluster()
    put(place, "x-1", A)
    for turn in range(3):
        for name, want in (("a", "x-1 x-2"), ("b", ""), ("c", "")):
            assert names(place, rules({}, affinity("podAffinity", near(ZONE, app(name))))) == want
        put(place, "x-1", A, turn + 1)
    assert len(place.pods._counts) == 2
    assert sum(len(kind.counts) for kind in place.pods._kinds.values()) <= 1
