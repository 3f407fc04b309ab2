"""Gangs: the minimum starts at once or not at all, growth takes what is left, and a refusal says the numbers."""

from __future__ import annotations

import pytest

from muster.engine.gang_domains import DomainWish
from muster.engine.gangs import GangPlaced, GangRefused, Member, Unstarted, backfill, place_gang, place_up_to
from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import WHOLE, Placed, TableNode, demand
from tests.engine.gang_world import World, facts, gang, placer_of, pod, racks_of, table_of, task

BIG, SMALL = pod(4), pod(1)


def counts(answer: GangPlaced | GangRefused) -> dict[str, int]:
    assert isinstance(answer, GangPlaced), answer
    return {name: len(placed) for name, placed in answer.places.items()}


# First start ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(gang(task(4, 4)), {"worker": 4}, id="all of it"),
        pytest.param(gang(task(9, 2)), {"worker": 8}, id="the minimum, and growth as far as there is room"),
        pytest.param(gang(task(9), least=3), {"worker": 8}, id="a minimum of all tasks together"),
        pytest.param(
            gang(task(1, 1, of=BIG, name="leader"), task(9, 4)), {"leader": 1, "worker": 4}, id="minima of tasks"
        ),
        pytest.param(
            gang(task(4, 4, of=SMALL, name="small"), task(1, 1, of=BIG, name="big")),
            {"small": 4, "big": 1},
            id="the biggest first, whatever the order",
        ),
        pytest.param(
            gang(task(9, 1, name="a"), task(9, 1, name="b"), least=5),
            {"a": 7, "b": 1},
            id="what the minimum lacks comes from the first tasks",
        ),
        pytest.param(
            gang(task(2, 0, of=pod(9), name="never"), task(3, name="b"), least=3),
            {"b": 3},
            id="what the minimum lacks comes from tasks that have room",
        ),
        pytest.param(
            gang(task(8, name="big", of=pod(1)), task(16, name="small", of=pod(1, 500)), least=14),
            {"big": 1, "small": 14},
            id="or from small pods, of which more fit",
        ),
        pytest.param(gang(task(1), least=0), {"worker": 1}, id="at least one"),
    ],
)
def test_start(wanted, want):
    table = table_of({"a": 4, "b": 4})
    placed = place_gang(placer_of(table), wanted)
    assert counts(placed) == want
    milli = {one.name: one.demand.card_milli for one in wanted.tasks}
    assert int(table.cards.sum()) == 8 * WHOLE - sum(count * milli[name] for name, count in want.items())


def test_given_order_is_tried_when_the_biggest_first_does_not_fit():
    # The pod with the card goes to the first node, and the other one needs all of the cpu there.
    table = NodeTable(
        TableNode(name=name, amounts={"cpu": cpu, "pods": 9}, cards=1) for name, cpu in (("a", 64), ("b", 32))
    )
    wanted = gang(task(1, 1, of=pod(0, cpu=64), name="cpu"), task(1, 1, of=pod(1, cpu=1), name="card"))
    placed = place_gang(placer_of(table), wanted)
    assert counts(placed) == {"cpu": 1, "card": 1}
    assert placed.places["card"] == (Placed(1, (0,)),)


