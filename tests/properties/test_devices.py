"""Random pods on random cards: no card is oversold, a refusal leaves no trace, and texts come back as they went."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.dialects.hami.filter import Extender, FilterState, cards_of
from muster.dialects.hami.quota import QuotaLine, amounts_of
from muster.dialects.hami.settings import HamiSettings
from muster.engine.devices_text import (
    allocation_text,
    old_register_text,
    pair_scores_text,
    read_allocation,
    read_old_register,
    read_pair_scores,
    read_register,
    register_text,
)
from muster.model.device import Device, PartitionProfile, Placement, Share
from muster.model.fields import Fields
from muster.vendors.nvidia import VENDOR
from muster.vendors.nvidia.settings import NvidiaSettings, registered
from tests.support import assert_sound, proof_count

HISTORIES = 1000
BLOCKS = 10
POLICIES = (
    "binpack",
    "spread",
    "mutex",
    "numa",
    "topology-aware",
    "numa,binpack",
    "mutex,spread",
    "topology-aware,spread",
)
PROFILES = (
    PartitionProfile(
        name="1g", memory_mib=100, cores=14, slices=1, placements=tuple(Placement(n, 1) for n in range(7))
    ),
    PartitionProfile(
        name="2g", memory_mib=200, cores=28, slices=2, placements=tuple(Placement(n, 2) for n in (0, 2, 4))
    ),
)
QUOTA = {"nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 200}


def a_card(chance: Random, name: str, others: list[str]) -> Device:
    is_partitioned = chance.random() < 0.2
    device = Device(
        uuid=name,
        index=int(name.split("-")[1]),
        vendor="NVIDIA",
        model=chance.choice(("NVIDIA", "NVIDIA A100", "NVIDIA-T4")),
        memory_mib=1000 if is_partitioned else chance.choice((500, 1000, 4096)),
        numa=chance.randrange(2),
        mode="mig" if is_partitioned else "hami-core",
        is_healthy=chance.random() < 0.9,
        is_cordoned=chance.random() < 0.1,
        profiles=PROFILES if is_partitioned else (),
        pair_scores={other: chance.choice((0, 10, 50, 100)) for other in others},
    )
    settings = NvidiaSettings(
        split_count=chance.randint(1, 10),
        memory_scaling=chance.choice((1.0, 1.5, 2.0)),
        core_scaling=chance.choice((1.0, 1.0, 2.0)),
    )
    return registered(device, settings)


def a_cluster(chance: Random) -> FilterState:
    nodes = {}
    for node in range(chance.randint(1, 3)):
        names = [f"{node}-{number}" for number in range(chance.randint(0, 5))]
        nodes[f"node-{node}"] = tuple(a_card(chance, name, names) for name in names)
    quota = {name: QuotaLine(limit=chance.choice((None, limit))) for name, limit in QUOTA.items()}
    return FilterState(nodes=nodes, quotas={"n": quota})


def a_pod(chance: Random) -> Fields:
    def container() -> dict[str, object]:
        limits: dict[str, str] = {}
        if chance.random() < 0.8:
            limits["nvidia.com/gpu"] = str(chance.choice((0, 1, 1, 1, 2, 4)))
        limits["nvidia.com/gpumem"] = str(chance.choice((0, 20, 100, 150, 400)))
        for name, most in (("gpumem-percentage", 60), ("gpucores", 70)):
            if chance.random() < 0.5:
                limits[f"nvidia.com/{name}"] = str(
                    chance.choice((0, 100, *(chance.randint(1, most) for _ in range(4))))
                )
        return {"resources": {"limits": limits}}

    annotations = {}
    if chance.random() < 0.7:
        annotations["hami.io/gpu-scheduler-policy"] = chance.choice(POLICIES)
    if chance.random() < 0.3:
        annotations["nvidia.com/numa-bind"] = "true"
    metadata = {"uid": str(chance.randrange(40)), "namespace": "n", "annotations": annotations}
    spec = {
        "containers": [container() for _ in range(chance.randint(1, 3))],
        "initContainers": [container() for _ in range(chance.randint(0, 2))],
    }
    return Fields({"metadata": metadata, "spec": spec})


def check_cards(state: FilterState) -> None:
    """No card gives more than was registered of it, and no two pods hold the same place on one."""
    check_partitions(state)
    for node in state.nodes:
        for card in cards_of(node, state):
            assert card.use.slots <= card.device.slots, f"{card} has too many sharers"
            assert card.use.memory_mib <= card.device.memory_mib, f"{card} is out of memory"
            assert card.use.cores <= card.device.cores, f"{card} is out of cores"


def check_partitions(state: FilterState) -> None:
    taken = [
        (held.uid, share.uuid, partition.placement)
        for held in state.pods
        for share in held.shares["NVIDIA"]
        for partition in share.partitions
    ]
    for one, other in combinations(taken, 2):
        is_shared = one[1] == other[1] and one[0] != other[0]
        assert not (is_shared and one[2].overlaps(other[2])), f"{one} and {other} lie on each other"


def check_quota(state: FilterState) -> None:
    used = amounts_of(share for held in state.pods for share in held.shares["NVIDIA"])
    quota = state.quotas["n"]
    memory, cores = quota["nvidia.com/gpumem"], quota["nvidia.com/gpucores"]
    assert (memory.used, cores.used) == (used.memory_mib, used.cores)


def check_history(chance: Random) -> None:
    state = a_cluster(chance)
    settings = HamiSettings(node_policy=chance.choice(("binpack", "spread")))
    extender = Extender(vendors=(VENDOR,), settings=settings)
    for _ in range(40):
        pod = a_pod(chance)
        uid = pod.child("metadata").text("uid")
        known = {held.uid for held in state.pods}
        answer = extender.filter(pod, sorted(state.nodes), state=state, now_s=0)
        if not answer.shares and uid not in known:
            assert answer.state == state, "a refused request changed something"
        state = answer.state
        check_cards(state)
        check_quota(state)


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_card_is_oversold(block):
    assert_sound(check_history, range(block, proof_count(HISTORIES) // BLOCKS * BLOCKS, BLOCKS))


# Texts ---------------------------------------------------------------------------------------------------------------

words = st.text("abcXYZ019-. ", max_size=8)
amounts = st.integers(0, 2**31 - 1)
shares = st.builds(Share, uuid=words, vendor=words, memory_mib=amounts, cores=amounts)
profiles = st.builds(
    PartitionProfile,
    name=words,
    memory_mib=amounts,
    cores=amounts,
    slices=amounts,
    instances=amounts,
    placements=st.lists(st.builds(Placement, amounts, amounts), max_size=3).map(tuple),
)
parts = {
    "uuid": words,
    "index": amounts,
    "model": words,
    "memory_mib": amounts,
    "cores": amounts,
    "slots": amounts,
    "numa": st.integers(-1, 9),
    "mode": words,
    "is_healthy": st.booleans(),
}
old_devices = st.builds(Device, **parts)
devices = st.builds(Device, **parts, vendor=words, profiles=st.lists(profiles, max_size=2).map(tuple))


@given(st.lists(st.lists(shares, max_size=3).map(tuple), max_size=4).map(tuple))
def test_allocations_come_back(containers):
    assert read_allocation(allocation_text(containers)) == (*containers, ())


@given(st.lists(devices, max_size=4).map(tuple))
def test_registers_come_back(cards):
    assert read_register(register_text(cards)) == cards


@given(st.lists(old_devices, min_size=1, max_size=4).map(tuple))
def test_older_registers_come_back(cards):
    assert read_old_register(old_register_text(cards)) == cards


@given(st.dictionaries(words, st.dictionaries(words, st.integers(-100, 1000), max_size=3), max_size=3))
def test_links_come_back(links):
    text = pair_scores_text(Device(uuid=uuid, pair_scores=scores) for uuid, scores in links.items())
    assert read_pair_scores(text) == links
