"""Random pods on random nodes: what the columns say of all nodes is what a plain look at one pod and one node says.

The plain look below reads manifests as they are written and walks over every pod; it shares nothing with the engine.
Every history has a number. `check_history(Random(number))` plays one to its end; a failure names it.
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from muster.engine.fit import why_not
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.fit_scores import (
    Candidates,
    node_affinity_scores,
    pod_affinity_scores,
    spread_scores,
    taint_scores,
)
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import Demand, TableNode
from muster.model.fields import Fields
from muster.model.pod_rules import read_pod_rules
from muster.model.topology import HOSTNAME, read_node
from tests.engine.fit_builders import PREFERRED, REQUIRED
from tests.support import proof_count

HISTORIES = 4_000
BLOCKS = 10
STEPS = 25
ZONE, RACK = "zone", "rack"
KEYS = (ZONE, ZONE, RACK, HOSTNAME)
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
NAMESPACES = {"red": {"kind": "prod"}, "blue": {"kind": "test"}}

Object = dict[str, Any]
Running = list[tuple[int, Object]]  # a row and a pod on it


# The plain look ------------------------------------------------------------------------------------------------------


def labels_of(one: Object) -> dict[str, str]:
    return one["metadata"]["labels"]


def holds(expression: Object, labels: dict[str, str]) -> bool:
    there, values = expression["key"] in labels, expression.get("values", [])
    value = labels.get(expression["key"], "")
    match expression["operator"]:
        case "In":
            return there and value in values
        case "NotIn":
            return not there or value not in values
        case "Exists":
            return there
        case "DoesNotExist":
            return not there
        case "Gt":
            return value.isdigit() and int(value) > int(values[0])
    return value.isdigit() and int(value) < int(values[0])


def selected(selector: Object | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    exact = selector.get("matchLabels", {}).items()
    return all(labels.get(key) == value for key, value in exact) and all(
        holds(one, labels) for one in selector.get("matchExpressions", [])
    )


def term_holds(term: Object, node: Object) -> bool:
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if not expressions and not fields:
        return False
    own = {"metadata.name": node["metadata"]["name"]}
    return all(holds(one, labels_of(node)) for one in expressions) and all(holds(one, own) for one in fields)


def may_stand(pod: Object, node: Object) -> bool:
    """Node selector and required node affinity."""
    wanted = pod["spec"].get("nodeSelector", {})
    if any(labels_of(node).get(key) != value for key, value in wanted.items()):
        return False
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    return required is None or any(term_holds(term, node) for term in required["nodeSelectorTerms"])


def untolerated(pod: Object, node: Object, effects: tuple[str, ...]) -> int:
    """How many taints of these effects no toleration covers; a cordon is a taint."""
    taints = list(node["spec"].get("taints", []))
    if node["spec"].get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    count = 0
    for taint in taints:
        covered = False
        for one in pod["spec"].get("tolerations", []):
            is_key = one.get("key", "") in ("", taint["key"])
            is_effect = one.get("effect", "") in ("", taint["effect"])
            is_value = one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")
            covered = covered or (is_key and is_effect and is_value)
        count += taint["effect"] in effects and not covered
    return count


def is_meant(term: Object, owner: Object, pod: Object) -> bool:
    """Whether a pod is one of those that a term of its owner is about."""
    namespace = pod["metadata"]["namespace"]
    named, by_label = term.get("namespaces", []), term.get("namespaceSelector")
    if not named and by_label is None:
        named = [owner["metadata"]["namespace"]]
    own = {**NAMESPACES[namespace], "kubernetes.io/metadata.name": namespace}
    return (namespace in named or selected(by_label, own)) and selected(narrowed(term, owner), labels_of(pod))


def narrowed(rule: Object, owner: Object) -> Object | None:
    """The rule's selector with the owner's own values of some labels."""
    selector = rule.get("labelSelector")
    more = [
        {"key": key, "operator": operator, "values": [labels_of(owner)[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in rule.get(field, [])
        if key in labels_of(owner)
    ]
    if selector is None or not more:
        return selector
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", []), *more]}


def terms(pod: Object, kind: str, need: str = REQUIRED) -> list[Object]:
    return pod["spec"].get("affinity", {}).get(kind, {}).get(need, [])


class Look:
    """A cluster as it is written: nodes, which of them are gone, and who runs on the others."""

    def __init__(self, nodes: list[Object], running: Running, gone: set[int]) -> None:
        self.nodes = nodes
        self.rows = [row for row in range(len(nodes)) if row not in gone]
        self.running = [(row, pod) for row, pod in running if row not in gone]

    def at(self, row: int, key: str) -> str | None:
        return labels_of(self.nodes[row]).get(key)

    def fits(self, pod: Object, row: int) -> bool:
        node = self.nodes[row]
        if row not in self.rows or untolerated(pod, node, ("NoSchedule", "NoExecute")) or not may_stand(pod, node):
            return False
        return self.has_ports(pod, row) and self.is_even(pod, row) and self.is_welcome(pod, row)

    def has_ports(self, pod: Object, row: int) -> bool:
        for mine in ports_of(pod):
            for other in (port for at, one in self.running if at == row for port in ports_of(one)):
                addresses = {mine.get("hostIP", "0.0.0.0"), other.get("hostIP", "0.0.0.0")}
                is_same = mine["hostPort"] == other["hostPort"] and mine["protocol"] == other["protocol"]
                if is_same and (len(addresses) == 1 or "0.0.0.0" in addresses):
                    return False
        return True

    def is_welcome(self, pod: Object, row: int) -> bool:
        """Required affinity and anti-affinity, its own and that of those who are there."""
        near, away = terms(pod, "podAffinity"), terms(pod, "podAntiAffinity")
        friends = [at for at, one in self.running if all(is_meant(term, pod, one) for term in near)]
        if near and any(self.at(row, term["topologyKey"]) is None for term in near):
            return False
        is_alone = not any(self.at(at, term["topologyKey"]) for at in friends for term in near)
        is_first = is_alone and all(is_meant(term, pod, pod) for term in near)
        for term in near if not is_first else ():
            if not any(self.is_same(row, at, term["topologyKey"]) for at in friends):
                return False
        for at, one in self.running:
            if any(is_meant(term, pod, one) and self.is_same(row, at, term["topologyKey"]) for term in away):
                return False
            repels = terms(one, "podAntiAffinity")
            if any(is_meant(term, one, pod) and self.is_same(row, at, term["topologyKey"]) for term in repels):
                return False
        return True

    def is_same(self, one: int, other: int, key: str) -> bool:
        return self.at(one, key) is not None and self.at(one, key) == self.at(other, key)

    def counted(self, pod: Object, rule: Object, row: int) -> bool:
        """Whether a node counts for spreading, but for its labels."""
        node = self.nodes[row]
        if rule.get("nodeAffinityPolicy", "Honor") == "Honor" and not may_stand(pod, node):
            return False
        is_by_taints = rule.get("nodeTaintsPolicy", "Ignore") == "Honor"
        return not is_by_taints or not untolerated(pod, node, ("NoSchedule", "NoExecute"))

    def alike(self, pod: Object, rule: Object, row: int) -> int:
        """How many pods of a node count for spreading."""
        selector = narrowed(rule, pod)
        if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
            return 0
        return sum(
            at == row
            and one["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and "deletionTimestamp" not in one["metadata"]
            and selected(selector, labels_of(one))
            for at, one in self.running
        )

    def domains(self, pod: Object, rule: Object, wished: list[Object]) -> Counter[str]:
        found: Counter[str] = Counter()
        for row in self.rows:
            if all(self.at(row, one["topologyKey"]) is not None for one in wished) and self.counted(pod, rule, row):
                found[str(self.at(row, rule["topologyKey"]))] += self.alike(pod, rule, row)
        return found

    def is_even(self, pod: Object, row: int) -> bool:
        required = spread_of(pod, "DoNotSchedule")
        for rule in required:
            place = self.at(row, rule["topologyKey"])
            if place is None:
                return False
            found = self.domains(pod, rule, required)
            least = min(found.values()) if len(found) >= rule.get("minDomains", 1) else 0
            itself = selected(narrowed(rule, pod), labels_of(pod))
            if found[place] + itself - least > rule["maxSkew"]:
                return False
        return True

    # Scores ----------------------------------------------------------------------------------------------------------

    def node_scores(self, pod: Object, rows: list[int]) -> list[int]:
        wanted = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(PREFERRED, [])
        raw = [sum(one["weight"] for one in wanted if term_holds(one["preference"], self.nodes[row])) for row in rows]
        return [100 * one // max(raw) if max(raw) else 0 for one in raw]

    def taint_scores(self, pod: Object, rows: list[int]) -> list[int]:
        raw = [untolerated(pod, self.nodes[row], ("PreferNoSchedule",)) for row in rows]
        return [100 - (100 * one // max(raw) if max(raw) else 0) for one in raw]

    def pod_scores(self, pod: Object, rows: list[int]) -> list[int]:
        raw = [sum(self.liking(pod, row, at, one) for at, one in self.running) for row in rows]
        low, high = min(raw), max(raw)
        return [int(100.0 * ((one - low) / (high - low))) if high > low else 0 for one in raw]

    def liking(self, pod: Object, row: int, at: int, one: Object) -> int:
        total = 0
        for owner, other in ((pod, one), (one, pod)):
            for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
                for preferred in terms(owner, kind, PREFERRED):
                    term = preferred["podAffinityTerm"]
                    if is_meant(term, owner, other) and self.is_same(row, at, term["topologyKey"]):
                        total += sign * preferred["weight"]
        needs = terms(one, "podAffinity")
        return total + sum(is_meant(term, one, pod) and self.is_same(row, at, term["topologyKey"]) for term in needs)

    def spread_scores(self, pod: Object, rows: list[int]) -> list[int]:
        wished = spread_of(pod, "ScheduleAnyway")
        takes_part = [row for row in rows if all(self.at(row, one["topologyKey"]) is not None for one in wished)]
        if not wished or not takes_part:
            return [0] * len(rows)
        raw = {}
        for row in takes_part:
            total = 0.0
            for rule in wished:
                key = rule["topologyKey"]
                size = len(takes_part) if key == HOSTNAME else len({self.at(one, key) for one in takes_part})
                by_zone = self.domains(pod, rule, wished)[str(self.at(row, key))]
                count = self.alike(pod, rule, row) if key == HOSTNAME else by_zone
                total += count * math.log(size + 2) + (rule["maxSkew"] - 1)
            raw[row] = math.floor(total + 0.5)
        low, high = min(raw.values()), max(raw.values())
        return [0 if row not in raw else 100 * (high + low - raw[row]) // high if high else 100 for row in rows]


def ports_of(pod: Object) -> list[Object]:
    return pod["spec"]["containers"][0]["ports"]


def spread_of(pod: Object, wish: str) -> list[Object]:
    return [one for one in pod["spec"].get("topologySpreadConstraints", []) if one["whenUnsatisfiable"] == wish]


# Random clusters -----------------------------------------------------------------------------------------------------


def some(chance: Random, most: int, make: Any) -> list[Any]:
    return [make(chance) for _ in range(chance.randint(0, most))]


def an_expression(chance: Random) -> Object:
    operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": chance.sample("123", chance.randint(1, 2))} if operator in ("In", "NotIn") else {}
    return {"key": chance.choice(("app", "tier", ZONE)), "operator": operator, **values}


def a_selector(chance: Random) -> Object:
    exact = {"matchLabels": {"app": chance.choice("12")}} if chance.random() < 0.7 else {}
    return {**exact, "matchExpressions": some(chance, 1, an_expression) if chance.random() < 0.5 else []}


def a_node_term(chance: Random) -> Object:
    if chance.random() < 0.2:
        name = {
            "key": "metadata.name",
            "operator": chance.choice(("In", "NotIn")),
            "values": [f"n{chance.randint(0, 5)}"],
        }
        return {"matchFields": [name]}
    number = {"key": ZONE, "operator": chance.choice(("Gt", "Lt")), "values": [chance.choice("123")]}
    return {"matchExpressions": [*some(chance, 2, an_expression), *([number] if chance.random() < 0.3 else [])]}


def a_pod_term(chance: Random) -> Object:
    term: Object = {"topologyKey": chance.choice(KEYS)}
    if chance.random() < 0.9:
        term["labelSelector"] = a_selector(chance)
        if chance.random() < 0.3:
            term[chance.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
    if chance.random() < 0.2:
        term["namespaces"] = [chance.choice(tuple(NAMESPACES))]
    if chance.random() < 0.2:
        term["namespaceSelector"] = chance.choice(({}, {"matchLabels": {"kind": "test"}}))
    return term


def a_spread(chance: Random) -> Object:
    rule: Object = {"topologyKey": chance.choice(KEYS), "maxSkew": chance.choice((1, 1, 2))}
    rule["whenUnsatisfiable"] = chance.choice(("DoNotSchedule", "ScheduleAnyway"))
    if chance.random() < 0.9:
        rule["labelSelector"] = chance.choice(({}, a_selector(chance), a_selector(chance)))
        if chance.random() < 0.3:
            rule["matchLabelKeys"] = ["tier"]
    if rule["whenUnsatisfiable"] == "DoNotSchedule" and chance.random() < 0.3:
        rule["minDomains"] = chance.randint(1, 3)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if chance.random() < 0.6:
            rule[policy] = chance.choice(("Honor", "Ignore"))
    return rule


def a_port(chance: Random) -> Object:
    port = {"hostPort": chance.choice((80, 81)), "protocol": chance.choice(("TCP", "UDP"))}
    return {**port, **({"hostIP": chance.choice(("10.0.0.1", "10.0.0.2"))} if chance.random() < 0.5 else {})}


def a_toleration(chance: Random) -> Object:
    key = {"key": chance.choice("ab")} if chance.random() < 0.8 else {}
    how = {"operator": "Exists"} if not key or chance.random() < 0.5 else {"value": chance.choice("12")}
    return {**key, **how, **({"effect": chance.choice(EFFECTS)} if chance.random() < 0.4 else {})}


def weighed(chance: Random, field: str, make: Any) -> Any:
    return lambda _: {"weight": chance.randint(1, 100), field: make(chance)}


def a_pod(chance: Random) -> Object:
    is_rare = chance.random() < 0.5  # the more rules, the fewer nodes are left
    most = 0 if is_rare else 1
    affinity: Object = {
        "podAffinity": {REQUIRED: some(chance, 2 * most, a_pod_term)},
        "podAntiAffinity": {REQUIRED: some(chance, most, a_pod_term)},
        "nodeAffinity": {PREFERRED: some(chance, 2, weighed(chance, "preference", a_node_term))},
    }
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity[kind][PREFERRED] = some(chance, 1, weighed(chance, "podAffinityTerm", a_pod_term))
    if chance.random() < 0.2:
        affinity["nodeAffinity"][REQUIRED] = {"nodeSelectorTerms": some(chance, 3, a_node_term)}
    labels = {"app": chance.choice("12"), **({"tier": chance.choice("12")} if chance.random() < 0.5 else {})}
    metadata: Object = {"namespace": chance.choice(tuple(NAMESPACES)), "labels": labels}
    if chance.random() < 0.2:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: Object = {
        "affinity": affinity,
        "tolerations": some(chance, 2, a_toleration),
        "topologySpreadConstraints": some(chance, 2, a_spread),
        "containers": [{"ports": some(chance, most, a_port)}],
    }
    if chance.random() < 0.2:
        spec["nodeSelector"] = {ZONE: chance.choice("123")}
    return {"metadata": metadata, "spec": spec}


def a_node(chance: Random, name: str) -> Object:
    labels = {HOSTNAME: name, ZONE: chance.choice("123"), RACK: chance.choice("ab")}
    for key in (HOSTNAME, ZONE, RACK):
        if chance.random() < 0.15:
            del labels[key]
    taints = some(chance, 1, lambda _: {"key": chance.choice("ab"), "value": "1", "effect": chance.choice(EFFECTS)})
    spec = {"taints": taints if chance.random() < 0.8 else [], "unschedulable": chance.random() < 0.1}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


# Histories -----------------------------------------------------------------------------------------------------------


class Cluster:
    """The engine's cluster and the plain one, changed together."""

    def __init__(self, chance: Random) -> None:
        self.nodes = [a_node(chance, f"n{row}") for row in range(chance.randint(1, 6))]
        self.pods = [a_pod(chance) for _ in range(chance.randint(1, 6))]
        self.running: Running = []
        self.gone: set[int] = set()
        table = NodeTable(TableNode(name=one["metadata"]["name"], amounts={"pods": 99}) for one in self.nodes)
        facts = NodeFacts(read_node(Fields.of(one)) for one in self.nodes)
        self.placer = Placer(table, [], PodsOnNodes(facts))
        for name, labels in NAMESPACES.items():
            self.placer.pods.put_namespace(name, labels)
        for _ in range(chance.randint(0, 12)):
            self.put(chance, chance.choice(self.pods))

    @staticmethod
    def asks(pod: Object) -> Demand:
        return Demand((("pods", 1),), rules=read_pod_rules(Fields.of(pod)))

    def put(self, chance: Random, pod: Object) -> None:
        """Have a pod run somewhere, whether it fits or not: it was there before the rules were made."""
        row = chance.randrange(len(self.nodes))
        self.placer.charge(row, self.asks(pod), ())
        self.running.append((row, pod))

    def step(self, chance: Random, marks: list[tuple[Any, Running]]) -> None:
        pod = chance.choice(self.pods)
        match chance.choice(("place", "place", "put", "leave", "mark", "back", "change", "drop")):
            case "place":
                found = self.placer.place(self.asks(pod))
                if found is not None:
                    self.running.append((found.row, pod))
            case "put":
                self.put(chance, pod)
            case "leave" if self.running:
                row, gone = self.running.pop(chance.randrange(len(self.running)))
                self.placer.release(row, self.asks(gone), ())
            case "mark":
                marks.append((self.placer.checkpoint(), list(self.running)))
            case "back" if marks:
                mark, self.running = marks.pop()
                self.placer.rollback(mark)
            case "change":  # or come back
                row = chance.randrange(len(self.nodes))
                self.nodes[row] = a_node(chance, f"n{row}")
                self.gone.discard(self.placer.table.put(TableNode(name=f"n{row}", amounts={"pods": 99})))
                self.placer.pods.facts.put(row, read_node(Fields.of(self.nodes[row])))
            case "drop" if chance.random() < 0.5:
                row = chance.randrange(len(self.nodes))
                self.gone.add(row)
                self.placer.table.drop(f"n{row}")
                self.placer.pods.facts.drop(row)

    def check(self, pod: Object) -> None:
        look, wanted = Look(self.nodes, self.running, self.gone), self.asks(pod)
        fits = [look.fits(pod, row) for row in range(len(self.nodes))]
        assert self.placer.fits(wanted).tolist() == fits, pod
        report = why_not(self.placer, wanted)
        refused = sum(count for _, count in report.refusals)
        assert report.fitting == sum(fits) and report.fitting + refused == report.nodes == len(look.rows)
        found = self.placer.find(wanted)
        assert (None if found is None else found.row) == next((row for row, fit in enumerate(fits) if fit), None)
        rows = [row for row, fit in enumerate(fits) if fit]
        if rows:
            candidates = Candidates(wanted.rules, np.array(rows), self.placer.pods)
            assert node_affinity_scores(candidates).tolist() == look.node_scores(pod, rows), pod
            assert taint_scores(candidates).tolist() == look.taint_scores(pod, rows), pod
            assert pod_affinity_scores(candidates).tolist() == look.pod_scores(pod, rows), pod
            assert spread_scores(candidates).tolist() == look.spread_scores(pod, rows), pod


def check_history(chance: Random) -> None:
    cluster = Cluster(chance)
    marks: list[tuple[Any, Running]] = []
    for _ in range(STEPS):
        cluster.step(chance, marks)
        cluster.check(chance.choice(cluster.pods))


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_columns_say_what_a_plain_look_says(block, monkeypatch):
    if block % 2:  # as in clusters so large that most rows hold nothing that counts
        monkeypatch.setattr("muster.engine.fit_index._FEW", 0)
    for number in range(proof_count(HISTORIES) // BLOCKS):
        seed = number * BLOCKS + block
        try:
            check_history(Random(seed))
        except AssertionError as problem:
            raise AssertionError(f"check_history(Random({seed})): {problem}") from problem
