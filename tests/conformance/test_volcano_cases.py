"""Volcano's recorded cases, each a test of its own."""

from __future__ import annotations

import pytest

from tests.conformance.cases import Case, cases_in
from tests.conformance.runner import Verdict, run_case
from tests.support import shared

CASES = tuple(cases_in(shared("conformance/volcano")))
WAITING = ("needs dynamic resource allocation", "needs a plugin of Volcano's own tests")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    verdict, text = run_case(case)
    if verdict is Verdict.SKIPPED:
        assert text.startswith(WAITING)
        pytest.skip(text)
    assert verdict is Verdict.PASSED, text