@pytest.mark.parametrize(
    ("wanted", "why", "numbers", "text"),
    [
        pytest.param(
            gang(task(3, 4)),
            Unstarted.TOO_FEW_PODS,
            (4, 3),
            "4 pods of worker must start together and there are only 3",
            id="more than the task has",
        ),
        pytest.param(
            gang(task(3, 1), least=5),
            Unstarted.TOO_FEW_PODS,
            (5, 3),
            "5 pods must start together and there are only 3",
            id="more than the gang has",
        ),
        pytest.param(
            gang(task(10**9, 10**9)),
            Unstarted.NEVER_FITS,
            (10**9, 8),
            "1000000000 pods of worker must start together, 8 is the most that could ever fit",
            id="more than any cluster has",
        ),
        pytest.param(
            gang(task(9, 0, name="a"), task(9, 0, of=pod(9), name="b"), least=9),
            Unstarted.NEVER_FITS,
            (9, 8),
            "9 pods must start together, 8 is the most that could ever fit",
            id="more of all tasks than the cluster has",
        ),
        pytest.param(
            gang(task(2, 2, of=demand({"cpu": 2**100}))),
            Unstarted.NEVER_FITS,
            (2, 0),
            "2 pods of worker must start together, 0 is the most that could ever fit",
            id="an absurd pod",
        ),
        pytest.param(
            gang(task(7, 7)),
            Unstarted.NO_ROOM,
            (7, 6),
            "7 pods of worker must start together, 6 would fit now",
            id="not now",
        ),
        pytest.param(
            gang(task(1, 1, of=BIG, name="big"), task(3, 3)),
            Unstarted.NO_ROOM,
            (4, 4),
            "4 pods must start together, and would fit only without each other",
            id="each task by itself but not together",
        ),
        pytest.param(
            gang(task(1, 1), wish=DomainWish(required="rack")),
            Unstarted.LEVEL_MISSING,
            (0, 0),
            "the pods must be together in one rack, and no such level of nodes is known",
            id="a level that is not known",
        ),
    ],
)
def test_refusal(wanted, why, numbers, text):
    world = World({"a": 4, "b": 4})
    world.run("a", 0)
    world.run("a", 1)
    before = facts(world.table)
    refused = place_gang(world.placer, wanted)
    assert isinstance(refused, GangRefused)
    assert (refused.why, (refused.asked, refused.fitting), refused.text) == (why, numbers, text)
    assert facts(world.table) == before


# Growth --------------------------------------------------------------------------------------------------------------


def running(world: World, *places: tuple[str, int], task_name: str = "worker") -> list[Member]:
    return [world.run(node, card, gang="new", task=task_name) for node, card in places]


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(gang(task(4, 4)), {"worker": 2}, id="what is missing of the minimum"),
        pytest.param(gang(task(2, 1)), {}, id="nothing is missing"),
        pytest.param(gang(task(1, 1)), {}, id="more run than are wanted"),
        pytest.param(gang(task(99, 50)), {"worker": 6}, id="as far as there is room, even below the minimum"),
        pytest.param(gang(task(2), task(1, 1, of=pod(5), name="more")), {}, id="no room is no failure"),
    ],
)
def test_growth(wanted, want):
    world = World({"a": 4, "b": 4})
    assert counts(place_gang(world.placer, wanted, running=running(world, ("a", 0), ("a", 1)))) == want


def test_place_up_to_takes_no_more_than_asked():
    placer = placer_of(table_of({"a": 4}))
    assert len(place_up_to(placer, pod(), 3)) == 3
    assert len(place_up_to(placer, pod(), 3)) == 1
    assert place_up_to(placer, pod(), 3) == []
    assert place_up_to(placer, pod(), -1) == []


def test_place_up_to_when_room_is_counted_too_high():
    # Two parts of 400 on different cards: the cards left have room for two pods by count and for one in truth.
    table = table_of({"a": 3})
    for card in (1, 2):
        table.charge(0, pod(1, 600), (card,))
    assert len(place_up_to(placer_of(table), pod(2, 400), 5)) == 1


# Domains -------------------------------------------------------------------------------------------------------------


def names(world: World, answer: GangPlaced | GangRefused) -> list[str]:
    assert isinstance(answer, GangPlaced), answer
    return sorted(world.table.names[place.row] for placed in answer.places.values() for place in placed)


RACKS = {"left": ["a", "b"], "right": ["c"]}


@pytest.mark.parametrize(
    ("wish", "wanted", "want"),
    [
        pytest.param(DomainWish(required="rack"), 3, "ccc", id="the tightest rack that holds it"),
        pytest.param(DomainWish(required="rack"), 6, "aaaabb", id="the rack that holds it"),
        pytest.param(DomainWish(preferred="rack"), 6, "aaaabb", id="a preferred rack"),
        pytest.param(DomainWish(preferred="rack"), 10, "aaaabbbccc", id="the next wider level"),
        pytest.param(DomainWish(preferred="nothing"), 2, "cc", id="an unknown preference is no wish"),
        pytest.param(DomainWish(required="zone", preferred="rack"), 3, "ccc", id="narrow inside of required"),
        pytest.param(DomainWish(required="zone", preferred="rack"), 10, "aaaabbbccc", id="as wide as required"),
        pytest.param(DomainWish(required="rack", preferred="zone"), 3, "ccc", id="no wider than required"),
    ],
)
def test_domains(wish, wanted, want):
    world = World({"a": 4, "b": 4, "c": 3})
    placed = place_gang(world.placer, gang(task(wanted, wanted), wish=wish), domains=racks_of(world.table, RACKS))
    assert names(world, placed) == sorted(want)


