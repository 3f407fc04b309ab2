"""resource-strategy-fit: pods that say for themselves how nodes are to be filled."""

from __future__ import annotations

import pytest

from tests.groups import node, pod
from tests.policies.opened import opened, score_of, uses

TYPE, WEIGHTS = "volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, {"big": 750.0, "small": 0.0}, id="as for all: what is left"),
        pytest.param({TYPE: "MostAllocated"}, {"big": 250.0, "small": 1000.0}, id="packed"),
        pytest.param({TYPE: "LeastAllocated"}, {"big": 750.0, "small": 0.0}, id="spread"),
        pytest.param({TYPE: "Whatever"}, {"big": 750.0, "small": 0.0}, id="an unknown type counts as none"),
        pytest.param({WEIGHTS: "{"}, {"big": 750.0, "small": 0.0}, id="weights that cannot be read count as none"),
        pytest.param({WEIGHTS: '{"cpu": -1}'}, {"big": 750.0, "small": 0.0}, id="and so do absurd ones"),
        pytest.param({WEIGHTS: '{"x/y": 1}'}, {"big": 0.0, "small": 0.0}, id="it cares for something else"),
        pytest.param(
            {TYPE: "MostAllocated", WEIGHTS: '{"cpu": 3}'}, {"big": 250.0, "small": 1000.0}, id="type and weights"
        ),
    ],
)
def test_what_nodes_score(annotations, want):
    nodes = [node("big", 8), node("small", 2)]
    asking = [pod("p", "a", cpu=2, annotations=annotations), pod("other", "a", cpu=2)]
    given = opened(
        uses("resource-strategy-fit", resources={"cpu": {"type": "LeastAllocated", "weight": 1}}),
        nodes=nodes,
        pods=asking,
    )
    assert score_of(given, "ns/p") == want
    assert score_of(given, "ns/other") == {"big": 750.0, "small": 0.0}
