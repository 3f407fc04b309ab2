"""Domains of rows: which rows stand together, which domains could hold a gang, and that nodes may come, move and go."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from muster.engine.gang_domains import Domains, DomainWish, Supply


def domains_of(*labels: Mapping[str, str]) -> Domains:
    domains = Domains(("zone", "rack"))
    for row, one in enumerate(labels):
        domains.put(row, one)
    return domains


def at(zone: str, rack: str = "") -> dict[str, str]:
    return {"zone": zone} | ({"rack": rack} if rack else {})


def fitting(domains: Domains, level: str, needed: int, *by_row: int) -> list[str]:
    return ["/".join(one.path) for one in domains.fitting(level, [Supply(np.array(by_row), needed)])]


@pytest.mark.parametrize(
    ("level", "needed", "want"),
    [
        pytest.param("rack", 1, ["x/2", "y/1", "x/1"], id="the tightest first"),
        pytest.param("rack", 3, ["y/1", "x/1"], id="those that are too small are not among them"),
        pytest.param("zone", 3, ["y", "x"], id="a wider level"),
        pytest.param("zone", 10**30, [], id="an absurd need"),
    ],
)
def test_fitting(level, needed, want):
    domains = domains_of(at("x", "1"), at("x", "1"), at("x", "2"), at("y", "1"))
    assert fitting(domains, level, needed, 2, 3, 2, 3) == want


def test_equally_tight_domains_go_by_name():
    domains = domains_of(at("x", "b"), at("x", "a"), at("w", "c"))
    assert fitting(domains, "rack", 1, 1, 1, 1) == ["w/c", "x/a", "x/b"]


def test_racks_of_the_same_name_in_two_zones_are_two():
    domains = domains_of(at("x", "1"), at("y", "1"))
    assert fitting(domains, "rack", 2, 1, 1) == []


def test_all_that_is_needed_must_be_in_one_domain():
    domains = domains_of(at("x", "1"), at("x", "2"))
    pods, memory = Supply(np.array([2, 2]), 2), Supply(np.array([5, 9]), 7)
    assert [one.path for one in domains.fitting("rack", [pods], [memory])] == [("x", "2")]


def test_nodes_without_a_label_are_in_no_domain_of_that_level_or_below():
    domains = domains_of(at("x"), {"rack": "1"}, {})
    assert fitting(domains, "zone", 1, 1, 1, 1) == ["x"]
    assert fitting(domains, "rack", 1, 1, 1, 1) == []
    assert domains.home_of("rack", [0, 1, 2]) is None


def test_rows_that_domains_were_not_told_of_stand_nowhere():
    domains = domains_of(at("x"))
    assert fitting(domains, "zone", 2, 1, 1, 1) == []
    assert domains.home_of("zone", [5]) is None


def test_what_is_owed_is_not_there():
    assert fitting(domains_of(at("x"), at("x")), "zone", 3, 3, -2) == ["x"]


def test_nodes_move_and_leave():
    domains = domains_of(at("x", "1"), at("x", "2"))
    domains.put(1, at("x", "1"))
    assert fitting(domains, "rack", 1, 1, 1) == ["x/1"]
    domains.drop(0)
    domains.drop(1)
    domains.drop(99)
    assert fitting(domains, "rack", 0, 1, 1) == []
    domains.put(0, at("z", "9"))
    assert fitting(domains, "rack", 1, 1, 1) == ["z/9"]
    [domain] = domains.fitting("rack", [Supply(np.array([1, 1]), 1)])
    assert domains.rows_of(domain, 2).tolist() == [True, False]


@pytest.mark.parametrize(
    ("wish", "want"),
    [
        pytest.param(DomainWish(), (), id="no wish"),
        pytest.param(DomainWish(required="rack"), ("rack",), id="required"),
        pytest.param(DomainWish(preferred="rack"), ("rack", "zone"), id="preferred, then wider"),
        pytest.param(DomainWish(required="zone", preferred="rack"), ("rack", "zone"), id="no wider than required"),
        pytest.param(DomainWish(required="rack", preferred="zone"), ("rack",), id="required is narrower"),
        pytest.param(DomainWish(preferred="planet"), (), id="an unknown preference"),
    ],
)
def test_levels(wish, want):
    assert Domains(("zone", "rack")).levels_of(wish) == want


def test_home_is_where_most_are():
    domains = domains_of(at("x", "b"), at("x", "a"), at("x", "a"), {})
    home = domains.home_of("rack", [0, 1, 2, 3])
    assert home is not None
    assert home.path == ("x", "a")
    equal = domains.home_of("rack", [0, 1])
    assert equal is not None
    assert equal.path == ("x", "a")


def test_the_most_in_one_domain():
    domains = domains_of(at("x"), at("y"), at("y"))
    assert domains.most_in_one("zone", np.array([4, 1, 2])) == 4
    assert domains.most_in_one("rack", np.array([4, 1, 2])) == 0
