"""What is read of a pod's rules, and what is said of rules that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.labels import EVERYTHING, Operator, Requirement, Selector
from muster.model.pod_rules import ANYWHERE, HostPort, NodeRules, PodGroup, PodRules, read_pod_rules

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
APP_A = Selector((Requirement("app", Operator.IN, frozenset("a")),))
SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def read(spec: dict[str, Any], **labels: str) -> PodRules:
    return read_pod_rules(Fields.of({"metadata": {"namespace": "team", "labels": labels}, "spec": spec}))


def near(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}}


def test_a_pod_that_says_nothing():
    assert read_pod_rules(Fields({})) == ANYWHERE
    assert not ANYWHERE.is_moved_by_its_like
    assert ANYWHERE.of_nodes is ANYWHERE


def test_equal_rules_are_one_key():
    spec = {"nodeSelector": {"disk": "ssd"}, **near(labelSelector={"matchLabels": {"app": "a"}})}
    one, other = read(spec, app="a"), read(spec, app="a")
    assert one is not other and one == other and hash(one) == hash(other) == hash(one)
    assert read(spec, app="b") != one


def test_what_decides_by_the_node_alone_is_shared():
    one, other = read({"nodeSelector": {"disk": "ssd"}}, index="1"), read({"nodeSelector": {"disk": "ssd"}}, index="2")
    assert one != other
    assert one.of_nodes == other.of_nodes == PodRules(nodes=NodeRules(selector=(("disk", "ssd"),)))
    assert read({}, index="1").of_nodes is ANYWHERE


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param({}, PodGroup(selector=None, namespaces=frozenset(["team"])), id="no selector: no pod"),
        pytest.param(
            {"labelSelector": {}},
            PodGroup(selector=EVERYTHING, namespaces=frozenset(["team"])),
            id="an empty selector: every pod of the own namespace",
        ),
        pytest.param(
            {"labelSelector": {}, "namespaces": ["x", "y"]},
            PodGroup(selector=EVERYTHING, namespaces=frozenset(["x", "y"])),
            id="named namespaces, not the own",
        ),
        pytest.param(
            {"labelSelector": {}, "namespaceSelector": {}},
            PodGroup(selector=EVERYTHING, namespace_selector=EVERYTHING),
            id="every namespace",
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["hash", "missing"]},
            PodGroup(
                selector=Selector((*APP_A.requirements, Requirement("hash", Operator.IN, frozenset("7")))),
                namespaces=frozenset(["team"]),
            ),
            id="the own value of a label",
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"app": "a"}}, "mismatchLabelKeys": ["hash"]},
            PodGroup(
                selector=Selector((*APP_A.requirements, Requirement("hash", Operator.NOT_IN, frozenset("7")))),
                namespaces=frozenset(["team"]),
            ),
            id="any but the own value",
        ),
        pytest.param(
            {"labelSelector": {"matchLabels": {"app": "a", "hash": "7"}}, "matchLabelKeys": ["hash"]},
            PodGroup(
                selector=Selector((*APP_A.requirements, Requirement("hash", Operator.IN, frozenset("7")))),
                namespaces=frozenset(["team"]),
            ),
            id="the own value, added already",
        ),
    ],
)
def test_pod_terms(term, want):
    assert read(near(**term), hash="7").affinity[0].group == want


def test_preferred_pods_are_liked_or_disliked():
    term = {"topologyKey": "zone", "labelSelector": {}}
    weighed = {PREFERRED: [{"weight": 7, "podAffinityTerm": term}]}
    found = read({"affinity": {"podAffinity": weighed, "podAntiAffinity": weighed}}).preferred_pods
    assert [one.weight for one in found] == [7, -7]


@pytest.mark.parametrize(
    ("fields", "selector", "has_self"),
    [
        pytest.param({}, None, False, id="no selector counts nobody"),
        pytest.param({"labelSelector": {}}, None, True, id="an empty one counts nobody but has the pod itself"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "a"}}}, APP_A, True, id="the own group"),
        pytest.param({"labelSelector": {}, "matchLabelKeys": ["app"]}, APP_A, True, id="by the own value"),
    ],
)
def test_spread_groups(fields, selector, has_self):
    rule = read({"topologySpreadConstraints": [{**SPREAD, **fields}]}, app="a").spread[0]
    assert (rule.group.selector, rule.has_self) == (selector, has_self)


def test_spread_defaults():
    rule = read({"topologySpreadConstraints": [SPREAD]}).spread[0]
    assert (rule.min_domains, rule.is_required, rule.is_by_affinity, rule.is_by_taints) == (1, True, True, False)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [{"ports": [{"containerPort": 80}]}]}, set(), id="not of the host"),
        pytest.param({"containers": [{"ports": [{"hostPort": 80}]}]}, {HostPort(80)}, id="tcp on all addresses"),
        pytest.param(
            {"containers": [{"ports": [{"hostPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1"}]}]},
            {HostPort(80, "UDP", "10.0.0.1")},
            id="udp on one address",
        ),
        pytest.param(
            {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]},
            {HostPort(80)},
            id="in the network of the node",
        ),
        pytest.param(
            {"initContainers": [{"restartPolicy": "Always", "ports": [{"hostPort": 1}]}, {"ports": [{"hostPort": 2}]}]},
            {HostPort(1)},
            id="init containers that stay",
        ),
    ],
)
def test_ports(spec, want):
    assert read(spec).ports == want


@pytest.mark.parametrize(
    ("one", "other", "clashes"),
    [
        pytest.param(HostPort(80), HostPort(80), True, id="the same"),
        pytest.param(HostPort(80), HostPort(81), False, id="another port"),
        pytest.param(HostPort(80), HostPort(80, "UDP"), False, id="another protocol"),
        pytest.param(HostPort(80), HostPort(80, "TCP", "10.0.0.1"), True, id="all addresses and one"),
        pytest.param(HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False, id="two addresses"),
        pytest.param(HostPort(80, "TCP", "::"), HostPort(80, "TCP", "10.0.0.2"), False, id="only 0.0.0.0 is for all"),
    ],
)
def test_clashes(one, other, clashes):
    assert one.clashes(other) == other.clashes(one) == clashes


@pytest.mark.parametrize(
    ("rules", "moved"),
    [
        pytest.param({"nodeSelector": {"a": "b"}}, False, id="about nodes"),
        pytest.param({"containers": [{"ports": [{"hostPort": 80}]}]}, True, id="ports"),
        pytest.param(near(labelSelector={}), True, id="pod affinity"),
        pytest.param({"topologySpreadConstraints": [SPREAD]}, True, id="spreading"),
        pytest.param(
            {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]}, False, id="a wish"
        ),
    ],
)
def test_moved_by_its_like(rules, moved):
    assert read(rules).is_moved_by_its_like is moved


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param(near(topologyKey=""), f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey", id="no key"),
        pytest.param(
            near(matchLabelKeys=["a"]), f"spec.affinity.podAffinity.{REQUIRED}[0].matchLabelKeys", id="no selector"
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {PREFERRED: [{"podAffinityTerm": {"topologyKey": "z"}}]}}},
            f"spec.affinity.podAntiAffinity.{PREFERRED}[0].weight",
            id="no weight",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {PREFERRED: [{"weight": 101, "podAffinityTerm": {"topologyKey": "z"}}]}}},
            f"spec.affinity.podAffinity.{PREFERRED}[0].weight",
            id="too much weight",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1}]},
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            id="no word on what then",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "spec.topologySpreadConstraints[0].maxSkew",
            id="no skew",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{**SPREAD, "maxSkew": 0}]},
            "spec.topologySpreadConstraints[0].maxSkew",
            id="no skew at all",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]},
            "spec.topologySpreadConstraints[0].minDomains",
            id="domains of a wish",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{**SPREAD, "nodeTaintsPolicy": "Maybe"}]},
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
            id="an unknown policy",
        ),
        pytest.param(
            {"containers": [{"ports": [{"hostPort": 70_000}]}]}, "spec.containers[0].ports[0].hostPort", id="no port"
        ),
        pytest.param(
            {"containers": [{"ports": [{"hostPort": 7, "protocol": "tcp"}]}]},
            "spec.containers[0].ports[0].protocol",
            id="no protocol",
        ),
    ],
)
def test_mistakes_are_named(spec, path):
    with pytest.raises(InvalidObject) as caught:
        read(spec)
    assert caught.value.path == path
