"""What becomes of the objects that a deleted one owned, in the three propagations."""

from __future__ import annotations

import pytest

from muster.store import garbage
from muster.store.kinds import Propagation
from muster.store.records import Key, Scope
from muster.store.rules import Deletion
from tests.store.collector import Collector
from tests.store.kinds import World, a_config, a_pod


def config(name):
    return Key("configmaps", "default", name)


@pytest.fixture
def world():
    return World()


def family(world, *pairs):
    """Configs by name, each with its owners by name; gives their uids."""
    uids = {}
    for name, owners in pairs:
        given = a_config(name, tuple(uids.get(owner, owner) for owner in owners))
        uids[name] = world.create("configmaps", given)["metadata"]["uid"]
    return uids


def left(world):
    return [record.key.name for record in world.store.page(Scope("configmaps")).records]


def delete(world, name, propagation):
    world.store.write(world.objects.delete(config(name), Deletion(propagation=propagation)))


TREE = (("root", ()), ("a", ("root",)), ("b", ("root",)), ("leaf", ("a",)), ("shared", ("a", "other")), ("other", ()))


@pytest.mark.parametrize(
    ("propagation", "want"),
    [
        pytest.param(Propagation.BACKGROUND, ["other", "shared"], id="they follow"),
        pytest.param(Propagation.FOREGROUND, ["other", "shared"], id="they go first"),
        pytest.param(Propagation.ORPHAN, ["a", "b", "leaf", "other", "shared"], id="they stay"),
    ],
)
def test_propagations(world, propagation, want):
    family(world, ("other", ()), *TREE[:-1])
    collector = Collector(world, since=0)
    delete(world, "root", propagation)
    collector.run()
    assert left(world) == want
    for name in left(world):
        owners = world.get(config(name))["metadata"].get("ownerReferences", [])
        assert all(world.store.state.find(one["uid"]) for one in owners), f"{name} has an owner that is gone"


def test_who_goes_first_is_gone_first(world):
    family(world, *TREE[:4])
    start = world.store.revision
    collector = Collector(world, since=0)
    delete(world, "root", Propagation.FOREGROUND)
    collector.run()
    events = world.store.watch(Scope(), start, lambda: None).take().events
    assert [one.record.key.name for one in events if one.action.value == "DELETED"] == ["b", "leaf", "a", "root"]


def test_foreground_waits_only_for_those_who_block(world):
    """A pod that takes its time holds its owner when its reference says so."""
    owner = world.create("configmaps", a_config("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    for name, is_blocking in (("slow", True), ("slower", False)):
        references = [{**reference, "blockOwnerDeletion": is_blocking}]
        world.create("pods", a_pod(name, spec={"nodeName": "n"}, ownerReferences=references))
    collector = Collector(world, since=0)
    delete(world, "owner", Propagation.FOREGROUND)
    collector.run()
    assert left(world) == ["owner"], "it waits"
    world.store.write(world.objects.delete(Key("pods", "default", "slow"), Deletion(grace_s=0)))
    collector.run()
    assert left(world) == []
    assert len(world.store.page(Scope("pods")).records) == 1


def test_an_owner_that_lets_go_of_its_last_is_released(world):
    family(world, ("root", ()), ("a", ("root",)))
    world.store.write(world.objects.modify(config("a"), hold))
    collector = Collector(world, since=0)
    delete(world, "root", Propagation.FOREGROUND)
    collector.run()
    assert left(world) == ["a", "root"]

    def leave(dependent):
        dependent["metadata"].pop("ownerReferences")
        return dependent

    world.store.write(world.objects.modify(config("a"), leave))
    collector.run()
    assert left(world) == ["a"] and world.store.strays() == []


def hold(given):
    given["metadata"]["finalizers"] = ["x/y"]
    return given


def test_two_that_own_each_other_do_not_wait_for_ever(world):
    uids = family(world, ("a", ()), ("b", ("a",)))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": uids["b"], "blockOwnerDeletion": True}

    def close_the_ring(given):
        given["metadata"]["ownerReferences"] = [reference]
        return given

    world.store.write(world.objects.modify(config("a"), close_the_ring))
    collector = Collector(world, since=0)
    delete(world, "a", Propagation.FOREGROUND)
    collector.run()
    assert left(world) == []


@pytest.mark.parametrize("propagation", Propagation)
def test_one_that_owns_itself_can_be_deleted(world, propagation):
    uids = family(world, ("a", ()))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": uids["a"], "blockOwnerDeletion": True}

    def own_itself(given):
        given["metadata"]["ownerReferences"] = [reference]
        return given

    world.store.write(world.objects.modify(config("a"), own_itself))
    collector = Collector(world, since=0)
    delete(world, "a", propagation)
    collector.run()
    assert left(world) == []


def test_who_is_born_without_a_living_owner_goes(world):
    family(world, ("lost", ("nobody",)))
    Collector(world, since=0).run()
    assert left(world) == []


def test_who_has_an_owner_stays(world):
    family(world, ("root", ()), ("a", ("root",)))
    Collector(world, since=0).run()
    assert left(world) == ["a", "root"]


def test_an_owner_of_another_namespace_is_none(world):
    owner = world.create("configmaps", a_config("owner", namespace="elsewhere"))
    family(world, ("lost", (owner["metadata"]["uid"],)))
    Collector(world, since=0).run()
    assert left(world) == ["owner"]


def test_many_dependents_take_several_steps(world):
    uids = family(world, ("root", ()))
    for number in range(garbage.DEPENDENTS_A_STEP * 2 + 1):
        world.create("configmaps", a_config(f"c{number}", (uids["root"],)))
    delete(world, "root", Propagation.BACKGROUND)
    steps = [world.store.write(garbage.collect(world.objects, uids["root"])) for _ in range(3)]
    assert steps == [True, True, False] and left(world) == []


def test_a_new_collector_finds_what_the_last_one_left(world):
    family(world, *TREE[:4])
    family(world, ("lost", ("nobody",)))
    delete(world, "root", Propagation.FOREGROUND)
    for _ in range(2):  # each dies after one step
        Collector(world).step()
    Collector(world).run()
    assert left(world) == []


def test_a_rule_that_came_later_makes_nobody_immortal(world):
    """Objects that today's validation would refuse are let go all the same."""
    owner = world.create("configmaps", a_config("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    made = world.create("pods", a_pod(ownerReferences=[reference]))
    made["spec"] = {}  # as it was once allowed

    def smuggle(write):
        world.objects.settle(write, Key("pods", "default", "a"), made)

    world.store.write(smuggle)
    delete(world, "owner", Propagation.ORPHAN)
    Collector(world).run()
    assert "ownerReferences" not in world.get(Key("pods", "default", "a"))["metadata"]


def test_ordinary_changes_ask_for_nothing(world):
    family(world, ("root", ()), ("a", ("root",)))
    start = world.store.revision

    def label(given):
        given["metadata"]["labels"] = {"x": "y"}
        return given

    world.store.write(world.objects.modify(config("a"), label))
    (event,) = world.store.watch(Scope(), start, lambda: None).take().events
    assert garbage.steps_after(event) == ()
