"""Choosing cards: rule by rule, in order, and by links."""

from __future__ import annotations

import pytest

from muster.engine.contracts import DeviceResources, Vendor
from muster.engine.devices import CardReason, CardRules, CardWishes, choose_cards
from muster.engine.devices_links import (
    COMBINATIONS_MOST,
    best_connected,
    fullest_groups,
    togetherness,
    worst_connected,
)
from muster.engine.devices_order import CardOrder, ScoreWeights, card_score, node_score, ordered
from muster.engine.devices_pod import PodCards, try_pod
from muster.engine.devices_text import (
    allocation_text,
    read_allocation,
    read_old_register,
    read_pair_scores,
    read_register,
)
from muster.model.device import Card, Device, DeviceRequest, DeviceUse, Share, standing_shares, take
from muster.model.errors import InvalidObject


def card(name: str = "a", **parts: object) -> Card:
    """A card of 1000 MiB and ten slots, nothing of it taken; a part that `DeviceUse` has is of the use."""
    use = {key.removeprefix("used_"): parts.pop(key) for key in list(parts) if key.startswith("used_")}
    fields = {"vendor": "V", "model": "V 100", "memory_mib": 1000, "slots": 10, **parts}
    return Card(Device(uuid=name, **fields), DeviceUse(**use))


def ask(count: int = 1, **parts: object) -> DeviceRequest:
    return DeviceRequest(vendor="V", count=count, **{"memory_mib": 100, **parts})


def names(choice) -> str:
    return "".join(share.uuid for share in choice.shares)


# Rules ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "request_", "wishes", "reason"),
    [
        pytest.param(card(is_healthy=False), ask(), {}, CardReason.UNHEALTHY, id="a sick card"),
        pytest.param(card(is_cordoned=True), ask(), {}, CardReason.CORDONED, id="a cordoned card"),
        pytest.param(card(vendor="W"), ask(), {}, CardReason.TYPE, id="another vendor"),
        pytest.param(card(), ask(), {"models": ("200",)}, CardReason.TYPE, id="another model"),
        pytest.param(card(), ask(), {"models_not": ("100",)}, CardReason.TYPE, id="a model not wanted"),
        pytest.param(card(mode="mig"), ask(), {"modes": "hami-core"}, CardReason.TYPE, id="another mode"),
        pytest.param(card(), ask(), {"uuids": frozenset("b")}, CardReason.UUID, id="another card wanted"),
        pytest.param(card(), ask(), {"uuids_not": frozenset("a")}, CardReason.UUID, id="this card not wanted"),
        pytest.param(card(slots=2, used_slots=2), ask(), {}, CardReason.SHARERS, id="no slot left"),
        pytest.param(card(used_slots=1), ask(), {"is_alone": True}, CardReason.NOT_ALONE, id="wants to be alone"),
        pytest.param(card(used_memory_mib=901), ask(), {}, CardReason.MEMORY, id="one MiB short"),
        pytest.param(card(used_cores=51), ask(cores=50), {}, CardReason.CORES, id="one per cent short"),
        pytest.param(card(used_slots=1), ask(cores=100), {}, CardReason.NOT_ALONE, id="all cores need the whole card"),
        pytest.param(card(used_cores=100), ask(), {}, CardReason.CORES_EXHAUSTED, id="nothing left of the cores"),
    ],
)
def test_a_card_is_refused(one, request_, wishes, reason):
    choice = choose_cards((one,), request_, CardRules(CardWishes(**wishes)))
    assert (choice.fits, choice.counts) == (False, {reason: 1})


@pytest.mark.parametrize(
    ("one", "request_"),
    [
        pytest.param(card(used_memory_mib=900), ask(), id="the last MiB"),
        pytest.param(card(used_cores=50), ask(cores=50), id="the last per cent"),
        pytest.param(card(), ask(cores=300), id="more than a card's cores are a card's cores"),
        pytest.param(card(cores=200, used_slots=1, used_cores=100), ask(cores=100), id="oversubscribed cores"),
        pytest.param(card(slots=2, used_slots=1), ask(), id="the last slot"),
        pytest.param(card(), ask(memory_mib=0, memory_percent=100), id="all memory"),
    ],
)
def test_a_card_is_taken(one, request_):
    assert choose_cards((one,), request_, CardRules()).fits


def test_cards_are_taken_from_the_end_and_reasons_counted():
    cards = (card("a"), card("b", is_healthy=False), card("c"), card("d", used_memory_mib=1000))
    assert names(choose_cards(cards, ask(2), CardRules())) == "ca"
    choice = choose_cards(cards, ask(3), CardRules())
    assert choice.text == "1/4 CardInsufficientMemory, 1/4 CardNotHealth, 2/4 AllocatedCardsInsufficientRequest"


