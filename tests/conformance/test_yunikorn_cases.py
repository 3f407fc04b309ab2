"""YuniKorn's recorded queue configurations, each a test of its own."""

from __future__ import annotations

import pytest

from tests.conformance.cases import Case, cases_in
from tests.conformance.runner import Verdict, run_case
from tests.support import shared

CASES = tuple(cases_in(shared("conformance/yunikorn")))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    verdict, text = run_case(case)
    assert verdict is Verdict.PASSED, text


@pytest.mark.parametrize(
    ("yaml", "expect", "told"),
    [
        pytest.param("partitions: [{name: default}]", {"accept": True}, "refused", id="refused and should not be"),
        pytest.param("{}", {"accept": False, "error": "no"}, "accepted", id="accepted and should not be"),
        pytest.param("{}", {"accept": True, "normalized": "partitions: [x]"}, "normal form", id="another normal form"),
    ],
)
def test_what_differs_is_a_failure(yaml: str, expect: dict[str, object], told: str) -> None:
    verdict, text = run_case(Case("yunikorn something", "a case", {"yaml": yaml, "expect": expect}))
    assert verdict is Verdict.FAILED
    assert told in text