def test_a_preference_gives_way_to_anywhere():
    world = World({"a": 4, "b": 4, "away": 4})
    wanted = gang(task(10, 10), wish=DomainWish(preferred="rack"))
    placed = place_gang(world.placer, wanted, domains=racks_of(world.table, {"left": ["a", "b"]}))
    assert counts(placed) == {"worker": 10}


@pytest.mark.parametrize(
    ("count", "why", "fitting"), [(9, Unstarted.NEVER_FITS, 8), (8, Unstarted.NO_ROOM, 7)], ids=["never", "not now"]
)
def test_no_domain_is_large_enough(count, why, fitting):
    world = World({"a": 4, "b": 4, "c": 3})
    world.run("a", 0)
    before = facts(world.table)
    wanted = gang(task(count, count), wish=DomainWish(required="rack"))
    refused = place_gang(world.placer, wanted, domains=racks_of(world.table, RACKS))
    assert isinstance(refused, GangRefused)
    assert (refused.why, refused.fitting, refused.level) == (why, fitting, "rack")
    assert facts(world.table) == before


def test_growth_stays_in_the_required_domain():
    world = World({"a": 4, "b": 4, "c": 3})
    wanted = gang(task(9, 2), wish=DomainWish(required="rack"))
    placed = place_gang(world.placer, wanted, domains=racks_of(world.table, RACKS))
    assert names(world, placed) == ["c", "c", "c"]
    assert placed.domain == ("here", "right")


def test_growth_leaves_a_preferred_domain_when_it_is_full():
    world = World({"a": 4, "b": 4, "c": 3})
    wanted = gang(task(5, 2), wish=DomainWish(preferred="rack"))
    placed = place_gang(world.placer, wanted, domains=racks_of(world.table, RACKS))
    assert names(world, placed) == ["a", "a", "c", "c", "c"]


def test_a_running_gang_grows_where_most_of_it_is():
    world = World({"a": 4, "b": 4, "c": 3})
    wanted = gang(task(9, 2), wish=DomainWish(required="rack"))
    members = running(world, ("a", 0), ("c", 0), ("c", 1))
    grown = place_gang(world.placer, wanted, domains=racks_of(world.table, RACKS), running=members)
    assert names(world, grown) == ["c"]


def test_a_running_gang_outside_of_every_domain_does_not_grow():
    world = World({"a": 4, "away": 4})
    wanted = gang(task(9, 2), wish=DomainWish(required="rack"))
    domains = racks_of(world.table, {"left": ["a"]})
    assert counts(place_gang(world.placer, wanted, domains=domains, running=running(world, ("away", 0)))) == {}


# Backfill ------------------------------------------------------------------------------------------------------------


def test_backfill_starts_what_fits_beside_a_held_place():
    world = World({"a": 4, "b": 4})
    leaving = [world.run("a", card) for card in (0, 1, 2, 3)]
    # A gang was promised node a when its pods have left: the hold takes what is not free yet.
    world.table.charge(0, pod(4), (0, 1, 2, 3), is_hold=True)
    waiting = [
        gang(task(5, 5), key="too-big"),
        gang(task(3, 3), key="fits"),
        gang(task(5, 5), key="as-big"),
        gang(task(1, 1, of=demand({})), key="best-effort"),
        gang(task(2, 1), key="partly"),
    ]
    placed = {one.gang: names(world, one) for one in backfill(world.placer, waiting)}
    assert placed == {"fits": ["b", "b", "b"], "best-effort": ["a"], "partly": ["b"]}
    for member in leaving:
        world.placer.release(member.place.row, member.demand, member.place.cards)
    assert world.table.cards[0].tolist() == [0, 0, 0, 0], "the held place is whole when the others have left"


def test_best_effort_pods_go_to_any_node_that_lets_them_in():
    world = World({"a": 0, "b": 0})
    world.table.drop("a")
    placed = place_gang(world.placer, gang(task(5, 5, of=demand({}))))
    assert placed.places["worker"] == (Placed(1),) * 5
