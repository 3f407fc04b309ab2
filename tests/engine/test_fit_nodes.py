"""What nodes say by themselves: selectors, affinity, taints, volumes; and that kept answers follow the nodes."""

from __future__ import annotations

import pytest

from muster.engine.fit_nodes import NodeFacts
from muster.engine.node_table_rows import TableNode
from muster.model.labels import NO_EXECUTE, PREFER_NO_SCHEDULE, NodeTerm, Operator, Requirement, Taint
from muster.model.pod_rules import ANYWHERE, NodeRules
from tests.engine.fit_builders import REQUIRED, asks, expression, names, node, rules, world

GPU = Taint("gpu", "a100")


def terms(*wanted):
    """Required node affinity; a term is a list of expressions, or the name of a node."""
    written = []
    for term in wanted:
        if isinstance(term, str):
            written.append({"matchFields": [expression("metadata.name", "In", term)]})
        else:
            written.append({"matchExpressions": list(term)})
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": written}}}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, "a b c", id="anywhere"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, "a", id="a label"),
        pytest.param({"nodeSelector": {"disk": "ssd", "cores": "8"}}, "", id="two labels"),
        pytest.param({"nodeSelector": {"nobody": "has"}}, "", id="a label that nobody has"),
        pytest.param(terms([expression("disk", "In", "ssd", "hdd")]), "a b", id="In"),
        pytest.param(terms([expression("disk", "NotIn", "ssd")]), "b c", id="NotIn takes nodes without the label"),
        pytest.param(terms([expression("disk", "Exists")]), "a b", id="Exists"),
        pytest.param(terms([expression("disk", "DoesNotExist")]), "c", id="DoesNotExist"),
        pytest.param(terms([expression("cores", "Gt", "8")]), "b", id="Gt"),
        pytest.param(terms([expression("cores", "Lt", "8")]), "a", id="Lt"),
        pytest.param(terms([expression("disk", "Gt", "1")]), "", id="Gt of a word"),
        pytest.param(terms([expression("cores", "Exists"), expression("disk", "Exists")]), "a b", id="both"),
        pytest.param(terms([expression("disk", "In", "ssd")], "c"), "a c", id="either term"),
        pytest.param(terms([]), "", id="an empty term takes nobody"),
        pytest.param(terms(), "", id="no term takes nobody"),
        pytest.param(terms("b"), "b", id="by name"),
        pytest.param({"nodeSelector": {"disk": "hdd"}, **terms("a", "b")}, "b", id="selector and affinity"),
    ],
)
def test_labels(spec, want):
    place = world(
        node("a", {"disk": "ssd", "cores": "4"}),
        node("b", {"disk": "hdd", "cores": "16"}),
        node("c", {"metadata.name": "a", "cores": "many"}),
    )
    assert names(place, rules(spec=spec)) == want


@pytest.mark.parametrize(
    ("tolerations", "want"),
    [
        pytest.param([], "free mild", id="none"),
        pytest.param([{"operator": "Exists"}], "free mild hard gone cordoned down", id="an empty key tolerates all"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], "free mild hard gone", id="any value"),
        pytest.param([{"key": "gpu", "value": "a100"}], "free mild hard gone", id="Equal is the default"),
        pytest.param([{"key": "gpu", "value": "h100"}], "free mild", id="another value"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}], "free mild hard", id="one effect only"
        ),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}],
            "free mild gone",
            id="NoExecute for a while",
        ),
        pytest.param(
            [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
            "free mild cordoned",
            id="a cordon",
        ),
        pytest.param(
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            "free mild",
            id="what every pod has does not help on a node that is not ready",
        ),
        pytest.param([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], "free mild down", id="not ready"),
    ],
)
def test_taints(tolerations, want):
    place = world(
        node("free"),
        node("mild", {}, Taint("gpu", "a100", PREFER_NO_SCHEDULE)),
        node("hard", {}, GPU),
        node("gone", {}, Taint("gpu", "a100", NO_EXECUTE)),
        node("cordoned", is_schedulable=False),
        node("down", is_ready=False),
    )
    assert names(place, rules(spec={"tolerations": tolerations})) == want


