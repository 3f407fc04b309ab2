"""Writes through the rules, on a store: what is kept, what is told, who is refused."""

from __future__ import annotations

from random import Random

import pytest

from muster.model.errors import InvalidObject
from muster.store.errors import AlreadyExists, Conflict, NotFound, Refused
from muster.store.identities import Identities
from muster.store.objects import By, Part, decode
from muster.store.records import Key, Scope
from muster.store.rules import Deletion
from tests.store.builders import nothing, told
from tests.store.kinds import World, a_config, a_pod

A = Key("pods", "default", "a")


@pytest.fixture
def world():
    return World()


def test_an_object_names_its_revision(world):
    made = world.create("pods", a_pod())
    assert made["metadata"]["resourceVersion"] == "1" == str(world.store.get(A).revision)
    assert world.store.get(A).uid == made["metadata"]["uid"]
    with pytest.raises(AlreadyExists):
        world.create("pods", a_pod())


def test_a_bad_object_never_reaches_the_writer(world):
    with pytest.raises(InvalidObject):
        world.objects.create("pods", a_pod(name="A"))


def test_half_a_character_is_the_writers_mistake(world):
    with pytest.raises(InvalidObject, match="cannot be stored"):
        world.create("pods", a_pod(spec={"x": "\ud800"}))
    assert world.create("pods", a_pod(spec={"x": 2**70}))["spec"]["x"] == 2**70


def test_the_same_chance_gives_the_same_world():
    def run(seed):
        world = World(seed)
        return [world.create("pods", {**a_pod(), "metadata": {"generateName": "x-", "namespace": "default"}})]

    assert run(1) == run(1) != run(2)


def test_a_generated_name_that_is_taken_is_thrown_again(world, monkeypatch):
    suffixes = iter(["taken", "taken", "other", *["taken"] * 20])
    monkeypatch.setattr(Identities, "suffix", lambda self: next(suffixes))
    given = {**a_pod(), "metadata": {"generateName": "x-", "namespace": "default"}}
    names = [world.create("pods", given)["metadata"]["name"] for _ in range(2)]
    assert names == ["x-taken", "x-other"]
    with pytest.raises(AlreadyExists):
        world.create("pods", given)


def test_updates_have_one_winner(world):
    made = world.create("pods", a_pod())
    world.store.write(world.objects.update(A, {**made, "spec": {**made["spec"], "priority": 1}}))
    with pytest.raises(Conflict, match="apply your changes to the latest version"):
        world.store.write(world.objects.update(A, {**made, "spec": {**made["spec"], "priority": 2}}))
    made["metadata"].pop("resourceVersion")
    world.store.write(world.objects.update(A, {**made, "spec": {**made["spec"], "priority": 3}}))
    assert world.get(A)["spec"]["priority"] == 3


def test_a_write_that_changes_nothing_is_none(world):
    made = world.create("pods", a_pod())
    written = world.store.write(world.objects.update(A, made))
    assert (written.record.revision, world.store.revision) == (1, 1)


def test_modify_changes_what_is_there(world):
    world.create("pods", a_pod())

    def bind(pod):
        pod["metadata"]["labels"] = {"x": "y"}
        return pod

    def start(pod):
        pod["status"]["phase"] = "Running"
        pod["spec"]["priority"] = 9
        return pod

    world.store.write(world.objects.modify(A, bind))
    world.store.write(world.objects.modify(A, start, part=Part.STATUS))
    found = world.get(A)
    assert (found["metadata"]["labels"], found["status"]["phase"], found["spec"]["priority"]) == (
        {"x": "y"},
        "Running",
        0,
    )
    with pytest.raises(NotFound):
        world.store.write(world.objects.modify(Key("pods", "default", "b"), bind))


def test_several_writes_in_one(world):
    world.create("pods", a_pod())

    def change(write):
        world.objects.create("configmaps", a_config("c"))(write)
        world.objects.delete(A)(write)
        world.objects.create("pods", a_pod(name="b"))(write)
        world.objects.create("pods", a_pod(name="b"))(write)

    with pytest.raises(AlreadyExists):
        world.store.write(change)
    assert world.store.revision == 1


