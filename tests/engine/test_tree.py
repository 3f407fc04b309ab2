"""The quota tree settles what each queue keeps, brings and could get, and leaves out what goes round in circles."""

from __future__ import annotations

import pytest

from muster.engine.tree import QuotaTree
from muster.model.resources import UNLIMITED, is_unlimited
from tests.engine.builders import CPU, FLAVOR, GPUS, cohort, queue, quota

LONE = [queue("team-a", gpus=8)]
TWO = [cohort("x"), queue("team-a", cohort="x", gpus=6), queue("team-b", cohort="x", gpus=4)]


def in_x(**gpus):
    """Queues of one cohort, each with its quota."""
    return [cohort("x"), *(queue(name, cohort="x", gpus=declared) for name, declared in gpus.items())]


@pytest.mark.parametrize(
    ("queues", "name", "reserved", "subtree", "potential"),
    [
        pytest.param(LONE, "team-a", 0, 8, 8, id="alone, a queue has what it declares"),
        pytest.param(TWO, "team-a", 0, 6, 10, id="in a cohort it could get what all bring"),
        pytest.param(TWO, "x", 0, 10, 10, id="a cohort brings what its queues lend"),
        pytest.param(in_x(a=quota(6, lend=2), b=4), "a", 4, 6, 10, id="what is not lent is kept"),
        pytest.param(in_x(a=quota(6, lend=2), b=4), "x", 0, 6, 6, id="and not brought"),
        pytest.param(in_x(a=quota(6, lend=2), b=4), "b", 0, 4, 6, id="nor to be had by others"),
        pytest.param(in_x(a=quota(6, lend=9), b=4), "a", 0, 6, 10, id="lending more than one has keeps nothing"),
        pytest.param(in_x(a=quota(6, borrow=1), b=4), "a", 0, 6, 7, id="a borrowing limit bounds what it could get"),
        pytest.param(in_x(a=quota(6, borrow=0, lend=0), b=4), "a", 6, 6, 6, id="alone among others"),
        pytest.param(in_x(a=0, b=4), "a", 0, 0, 4, id="one that brings nothing may borrow"),
        pytest.param(
            [cohort("x", gpus=5), queue("a", cohort="x", gpus=1)],
            "a",
            0,
            1,
            6,
            id="a cohort may bring quota of its own",
        ),
        pytest.param(
            [cohort("top"), cohort("x", parent="top", gpus=quota(2, lend=3)), queue("a", cohort="x", gpus=4)],
            "x",
            3,
            6,
            6,
            id="a cohort's lending limit counts what its queues bring",
        ),
        pytest.param(
            [cohort("top", gpus=7), cohort("x", parent="top", gpus=quota(0, borrow=2)), queue("a", cohort="x", gpus=4)],
            "a",
            0,
            4,
            6,
            id="a cohort's borrowing limit binds its queues",
        ),
        pytest.param([queue("a", cohort="nowhere", gpus=4)], "a", 0, 4, 4, id="a parent that is not there is none"),
    ],
)
def test_numbers_that_follow_from_the_tree(queues, name, reserved, subtree, potential):
    cell = QuotaTree(queues).nodes[name].cell(GPUS)
    assert (cell.reserved, cell.subtree, cell.potential) == (reserved, subtree, potential)


def test_limit_is_what_a_queue_brings_and_may_borrow():
    tree = QuotaTree(in_x(a=quota(6, borrow=3), b=4))
    assert tree.nodes["a"].cell(GPUS).limit == 9
    assert is_unlimited(tree.nodes["b"].cell(GPUS).limit)


def test_unlimited_quota_stays_unlimited():
    tree = QuotaTree(in_x(a=quota(UNLIMITED), b=4))
    assert is_unlimited(tree.nodes["b"].cell(GPUS).potential)
    assert is_unlimited(tree.nodes["x"].cell(GPUS).subtree)


def test_resource_that_only_another_queue_declares_can_be_borrowed():
    tree = QuotaTree([cohort("x"), queue("a", cohort="x"), queue("b", cohort="x", flavors={FLAVOR: {CPU: 7}})])
    cell = tree.nodes["a"].cell((FLAVOR, CPU))
    assert (cell.nominal, cell.subtree, cell.potential) == (0, 0, 7)
    assert tree.nodes["a"].cell((FLAVOR, CPU)) is cell


def test_nodes_name_what_their_subtree_declares():
    tree = QuotaTree([cohort("x"), queue("a", cohort="x", gpus=1), queue("b", cohort="x", flavors={"spot": {CPU: 1}})])
    assert set(tree.nodes["x"].declared) == {GPUS, ("spot", CPU)}
    assert tree.nodes["a"].declared == (GPUS,)
    assert set(tree.nodes["a"].cells) >= {GPUS}


NESTED = [
    cohort("top"),
    cohort("x", parent="top"),
    cohort("empty", parent="top"),
    queue("a", cohort="x"),
    queue("b", cohort="top"),
]


@pytest.mark.parametrize(
    ("name", "height", "path"),
    [
        pytest.param("a", 0, "a x top", id="a queue is at the bottom"),
        pytest.param("x", 1, "x top", id="above it its cohort"),
        pytest.param("empty", 1, "empty top", id="a cohort without queues stands as high"),
        pytest.param("top", 2, "top", id="the top is the longest way down"),
    ],
)
def test_height_and_path(name, height, path):
    node = QuotaTree(NESTED).nodes[name]
    assert (node.height, " ".join(above.name for above in node.path)) == (height, path)
    assert node.root.name == "top"


def test_leaves_come_in_the_order_of_names_at_each_level():
    tree = QuotaTree(reversed([*NESTED, queue("0", cohort="top"), queue("z", cohort="x")]))
    assert [leaf.name for leaf in tree.nodes["top"].leaves()] == ["0", "b", "a", "z"]
    assert [leaf.name for leaf in tree.nodes["b"].leaves()] == ["b"]


def test_only_leaves_can_be_waited_in():
    tree = QuotaTree(TWO)
    assert tree.leaf("team-a") is tree.nodes["team-a"]
    assert tree.leaf("x") is None
    assert tree.leaf("nowhere") is None


@pytest.mark.parametrize(
    ("queues", "circular"),
    [
        pytest.param(NESTED, "", id="a tree"),
        pytest.param([cohort("x", parent="x")], "x", id="its own parent"),
        pytest.param([cohort("x", parent="y"), cohort("y", parent="x")], "x y", id="each other's"),
        pytest.param(
            [cohort("x", parent="y"), cohort("y", parent="x"), queue("a", cohort="x")],
            "a x y",
            id="and what hangs on it",
        ),
        pytest.param(
            [queue("a", cohort="x"), cohort("x", parent="y"), cohort("y", parent="x"), queue("b", cohort="z")],
            "a x y",
            id="the others take part",
        ),
    ],
)
def test_circles_take_no_part(queues, circular):
    tree = QuotaTree(queues)
    assert sorted(tree.circular) == circular.split()
    assert not tree.circular & set(tree.nodes)
    assert set(tree.nodes) | tree.circular == {one.name for one in queues}


def test_chain_of_a_thousand_cohorts_needs_no_deep_stack():
    depth = 1000
    chain = [cohort(f"c{n}", parent=f"c{n + 1}") for n in range(depth)]
    tree = QuotaTree([queue("a", cohort="c0", gpus=3), *chain, cohort(f"c{depth}", gpus=2)])
    assert tree.nodes["a"].cell(GPUS).potential == 5
    assert tree.nodes[f"c{depth}"].height == depth + 1
