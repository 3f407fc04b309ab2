"""Whom the cluster allows to read figures, and where they are."""

from __future__ import annotations

import asyncio

import pytest

from muster.app.config import MonitoringSettings, parse_configuration
from muster.app.figures import Figures
from muster.app.monitoring import Monitoring, Tokens, own_certificate
from muster.model.errors import InvalidObject
from muster.store.clock import VirtualClock
from tests.kubernetes.plane import free_ports

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


class Reviewing:
    """A cluster that knows one token, whose user may read one path."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def create(self, resource: str, given):
        self.asked.append(resource)
        spec = given["spec"]
        if resource == "tokenreviews.authentication.k8s.io":
            is_known = spec["token"] in ("good", "poor")
            return {"status": {"authenticated": is_known, "user": {"username": spec["token"], "groups": ["g"]}}}
        assert resource == "subjectaccessreviews.authorization.k8s.io"
        assert (spec["groups"], spec["nonResourceAttributes"]["verb"]) == (["g"], "get")
        return {"status": {"allowed": spec["user"] == "good" and spec["nonResourceAttributes"]["path"] == "/metrics"}}


def test_the_cluster_says_who_may_read_and_is_not_asked_each_time():
    cluster, clock = Reviewing(), VirtualClock(0)
    tokens = Tokens(cluster, clock)

    async def story() -> list[bool]:
        asked = [("good", "/metrics"), ("good", "/other"), ("poor", "/metrics"), ("bad", "/metrics")]
        answers = [await tokens.may_get(*one) for one in asked]
        count = len(cluster.asked)
        assert [await tokens.may_get(*one) for one in asked] == answers
        assert len(cluster.asked) == count
        return answers

    assert asyncio.run(story()) == [True, False, False, False]


def test_strangers_cost_no_memory():
    tokens = Tokens(Reviewing(), VirtualClock(0))

    async def story() -> None:
        for number in range(2_000):
            await tokens.may_get(f"stranger-{number}", "/metrics")

    asyncio.run(story())
    assert len(tokens._known) <= 256


def test_a_file_says_where_figures_are_and_how_many():
    assert parse_configuration(HEAD, "c").monitoring == MonitoringSettings()
    text = (
        HEAD + "metrics: {bindAddress: ':1', enableClusterQueueResources: true, localQueueMetrics: {enable: false}}\n"
    )
    text += "health: {healthProbeBindAddress: ':2', readinessEndpointName: r, livenessEndpointName: l}\n"
    assert parse_configuration(text, "c").monitoring == MonitoringSettings(
        metrics_address=":1",
        health_address=":2",
        liveness="l",
        readiness="r",
        has_resources=True,
        has_local_queues=False,
    )


@pytest.mark.parametrize("address", ["8443", "host", "[::1]", ":", ":x", ":99999999", ":-1", "300.300.300.300:1"])
def test_an_address_that_is_none_is_refused(address):
    async def story() -> None:
        settings = MonitoringSettings(metrics_address=address, health_address="0")
        monitoring = Monitoring(settings, Figures(settings), Tokens(Reviewing(), VirtualClock(0)))
        await monitoring.run(own_certificate(VirtualClock(0)))

    with pytest.raises(InvalidObject, match=r"metrics\.bindAddress"):
        asyncio.run(story())


def test_a_port_that_somebody_has_is_refused():
    async def story() -> None:
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        settings = MonitoringSettings(metrics_address=address, health_address=address)
        monitoring = Monitoring(settings, Figures(settings), Tokens(Reviewing(), VirtualClock(0)))
        await monitoring.run(own_certificate(VirtualClock(0)))

    with pytest.raises(InvalidObject, match=r"health\.healthProbeBindAddress"):
        asyncio.run(story())
