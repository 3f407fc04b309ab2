"""What the extender knows of a cluster: cards, who holds them, quotas; read once for each revision."""

from __future__ import annotations

import msgspec

from muster.apiserver.cards.knowledge import Knowledge
from muster.controllers.view import View
from muster.dialects.hami.quota import QuotaLine
from muster.dialects.hami.settings import ASSIGNED_NODE
from muster.store.records import Key, Record
from muster.vendors.nvidia import ALLOCATED
from tests.apiserver.cards.world import VENDORS, a_node, a_pod

MEMORY = "nvidia.com/gpumem"


class World:
    def __init__(self):
        self.view = View()
        self.knowledge = Knowledge(self.view, VENDORS)
        self.revision = 0

    def put(self, resource, *objects):
        records = [self._record(resource, one) for one in objects]
        self.view.learn_all(resource, records, self.revision)
        return self.knowledge.state()

    def _record(self, resource, one):
        self.revision += 1
        metadata = one["metadata"]
        key = Key(resource, metadata.get("namespace", ""), metadata["name"])
        value = msgspec.json.encode(one)
        return Record(key=key, uid=metadata.get("uid", ""), revision=self.revision, created=1, value=value)


def holding(name, text, node="n", phase="Running"):
    pod = a_pod(name)
    pod["metadata"]["annotations"] = {ALLOCATED: text, ASSIGNED_NODE: "n"}
    return {**pod, "spec": {**pod["spec"], **({"nodeName": node} if node else {})}, "status": {"phase": phase}}


def test_bound_pods_hold_cards_and_nobody_else_does():
    world = World()
    world.put("nodes", a_node(), {"metadata": {"name": "bare"}})
    share = "GPU-n-0,NVIDIA,4000,20:;"
    pods = [
        holding("a", share),
        holding("forged", share, node=""),
        holding("over", share, phase="Succeeded"),
        a_pod("b"),
    ]
    state = world.put("pods", *pods)
    assert list(state.nodes) == ["n"]
    assert [(one.uid, one.node) for one in state.pods] == [("uid-a", "n")]


def test_a_claim_that_cannot_be_read_holds_every_card_of_its_node():
    world = World()
    world.put("nodes", a_node())
    [held] = world.put("pods", holding("a", "GPU-n-0,NVIDIA:;")).pods
    assert {one.uuid: one.memory_mib for one in held.shares["NVIDIA"]} == {"GPU-n-0": 10_000, "GPU-n-1": 10_000}


def test_quotas_of_a_namespace_with_what_its_pods_hold():
    world = World()
    world.put("nodes", a_node())
    world.put("pods", holding("a", "GPU-n-0,NVIDIA,4000,20:;"))
    quotas = [
        {"metadata": {"name": name, "namespace": "ns"}, "spec": {"hard": {f"limits.{MEMORY}": limit}}}
        for name, limit in (("q", "9000"), ("r", "8000"))
    ]
    state = world.put("resourcequotas", *quotas)
    assert state.quotas["ns"][MEMORY] == QuotaLine(4_000, 8_000)


def test_objects_are_read_once_for_each_revision(monkeypatch):
    world = World()
    world.put("nodes", a_node())
    read = []
    known = world.view.get
    monkeypatch.setattr(world.view, "get", lambda key: read.append(key) or known(key))
    world.put("pods", holding("a", "GPU-n-0,NVIDIA,4000,20:;"))
    world.knowledge.state()
    assert [key.name for key in read] == ["a"]
