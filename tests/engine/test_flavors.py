"""Flavor choice: which flavor pays, when the search goes on, and why a flavor is passed over."""

from __future__ import annotations

import pytest

from muster.engine import flavor_kinds
from muster.engine.assignment import Mode, Outcome, Standing
from muster.engine.flavor_kinds import SearchCache
from muster.engine.flavors import FlavorSearch
from muster.model.flavor import Flavor
from muster.model.labels import NodeTerm, Operator, Requirement, Taint, Toleration
from muster.model.plan import ScanProgress
from muster.model.podspec import PodShape
from muster.model.queue import FlavorRules, PreemptionPolicy, PreemptionRules, ResourceGroup
from muster.model.reason import Code
from muster.model.resources import PODS
from muster.model.settings import FairSharing, Settings
from muster.model.workload import PodSetAdmission, TopologyRequest
from tests.engine.builders import (
    CPU,
    GPU,
    TRIES_ALL,
    cohort,
    node_of,
    pod_set,
    queue,
    quota,
    running,
    state_of,
    workload,
)

NOBODY = Standing(Mode.NO_CANDIDATES, 0)
OWN = Standing(Mode.PREEMPT, 0)
OTHERS = Standing(Mode.RECLAIM, 0)


def search(state, one, *, oracle=None, **fields):
    """A flavor search in which the oracle's answers are given by flavor."""
    answers = oracle or {}
    defaults = {
        "workload": one,
        "queue": node_of(state, one.queue),
        "flavors": state.flavors,
        "settings": state.settings,
        "oracle": lambda key, _amount: answers.get(key[0], NOBODY),
    }
    return FlavorSearch(**(defaults | fields))


def assign(state, one, *, oracle=None, **fields):
    return search(state, one, oracle=oracle, **fields).assign()


def flavors(found):
    """The flavor of each resource of each pod set."""
    return [{resource: choice.flavor for resource, choice in pods.flavors.items()} for pods in found.pod_sets]


def codes(found):
    """Why flavors were passed over, of all pod sets."""
    return [reason.code for pods in found.pod_sets for attempt in pods.attempts for reason in attempt.reasons]


def team(red=0, blue=0, **fields):
    return queue("team-a", flavors={"red": red, "blue": blue}, **fields)


def used(red=0, blue=0, *, by="team-a"):
    return [
        running(f"{by}-{flavor}", gpus=gpus, queue=by, flavor=flavor)
        for flavor, gpus in (("red", red), ("blue", blue))
        if gpus
    ]


# Which flavor ----------------------------------------------------------------------------------------------------

LENDER = queue("lender", cohort="x", flavors={"red": 9, "blue": 9})
RATHER_PREEMPT = FlavorRules(prefers_preempting=True, next_instead_of_borrowing=True)


@pytest.mark.parametrize(
    ("parts", "oracle", "want", "outcome"),
    [
        pytest.param([team(4, 4)], {}, "red", Outcome.FIT, id="the first that fits"),
        pytest.param([team(4, 4), *used(red=1)], {}, "blue", Outcome.FIT, id="the next when the first is used up"),
        pytest.param([team(3, 4)], {}, "blue", Outcome.FIT, id="the next when the first never had enough"),
        pytest.param([team(4, 4), *used(1, 1)], {"red": OWN}, "red", Outcome.PREEMPT, id="one that preempts"),
        pytest.param(
            [team(4, 4), *used(1, 1)], {"blue": OWN}, "blue", Outcome.PREEMPT, id="one that preempts later on"
        ),
        pytest.param([team(4, 4), *used(1, 0)], {"red": OWN}, "blue", Outcome.FIT, id="rather a fit"),
        pytest.param(
            [team(4, 4), *used(1, 1)], {"red": OWN, "blue": OTHERS}, "blue", Outcome.PREEMPT, id="rather reclaim"
        ),
        pytest.param(
            [team(4, 4), *used(1, 1)], {}, "red", Outcome.PREEMPT, id="waits where others may leave by themselves"
        ),
        pytest.param(
            [team(2, 4, cohort="x"), LENDER], {}, "red", Outcome.FIT, id="borrows rather than looking further"
        ),
        pytest.param(
            [team(2, 4, cohort="x", flavor_rules=TRIES_ALL), LENDER],
            {},
            "blue",
            Outcome.FIT,
            id="looks further if told",
        ),
        pytest.param(
            [team(2, 3, cohort="x", flavor_rules=TRIES_ALL), LENDER],
            {},
            "red",
            Outcome.FIT,
            id="and borrows if it must",
        ),
        pytest.param(
            [team(4, 4, flavor_rules=FlavorRules(next_instead_of_preempting=False)), *used(1, 0)],
            {"red": OWN},
            "red",
            Outcome.PREEMPT,
            id="preempts rather than looking further, if told",
        ),
        pytest.param(
            [team(4, 2, cohort="x", flavor_rules=TRIES_ALL), LENDER, *used(red=10, by="lender")],
            {"red": OTHERS},
            "blue",
            Outcome.FIT,
            id="rather borrows than preempts",
        ),
        pytest.param(
            [team(4, 2, cohort="x", flavor_rules=RATHER_PREEMPT), LENDER, *used(red=10, by="lender")],
            {"red": OTHERS},
            "red",
            Outcome.PREEMPT,
            id="or the other way round",
        ),
    ],
)
def test_choice(parts, oracle, want, outcome):
    state = state_of(*parts)
    found = assign(state, workload("train", gpus=4), oracle=oracle)
    assert (flavors(found), found.outcome) == ([{GPU: want}], outcome)


