"""Victims among running pods: who goes first, what a gang can lose, who is spared, and that a search leaves no trace.

Nodes have four cards. A running pod is named by the node and the cards it holds.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from muster.engine.devices_order import CardOrder
from muster.engine.devices_pod import PodCards
from muster.engine.gang_domains import DomainWish
from muster.engine.gangs import Gang, GangRefused, Member, Unstarted
from muster.engine.node_table_rows import Demand, Placed, TableNode, demand, slice_demand
from muster.engine.pod_victims import VictimRules, Victims, find_victims
from muster.engine.running_pods import RunningPods
from muster.engine.slices_ask import CardAsk
from muster.model.device import Device, DeviceRequest
from muster.vendors.nvidia import VENDOR
from tests.engine.fit_builders import HOSTNAME, affinity, app, asks, near, node, ports, rules
from tests.engine.fit_builders import world as fit_world
from tests.engine.gang_world import World, facts, gang, pod, racks_of, task

LOWER = VictimRules(priority_below=10)


def search(world: World, wanted: Gang, rules: VictimRules = LOWER, **known: object) -> Victims:
    """The victims, with everything checked that always holds."""
    before = facts(world.table)
    found = find_victims(world.placer, wanted, world.pods, rules, **known)
    assert facts(world.table) == before, "a search leaves no trace"
    assert isinstance(found, Victims), found
    check_places(world, wanted, found)
    return found


def check_places(world: World, wanted: Gang, found: Victims) -> None:
    """The gang really fits where it is said to go once the victims have left, and no card is given twice."""
    mark = world.placer.checkpoint()
    for member in found.members:
        world.placer.release(member.place.row, member.demand, member.place.held)
    demands = {one.name: one.demand for one in wanted.tasks}
    for name, places in found.placed.places.items():
        for place in places:
            world.placer.charge(place.row, demands[name], place.held)
    assert world.table.free.min() >= 0
    assert world.table.cards.min() >= 0
    world.placer.rollback(mark)


def slices_of(memory_mib: int, *, card_memory_mib: int = 1000) -> Demand:
    """A pod that asks for so much memory of one card."""
    asked = {"NVIDIA": DeviceRequest(vendor="NVIDIA", count=1, memory_mib=memory_mib)}
    cards = PodCards(requests=(asked,), vendors={"NVIDIA": VENDOR}, orders={"NVIDIA": CardOrder("binpack")})
    return slice_demand({"pods": 1}, CardAsk(cards), card_memory_mib=card_memory_mib)


def named(found: Victims) -> list[str]:
    return sorted(member.pod for member in found.members)


def fill(world: World, node: str, cards: Iterable[int], **facts_of_member: object) -> None:
    for card in cards:
        world.run(node, card, pod_name=f"{node}{card}", **facts_of_member)


# Who goes first ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param({"priority": 2}, {"priority": 1}, "b", id="the lowest priority"),
        pytest.param({"started_at": 1.0}, {"started_at": 5.0}, "b", id="the youngest"),
        pytest.param({}, {}, "a", id="the first node among equals"),
        pytest.param({"priority": 2, "started_at": 9.0}, {"priority": 1}, "b", id="priority before age"),
        pytest.param({"is_preemptible": False}, {"priority": 9}, "b", id="not one that may not be preempted"),
        pytest.param({"priority": 10}, {"priority": 9}, "b", id="not one of the same priority"),
        pytest.param({"gang": "pair"}, {"priority": 0}, "b", id="a pod by itself before a gang"),
        pytest.param({"gang": "elastic"}, {"started_at": 5.0}, "a", id="a pod that can be spared before others"),
        pytest.param({"gang": "elastic", "priority": 3}, {"gang": "pair"}, "bc", id="priority before sparing"),
    ],
)
def test_order(first, second, want):
    world = World({"a": 1, "b": 1, "c": 1})
    world.pods.learn(gang(task(2, 2), key="pair"))
    world.pods.learn(gang(task(2, 1), key="elastic"))
    world.run("a", 0, pod_name="a", **first)
    world.run("b", 0, pod_name="b", **second)
    rest = second.get("gang") or first.get("gang", "")
    world.run("c", 0, pod_name="c", gang=rest, priority=0 if second.get("gang") else 9)
    assert named(search(world, gang(task(1, 1)))) == list(want)


def test_one_big_pod_goes_before_many_small_ones():
    world = World({"a": 4, "b": 4})
    fill(world, "a", range(4))
    world.run("b", 0, 1, 2, 3, pod_name="big")
    assert named(search(world, gang(task(1, 1, of=pod(4))))) == ["big"]


def test_pods_of_one_node_go_for_a_big_pod():
    world = World({"a": 4, "b": 4})
    fill(world, "a", range(4), priority=1)
    fill(world, "b", range(4))
    assert named(search(world, gang(task(1, 1, of=pod(4))))) == ["b0", "b1", "b2", "b3"]


def test_who_holds_nothing_that_is_short_stays():
    world = World({"a": 4})
    world.run("a", of=pod(0), pod_name="no-card", priority=0)
    fill(world, "a", range(4), priority=5)
    assert named(search(world, gang(task(1, 1)))) == ["a0"]


def test_what_is_free_is_used_first():
    world = World({"a": 4, "b": 4})
    fill(world, "a", range(4))
    fill(world, "b", range(2))
    assert named(search(world, gang(task(3, 3)))) == ["a0"]


def test_a_gang_that_fits_needs_nobody_to_go():
    world = World({"a": 4})
    fill(world, "a", range(2))
    assert named(search(world, gang(task(2, 2)))) == []


def test_parts_of_cards():
    world = World({"a": 1, "b": 1})
    for name, milli in (("half", 500), ("more", 300)):
        world.run("a", 0, of=pod(1, milli), pod_name=name, priority=1)
    world.run("b", 0, pod_name="whole", priority=2)
    assert named(search(world, gang(task(1, 1, of=pod(1, 700))))) == ["half"]
    assert named(search(world, gang(task(1, 1)))) == ["half", "more"]


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(pod(1, cpu=0), ["half", "more"], id="a whole card"),
        pytest.param(pod(1, 500, cpu=0), ["half"], id="a part of a card"),
        pytest.param(slices_of(700), ["half"], id="a slice"),
        pytest.param(slices_of(100), [], id="a slice that fits"),
        pytest.param(slices_of(900), ["half", "more"], id="a large slice"),
        pytest.param(
            slices_of(900, card_memory_mib=0), ["half", "more"], id="a slice of cards whose size is not known"
        ),
    ],
)
@pytest.mark.parametrize("card_memory_mib", [1000, 0], ids=["known", "unknown"])
def test_slices_of_cards(wanted, want, card_memory_mib):
    cards = (Device(uuid="gpu-0", vendor="NVIDIA", memory_mib=1000, slots=10),)
    amounts = {"cpu": 64, "pods": 20}
    world = World({})
    world.table.put(TableNode(name="a", amounts=amounts, devices=cards))
    for name, memory_mib in (("half", 500), ("more", 300)):
        of = slices_of(memory_mib, card_memory_mib=card_memory_mib)
        place = world.placer.place(of)
        assert place is not None
        world.pods.put(Member(pod=name, demand=of, place=place, priority=1))
    world.placer.commit()
    assert named(search(world, gang(task(1, 1, of=wanted)))) == want


# Pods that keep each other away --------------------------------------------------------------------------------------

AWAY = affinity("podAntiAffinity", near(HOSTNAME, app("noisy")))
APART = affinity("podAntiAffinity", near(HOSTNAME, app("new")))


@pytest.mark.parametrize(
    ("noisy", "wanted", "count", "want"),
    [
        pytest.param(rules({"app": "noisy"}), rules({"app": "new"}), 1, [], id="nothing against each other"),
        pytest.param(rules({"app": "noisy"}), rules({"app": "new"}, AWAY), 1, ["noisy"], id="it keeps away"),
        pytest.param(rules({"app": "noisy"}, APART), rules({"app": "new"}), 1, ["noisy"], id="it is kept away"),
        pytest.param(
            rules(spec=ports({"hostPort": 80})), rules(spec=ports({"hostPort": 80})), 1, ["noisy"], id="the same port"
        ),
        pytest.param(
            rules({"app": "noisy"}),
            rules({"app": "new"}, APART),
            2,
            GangRefused,
            id="two that keep away from each other",
        ),
    ],
)
def test_whoever_is_in_the_way_goes_though_there_is_room(noisy, wanted, count, want):
    placer = fit_world(node("x-1"))
    pods = RunningPods()
    for name, one in (("quiet", rules({"app": "quiet"})), ("noisy", noisy), ("still", rules({"app": "still"}))):
        placer.charge(0, asks(one), ())
        pods.put(Member(pod=name, demand=asks(one), place=Placed(0)))
    placer.commit()
    found = find_victims(placer, gang(task(count, count, of=asks(wanted))), pods, LOWER)
    assert (named(found) if isinstance(found, Victims) else type(found)) == want
    assert placer.table.free[placer.table.column_of("pods"), 0] == 97, "a search leaves no trace"


# Gangs that run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "wanted", "want", "whole"),
    [
        pytest.param(2, 1, 1, (), id="it spares one"),
        pytest.param(2, 2, 2, (), id="it spares all it can"),
        pytest.param(2, 3, 4, ("old",), id="or it leaves whole"),
        pytest.param(4, 1, 4, ("old",), id="nothing to spare"),
        pytest.param(5, 1, 4, ("old",), id="already below its minimum"),
        pytest.param(0, 4, 4, ("old",), id="its last pod is its whole"),
    ],
)
def test_minimum(least, wanted, want, whole):
    world = World({"a": 4})
    world.pods.learn(gang(task(8), least=least, key="old"))
    fill(world, "a", range(4), gang="old")
    found = search(world, gang(task(wanted, wanted)))
    assert (len(found.members), found.whole_gangs) == (want, whole)


def test_minimum_of_a_task():
    world = World({"a": 4})
    world.pods.learn(gang(task(2, 2, name="leader"), task(2, 0), least=2, key="old"))
    fill(world, "a", (0, 1), gang="old", task="leader")
    fill(world, "a", (2, 3), gang="old")
    assert named(search(world, gang(task(2, 2)))) == ["a2", "a3"]
    assert len(search(world, gang(task(3, 3))).members) == 4


def test_a_gang_of_which_nothing_is_known_leaves_whole():
    world = World({"a": 4})
    fill(world, "a", range(4), gang="stranger")
    assert search(world, gang(task(1, 1))).whole_gangs == ("stranger",)


def test_a_whole_gang_leaves_only_if_all_of_it_may():
    world = World({"a": 2, "b": 1})
    world.run("a", 0, pod_name="a0", gang="pair")
    world.run("a", 1, pod_name="a1", gang="pair", is_preemptible=False)
    world.run("b", 0, pod_name="b", priority=9)
    assert named(search(world, gang(task(1, 1)))) == ["b"]


def test_room_that_a_leaving_gang_makes_elsewhere_is_used():
    world = World({"a": 1, "b": 1, "c": 1})
    world.run("a", 0, pod_name="a", gang="pair")
    world.run("c", 0, pod_name="c", gang="pair")
    world.run("b", 0, pod_name="b", priority=9)
    assert named(search(world, gang(task(2, 2)))) == ["a", "c"]


def test_small_gangs_go_before_large_ones():
    world = World({"a": 4, "b": 4})
    fill(world, "a", range(3), gang="three")
    world.run("a", 3, pod_name="a3", gang="five")
    fill(world, "b", range(4), gang="five")
    assert search(world, gang(task(1, 1))).whole_gangs == ("three",)


def test_a_spared_pod_of_a_gang_that_leaves_whole_is_not_put_back():
    world = World({"a": 4, "b": 1})
    world.pods.learn(gang(task(8), least=2, key="old"))
    fill(world, "a", range(2), gang="old")
    world.run("b", 0, pod_name="b0", gang="old", started_at=9.0)
    world.run("a", 2, 3, pod_name="other", priority=9)
    assert named(search(world, gang(task(1, 1, of=pod(2))))) == ["a0", "a1", "b0"]


# Who may go ----------------------------------------------------------------------------------------------------------


def test_those_who_have_not_run_long_enough_stay():
    world = World({"a": 2})
    fill(world, "a", (0,), started_at=95.0)
    fill(world, "a", (1,), started_at=80.0)
    assert named(search(world, gang(task(1, 1)), VictimRules(now=100.0, run_time_least_s=10.0))) == ["a1"]


def test_only_pods_of_a_queue():
    world = World({"a": 2})
    fill(world, "a", (0,), queue="within", priority=99)
    fill(world, "a", (1,), queue="borrows", priority=99)
    rules = VictimRules(is_candidate=lambda member: member.queue == "borrows")
    assert named(search(world, gang(task(1, 1)), rules)) == ["a1"]


def test_a_queue_loses_no_more_than_it_borrows():
    world = World({"a": 4, "b": 4})
    fill(world, "a", range(4), queue="borrows-two")
    fill(world, "b", range(4), queue="borrows-three", priority=5)
    borrowed = {"borrows-two": 2, "borrows-three": 3}

    def may_follow(leaving, before):
        gone = [member.queue for member in (*before, *leaving)]
        return all(gone.count(queue) <= most for queue, most in borrowed.items())

    rules = VictimRules(may_follow=may_follow)
    found = search(world, gang(task(5, 5)), rules)
    assert sorted(member.queue for member in found.members) == ["borrows-three"] * 3 + ["borrows-two"] * 2
    refused = find_victims(world.placer, gang(task(6, 6)), world.pods, rules)
    assert isinstance(refused, GangRefused)
    assert refused.why is Unstarted.NO_VICTIMS


def test_a_queue_that_may_lose_nothing_does_not_end_the_search():
    world = World({"a": 2, "b": 2})
    fill(world, "a", range(2), queue="within")
    fill(world, "b", range(2), queue="borrows", priority=5)
    rules_of_queues = VictimRules(may_follow=lambda leaving, _: all(one.queue == "borrows" for one in leaving))
    assert named(search(world, gang(task(2, 2)), rules_of_queues)) == ["b0", "b1"]


@pytest.mark.parametrize(
    ("wanted", "why", "text"),
    [
        pytest.param(
            gang(task(3, 3)),
            Unstarted.NO_VICTIMS,
            "3 pods of worker must start together, 2 would fit with all gone who may go",
            id="too few may go",
        ),
        pytest.param(
            gang(task(1, 1, name="a"), task(2, 2, name="b")),
            Unstarted.NO_VICTIMS,
            "3 pods must start together, 3 would fit with all gone who may go",
            id="too few for both tasks",
        ),
        pytest.param(gang(task(1, 2)), Unstarted.TOO_FEW_PODS, None, id="a gang that could never start"),
        pytest.param(gang(task(1, 1, of=demand({"cpu": 2**80}))), Unstarted.NEVER_FITS, None, id="an absurd pod"),
        pytest.param(
            gang(task(3), task(1, of=demand({"cpu": 2**80}), name="absurd"), least=3),
            Unstarted.NO_VICTIMS,
            None,
            id="an absurd pod above the minimum",
        ),
    ],
)
def test_refusal(wanted, why, text):
    world = World({"a": 4})
    fill(world, "a", range(2))
    fill(world, "a", (2, 3), priority=99)
    before = facts(world.table)
    refused = find_victims(world.placer, wanted, world.pods, LOWER)
    assert isinstance(refused, GangRefused)
    assert refused.why is why
    assert text is None or refused.text == text
    assert facts(world.table) == before


# Several tasks, domains and gangs that run already -------------------------------------------------------------------


def test_several_tasks():
    world = World({"a": 4, "b": 4})
    fill(world, "a", range(4))
    fill(world, "b", range(4), priority=1)
    wanted = gang(task(2, 1), task(1, 1, of=pod(4), name="big"), least=3)
    found = search(world, wanted)
    assert {name: len(places) for name, places in found.placed.places.items()} == {"worker": 2, "big": 1}
    assert len(found.members) == 6


def test_a_required_domain_is_kept_and_the_cheapest_one_taken():
    world = World({"a": 4, "b": 4, "c": 4})
    fill(world, "a", range(4), priority=5)
    fill(world, "b", range(4), priority=1)
    fill(world, "c", range(4), priority=0)
    domains = racks_of(world.table, {"left": ["a"], "right": ["b"], "small": []})
    wanted = gang(task(3, 3), wish=DomainWish(required="rack"))
    found = search(world, wanted, domains=domains)
    assert named(found) == ["b0", "b1", "b2"]
    assert found.placed.domain == ("here", "right")


def test_a_preference_is_not_worth_a_victim():
    world = World({"a": 2, "b": 2})
    fill(world, "a", range(2))
    fill(world, "b", (0,))
    domains = racks_of(world.table, {"left": ["a"], "right": ["b"]})
    found = search(world, gang(task(2, 2), wish=DomainWish(preferred="rack")), domains=domains)
    assert len(found.members) == 1


def test_a_gang_below_its_minimum_gets_what_it_lacks_where_it_stands():
    world = World({"a": 4, "b": 4})
    fill(world, "a", range(3))
    fill(world, "b", range(4))
    world.run("a", 3, pod_name="own", gang="new")
    wanted = gang(task(4, 2), wish=DomainWish(required="rack"))
    world.pods.learn(wanted)
    domains = racks_of(world.table, {"left": ["a"], "right": ["b"]})
    assert named(search(world, wanted, domains=domains)) == ["a0"]


def test_growth_is_not_worth_a_victim():
    world = World({"a": 2})
    world.run("a", 0, pod_name="own", gang="new")
    fill(world, "a", (1,))
    assert named(search(world, gang(task(4, 1)))) == []


def test_the_answer_does_not_depend_on_the_order_in_which_pods_came():
    answers = []
    for cards in ((0, 1, 2, 3), (3, 1, 0, 2)):
        world = World({"a": 4, "b": 4})
        for name in ("a", "b"):
            fill(world, name, cards)
        answers.append(named(search(world, gang(task(3, 3)))))
    assert answers[0] == answers[1] == ["a0", "a1", "a2"]
