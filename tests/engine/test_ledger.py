"""The ledger charges and releases along the tree, and takes every try back exactly."""

from __future__ import annotations

import pytest

from muster.engine.ledger import Ledger
from muster.engine.tree import QuotaTree
from tests.engine.builders import CPU, FLAVOR, GPUS, cohort, queue, quota

CPUS = (FLAVOR, CPU)


def nodes():
    """Queue a keeps four of its six cards to itself, its cohort x one of its three, top the rest."""
    tree = QuotaTree(
        [
            cohort("top"),
            cohort("x", parent="top", gpus=quota(1, lend=2)),
            queue("a", cohort="x", gpus=quota(6, lend=2)),
            queue("b", cohort="x", gpus=0),
        ]
    )
    return tree.nodes


def usage(tree):
    return {name: node.usage.get(GPUS, 0) for name, node in tree.items()}


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        pytest.param([3], {"a": 3, "x": 0, "top": 0}, id="within what it keeps"),
        pytest.param([4], {"a": 4, "x": 0, "top": 0}, id="all that it keeps"),
        pytest.param([5], {"a": 5, "x": 1, "top": 0}, id="one of its cohort's own"),
        pytest.param([6], {"a": 6, "x": 2, "top": 1}, id="one from the top"),
        pytest.param([3, 3], {"a": 6, "x": 2, "top": 1}, id="in two parts"),
        pytest.param([0], {"a": 0, "x": 0, "top": 0}, id="nothing"),
    ],
)
def test_charge_passes_on_what_the_reserve_does_not_cover(amounts, want):
    tree, ledger = nodes(), Ledger()
    for amount in amounts:
        ledger.charge(tree["a"], {GPUS: amount})
    assert usage(tree) == {"b": 0, **want}
    for amount in amounts:
        ledger.release(tree["a"], {GPUS: amount})
    assert all(not node.usage for node in tree.values()), "zero is stored as absence"


def test_parent_gets_back_only_what_it_had_given():
    tree, ledger = nodes(), Ledger()
    ledger.charge(tree["a"], {GPUS: 6})
    ledger.release(tree["a"], {GPUS: 3})
    assert usage(tree) == {"a": 3, "b": 0, "x": 0, "top": 0}


def test_releasing_more_than_is_used_is_a_mistake():
    tree, ledger = nodes(), Ledger()
    ledger.charge(tree["a"], {GPUS: 2})
    with pytest.raises(AssertionError, match=r"a gives back 3 .* uses only 2"):
        ledger.release(tree["a"], {GPUS: 3})


def test_rollback_undoes_the_newest_first():
    tree, ledger = nodes(), Ledger()
    ledger.charge(tree["a"], {GPUS: 5, CPUS: 1})
    outer = ledger.checkpoint()
    ledger.release(tree["a"], {GPUS: 2})
    inner = ledger.checkpoint()
    ledger.charge(tree["b"], {GPUS: 4})
    ledger.rollback(inner)
    assert usage(tree) == {"a": 3, "b": 0, "x": 0, "top": 0}
    ledger.rollback(outer)
    assert usage(tree) == {"a": 5, "b": 0, "x": 1, "top": 0}
    assert tree["a"].usage == {GPUS: 5, CPUS: 1}


def test_inner_checkpoints_are_rolled_back_before_outer_ones():
    tree, ledger = nodes(), Ledger()
    outer = ledger.checkpoint()
    ledger.charge(tree["a"], {GPUS: 1})
    inner = ledger.checkpoint()
    ledger.rollback(outer)
    with pytest.raises(AssertionError, match="inner ones before outer ones"):
        ledger.rollback(inner)


def test_what_is_committed_stays():
    tree, ledger = nodes(), Ledger()
    mark = ledger.checkpoint()
    ledger.charge(tree["a"], {GPUS: 2})
    ledger.commit()
    assert ledger.checkpoint() == mark, "nothing is left to be undone"
    ledger.rollback(mark)
    assert usage(tree)["a"] == 2


def test_workload_taken_out_and_put_back():
    tree, ledger = nodes(), Ledger()
    ledger.charge(tree["a"], {GPUS: 5})
    mark = ledger.checkpoint()
    ledger.take_out("one", tree["a"], {GPUS: 3})
    ledger.take_out("two", tree["a"], {GPUS: 2})
    assert (usage(tree)["a"], ledger.is_gone("one"), list(ledger.gone())) == (0, True, ["one", "two"])
    inner = ledger.checkpoint()
    ledger.put_back("one", tree["a"], {GPUS: 3})
    assert (usage(tree)["a"], ledger.is_gone("one"), list(ledger.gone())) == (3, False, ["two"])
    ledger.rollback(inner)
    assert (usage(tree)["a"], ledger.is_gone("one")) == (0, True)
    ledger.rollback(mark)
    assert (usage(tree), list(ledger.gone())) == ({"a": 5, "b": 0, "x": 1, "top": 0}, [])


def test_workload_leaves_and_returns_once():
    tree, ledger = nodes(), Ledger()
    ledger.charge(tree["a"], {GPUS: 5})
    ledger.take_out("one", tree["a"], {GPUS: 3})
    with pytest.raises(AssertionError, match="one left already"):
        ledger.take_out("one", tree["a"], {GPUS: 3})
    ledger.put_back("one", tree["a"], {GPUS: 3})
    with pytest.raises(AssertionError, match="one had not left"):
        ledger.put_back("one", tree["a"], {GPUS: 3})


def test_commit_forgets_who_was_set_aside():
    tree, ledger = nodes(), Ledger()
    ledger.charge(tree["a"], {GPUS: 3})
    ledger.take_out("one", tree["a"], {GPUS: 3})
    ledger.commit()
    assert not ledger.is_gone("one")
