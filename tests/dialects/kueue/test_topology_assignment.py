"""Where pods go, in both forms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.dialects.kueue.topology_assignment import AssignedDomain, compacted, domains_of, expanded
from muster.model.errors import InvalidObject


def listed(*domains: tuple[str, int], levels: int = 1) -> dict[str, Any]:
    names = [f"level-{index}" for index in range(levels)]
    return {"levels": names, "domains": [{"values": name.split("/"), "count": count} for name, count in domains]}


@pytest.mark.parametrize(
    ("assignment", "slices"),
    [
        pytest.param(
            listed(("n1", 2)),
            [{"domainCount": 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 2}}],
            id="one domain",
        ),
        pytest.param(
            listed(("r/n1", 2), ("r/n2", 2), levels=2),
            [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"universal": "r"}, {"individual": {"prefix": "n", "roots": ["1", "2"]}}],
                    "podCounts": {"universal": 2},
                }
            ],
            id="a level in common, and a prefix",
        ),
        pytest.param(
            listed(("a1.x", 1), ("a2.x", 3)),
            [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"individual": {"prefix": "a", "suffix": ".x", "roots": ["1", "2"]}}],
                    "podCounts": {"individual": [1, 3]},
                }
            ],
            id="prefix, suffix and different counts",
        ),
        pytest.param(
            listed(("aa", 1), ("aaa", 1)),
            [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"individual": {"suffix": "aa", "roots": ["", "a"]}}],
                    "podCounts": {"universal": 1},
                }
            ],
            id="what both ends claim goes to the suffix",
        ),
        pytest.param(
            listed(("a", 1), ("b", 1)),
            [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"individual": {"roots": ["a", "b"]}}],
                    "podCounts": {"universal": 1},
                }
            ],
            id="nothing in common",
        ),
        pytest.param(listed(), [], id="nowhere"),
    ],
)
def test_compacting(assignment: dict[str, Any], slices: list[Any]) -> None:
    assert compacted(assignment) == {"levels": assignment["levels"], "slices": slices}
    assert expanded(compacted(assignment)) == assignment


names = st.text(alphabet="ab1.-", max_size=5)


@given(st.integers(1, 3), st.lists(st.tuples(st.lists(names, min_size=3, max_size=3), st.integers(1, 4)), max_size=6))
def test_there_and_back(levels: int, domains: list[tuple[list[str], int]]) -> None:
    listed_domains = [{"values": values[:levels], "count": count} for values, count in domains]
    assignment = {"levels": [f"l{index}" for index in range(levels)], "domains": listed_domains}
    assert expanded(compacted(assignment)) == assignment
    assert domains_of(compacted(assignment)) == domains_of(assignment)


def test_several_slices_are_read_in_order() -> None:
    one = {"domainCount": 2, "valuesPerLevel": [{"universal": "a"}], "podCounts": {"individual": [1, 2]}}
    other = {"domainCount": 1, "valuesPerLevel": [{"individual": {"roots": ["b"]}}], "podCounts": {"universal": 3}}
    found = domains_of({"levels": ["host"], "slices": [one, other]})
    assert found == (AssignedDomain(("a",), 1), AssignedDomain(("a",), 2), AssignedDomain(("b",), 3))


def test_more_domains_than_a_slice_holds_make_several() -> None:
    assignment = {"levels": ["host"], "domains": [{"values": [f"n{i}"], "count": 1} for i in range(100_001)]}
    slices = compacted(assignment)["slices"]
    assert [piece["domainCount"] for piece in slices] == [100_000, 1]


def sliced(**piece: Any) -> dict[str, Any]:
    whole = {"domainCount": 1, "valuesPerLevel": [{"universal": "a"}], "podCounts": {"universal": 1}} | piece
    return {"levels": ["host"], "slices": [whole]}


@pytest.mark.parametrize(
    ("assignment", "path"),
    [
        pytest.param(sliced(domainCount=2**31 - 1), "t.slices", id="a bomb"),
        pytest.param(sliced(domainCount=0), "t.slices[0].domainCount", id="no domain"),
        pytest.param(sliced(valuesPerLevel=[]), "t.slices[0].valuesPerLevel", id="too few levels"),
        pytest.param(sliced(valuesPerLevel=[{}]), "t.slices[0].valuesPerLevel[0]", id="no value"),
        pytest.param(
            sliced(valuesPerLevel=[{"individual": {"roots": ["a", "b"]}}]),
            "t.slices[0].valuesPerLevel[0].individual.roots",
            id="more roots than domains",
        ),
        pytest.param(sliced(podCounts={}), "t.slices[0].podCounts", id="no counts"),
        pytest.param(sliced(podCounts={"individual": [1, 2]}), "t.slices[0].podCounts.individual", id="more counts"),
        pytest.param(sliced(podCounts={"individual": ["x"]}), "t.slices[0].podCounts.individual[0]", id="no number"),
        pytest.param(sliced(podCounts=5), "t.slices[0].podCounts", id="no object"),
        pytest.param(listed(("a/b", 1)), "t.domains[0].values", id="more values than levels"),
        pytest.param({"levels": [5], "domains": []}, "t.levels[0]", id="no text"),
    ],
)
def test_refusals(assignment: dict[str, Any], path: str) -> None:
    for act in (domains_of, expanded, compacted):
        with pytest.raises(InvalidObject) as caught:
            act(assignment, "t")
        assert caught.value.path == path