def test_deleting_in_one_step(world):
    made = world.create("pods", a_pod())
    watch = world.store.watch(Scope("pods"), 1, nothing)
    with pytest.raises(Conflict):
        world.store.write(world.objects.delete(A, Deletion(uid="other")))
    written = world.store.write(world.objects.delete(A, Deletion(uid=made["metadata"]["uid"], revision="1")))
    assert written.is_gone
    (event,) = watch.take().events
    assert told([event]) == [("DELETED", "default/a", 2)]
    last = decode(event.record)
    assert last["metadata"].pop("resourceVersion") == "2" and "deletionTimestamp" not in last["metadata"]
    with pytest.raises(NotFound):
        world.store.write(world.objects.delete(A))


def test_deleting_in_several_steps(world):
    world.create("pods", a_pod(spec={"nodeName": "n"}, finalizers=["x/y"]))
    assert not world.store.write(world.objects.delete(A)).is_gone
    assert not world.store.write(world.objects.delete(A)).is_gone
    assert world.store.revision == 2, "asking twice is asking once"
    assert not world.store.write(world.objects.delete(A, Deletion(grace_s=0))).is_gone

    def let_go(pod):
        del pod["metadata"]["finalizers"]
        return pod

    assert world.store.write(world.objects.modify(A, let_go)).is_gone
    with pytest.raises(NotFound):
        world.get(A)


def test_a_grace_that_runs_is_not_ended_by_an_update(world):
    world.create("pods", a_pod(spec={"nodeName": "n"}, finalizers=["x/y"]))
    world.store.write(world.objects.delete(A))

    def let_go(pod):
        del pod["metadata"]["finalizers"]
        return pod

    assert not world.store.write(world.objects.modify(A, let_go)).is_gone
    assert world.store.write(world.objects.delete(A, Deletion(grace_s=0))).is_gone


def test_namespaces_have_to_be_there():
    world = World(has_namespaces=True)
    with pytest.raises(NotFound, match="namespaces default does not exist"):
        world.create("pods", a_pod())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "finalizers": ["x/y"]}}
    namespace["metadata"]["annotations"] = {"note": 'has "deletionTimestamp" in it'}
    world.create("namespaces", namespace)
    world.create("pods", a_pod())
    world.store.write(world.objects.delete(Key("namespaces", "", "default")))
    with pytest.raises(Refused, match="the namespace default is being deleted"):
        world.create("pods", a_pod(name="b"))


def test_a_dry_run_leaves_no_trace(world):
    dry = By("me", is_dry_run=True)
    written = world.store.write(world.objects.create("pods", a_pod(), dry))
    assert decode(written.record)["metadata"]["name"] == "a"
    assert (world.store.revision, world.audits) == (0, [])
    world.create("pods", a_pod())
    assert world.store.write(world.objects.delete(A, by=dry)).is_gone
    assert world.get(A)


def test_who_wrote_what_is_told_once_it_is_so(world):
    me = By("me")
    world.store.write(world.objects.create("pods", a_pod(spec={"nodeName": "n"}), me))
    world.store.write(world.objects.modify(A, lambda pod: {**pod, "status": {}}, part=Part.STATUS, by=me))
    with pytest.raises(Conflict):
        world.store.write(world.objects.update(A, a_pod(uid="other"), by=me))
    world.store.write(world.objects.delete(A, by=me))
    world.store.write(world.objects.delete(A, Deletion(grace_s=0), by=me))
    assert world.audits == [
        "me create pods default/a 1",
        "me update status pods default/a 2",
        "me delete pods default/a 3",
        "me delete pods default/a 4",
    ]


def test_identities():
    seeded = Identities(Random(1)), Identities(Random(1))
    assert seeded[0].uid() == seeded[1].uid() and len(seeded[0].suffix()) == 5
    assert Identities().uid() != Identities().uid()
