"""Slots on record: what is written is read again, however many there are, and nothing that is written does harm."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from dataclasses import replace
from random import Random

import pytest

from muster.dialects.kueue.slots_text import CONDITION, CONDITIONS, MESSAGE_MOST, slots_messages, with_slots
from muster.model.device import Partition, Placement, Share, standing_shares
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.podspec import PodShape
from muster.model.slices import Slices
from muster.model.workload import Admission, PodSet, PodSetAdmission, Slot, Workload
from tests.stopwatch import is_done_within


def given(name: str, *slots: Slot, count: int = 0) -> PodSetAdmission:
    return PodSetAdmission(name=name, count=count or len(slots), flavors={}, usage={}, slots=slots)


def admitted(*pod_sets: PodSetAdmission) -> Workload:
    sets = tuple(
        PodSet(name=one.name, count=one.count, count_least=one.count, requests={}, shape=PodShape()) for one in pod_sets
    )
    bare = tuple(PodSetAdmission(name=one.name, count=one.count, flavors={}, usage={}) for one in pod_sets)
    admission = Admission(queue="q", pod_sets=bare)
    return Workload(key="a/b", uid="1", namespace="a", pod_sets=sets, admission=admission, is_admitted=True)


def recorded(*messages: str) -> Fields:
    conditions = [
        {"type": name, "status": "True", "message": text} for name, text in zip(CONDITIONS, messages, strict=False)
    ]
    return Fields({"status": {"conditions": conditions}})


def sliced(node: str, *uuids: str, partitions: tuple[Partition, ...] = (), mark: str = "") -> Slot:
    usual = Share(uuid="", vendor="NVIDIA", index=3, memory_mib=1024, cores=10, partitions=partitions, mark=mark)
    shares = tuple(replace(usual, uuid=one) for one in uuids)
    containers = (shares[:1], (), shares[1:])
    return Slot(node, (), Slices(standing_shares(containers, 0), (("NVIDIA", containers),)))


@pytest.mark.parametrize(
    ("pod_sets", "text"),
    [
        pytest.param([given("main", Slot("n"))], '{"main":[["n"]]}', id="a node"),
        pytest.param([given("main", Slot("n", (0, 5)))], '{"main":[["n",[0,5]]]}', id="cards"),
        pytest.param(
            [given("main", Slot("n", (0, 5), None, ("GPU-a", "GPU-b")))],
            '{"main":[["n",[[0,"GPU-a"],[5,"GPU-b"]]]]}',
            id="cards with names",
        ),
        pytest.param([given("main", *[Slot("n")] * 3, Slot("m"))], '{"main":[["n",[],3],["m"]]}', id="equal ones once"),
        pytest.param(
            [given("a", Slot("n")), given("b", count=2), given("c", Slot("m"))],
            '{"a":[["n"]],"c":[["m"]]}',
            id="a pod set without slots",
        ),
        pytest.param(
            [given("main", sliced("n", "GPU-1", "GPU-2"))],
            '{"main":[["n",{"NVIDIA":[[["GPU-1",3,1024,10,1]],[],[["GPU-2",3,1024,10,1]]]}]]}',
            id="slices",
        ),
        pytest.param(
            [given("main", sliced("n", "GPU-1", partitions=(Partition("1g.5gb", Placement(2, 1)),)))],
            '{"main":[["n",{"NVIDIA":[[["GPU-1",3,1024,10,1,["1g.5gb",2,1]]],[],[]]}]]}',
            id="partitions",
        ),
        pytest.param(
            [given("main", sliced("n", "GPU-1", partitions=(Partition("1g.5gb", Placement(2, 1)),), mark="online/"))],
            '{"main":[["n",{"NVIDIA":[[["GPU-1",3,1024,10,1,["1g.5gb",2,1],"online/"]],[],[]]}]]}',
            id="a mark",
        ),
    ],
)
def test_what_is_written_is_read_again(pod_sets, text):
    assert slots_messages(pod_sets) == (text,)
    read = with_slots(admitted(*pod_sets), recorded(text)).admission
    assert [one.slots for one in read.pod_sets] == [one.slots for one in pod_sets]
    containers = [[slot.slices.given for slot in one.slots if slot.slices] for one in read.pod_sets]
    assert containers == [[slot.slices.given for slot in one.slots if slot.slices] for one in pod_sets]


def test_nothing_is_written_of_a_workload_that_others_place():
    assert slots_messages([given("main", count=3)]) == ()
    assert with_slots(admitted(given("main", count=3)), recorded()).admission.pod_sets[0].slots == ()


@pytest.mark.parametrize("count", [10, 2_000, 8_000])
def test_many_slots_are_packed_into_a_few_messages(count):
    chance = Random(count)
    slots = [sliced(f"node-{chance.randrange(2000)}", f"GPU-{chance.randrange(10**9)}") for _ in range(count)]
    messages = slots_messages([given("main", *slots)])
    assert len(messages) <= len(CONDITIONS) and all(len(one) <= MESSAGE_MOST for one in messages)
    read = with_slots(admitted(given("main", *slots)), recorded(*messages))
    assert read.admission.pod_sets[0].slots == tuple(slots)


def test_what_does_not_fit_is_refused_before_it_is_written():
    chance = Random(1)
    slots = [sliced("n", f"GPU-{chance.getrandbits(400):x}") for _ in range(3_000)]
    with pytest.raises(InvalidObject, match="cannot hold"):
        slots_messages([given("main", *slots)])


def packed(data: bytes) -> str:
    return "z:" + b64encode(zlib.compress(data, 9)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "3",
        '{"main":3}',
        '{"main":[3]}',
        '{"main":[[]]}',
        '{"main":[["n",[],1,1]]}',
        '{"main":[[""]]}',
        '{"main":[[7]]}',
        '{"main":[["n",[],0.5]]}',
        '{"main":[["n",[],true]]}',
        '{"main":[["n",[],1e999]]}',
        '{"main":[["n",[],99999999999999999999]]}',
        '{"main":[["n",[],3]]}',  # it got two
        '{"main":[["n",[-1]]]}',
        '{"main":[["n",[4096]]]}',
        '{"main":[["n",[1,1]]]}',
        '{"main":[["n","0"]]}',
        '{"main":[["n",[[0]]]]}',
        '{"main":[["n",[[0,""]]]]}',
        '{"main":[["n",[[0,7]]]]}',
        '{"main":[["n",[[-1,"u"]]]]}',
        '{"main":[["n",[["u",0]]]]}',
        '{"main":[["n",[[0,"u"],1]]]}',
        '{"main":[["n",[[0,"u"],[1,"u"]]]]}',
        '{"main":[["n",[[0,"u"],[0,"v"]]]]}',
        '{"main":[["n",[[0,"%s"]]]]}' % ("u" * 254),
        json.dumps({"main": [["n", [[0, f"u{number}"]]] for number in range(1025)]}),
        '{"main":[["n",{"NVIDIA":3}]]}',
        '{"main":[["n",{"NVIDIA":[3]}]]}',
        '{"main":[["n",{"NVIDIA":[[3]]}]]}',
        '{"main":[["n",{"NVIDIA":[[["u",0,0,0]]]}]]}',
        '{"main":[["n",{"NVIDIA":[[[1,0,0,0,0]]]}]]}',
        '{"main":[["n",{"NVIDIA":[[["u",0,-5,0,0]]]}]]}',
        '{"main":[["n",{"NVIDIA":[[["u",0,0,0,0,3]]]}]]}',
        '{"main":[["n",{"NVIDIA":[[["u",0,0,0,0,["p",-1,1]]]]}]]}',
        '{"other":[["n"]]}',
        "[" * 30_000,
        '{"main":' * 4_000,
        "z:",
        "z:!!",
        "z:" + b64encode(b"abc").decode(),
        packed(b"\xff\xfe"),
        packed(b"1" * 6_000_000),
        packed(b"{}")[:-4],
    ],
    ids=range(46),
)
def test_a_record_of_anything_else_is_refused_at_bounded_cost(text):
    problems = []

    def read() -> None:
        try:
            with_slots(admitted(given("main", Slot("n"), Slot("n"))), recorded(text))
        except InvalidObject as problem:
            problems.append(problem)

    assert is_done_within(1.0, read)
    assert [one.path for one in problems] == [f"status.conditions[{CONDITION}]"]


def test_a_broken_message_never_breaks_the_reader():
    good = json.dumps({"main": [["n", {"NVIDIA": [[["GPU-1", 3, 1024, 10, 1]]]}], ["m", [1], 1]]})
    chance = Random(7)
    for _ in range(500):
        text = list(good)
        for _ in range(chance.randrange(1, 4)):
            text[chance.randrange(len(text))] = chance.choice('0123456789[]{}",:ax-')
        try:
            with_slots(admitted(given("main", Slot("n"), Slot("n"))), recorded("".join(text)))
        except InvalidObject:
            continue
