"""Random cohort trees: every number of the quota tree equals the naive one, and no decision goes beyond it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given

from muster.engine.ledger import Ledger
from muster.engine.quota import (
    available,
    fits,
    free_for,
    free_height,
    is_borrowing_with,
    lowest_fitting_height,
    potential,
)
from muster.engine.tree import QuotaTree
from muster.model.queue import Queue, Quota
from muster.model.resources import UNLIMITED, FlavorResource, is_unlimited
from tests.engine.builders import GPUS, cohort, queue, quota
from tests.properties.oracle import QuotaOracle, excess
from tests.properties.strategies import Ground, chances, ground, some_cohorts, some_queues
from tests.support import proof_count

Used = dict[str, dict[FlavorResource, int]]


def a_tree(chance: Random) -> tuple[Ground, list[Queue], Used]:
    """Queues and cohorts, and what the queues use, sometimes more than they may."""
    on = ground(chance)
    cohorts = some_cohorts(chance, on, most=5)
    queues = some_queues(chance, on, cohorts)
    used = {
        one.name: {key: amount for key in on.keys if (amount := chance.choice((0, 0, 1, 3, 5, 9)))} for one in queues
    }
    return on, [*cohorts, *queues], used


def settled(queues: list[Queue], used: Used) -> tuple[QuotaTree, Ledger]:
    tree, ledger = QuotaTree(queues), Ledger()
    for name, amounts in used.items():
        ledger.charge(tree.nodes[name], amounts)
    return tree, ledger


# The numbers -----------------------------------------------------------------------------------------------------


def check_numbers(chance: Random) -> None:
    on, queues, used = a_tree(chance)
    (tree, _), oracle = settled(queues, used), QuotaOracle(queues, used)
    for name, node in tree.nodes.items():
        for key in (*on.keys, ("unknown", "resource")):
            cell = node.cell(key)
            assert cell.subtree == oracle.subtree(name, key)
            assert cell.reserved == oracle.local(name, key)
            assert node.usage.get(key, 0) == oracle.usage(name, key)
            assert available(node, key) == oracle.available(name, key)
            assert potential(node, key) == oracle.potential(name, key)
            assert 0 <= free_for(node, key) <= max(0, potential(node, key)), "nobody gets more than an idle tree has"
            if node.queue.is_leaf:
                amount = chance.randint(0, 12)
                height, _ = naive_height(oracle, name, key, amount)
                assert lowest_fitting_height(node, key, amount) == naive_height(oracle, name, key, amount)
                assert free_height(node, key, amount) == (height if amount <= free_for(node, key) else None)
                assert free_height(node, key, -amount) is not None, "who gives back asks for nothing"


def naive_height(oracle: QuotaOracle, name: str, key: FlavorResource, amount: int) -> tuple[int, bool]:
    """The lowest node on the way up that would not borrow, as its height, and whether something is above it."""
    path = oracle.path(name)
    left = amount
    for at in path:
        if at == path[-1] or oracle.usage(at, key) + left <= oracle.subtree(at, key):
            is_borrowing = len(path) > 1 and oracle.usage(at, key) + left > oracle.subtree(at, key)
            return height(oracle, at), at != path[-1] and not is_borrowing
        left -= max(0, oracle.local(at, key) - oracle.usage(at, key))
    raise AssertionError("a path ends at the top")


def height(oracle: QuotaOracle, name: str) -> int:
    if oracle.queues[name].is_leaf:
        return 0
    return 1 + max((height(oracle, child) for child in oracle.queues if oracle.parent(child) == name), default=0)


@given(chances)
def test_numbers_equal_the_naive_ones(chance):
    check_numbers(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(10))
def test_numbers_equal_the_naive_ones_in_many_trees(block):
    for number in range(proof_count(20_000) // 10):
        seed = number * 10 + block
        try:
            check_numbers(Random(seed))
        except AssertionError as problem:
            raise AssertionError(f"tree {seed}: {problem}") from problem


# Decisions -------------------------------------------------------------------------------------------------------


def check_taking_and_giving_back(chance: Random) -> None:
    """Random charges that fit, and releases: never beyond what a node may use, nor more beyond than before."""
    on, queues, used = a_tree(chance)
    tree, ledger = settled(queues, used)
    leaves = [name for name, node in tree.nodes.items() if node.queue.is_leaf]
    for _ in range(20):
        name, key = chance.choice(leaves), chance.choice(on.keys)
        amounts = used[name]
        before = excess(QuotaOracle(queues, used))
        amount = chance.randint(0, 6)
        if fits(tree.nodes[name], {key: amount}):
            ledger.charge(tree.nodes[name], {key: amount})
            amounts[key] = amounts.get(key, 0) + amount
        else:
            amount = chance.randint(0, amounts.get(key, 0))
            ledger.release(tree.nodes[name], {key: amount})
            amounts[key] = amounts.get(key, 0) - amount
        oracle = QuotaOracle(queues, used)
        after = excess(oracle)
        assert all(by <= before.get(at, 0) for at, by in after.items()), "an excess has grown"
        for node in tree.nodes.values():
            assert node.usage == {k: u for k in on.keys if (u := oracle.usage(node.name, k))}
            for key in on.keys:
                borrowing = {child for child in node.children if is_borrowing_with(child, key, 0)}
                assert set(node.borrowers.get(key, ())) == borrowing


@given(chances)
def test_no_step_goes_beyond_the_quota(chance):
    check_taking_and_giving_back(chance)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(10))
def test_no_step_goes_beyond_the_quota_of_many_trees(block):
    for number in range(proof_count(10_000) // 10):
        check_taking_and_giving_back(Random(number * 10 + block))


@given(chances)
def test_more_quota_never_leaves_less_to_anybody(chance):
    on, queues, used = a_tree(chance)
    richer, key, more = chance.choice(queues).name, chance.choice(on.keys), chance.randint(1, 5)

    def with_more(one: Queue) -> Queue:
        before = one.quotas.get(key, Quota())
        return replace(one, quotas={**one.quotas, key: replace(before, nominal=before.nominal + more)})

    tree, _ = settled(queues, used)
    rich, _ = settled([with_more(one) if one.name == richer else one for one in queues], used)
    for name, node in tree.nodes.items():
        assert available(rich.nodes[name], key) >= available(node, key)
        assert potential(rich.nodes[name], key) >= potential(node, key)


@given(chances)
def test_charges_in_any_order_come_to_the_same(chance):
    _, queues, used = a_tree(chance)
    shuffled = list(used.items())
    chance.shuffle(shuffled)
    one, _ = settled(queues, used)
    other, _ = settled(queues[::-1], dict(shuffled))
    assert {name: node.usage for name, node in one.nodes.items()} == {n: node.usage for n, node in other.nodes.items()}


def test_unlimited_quota_lends_without_end():
    tree = QuotaTree([cohort("x"), queue("a", cohort="x", gpus=quota(UNLIMITED)), queue("b", cohort="x", gpus=1)])
    Ledger().charge(tree.nodes["b"], {GPUS: 10**30})
    assert is_unlimited(available(tree.nodes["b"], GPUS))
    assert is_unlimited(potential(tree.nodes["b"], GPUS))
