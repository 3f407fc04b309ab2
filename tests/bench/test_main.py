"""What `python -m bench` prints of a figure, and what it makes of one that cannot be measured here."""

from __future__ import annotations

import pytest

from bench import __main__ as bench
from bench.__main__ import Figure, Measured
from tests.kubernetes.build import NoControlPlane


def no_rival() -> float:
    raise NoControlPlane("needs Go")


@pytest.mark.parametrize(
    ("figure", "line", "status"),
    [
        pytest.param(Figure("a", lambda: 2, "s", 3), "a: 2.000 s; at most 3: holds", 0, id="few enough"),
        pytest.param(Figure("a", lambda: 4, "s", 3), "a: 4.000 s; at most 3: DOES NOT HOLD", 1, id="too many"),
        pytest.param(
            Figure("a", lambda: Measured(2, "4 to 2"), "times", 1, is_least=True),
            "a: 2.000 times (4 to 2); at least 1: holds",
            0,
            id="a comparison",
        ),
        pytest.param(Figure("a", no_rival, "times", 1), "a: skipped, needs Go", 0, id="nothing to compare with"),
    ],
)
def test_figures(monkeypatch, capsys, figure, line, status):
    monkeypatch.setattr(bench, "FIGURES", (figure,))
    monkeypatch.setattr(bench, "settle_collector", lambda: None)
    assert bench.main([]) == status
    assert capsys.readouterr().out.splitlines()[1] == line


def test_an_unknown_figure(capsys):
    assert bench.main(["speed"]) == 2
    assert "no such figures: speed; known: admissions," in capsys.readouterr().out
