"""Running pods as columns: slots are used again, and what a gang can spare follows from its minimum."""

from __future__ import annotations

from muster.engine.gangs import Member
from muster.engine.node_table_rows import Placed
from muster.engine.running_pods import RunningPods
from tests.engine.gang_world import gang, pod, task


def member(name: str, gang_key: str = "", *, task_name: str = "worker", cards: tuple[int, ...] = (0,)) -> Member:
    return Member(pod=name, gang=gang_key, task=task_name, demand=pod(len(cards)), place=Placed(0, cards))


def spare_of(pods: RunningPods, key: str) -> int:
    return int(pods.spare()[0][pods.gangs.number_by_key[key]])


def test_slots_are_used_again():
    pods = RunningPods([member("a", "x"), member("b", "x", cards=(1, 2))])
    pods.drop("a")
    pods.drop("nobody")
    pods.put(member("c", cards=(3,)))
    assert (len(pods), pods.slots) == (2, 2)
    assert [one.pod for one in pods.of_gang("x")] == ["b"]
    assert [one.pod for one in pods.of_gang("c")] == ["c"]
    assert pods.card_milli[:2].tolist() == [[0, 0, 0, 1000], [0, 1000, 1000, 0]]
    assert pods.ranks().tolist() == [1, 0]
    pods.drop("b")
    assert pods.of_gang("x") == []
    assert pods.is_running[:2].tolist() == [True, False]


def test_what_a_gang_can_spare():
    pods = RunningPods([member(str(number), "x") for number in range(4)], [gang(task(9), least=3, key="x")])
    assert spare_of(pods, "x") == 1
    pods.drop("0")
    pods.drop("1")
    assert spare_of(pods, "x") == 0, "below its minimum it can spare nobody"
    pods.learn(gang(task(9), least=1, key="x"))
    assert spare_of(pods, "x") == 1
    pods.forget("x")
    assert spare_of(pods, "x") == 0, "what is not known is not spared"
    assert spare_of(RunningPods([member("alone")]), "alone") == 0


def test_many_pods_come_one_by_one():
    pods = RunningPods(member(f"{number:03}") for number in range(100))
    assert pods.ranks().tolist() == list(range(100))
    assert pods.amounts("cpu").tolist() == [1]
