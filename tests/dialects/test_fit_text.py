"""Refusals of nodes in the words of Kubernetes' scheduler."""

from __future__ import annotations

import pytest

from muster.dialects.fit_text import unavailable_text
from muster.engine.fit import FitReport
from muster.engine.fit_reasons import Misfit, Refusal


@pytest.mark.parametrize(
    ("refusals", "text"),
    [
        pytest.param([], "0/9 nodes are available.", id="nothing is known"),
        pytest.param(
            [(Refusal(Misfit.CARDS), 5), (Refusal(Misfit.TAINT, "gpu=a100:NoSchedule"), 4)],
            "0/9 nodes are available: 4 node(s) had untolerated taint {gpu: a100}, 5 Insufficient x.com/card.",
            id="cards and a taint",
        ),
        pytest.param(
            [(Refusal(Misfit.TAINT, "node-role.kubernetes.io/control-plane:NoSchedule"), 1)],
            "0/9 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }.",
            id="a taint without a value",
        ),
        pytest.param(
            [
                (Refusal(Misfit.NODE_SELECTOR), 2),
                (Refusal(Misfit.NODE_AFFINITY), 3),
                (Refusal(Misfit.RESOURCE, "cpu"), 4),
            ],
            "0/9 nodes are available: 4 Insufficient cpu, 5 node(s) didn't match Pod's node affinity/selector.",
            id="selector and affinity are one",
        ),
    ],
)
def test_text(refusals, text):
    report = FitReport(nodes=9, fitting=0, refusals=tuple(refusals), nearest=())
    assert unavailable_text(report, "x.com/card") == text


@pytest.mark.parametrize("misfit", list(Misfit))
def test_every_reason_has_words(misfit):
    report = FitReport(nodes=1, fitting=0, refusals=((Refusal(misfit, "about"), 1),), nearest=())
    assert unavailable_text(report, "card").startswith("0/1 nodes are available: 1 ")