def test_nodes_keep_pods_without_rules_away_too():
    assert names(world(node("a", {}, GPU), node("b")), ANYWHERE) == "b"


def test_a_node_that_is_tainted_as_unreachable_is_not_tainted_again():
    place = world(node("a", {}, Taint("node.kubernetes.io/unreachable"), is_ready=False))
    tolerations = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]
    assert names(place, rules(spec={"tolerations": tolerations})) == "a"


def test_every_volume_must_be_in_reach_of_labels_only():
    in_zone = (NodeTerm((Requirement("zone", Operator.IN, frozenset("xy")),)),)
    in_x = (NodeTerm((Requirement("zone", Operator.IN, frozenset("x")),)),)
    named = (NodeTerm((), (Requirement("metadata.name", Operator.IN, frozenset(["b"])),)),)
    place = world(node("a", {"zone": "x"}), node("b", {"zone": "y"}), node("c"))
    assert names(place, rules(volumes=(in_zone,))) == "a b"
    assert names(place, rules(volumes=(in_zone, in_x))) == "a"
    assert names(place, rules(volumes=(named,))) == "a b c"


def test_answers_follow_the_nodes():
    place = world(node("a", {"disk": "ssd"}), node("b"))
    facts, wanted = place.pods.facts, rules(spec={"nodeSelector": {"disk": "ssd"}})
    assert names(place, wanted) == "a"
    facts.put(1, node("b", {"disk": "ssd"}))
    facts.put(0, node("a", {"disk": "ssd"}, GPU))
    assert names(place, wanted) == "b"
    row = place.table.put(TableNode(name="c", amounts={"cpu": 10_000, "pods": 9}))
    facts.put(row, node("c", {"disk": "ssd"}))
    assert names(place, wanted) == "b c"
    place.table.drop("b")
    facts.drop(1)
    assert names(place, wanted) == "c"


def test_only_changed_nodes_are_asked_again(monkeypatch):
    facts = NodeFacts(node(f"n{index}", {"disk": "ssd"}) for index in range(9))
    wanted = NodeRules(selector=(("disk", "ssd"),))
    facts.suits(wanted)
    asked = []
    labelled = facts._labelled
    monkeypatch.setattr(facts, "_labelled", lambda selector, rows: asked.append(rows) or labelled(selector, rows))
    facts.suits(wanted)
    facts.put(4, node("n4"))
    assert facts.suits(wanted).tolist() == [index != 4 for index in range(9)]
    assert [rows.tolist() for rows in asked] == [[4]]


def test_values_and_answers_of_the_past_are_forgotten(monkeypatch):
    for constant in ("_VALUES_LEAST", "MASKS_KEPT"):
        monkeypatch.setattr(f"muster.engine.fit_nodes.{constant}", 3)
    facts = NodeFacts([node("a"), node("b")])
    exists = {key: rules(spec=terms([expression(key, "Exists")])).nodes for key in "xyz"}
    for turn in range(30):
        facts.put(turn % 2, node("ab"[turn % 2], {"x": str(turn)}, Taint(str(turn))))
        assert facts.column("x").width < 10
        for wanted in exists.values():
            facts.suits(wanted)
    assert len(facts._taint_sets) < 10 and len(facts._kept) == 3
    tolerant = rules(spec={**terms([expression("x", "In", "28")]), "tolerations": [{"operator": "Exists"}]}).nodes
    assert facts.suits(tolerant).tolist() == [True, False]
    assert facts.tolerated(()).tolist() == [False, False]


def test_the_facts_of_every_node_must_be_there():
    place = world(node("a"))
    place.table.put(TableNode(name="b"))
    with pytest.raises(AssertionError, match="come with the node"):
        place.fits(asks(ANYWHERE))