def test_cards_of_one_numa_node():
    cards = (card("a", numa=0), card("b", numa=0), card("c", numa=1))
    wishes = CardWishes(is_on_one_numa=True)
    assert names(choose_cards(cards, ask(2), CardRules(wishes))) == "ba"
    choice = choose_cards(cards[1:], ask(2), CardRules(wishes))
    assert choice.counts == {CardReason.NUMA: 1, CardReason.TOO_FEW: 1}


def test_quota_counts_all_cards_of_the_container():
    asked = []
    choose_cards((card("a"), card("b")), ask(2), CardRules(is_within_quota=lambda shares: not asked.append(shares)))
    assert [sum(share.memory_mib for share in shares) for shares in asked] == [100, 200]


def test_a_request_of_no_cards_does_not_fit():
    assert not choose_cards((card(),), ask(0), CardRules()).fits


# Links ---------------------------------------------------------------------------------------------------------------

LINKS = {"a": {"b": 100, "c": 10}, "b": {"a": 100, "c": 20}, "c": {"a": 10, "b": 20}}
ABC = tuple(Share(uuid=name) for name in "abc")


def test_one_card_is_the_worst_connected():
    assert worst_connected(ABC, LINKS).uuid == "c"
    assert worst_connected(ABC, {}).uuid == "a", "the first of equals"


def test_several_cards_are_the_best_connected():
    assert [share.uuid for share in best_connected(ABC, 2, LINKS)] == ["a", "b"]


def test_many_cards_cost_little():
    shares = tuple(Share(uuid=str(number)) for number in range(64))
    links = {share.uuid: {other.uuid: 100 for other in shares[:32]} for share in shares[:32]}
    assert COMBINATIONS_MOST < 10**6
    assert best_connected(shares, 32, links) == shares[:32]


def test_links_choose_among_all_that_fit():
    cards = tuple(card(name, pair_scores=LINKS[name]) for name in "abc")
    rules = CardRules(CardWishes(is_by_links=True))
    assert names(choose_cards(cards, ask(), rules)) == "c"
    assert sorted(names(choose_cards(cards, ask(2), rules))) == ["a", "b"]


# Order ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "on_one_numa", "want"),
    [
        pytest.param("binpack", False, "abc", id="fullest last"),
        pytest.param("spread", False, "cba", id="emptiest last"),
        pytest.param("nonsense", False, "cba", id="an unknown policy spreads"),
        pytest.param("mutex", False, "cba", id="least shared last"),
        pytest.param("numa", False, "acb", id="by NUMA node, then index"),
        pytest.param("numa,binpack", False, "acb", id="a chain"),
        pytest.param("mutex,spread", False, "cba", id="words that are no order are passed over"),
        pytest.param("binpack", True, "bac", id="NUMA nodes stay together, the highest first"),
        pytest.param("spread", True, "cab", id="NUMA nodes stay together, the lowest first"),
        pytest.param("binpack,spread", True, "acb", id="a chain under a NUMA node"),
    ],
)
def test_order(policy, on_one_numa, want):
    cards = (card("a", index=0), card("b", index=1, numa=1, used_slots=1), card("c", index=2, used_slots=2))
    scores = {one.device.uuid: card_score(one, ()) for one in cards}
    assert "".join(one.device.uuid for one in ordered(cards, scores, CardOrder(policy, on_one_numa))) == want


def test_scores():
    half = card(model="V", used_slots=5, used_cores=50, used_memory_mib=500)
    assert card_score(half, ()) == pytest.approx(15)
    assert card_score(half, [ask(cores=10)]) == pytest.approx(6 + 6 + 6)
    assert card_score(half, (), ScoreWeights(slots=0, cores=0, memory=3)) == pytest.approx(15)
    assert node_score((half, card("b"))) == pytest.approx(7.5)
    assert node_score(()) == 0


# What pods hold ------------------------------------------------------------------------------------------------------


def test_init_containers_count_by_their_peak():
    init, big, app = Share(uuid="a", memory_mib=300), Share(uuid="a", memory_mib=100), Share(uuid="a", memory_mib=150)
    held = standing_shares(((init,), (big,), (app,), (app,)), 2)
    assert [(share.memory_mib, share.slots) for share in held] == [(300, 2)]
    assert take((card("a"),), held)[0].use.memory_mib == 300


# Groups --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cards", "count", "want"),
    [
        pytest.param("a1 b2 c2", 2, "bc", id="the fullest group"),
        pytest.param("a1 b2 c2", 3, "bca", id="then the next"),
        pytest.param("a1 b2", 2, "ab", id="the first of equals"),
        pytest.param("a1 b c1", 3, "acb", id="those without a group last"),
        pytest.param("a1", 5, "a", id="as many as there are"),
    ],
)
def test_cards_of_few_groups(cards, count, want):
    shares = [Share(uuid=one[0]) for one in cards.split()]
    groups = {one[0]: one[1:] for one in cards.split() if one[1:]}
    assert "".join(share.uuid for share in fullest_groups(shares, count, groups)) == want


