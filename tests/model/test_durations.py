"""Durations as Go writes them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.durations import duration_ns
from muster.model.errors import InvalidObject

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("0s", 0),
        ("-0", 0),
        ("5m", 300 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5s", 3 * SECOND // 2),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("+3s", 3 * SECOND),
        ("-1.5h", -5400 * SECOND),
        ("1µs", 1000),
        ("1μs", 1000),
        ("1us", 1000),
        ("3ns", 3),
        ("1.9999ns", 1),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_durations(text: str, want: int) -> None:
    assert duration_ns(text, "p") == want


@pytest.mark.parametrize(
    "value",
    [
        *("", "-", "5", "m", "1x", "1 m", " 1m", "1m ", "--1s", "1.", ".", ".s", "1d", "9223372036854775808ns", "1e3s"),
        *("1" * 101 + "s", "١s", 5, 1.5, None, True, [], {}),
    ],
)
def test_refusals(value: object) -> None:
    with pytest.raises(InvalidObject) as caught:
        duration_ns(value, "p")
    assert caught.value.path == "p"


@given(st.text(alphabet="0123456789.+-smhnuµ ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidObject):
        assert abs(duration_ns(text, "p")) <= 2**63


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 59))
def test_hours_minutes_and_seconds_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert duration_ns(f"{hours}h{minutes}m{seconds}s", "p") == (hours * 3600 + minutes * 60 + seconds) * SECOND
