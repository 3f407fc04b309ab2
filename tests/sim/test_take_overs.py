"""Leaders follow each other in every way, and never do two of them act; faults in the election are noticed."""

from __future__ import annotations

import pytest

from muster.app.simulation import take_over_ground
from muster.sim.take_overs import run_take_overs
from tests.sim.leader_mutants import LEADER_MUTANTS
from tests.sim.mutants import Mutant
from tests.support import is_full_proof, outputs_under_hash_seeds

PARTS = 10  # so that the workers of a test run can share them
COUNT = 20  # take-overs of one run
ALL, SOME = 500, 2  # runs of a whole proof, 10,000 take-overs, and of an ordinary one
WITHIN = 40  # runs, in which every mutant has to be noticed
NOTICED_AT_ONCE = ("believed_times",)  # others take up to a minute each


def chosen() -> list[Mutant]:
    """The mutants that are put in now: those that cost little, unless all is proven."""
    return [one for one in LEADER_MUTANTS if is_full_proof() or one.__name__ in NOTICED_AT_ONCE]


@pytest.mark.prove
@pytest.mark.parametrize("part", range(PARTS))
def test_no_two_leaders_act(part):
    for seed in range(part, ALL if is_full_proof() else SOME, PARTS):
        report = run_take_overs(seed, take_over_ground, count=COUNT)
        assert not report.violations, f"seed {seed}: {report.violations[0]}"
        assert report.count >= COUNT


def test_a_run_is_the_same_in_every_process():
    program = (
        "from muster.app.simulation import take_over_ground\nfrom muster.sim.take_overs import run_take_overs\n"
        "print([run_take_overs(seed, take_over_ground, count=2).digest for seed in range(2)])"
    )
    assert len(outputs_under_hash_seeds(program)) == 1


@pytest.mark.prove
@pytest.mark.parametrize("mutant", chosen(), ids=lambda mutant: mutant.__name__)
def test_a_fault_in_the_election_is_noticed(mutant, monkeypatch):
    mutant(monkeypatch.setattr)
    runs = (run_take_overs(seed, take_over_ground, count=COUNT) for seed in range(WITHIN))
    assert any(run.violations for run in runs), mutant.__doc__
