"""The Secret decides: replicas take over what it holds, renew it in time, and have it trusted by whom it concerns."""

from __future__ import annotations

import asyncio

import pytest

from muster.apiserver.hooks.authorities import RENEWED_BEFORE_DAYS, SERVER_DAYS, identity_in
from muster.apiserver.hooks.configurations import Asking, Reached, conversion, webhook_configurations
from muster.apiserver.hooks.keeping import CONFIGURATIONS, Certificates
from muster.apiserver.hooks.serving import ServedCertificate
from muster.store.clock import VirtualClock
from muster.store.errors import Conflict
from muster.store.records import Key
from tests.apiserver.hooks.world import TableCluster

SECRET = Key("secrets", "muster-system", "muster-webhook-server-cert")
REACHED = Reached(service="muster-webhook-service", namespace="muster-system")
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
OURS, THEIRS = Key(DEFINITIONS, "", "clusterqueues.kueue.x-k8s.io"), Key(DEFINITIONS, "", "workloads.kueue.x-k8s.io")
DAY_S = 86_400.0


class World:
    """A cluster with configurations and definitions, and replicas that keep a certificate."""

    def __init__(self) -> None:
        self.cluster = TableCluster()
        self.clock = VirtualClock(1_790_000_000.0)
        for key, given in zip(CONFIGURATIONS, webhook_configurations(Asking(kinds=()), REACHED), strict=True):
            self.cluster.put(key, given)
        self.cluster.put(OURS, {"spec": {"conversion": conversion(REACHED)}})
        other = conversion(Reached(service="kueue-webhook-service", namespace="kueue-system", bundle="b3RoZXI="))
        self.cluster.put(THEIRS, {"spec": {"conversion": other}})

    def replica(self) -> tuple[Certificates, ServedCertificate]:
        served = ServedCertificate()
        return Certificates(self.cluster, self.clock, served=served, secret=SECRET, reached=REACHED), served

    @property
    def kept(self):
        return identity_in(self.cluster.objects[SECRET])

    @property
    def bundles(self) -> set[str]:
        """Whom those trust that ask Muster."""
        webhooks = (one for key in CONFIGURATIONS for one in self.cluster.objects[key]["webhooks"])
        found = {one["clientConfig"].get("caBundle", "") for one in webhooks}
        spec = self.cluster.objects[OURS]["spec"]
        return found | {spec["conversion"]["webhook"]["clientConfig"].get("caBundle", "")}


def test_the_first_replica_makes_it_and_the_others_take_it_over():
    world = World()

    async def story():
        replicas = [world.replica() for _ in range(5)]
        await asyncio.gather(*(keeper.settle() for keeper, _ in replicas))
        return [served for _, served in replicas]

    shown = asyncio.run(story())
    assert {one._shown for one in shown} == {(world.kept.certificate, world.kept.key)}
    assert world.bundles == {world.kept.bundle}
    other = world.cluster.objects[THEIRS]["spec"]["conversion"]["webhook"]["clientConfig"]
    assert other["caBundle"] == "b3RoZXI="


def test_it_is_renewed_once_by_whoever_is_first():
    world = World()

    async def story():
        replicas = [world.replica() for _ in range(3)]
        for keeper, _ in replicas:
            await keeper.settle()
        first = world.kept
        world.clock.advance((SERVER_DAYS - RENEWED_BEFORE_DAYS + 1) * DAY_S)
        await asyncio.gather(*(keeper.settle() for keeper, _ in replicas))
        return first, replicas

    first, replicas = asyncio.run(story())
    assert first.certificate != world.kept.certificate
    assert world.kept.authorities.endswith(first.authorities)  # nobody who has not heard of it is turned away
    assert world.kept.authorities.count(b"BEGIN") == 2
    assert {served._shown for _, served in replicas} == {(world.kept.certificate, world.kept.key)}
    assert world.bundles == {world.kept.bundle}


def test_a_secret_that_was_damaged_is_made_anew_and_keeps_what_else_it_holds():
    world = World()
    world.cluster.put(SECRET, {"data": {"tls.crt": "eA==", "notes": "eA=="}})
    asyncio.run(world.replica()[0].settle())
    assert world.kept is not None
    assert world.cluster.objects[SECRET]["data"]["notes"] == "eA=="


def test_what_is_settled_is_not_written_again():
    world = World()

    async def story():
        keeper, _ = world.replica()
        await keeper.settle()
        before = {key: one["metadata"]["resourceVersion"] for key, one in world.cluster.objects.items()}
        await keeper.settle()
        return before

    before = asyncio.run(story())
    assert before == {key: one["metadata"]["resourceVersion"] for key, one in world.cluster.objects.items()}


def test_without_configurations_there_is_nobody_to_tell():
    world = World()
    for key in (*CONFIGURATIONS, OURS, THEIRS):
        del world.cluster.objects[key]
    asyncio.run(world.replica()[0].settle())
    assert world.kept is not None


def test_a_cluster_in_which_nothing_can_be_written_is_told_of():
    world = World()
    world.cluster.put(SECRET, {"data": {}})

    async def refused(key, _given):
        raise Conflict(key, "always")

    world.cluster.update = refused
    with pytest.raises(Conflict, match="others keep changing it"):
        asyncio.run(world.replica()[0].settle())
