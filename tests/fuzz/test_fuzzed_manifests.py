"""Damaged manifests are read or refused: nothing but `InvalidObject` is raised, and none takes long.

Every case has a number and is the same each time. A failing test names the numbers; `python -m
tests.fuzz.test_fuzzed_manifests NUMBER` writes out the text of one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.app.plan import PlanOptions, latest_moment, plan_objects
from muster.dialects.kueue.lint import lint
from muster.dialects.kueue.lint_fix import fixed
from muster.model.documents import Document, parse_documents
from muster.model.errors import InvalidObject
from tests import support
from tests.fuzz.mutate import Case, case
from tests.stopwatch import is_done_within

FULL = 10_000
CHUNKS = 20
LIMIT_S = 1.0

Step = Callable[[list[Document]], object]


def lint_all(documents: list[Document]) -> object:
    return lint((document.source, document.value) for document in documents)


def fix_all(documents: list[Document]) -> object:
    return lint(fixed((document.source, document.value) for document in documents))


def plan_all(documents: list[Document]) -> object:
    """Validate, read and decide, as `muster plan` does."""
    return plan_objects(documents, PlanOptions(now=latest_moment(documents) or 0.0))


# What is done with the documents of a manifest, in order. A step that takes whole documents goes here. Each may raise
# InvalidObject; the steps after it still run, since they are independent.
STEPS: list[Step] = [lint_all, fix_all, plan_all]


def read_everything(documents: list[Document]) -> None:
    """All that a manifest goes through once it is parsed."""
    for step in STEPS:
        with contextlib.suppress(InvalidObject):
            step(documents)


def problem_with(one: Case) -> str:
    """What is wrong with how a case is taken; nothing when it is read or refused in time."""

    def taken() -> None:
        try:
            read_everything(parse_documents(one.text, one.source))
        except InvalidObject as problem:
            if not str(problem):
                raise AssertionError("refused without a word") from problem

    try:
        is_in_time = is_done_within(LIMIT_S, taken)
    except Exception as problem:  # The point of the test: whatever else comes out is a defect.
        return f"{one}: {type(problem).__name__}: {str(problem)[:200]}"
    return "" if is_in_time else f"{one}: takes longer than {LIMIT_S} s"


def corpus() -> list[tuple[str, bytes]]:
    """The manifests to damage: those the project carries, and the reference ones where they are."""
    reference = Path(os.environ.get("MUSTER_SHARED") or support.ROOT.parent / "shared") / "manifests"
    folders = [folder for folder in (support.ROOT / "examples", reference) if folder.is_dir()]
    files = [file for folder in folders for file in sorted(folder.rglob("*.yaml"))]
    return [(file.name, file.read_bytes()) for file in files]


@pytest.mark.prove
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_damaged_manifests_are_read_or_refused(chunk):
    files = corpus()
    numbers = range(chunk, support.proof_count(FULL), CHUNKS)
    problems = [problem for number in numbers if (problem := problem_with(case(number, files)))]
    assert not problems, "\n".join(problems)


def test_undamaged_manifests_are_read():
    for source, text in corpus():
        assert not problem_with(Case(0, source, text, ("nothing",)))


def test_cases_are_the_same_each_time_and_differ():
    files = corpus()
    texts = [case(number, files).text for number in range(100)]
    assert texts == [case(number, files).text for number in range(100)]
    assert len(set(texts)) > 90


if __name__ == "__main__":
    chosen = case(int(sys.argv[1]), corpus())
    print(chosen, file=sys.stderr)
    sys.stdout.buffer.write(chosen.text)
