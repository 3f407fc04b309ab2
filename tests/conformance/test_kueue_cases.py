"""Kueue's recorded cases, each a test of its own."""

from __future__ import annotations

import pytest

from tests.conformance.cases import Case, cases_in
from tests.conformance.runner import Verdict, run_case
from tests.support import shared

CASES = tuple(cases_in(shared("conformance/kueue")))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    verdict, text = run_case(case)
    if verdict is Verdict.SKIPPED:
        pytest.skip(text)
    assert verdict is Verdict.PASSED, text


def test_an_unknown_source_is_a_failure() -> None:
    verdict, text = run_case(Case("TestNobodyHasSeen", "a case", {}))
    assert verdict is Verdict.FAILED
    assert "TestNobodyHasSeen" in text