@pytest.mark.parametrize(
    ("parts", "refusal"),
    [
        pytest.param([team(3, 3)], Code.EXCEEDS_MAX_QUOTA, id="more than it could ever get"),
        pytest.param(
            [team(2, 3, cohort="x"), queue("b", cohort="x", flavors={"red": 2}), *used(red=2, by="b")],
            Code.WAITING_FOR_QUOTA,
            id="not now, and nobody may be preempted for a borrower",
        ),
        pytest.param(
            [queue("team-a", flavors={"red": {CPU: 8}})], Code.NO_MATCHING_FLAVOR, id="no quota for it at all"
        ),
    ],
)
def test_refusal(parts, refusal):
    found = assign(state_of(*parts), workload("train", gpus=4))
    assert (found.outcome, found.refusal, flavors(found)) == (Outcome.NO_FIT, refusal, [{}])


@pytest.mark.parametrize(
    ("rules", "fair", "asks"),
    [
        pytest.param(PreemptionRules(), None, False, id="a borrower preempts nobody"),
        pytest.param(PreemptionRules(may_borrow=True), None, True, id="unless it may borrow while preempting"),
        pytest.param(PreemptionRules(reclaim=PreemptionPolicy.ANY), FairSharing(), True, id="or shares are fair"),
        pytest.param(
            PreemptionRules(reclaim=PreemptionPolicy.UNSET), FairSharing(), True, id="even if nothing is said"
        ),
        pytest.param(PreemptionRules(reclaim=PreemptionPolicy.NEVER), FairSharing(), False, id="but not if never"),
    ],
)
def test_oracle_is_asked_for_a_borrower_only_where_rules_allow(rules, fair, asks):
    state = state_of(
        queue("team-a", cohort="x", gpus=2, preemption=rules),
        queue("b", cohort="x", gpus=4),
        running("other", gpus=4, queue="b"),
        settings=Settings(fair_sharing=fair),
    )
    found = assign(state, workload("train", gpus=4), oracle={"default": OTHERS})
    assert found.outcome is (Outcome.PREEMPT if asks else Outcome.NO_FIT)


def test_level_is_the_highest_of_all_resources():
    state = state_of(
        cohort("top", flavors={"red": {GPU: 4}}),
        cohort("x", parent="top"),
        queue("team-a", cohort="x", flavors={"red": {GPU: 1, CPU: 4}}),
        queue("b", cohort="x", flavors={"red": {GPU: 1, CPU: 4}}),
    )
    one = workload("train", pod_sets=(pod_set("big", requests={GPU: 3, CPU: 1}), pod_set("small", requests={CPU: 5})))
    found = assign(state, one)
    assert (found.level, found.outcome) == (2, Outcome.FIT)
    assert [{r: c.level for r, c in pods.flavors.items()} for pods in found.pod_sets] == [{GPU: 2, CPU: 0}, {CPU: 1}]


def test_resources_of_a_group_get_one_flavor_and_groups_their_own():
    groups = (ResourceGroup((GPU,), ("red",)), ResourceGroup((CPU, "memory"), ("blue", "green")))
    quotas = {"red": {GPU: 4}, "blue": {CPU: 4, "memory": 1}, "green": {CPU: 4, "memory": 4}}
    state = state_of(queue("team-a", flavors=quotas, groups=groups))
    one = workload("train", pod_sets=(pod_set(requests={GPU: 1, CPU: 1, "memory": 2}),))
    assert flavors(assign(state, one)) == [{GPU: "red", CPU: "green", "memory": "green"}]


