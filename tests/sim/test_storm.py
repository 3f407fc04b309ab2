"""Storms of faults break nothing, can be seen again, and notice faults that are put into the program on purpose."""

from __future__ import annotations

import pytest

from muster.app.simulation import storm_ground
from muster.sim.mixes import MIXES
from muster.sim.storm import run_storm
from tests.sim.mutants import MUTANTS, Mutant
from tests.support import is_full_proof, outputs_under_hash_seeds

PARTS = 20  # so that the workers of a test run can share them
ALL, SOME = 10_000, 500  # storms of a whole proof and of an ordinary run
WITHIN = 40  # storms, in which every mutant has to be noticed
NOTICED_AT_ONCE = ("double_release", "idle_collector", "deaf_to_nodes", "half_gang", "one_try_to_register")


def chosen() -> list[Mutant]:
    """The mutants that are put in now: those that cost little, unless all is proven."""
    return [one for one in MUTANTS if is_full_proof() or one.__name__ in NOTICED_AT_ONCE]


@pytest.mark.prove
@pytest.mark.parametrize("part", range(PARTS))
def test_storms_break_nothing(part):
    count = ALL if is_full_proof() else SOME
    for seed in range(part, count, PARTS):
        report = run_storm(seed, storm_ground)
        assert not report.violations, f"seed {seed}: {report.violations[0]} (make dst SEED={seed})"


def test_every_mix_has_its_storms():
    assert {run_storm(seed, storm_ground, steps=0).mix for seed in range(len(MIXES))} == {mix.name for mix in MIXES}


def test_a_storm_is_the_same_in_every_process():
    program = (
        "from muster.app.simulation import storm_ground\nfrom muster.sim.storm import run_storm\n"
        "print([run_storm(seed, storm_ground, steps=150).digest for seed in range(5)])"
    )
    assert len(outputs_under_hash_seeds(program)) == 1


@pytest.mark.prove
@pytest.mark.parametrize("mutant", chosen(), ids=lambda mutant: mutant.__name__)
def test_a_fault_is_noticed(mutant, monkeypatch):
    mutant(monkeypatch.setattr)
    assert any(run_storm(seed, storm_ground).violations for seed in range(WITHIN)), mutant.__doc__
