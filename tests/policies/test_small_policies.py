"""Policies of groups that need no file of tests of their own: one table or story each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.app.policies import build_tiers
from muster.engine.durations import duration_s
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.profile import tier
from muster.engine.session import Session
from muster.engine.slots import CardKinds, NodeSlots
from muster.engine.stages.groups import run_stages
from muster.model.groups import (
    DisruptionBudget,
    GroupPhase,
    MeasuredUse,
    NamespaceQuota,
    NodeGroupWish,
    PodStatus,
)
from muster.model.labels import Selector, Taint
from muster.model.pod_rules import PodIdentity, PodRules
from muster.model.topology import BoundPod
from muster.policies.tdm import window_of
from tests.groups import GIB, group, node, pod, queue, snapshot
from tests.policies.opened import opened, rows_let_in, score_of, uses


def test_conformance_spares_the_cluster_itself():
    given = opened("conformance", pods=[pod("p", "a", node="n"), pod("s", "a", node="n", is_critical=True)])
    assert given.tiers.preempt(given.pods["ns/p"], list(given.pods.values())) == {"ns/p"}


@pytest.mark.parametrize(("arguments", "want"), [({}, 0), ({"node_affinity": False}, 1)])
def test_predicates_can_be_turned_off(arguments, want):
    rules = PodRules(who=PodIdentity(namespace="ns"), nodes=PodRules().nodes.__class__(selector=(("disk", "ssd"),)))
    given = opened("gang", uses("predicates", **arguments), pods=[pod("p", "a", rules=rules)])
    run_stages(given, ["allocate"])
    assert len(given.outcome.binds) == want


@pytest.mark.parametrize(
    ("arguments", "taint", "is_schedulable", "want"),
    [
        pytest.param({}, Taint("x", "", "NoSchedule"), True, 0, id="a taint is minded"),
        pytest.param(
            {"predicate.TaintTolerationEnable": False}, Taint("x", "", "NoSchedule"), True, 1, id="not minded"
        ),
        pytest.param({"predicate.TaintTolerationEnable": False}, None, False, 0, id="a node that is emptied is shut"),
    ],
)
def test_taints_can_be_no_matter(arguments, taint, is_schedulable, want):
    given_node = replace(node("n"), taints=(taint,) if taint else (), is_schedulable=is_schedulable)
    given = opened("gang", uses("predicates", **arguments), nodes=[given_node], pods=[pod("p", "a")])
    run_stages(given, ["allocate"])
    assert len(given.outcome.binds) == want


def test_overcommit_counts_what_others_use():
    waiting = group("a", phase=GroupPhase.PENDING, resources_least={"cpu": 3000})
    slots = NodeSlots(Placer(NodeTable(), (), PodsOnNodes(NodeFacts())), flavors={})
    slots.put_node(node("n"))
    slots.put_pod(BoundPod(key="other/p", node="n", requests={"cpu": 2000}))
    tiers = build_tiers((tier(uses("overcommit", factor=1.0)),)).tiers
    given = Session(snapshot([node("n")], [queue()], [waiting], []), slots, tiers)
    assert not given.tiers.is_enqueueable(given.groups["ns/a"])


@pytest.mark.parametrize(("factor", "want"), [(1.0, False), (2.0, True), (0.5, False)])
def test_overcommit_promises_so_much(factor, want):
    waiting = group("a", phase=GroupPhase.PENDING, resources_least={"cpu": 6000})
    given = opened(uses("overcommit", factor=factor), groups=[waiting])
    assert given.tiers.is_enqueueable(given.groups["ns/a"]) is want


def test_a_namespaces_quota_is_promised_once():
    groups = [group(name, phase=GroupPhase.PENDING, resources_least={"cpu": 3000}) for name in "ab"]
    quota = NamespaceQuota(key="ns/q", namespace="ns", hard={"cpu": 5000}, used={"cpu": 1000})
    given = opened("resourcequota", groups=groups, quotas=(quota,))
    run_stages(given, ["enqueue"])
    assert sorted(one.phase.value for one in given.groups.values()) == ["Inqueue", "Pending"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1h30m", 5400),
        ("100ms", 0.1),
        ("1.5h", 5400),
        ("", None),
        ("5", None),
        ("m5", None),
        ("1x", None),
        ("1..5s", None),
    ],
)
def test_durations(text, want):
    assert duration_s(text) == want


def test_who_has_waited_its_time_is_taken_up_whatever_others_say():
    patient = group("a", phase=GroupPhase.PENDING, resources_least={"cpu": 10**6})
    late = group("b", phase=GroupPhase.PENDING, resources_least={"cpu": 10**6}, annotations={"sla-waiting-time": "1m"})
    given = opened(uses("sla"), groups=[patient, late], now=100.0)
    assert given.tiers.compare_workloads(given.groups["ns/b"], given.groups["ns/a"]) < 0
    assert given.tiers.is_promised(given.groups["ns/b"])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("8:00-18:30", (480, 1110)),
        ("20:00-8:00", (1200, 1920)),
        ("0:00-0:00", (0, 1440)),
        ("24:00-1:00", None),
        ("8-9", None),
        ("a:00-1:00", None),
        ("1:00-2:00-3:00", None),
    ],
)
def test_windows(text, want):
    assert window_of(text) == want


ZONED = [node("n"), node("z", labels={"volcano.sh/revocable-zone": "night"})]
WILLING = {"volcano.sh/revocable-zone": "*"}


@pytest.mark.parametrize(
    ("hour", "annotations", "want"),
    [(21, WILLING, {"n", "z"}), (12, WILLING, {"n"}), (21, {}, {"n"})],
)
def test_lent_nodes(hour, annotations, want):
    tdm = uses("tdm", **{"tdm.revocable-zone.night": "20:00-6:00"})
    given = opened(tdm, nodes=ZONED, pods=[pod("p", "a", annotations=annotations)], now=hour * 3600.0)
    assert rows_let_in(given, "ns/p") == want


def test_pods_leave_lent_nodes_in_time():
    tdm = uses("tdm", **{"tdm.revocable-zone.night": "20:00-6:00"})
    running = [pod(f"p{index}", "a", node="z") for index in range(4)]
    budget = group("a", annotations={"volcano.sh/jdb-max-unavailable": "50%"})
    given = opened(tdm, nodes=ZONED, groups=[budget], pods=running, now=12 * 3600.0)
    run_stages(given, ["shuffle"])
    assert len(given.outcome.evicted) == 2


def test_budgets_bound_who_leaves():
    running = [pod(f"p{index}", "a", node="n", labels={"app": "x"}) for index in range(3)] + [
        pod("bare", "a", node="n")
    ]
    budget = DisruptionBudget(key="ns/b", namespace="ns", selector=Selector(), allowed=2)
    given = opened("pdb", pods=running, budgets=(budget,))
    named = given.tiers.preempt(given.pods["ns/p0"], [given.pods[key] for key in sorted(given.pods)])
    assert named == {"ns/p0", "ns/p1"}


def test_who_was_just_placed_is_spared():
    rests = {"volcano.sh/cooldown-time": "1m"}
    running = [
        pod("new", "a", node="n", annotations=rests, scheduled_at=50.0),
        pod("old", "a", node="n", annotations=rests, scheduled_at=0.0),
        pod("other", "a", node="n", scheduled_at=99.0),
    ]
    given = opened("cdp", pods=running, now=100.0)
    assert given.tiers.reclaim(given.pods["ns/new"], list(given.pods.values())) == {"ns/old", "ns/other"}


BUSY = {"n": MeasuredUse(cpu_percent=90), "m": MeasuredUse(cpu_percent=10, memory_percent=10)}


def test_busy_nodes_are_shut_and_idle_ones_liked():
    given = opened("usage", nodes=[node("n"), node("m")], pods=[pod("p", "a")], measured=BUSY)
    assert rows_let_in(given, "ns/p") == {"m"}
    assert score_of(given, "ns/p")["m"] > score_of(given, "ns/p")["n"]


def test_hot_cards_count_where_they_are_told_of():
    hot = {"n": MeasuredUse(gpu_celsius=95.0)}
    warm = uses("usage", thresholds={"gpu-temperature": 90})
    assert rows_let_in(opened(warm, pods=[pod("p", "a")], measured=hot), "ns/p") == set()


def test_old_measurements_do_not_count():
    old = {"n": MeasuredUse(cpu_percent=99, measured_at=0.0)}
    assert rows_let_in(opened("usage", pods=[pod("p", "a")], measured=old, now=1000.0), "ns/p") == {"n"}


def test_cards_are_left_their_cpu():
    rule = {"enable": True, "resources": "x/gpu", "resourceProportion": {"x/gpu.cpu": 2, "x/gpu.memory": 0}}
    nodes = [node("cards", 8, **{"x/gpu": 4}), node("bare", 8)]
    given = opened("gang", uses("resource-strategy-fit", proportional=rule), nodes=nodes, pods=[pod("p", "a")])
    run_stages(given, ["allocate"])
    assert given.outcome.binds == {"ns/p": "bare"}


def test_binpack_weighs_each_resource():
    packing = uses("binpack", by_resource=True, **{"binpack.memory": 0, "binpack.weight": 2})
    nodes = [node("n", 4, memory_gib=4), node("m", 8, memory_gib=4)]
    given = opened(packing, nodes=nodes, pods=[pod("p", "a", requests={"memory": 4 * GIB})])
    assert score_of(given, "ns/p") == {"m": 25.0, "n": 50.0}


def test_orders_of_groups_and_queues():
    groups = [
        group("old", created_at=1.0, annotations={"muster.io/expected-duration": "2h"}),
        group("new", created_at=2.0, annotations={"muster.io/expected-duration": "5m"}),
    ]
    old, new = (opened("fifo", groups=groups).groups[f"ns/{name}"] for name in ("old", "new"))
    assert opened("fifo", groups=groups).tiers.compare_workloads(old, new) < 0
    assert opened("sjf", groups=groups).tiers.compare_workloads(new, old) < 0


def test_queues_take_turns():
    queues, groups = [queue("a"), queue("b")], [group("x", queue="a"), group("y", queue="b")]
    given = opened("roundrobin", queues=queues, groups=groups, pods=[pod("p", "x", status=PodStatus.ALLOCATED)])
    assert given.tiers.compare_queues("b", "a") < 0


def test_deviceshare_counts_only_with_a_weight():
    assert score_of(opened("deviceshare", pods=[pod("p", "a")]), "ns/p") == {"n": 0.0}


def test_cards_in_use_are_filled_first_or_last():
    cards = CardKinds(counts=("x/gpu",), resources=frozenset(("x/gpu",)))
    nodes = [node("full", 8, **{"x/gpu": 4}), node("empty", 8, **{"x/gpu": 4})]
    two = {"requests": {"x/gpu": 2}}
    for policy, want in (("binpack", "full"), ("spread", "empty")):
        share = uses("deviceshare", **{"deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": 1})
        slots = NodeSlots(Placer(NodeTable(), (), PodsOnNodes(NodeFacts())), flavors={}, cards=cards)
        pods = [pod("old", "a", node="full", **two), pod("new", "a", **two)]
        given = Session(
            snapshot(nodes, [queue()], [group("a")], pods), slots, build_tiers((tier("gang", share),)).tiers
        )
        run_stages(given, ["allocate"])
        assert given.outcome.binds == {"ns/new": want}


def test_pods_that_came_since_are_reckoned():
    quiet = {"n": MeasuredUse(cpu_percent=70), "m": MeasuredUse(cpu_percent=70)}
    pods = [pod("p", "a"), pod("new", "a", node="n", status=PodStatus.BOUND)]
    given = opened("usage", nodes=[node("n"), node("m")], pods=pods, measured=quiet)
    assert score_of(given, "ns/p")["n"] < score_of(given, "ns/p")["m"]


@pytest.mark.parametrize(("text", "want"), [("not json", set()), ('{"a": {"cpu": "x"}}', set()), ("", {"n"})])
def test_limits_of_node_groups_that_cannot_be_read_let_nobody_in(text, want):
    wish = NodeGroupWish(required=("a",))
    limited = queue(node_groups=wish, annotations={"volcano.sh/nodegroup-resource-limits": text})
    labelled = node("n", labels={"volcano.sh/nodegroup-name": "a"})
    given = opened("nodegroup", nodes=[labelled], queues=[limited], pods=[pod("p", "a")])
    assert rows_let_in(given, "ns/p") == want


def test_who_uses_lent_nodes_takes_nobodys_place():
    tdm = uses("tdm", **{"tdm.revocable-zone.night": "20:00-6:00"})
    pods = [pod("old", "a", node="n"), pod("firm", "a", is_preemptable=False), pod("soft", "a")]
    given = opened(tdm, nodes=ZONED, pods=pods, now=0.0)
    old = [given.pods["ns/old"]]
    assert given.tiers.preempt(given.pods["ns/firm"], old) == {"ns/old"}
    assert given.tiers.preempt(given.pods["ns/soft"], old) == set()