def test_togetherness():
    groups = {"a": "1", "b": "1", "c": "2"}
    one, two, other = (tuple(Share(uuid=uuid) for uuid in uuids) for uuids in ("ab", "abc", "x"))
    assert togetherness((one, ()), groups) == 1
    assert togetherness((one, two), groups) == pytest.approx(1 + 2 / 3)
    assert togetherness((one, other), groups) == 0


def test_a_vendor_offers_and_picks_in_its_own_way():
    cards = (card("a"), card("b"), card("c"))
    halves = CardRules(offer=lambda one, _request: Share(uuid=one.device.uuid, memory_mib=500))
    assert [share.memory_mib for share in choose_cards(cards, ask(2), halves).shares] == [500, 500]
    last = CardRules(pick=lambda found, count: found[-count:])
    assert names(choose_cards(cards, ask(2), last)) == "ba"
    assert choose_cards(cards, ask(4), last).text == "3/3 AllocatedCardsInsufficientRequest"


def test_shares_carry_their_pod_s_mark():
    (share,) = choose_cards((card(),), ask(), CardRules(CardWishes(mark="m"))).shares
    assert (share.mark, card().plus(share).use.marks) == ("m", ("m",))


# A pod on a node -----------------------------------------------------------------------------------------------------


def vendor(**parts: object) -> Vendor:
    nothing = {"devices_of": None, "request_of": None, "annotate": None, "shares_of": None}
    return Vendor(name="V", resources=DeviceResources(count="v"), **{**nothing, **parts})


def tried(*requests: DeviceRequest | None, init_count: int = 0, cards=None, **rules: object):
    """Where the containers of a pod land on two cards; a container of `None` asks for nothing."""
    asked = tuple({"V": one} if one else {} for one in requests)
    pod = PodCards(requests=asked, vendors={"V": vendor()}, init_count=init_count)
    return try_pod(cards or (card("a"), card("b")), pod, **rules)


def test_a_vendor_chooses_and_scores_itself():
    seen = []

    def choose(cards, request, rules):
        seen.append(rules.held)
        return choose_cards(tuple(reversed(cards)), request, rules)

    own = vendor(choose=choose, score=lambda cards, containers: 10 * len(cards) + len(containers))
    pod = PodCards(requests=({"V": ask()}, {"V": ask()}), vendors={"V": own})
    result = try_pod((card("a"), card("b")), pod)
    assert [[share.uuid for share in shares] for shares in result.shares["V"]] == [["a"], ["a"]]
    assert [[share.uuid for share in held] for held in seen] == [[], ["a"]]
    assert result.score == 22


def test_containers_of_a_pod_share_its_node():
    result = tried(ask(memory_mib=600), None, ask(memory_mib=600))
    assert [[share.uuid for share in shares] for shares in result.shares["V"]] == [["b"], [], ["a"]]
    assert tried(ask(memory_mib=600), ask(memory_mib=600), ask(memory_mib=600)).refusal.text == (
        "2/2 CardInsufficientMemory"
    )


def test_init_containers_see_the_cards_as_they_are():
    assert tried(ask(memory_mib=900), ask(memory_mib=900), ask(2, memory_mib=900), init_count=2).refusal is None


def test_a_node_with_too_few_cards():
    assert tried(ask(3)).refusal.text == "NodeInsufficientDevice"


def test_quota_is_asked_with_all_that_the_pod_would_hold():
    asked = []
    tried(ask(), ask(), is_within_quota=lambda _, shares: not asked.append(sum(one.memory_mib for one in shares)))
    assert asked == [100, 200]


# Texts ---------------------------------------------------------------------------------------------------------------


def test_an_allocation_keeps_empty_containers():
    shares = ((), (Share(uuid="a", vendor="V", memory_mib=5, cores=7),))
    assert allocation_text(shares) == ";a,V,5,7:;"
    assert read_allocation(";a,V,5,7:;") == (*shares, ())


@pytest.mark.parametrize(
    ("read", "text"),
    [
        pytest.param(read_allocation, "a,V,5:;", id="a share without cores"),
        pytest.param(read_allocation, "a,V,-5,7:;", id="negative memory"),
        pytest.param(read_allocation, "a,V,99999999999,7:;", id="more memory than any card has"),
        pytest.param(read_allocation, ";" * 2**21, id="a text without end"),
        pytest.param(read_register, "{}", id="no list"),
        pytest.param(read_register, '[{"id":"a","devmem":-1}]', id="a card of negative memory"),
        pytest.param(read_register, "[" * 100_000, id="deep nonsense"),
        pytest.param(read_old_register, "a,1,2:", id="too few fields"),
        pytest.param(read_old_register, "a,1,2,3,m,0,perhaps:", id="perhaps healthy"),
        pytest.param(read_pair_scores, '[{"uuid":"a","score":{"b":"near"}}]', id="a link that is no number"),
    ],
)
def test_texts_that_are_refused(read, text):
    with pytest.raises(InvalidObject):
        read(text)
