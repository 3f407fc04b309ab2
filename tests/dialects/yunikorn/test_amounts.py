"""Amounts as YuniKorn writes them: units, thousandths of cores, the bounds of 64 bits, and what is not named."""

from __future__ import annotations

import pytest

from muster.dialects.yunikorn.amounts import is_within, least_of, parse_amount
from muster.model.errors import InvalidObject
from tests.stopwatch import is_done_within


@pytest.mark.parametrize(
    ("resource", "text", "want"),
    [
        pytest.param("vcore", "10", 10_000, id="cores count in thousandths"),
        pytest.param("vcore", "500m", 500, id="thousandths of a core"),
        pytest.param("vcore", "1k", 1_000_000, id="a thousand cores"),
        pytest.param("memory", "10", 10, id="bytes"),
        pytest.param("memory", "16Gi", 16 * 2**30, id="a binary unit"),
        pytest.param("memory", "2G", 2 * 10**9, id="a decimal unit"),
        pytest.param("memory", " 1 0 M ", 10 * 10**6, id="spaces do not count"),
        pytest.param("memory", "+7", 7, id="a sign"),
        pytest.param("memory", "9223372036854775807", 2**63 - 1, id="the largest there is"),
        pytest.param("memory", "0000000000000000000000000012", 12, id="leading zeros"),
        pytest.param("nvidia.com/gpu", "3", 3, id="cards"),
    ],
)
def test_amounts(resource: str, text: str, want: int) -> None:
    assert parse_amount(resource, text, "at") == want


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        ("memory", ""),
        ("memory", "x"),
        ("memory", "1.5G"),
        ("memory", "1e3"),
        ("memory", "500m"),
        ("memory", "1Ki2"),
        ("memory", "1K"),
        ("memory", "1Zi"),
        ("memory", "-1"),
        ("memory", "9223372036854775808"),
        ("memory", "10E"),
        ("vcore", "9223372036854775807"),
        ("vcore", "１２"),
    ],
)
def test_what_is_no_amount(resource: str, text: str) -> None:
    with pytest.raises(InvalidObject):
        parse_amount(resource, text, "at")


def test_a_number_of_a_million_digits_is_refused_at_once() -> None:
    def read() -> None:
        with pytest.raises(InvalidObject):
            parse_amount("memory", "9" * 1_000_000, "at")

    assert is_done_within(1.0, read)


@pytest.mark.parametrize(
    ("amounts", "most", "want"),
    [
        pytest.param({"memory": 1}, {}, True, id="what has no maximum may be anything"),
        pytest.param({"memory": 1}, {"memory": 1}, True, id="as much as there may be"),
        pytest.param({"memory": 2, "vcore": 1}, {"memory": 1, "vcore": 1}, False, id="one is too much"),
        pytest.param({}, {"memory": 0}, True, id="nothing fits into nothing"),
    ],
)
def test_within(amounts: dict[str, int], most: dict[str, int], want: bool) -> None:
    assert is_within(amounts, most) is want


def test_what_two_maximums_allow() -> None:
    assert least_of({"a": 1, "b": 5}, {"b": 2, "c": 3}) == {"a": 1, "b": 2, "c": 3}