def test_pod_sets_add_up():
    state = state_of(team(5, 5))
    one = workload("train", pod_sets=(pod_set("a", gpus=4), pod_set("b", gpus=4)))
    found = assign(state, one)
    assert flavors(found) == [{GPU: "red"}, {GPU: "blue"}]
    assert found.usage == {("red", GPU): 4, ("blue", GPU): 4}


def test_search_ends_with_the_first_pod_set_that_does_not_fit():
    state = state_of(team(5, 0))
    one = workload("train", pod_sets=(pod_set("a", gpus=9), pod_set("b", gpus=1)))
    assert [pods.name for pods in assign(state, one).pod_sets] == ["a"]


def test_pod_sets_of_one_group_share_their_flavor():
    together = TopologyRequest(group="g")
    one = workload("t", pod_sets=(pod_set("a", gpus=3, topology=together), pod_set("b", gpus=3, topology=together)))
    found = assign(state_of(team(5, 6)), one)
    assert flavors(found) == [{GPU: "blue"}, {GPU: "blue"}]
    assert [pods.requests[GPU] for pods in found.pod_sets] == [3, 3]


def test_pods_are_counted_where_the_queue_does():
    state = state_of(queue("team-a", flavors={"red": {GPU: 9, PODS: 3}}))
    assert assign(state, workload("train", pods=3)).usage == {("red", GPU): 3, ("red", PODS): 3}
    assert assign(state, workload("train", pods=4)).outcome is Outcome.NO_FIT


@pytest.mark.parametrize(("releases", "asked"), [(True, 2), (False, 5)])
def test_finished_pods_ask_for_nothing(releases, asked):
    state = state_of(team(9, 0), settings=Settings(releases_finished_pods=releases))
    one = workload("train", pod_sets=(pod_set(count=5, finished_pods=3),))
    assert assign(state, one).usage == {("red", GPU): asked}


def test_smaller_counts_ask_for_less():
    found = search(state_of(team(4, 0)), workload("train", pods=9)).assign([4])
    assert (found.usage, found.pod_sets[0].count) == ({("red", GPU): 4}, 4)


@pytest.mark.parametrize(
    ("ignores", "amount", "outcome"),
    [
        pytest.param(False, 1, Outcome.NO_FIT, id="a resource without quota"),
        pytest.param(False, 0, Outcome.FIT, id="none of it is asked for"),
        pytest.param(True, 1, Outcome.FIT, id="it is neither checked nor counted"),
    ],
)
def test_undeclared_resources(ignores, amount, outcome):
    state = state_of(team(4, 0), settings=Settings(ignores_undeclared=ignores))
    found = assign(state, workload("train", pod_sets=(pod_set(requests={GPU: 1, "exotic": amount}),)))
    assert found.outcome is outcome
    assert ("exotic" in str(found.usage)) is False


# Which flavors are out of the question ---------------------------------------------------------------------------

TAINTED = Flavor(name="red", taints=(Taint("dedicated", "ml"),))
TOLERANT = PodShape(tolerations=(Toleration("dedicated", "Equal", "ml"),))
LABELLED = Flavor(name="red", labels={"zone": "a"})
IN_B = PodShape(node_selector={"zone": "b", "arch": "arm"})
IN_A = PodShape(node_selector={"zone": "a", "arch": "arm"})
WANTS_B = PodShape(affinity=(NodeTerm(expressions=(Requirement("zone", Operator.IN, frozenset(["b"])),)),))
RACKS = Flavor(name="red", topology="default", topology_levels=("block", "rack"))


@pytest.mark.parametrize(
    ("flavor", "shape", "code"),
    [
        pytest.param(TAINTED, PodShape(), Code.TAINT_NOT_TOLERATED, id="a taint"),
        pytest.param(TAINTED, TOLERANT, None, id="tolerated by the pods"),
        pytest.param(
            Flavor(name="red", taints=TAINTED.taints, tolerations=TOLERANT.tolerations),
            PodShape(),
            None,
            id="tolerated by the flavor",
        ),
        pytest.param(LABELLED, IN_B, Code.LABELS_DO_NOT_MATCH, id="another zone"),
        pytest.param(LABELLED, IN_A, None, id="labels that the flavor has not are ignored"),
        pytest.param(LABELLED, WANTS_B, Code.LABELS_DO_NOT_MATCH, id="affinity to another zone"),
        pytest.param(Flavor(name="red"), WANTS_B, None, id="a flavor without labels"),
        pytest.param(RACKS, PodShape(), Code.TOPOLOGY_NOT_ASKED, id="a topology that was not asked for"),
    ],
)
def test_flavor_that_does_not_suit_is_passed_over(flavor, shape, code):
    state = state_of(team(4, 4), flavor)
    found = assign(state, workload("train", pod_sets=(pod_set(shape=shape),)))
    assert flavors(found) == [{GPU: "red" if code is None else "blue"}]
    assert codes(found) == ([] if code is None else [code])


