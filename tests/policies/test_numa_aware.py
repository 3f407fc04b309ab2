"""numa-aware: where cores of a pod's own lie in few NUMA nodes."""

from __future__ import annotations

import pytest

from muster.model.groups import NumaNode, PodStatus
from tests.groups import node, pod
from tests.policies.opened import opened, rows_let_in, score_of


def wishing(policy: str) -> dict[str, dict[str, str]]:
    return {"annotations": {"volcano.sh/numa-topology-policy": policy}}


@pytest.mark.parametrize(
    ("policy", "cores", "want"),
    [
        pytest.param("single-numa-node", (2,), {"split", "whole"}, id="one that has them"),
        pytest.param("single-numa-node", (3,), {"whole"}, id="one that has not"),
        pytest.param("single-numa-node", (2, 2), {"split", "whole"}, id="each container by itself"),
        pytest.param("single-numa-node", (3, 3), {"whole"}, id="each container by itself, on one that has not"),
        pytest.param("single-numa-node", (2, 2, 1), {"whole"}, id="the third finds none left"),
        pytest.param("restricted", (4,), {"whole"}, id="from no more than could be"),
        pytest.param("restricted", (6,), {"whole"}, id="from two, as six are nowhere in one"),
        pytest.param("best-effort", (4,), set(), id="the kubelet has another policy"),
        pytest.param("none", (4,), {"split", "whole", "untold"}, id="no wish"),
        pytest.param("single-numa-node", (), {"split", "whole", "untold"}, id="no cores of its own"),
    ],
)
def test_which_nodes_let_it_in(policy, cores, want):
    kubelet = {"policy": policy if policy != "best-effort" else "restricted", "is_static": True}
    numa = {
        "whole": NumaNode(capacity=(4, 4), free=(4, 4), **kubelet),
        "split": NumaNode(capacity=(4, 4), free=(2, 2), **kubelet),
    }
    nodes = [node(name, 8) for name in ("split", "untold", "whole")]
    asking = pod("p", "a", cpu=sum(cores), cores_alone=cores, **wishing(policy))
    assert rows_let_in(opened("numa-aware", nodes=nodes, pods=[asking], numa=numa), "ns/p") == want


def test_nodes_where_cores_lie_together_are_liked():
    """A pod that came in this session has taken its cores already."""
    kubelet = {"policy": "best-effort", "is_static": True}
    numa = {
        "whole": NumaNode(capacity=(4, 4), free=(4, 4), **kubelet),
        "split": NumaNode(capacity=(4, 4), free=(2, 3), **kubelet),
    }
    own = {"cores_alone": (4,), **wishing("best-effort")}
    nodes = [node(name, 8) for name in ("split", "untold", "whole")]
    here = pod("here", "a", cpu=4, node="whole", status=PodStatus.ALLOCATED, **own)
    given = opened("numa-aware", nodes=nodes, pods=[pod("p", "a", cpu=4, **own), here], numa=numa)
    assert score_of(given, "ns/p") == {"split": 0.0, "untold": 0.0, "whole": 50.0}
    assert rows_let_in(given, "ns/p") == {"split", "whole"}


def test_a_node_whose_cpu_manager_is_not_static_lets_nobody_in():
    numa = {"n": NumaNode(capacity=(4,), free=(4,), policy="best-effort")}
    asking = pod("p", "a", cores_alone=(1,), **wishing("best-effort"))
    assert rows_let_in(opened("numa-aware", pods=[asking], numa=numa), "ns/p") == set()
