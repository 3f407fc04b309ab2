"""The page about jobs lists the kinds there are, as their constants say."""

from __future__ import annotations

from tools.job_kinds import BEGIN, END, PAGE, page, table


def test_the_page_is_written_from_the_constants():
    text = PAGE.read_text()
    assert BEGIN in text and END in text
    assert page() == text, "run python -m tools.job_kinds"
    assert len(table().splitlines()) > 20
