"""network-topology-aware: in which domains a group is tried."""

from __future__ import annotations

import pytest

from muster.model.groups import NearWish, NetworkDomain
from tests.groups import group, node, pod
from tests.policies.opened import opened

RACKS = {
    "small": NetworkDomain(name="small", tier=1, nodes=("n1",)),
    "large": NetworkDomain(name="large", tier=1, nodes=("n2", "n3")),
    "room": NetworkDomain(name="room", tier=2, domains=("small", "large")),
}


@pytest.mark.parametrize(
    ("needed", "evicts", "want"),
    [
        pytest.param(None, False, [["large", "small"], ["room"]], id="nothing is said: all"),
        pytest.param(4000, False, [["large", "small"], ["room"]], id="what each has"),
        pytest.param(5000, False, [["large"], ["room"]], id="more than the small one has"),
        pytest.param(8000, False, [["room"]], id="more than the large one has free"),
        pytest.param(8000, True, [["large"], ["room"]], id="others could leave"),
        pytest.param(13000, True, [], id="more than there is"),
    ],
)
def test_domains_that_have_too_little_are_left_out(needed, evicts, want):
    wish = NearWish(is_hard=True, tier=2)
    least = {"cpu": needed} if needed is not None else None
    groups = [group("a", near=wish, resources_least=least), group("b")]
    running = [pod("r", "b", cpu=1, node="n2")]
    given = opened(
        "network-topology-aware",
        nodes=[node(name) for name in ("n1", "n2", "n3")],
        groups=groups,
        pods=running,
        domains=RACKS,
    )
    found = given.gradient(given.groups["ns/a"], given.domains.top, evicts=evicts)
    assert [sorted(one.name for one in domains) for domains in found] == want
