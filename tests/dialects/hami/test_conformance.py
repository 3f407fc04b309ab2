"""HAMi's recorded cases, each a test of its own."""

from __future__ import annotations

import pytest

from tests.conformance.cases import Case, Mismatch, Skip
from tests.conformance.hami_cases import hami_cases_in, run_hami
from tests.support import shared

CASES = tuple(case for case in hami_cases_in(shared("conformance/hami")))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    try:
        run_hami(case)
    except Skip as reason:
        pytest.skip(str(reason))


def test_an_unknown_function_is_a_failure() -> None:
    with pytest.raises(Mismatch, match="Nobody"):
        run_hami(Case("pkg/device:Nobody", "a case", {}))