def test_missing_flavor_is_passed_over():
    state = state_of(team(4, 4), flavors={"blue": Flavor(name="blue")})
    found = assign(state, workload("train"))
    assert (flavors(found), codes(found)) == ([{GPU: "blue"}], [Code.FLAVOR_MISSING])


@pytest.mark.parametrize(
    ("request_", "is_served"),
    [
        pytest.param(TopologyRequest(required="rack"), True, id="a level that it has"),
        pytest.param(TopologyRequest(preferred="zone"), False, id="one that it has not"),
        pytest.param(TopologyRequest(is_unconstrained=True), True, id="anywhere"),
        pytest.param(TopologyRequest(required="block", slice_level="host"), False, id="slices of a level it has not"),
        pytest.param(TopologyRequest(layers=(("block", 4), ("rack", 2))), True, id="layers"),
        pytest.param(TopologyRequest(layers=(("block", 4), ("host", 2))), False, id="layers of a level it has not"),
    ],
)
def test_topology_needs_a_flavor_that_has_it(request_, is_served):
    state = state_of(team(4, 4), RACKS)
    found = search(state, workload("train", pod_sets=(pod_set(topology=request_),))).assign()
    refused = {
        attempt.flavor: reason.code for p in found.pod_sets for attempt in p.attempts for reason in attempt.reasons
    }
    assert refused.get("red") is (None if is_served else Code.TOPOLOGY_UNSUPPORTED)
    assert refused.get("blue") is Code.TOPOLOGY_UNSUPPORTED


def test_topology_is_not_looked_at_where_it_is_off():
    state = state_of(team(4, 4), RACKS, settings=Settings(topology=False))
    one = workload("train", pod_sets=(pod_set(topology=TopologyRequest(required="zone")),))
    assert flavors(assign(state, one)) == [{GPU: "red"}]


def test_queue_of_topology_flavors_takes_pods_that_do_not_ask():
    state = state_of(queue("team-a", flavors={"red": 4}), RACKS)
    assert Code.TOPOLOGY_NOT_ASKED not in codes(assign(state, workload("train")))


@pytest.mark.parametrize(("is_on", "want"), [(True, "blue"), (False, "red")])
def test_allowed_flavors_count_where_variants_race(is_on, want):
    state = state_of(team(4, 4), settings=Settings(concurrent_admission=is_on))
    found = assign(state, workload("train", allowed_flavors=frozenset(["blue"])))
    assert flavors(found) == [{GPU: want}]


def test_repeated_search_uses_the_flavors_found_before():
    state = state_of(team(4, 4))
    found = assign(state, workload("train"), only=({GPU: "blue"},))
    assert (flavors(found), codes(found)) == ([{GPU: "blue"}], [Code.FLAVOR_NOT_ALLOWED])
    assert flavors(assign(state, workload("train"), only=())) == [{GPU: "red"}], "what was not searched is free"


def test_flavors_behind_the_one_found_are_told_of_when_they_do_not_suit():
    state = state_of(team(4, 4), Flavor(name="blue", taints=TAINTED.taints))
    found = assign(state, workload("train"))
    assert (flavors(found), codes(found)) == ([{GPU: "red"}], [Code.TAINT_NOT_TOLERATED])
    assert found.outcome is Outcome.FIT


def test_what_is_known_of_a_kind_is_found_again_and_forgotten_when_there_is_too_much(monkeypatch):
    monkeypatch.setattr(flavor_kinds, "KINDS_MOST", 2)
    state, cache = state_of(team(4, 4), TAINTED), SearchCache()
    for round_ in range(2):
        for gpus in (1, 2, 3, 4):
            one = workload("train", gpus=gpus, kind_key=f"kind {gpus}")
            found = assign(state, one, cache=cache)
            assert (flavors(found), codes(found)) == ([{GPU: "blue"}], [Code.TAINT_NOT_TOLERATED])
            assert found.usage == {("blue", GPU): gpus}, round_
            assert len(cache.kinds) <= 2


def test_answer_is_given_again_where_the_same_fits_at_the_same_levels():
    state, cache = state_of(team(4, 4), cohort("x")), SearchCache()
    one, other = (workload(name, gpus=2, kind_key="two") for name in "ab")
    first = assign(state, one, cache=cache)
    assert assign(state, other, cache=cache) is first
    state.ledger.charge(node_of(state, "team-a"), {("red", GPU): 3})
    later = assign(state, other, cache=cache)
    assert flavors(later) == [{GPU: "blue"}], "what is used is looked at every time"
    assert codes(later) == [Code.SHORT_OF_QUOTA, Code.NOBODY_TO_PREEMPT]
    assert flavors(first) == [{GPU: "red"}]


def test_answers_of_a_kind_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(flavor_kinds, "ANSWERS_MOST", 1)
    state, cache = state_of(team(4, 4)), SearchCache()
    one = workload("train", kind_key="one")
    for tried in (-1, 0, -1, 0):
        progress = ScanProgress(tried=({GPU: tried},), generation=0, kind_key="one", cycle=0)
        assert flavors(assign(state, one, cache=cache, progress=progress)) == [{GPU: ("red", "blue")[tried + 1]}]
    (kind,) = cache.kinds.values()
    assert [len(party.shares) for party in kind.parties] == [len(kind.assignments)] == [1]


# Slices ----------------------------------------------------------------------------------------------------------


def older(gpus, flavor="red"):
    return {"main": PodSetAdmission(name="main", count=gpus, flavors={GPU: flavor}, usage={GPU: gpus})}


@pytest.mark.parametrize(
    ("old", "want", "charged"),
    [
        pytest.param(older(2), "red", 1, id="what comes on top"),
        pytest.param(older(2, "blue"), "blue", 1, id="where the older one runs"),
        pytest.param(older(3), "red", 0, id="nothing on top"),
        pytest.param(older(4), "red", -1, id="a smaller one gives back"),
    ],
)
def test_slice_grows_where_it_is(old, want, charged):
    state = state_of(team(4, 4), *used(*((3, 0) if want == "red" else (0, 3))))
    found = assign(state, workload("train", pods=3), older_slice=old)
    assert flavors(found) == [{GPU: want}]
    assert found.usage == {(want, GPU): charged}


def test_flavors_of_others_than_the_older_slice_are_passed_over():
    found = assign(state_of(team(4, 4)), workload("train", pods=3), older_slice=older(2, "blue"))
    assert codes(found) == [Code.FLAVOR_OF_OLDER_SLICE]


# Where the search goes on ----------------------------------------------------------------------------------------


def progress(*tried):
    return ScanProgress(tried=tuple({GPU: index} for index in tried), generation=0, kind_key="", cycle=0)


THREE = queue("team-a", flavors={"red": 4, "green": 4, "blue": 4})


@pytest.mark.parametrize(
    ("given", "want", "tried"),
    [
        pytest.param(None, "red", 0, id="from the beginning"),
        pytest.param(progress(-1), "red", 0, id="all were tried"),
        pytest.param(progress(0), "green", 1, id="behind the first"),
        pytest.param(progress(1), "blue", -1, id="the last one"),
        pytest.param(progress(), "red", 0, id="a pod set that was not searched"),
    ],
)
def test_search_goes_on_behind_the_last_flavor_tried(given, want, tried):
    found = assign(state_of(THREE), workload("train"), progress=given)
    assert (flavors(found), found.tried()) == ([{GPU: want}], ({GPU: tried},))


def test_plain_search_takes_the_first_best_and_remembers_nothing():
    state = state_of(THREE, *used(red=1), settings=Settings(searches_flavors=False))
    found = assign(state, workload("train", gpus=4), progress=progress(1), oracle={"red": OTHERS})
    assert (flavors(found), found.tried()) == ([{GPU: "green"}], ({GPU: -1},))


def test_plain_search_compares_modes_alone():
    state = state_of(
        queue("team-a", flavors={"red": 4, "blue": 4}),
        *used(1, 1),
        settings=Settings(searches_flavors=False),
    )
    found = assign(state, workload("train", gpus=4), oracle={"red": Standing(Mode.PREEMPT, 3), "blue": OWN})
    assert flavors(found) == [{GPU: "red"}]


def test_shortage_is_told_in_numbers():
    state = state_of(team(quota(4), 0), *used(red=3))
    found = assign(state, workload("train", gpus=2))
    texts = [reason.text for reason in found.pod_sets[0].reasons]
    assert texts == [
        "2 of nvidia.com/gpu asked for, 1 free in red, 1 short",
        "nobody may be preempted for nvidia.com/gpu in red",
        "2 of nvidia.com/gpu asked for, 0 is the most queue team-a could get in blue",
    ]
