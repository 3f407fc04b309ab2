"""What a configuration says of webhooks, and what the webhooks of a process know of their cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from muster.app.config import WebhookSettings, parse_configuration
from muster.app.hook_cluster import KubeCluster
from muster.app.hooks import hook_rules, reached_at, reached_by_service
from muster.model.errors import InvalidObject
from muster.store.clock import VirtualClock
from muster.store.kube import Kube
from muster.store.kube_config import Access, FixedCredentials
from muster.store.records import Action, Event, Key, Record

QUEUES = "localqueues.kueue.x-k8s.io"
KUEUE = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}


def read(document):
    return parse_configuration(json.dumps(document), "muster.yaml")


def test_a_file_that_says_nothing_of_webhooks_leaves_musters_own_names():
    assert read(KUEUE).webhooks == WebhookSettings()
    assert not read(KUEUE).checks_queue_use


def test_kueues_file_says_where_the_webhooks_are_and_who_makes_their_certificate():
    given = {
        **KUEUE,
        "namespace": "batch-system",
        "webhook": {"host": "127.0.0.1", "port": 7443, "certDir": "/certificates"},
        "internalCertManagement": {"enable": True, "webhookServiceName": "hooks", "webhookSecretName": "keys"},
    }
    settings = read(given).webhooks
    assert settings == WebhookSettings(
        host="127.0.0.1",
        port=7443,
        namespace="batch-system",
        service="hooks",
        secret="keys",
        folder=Path("/certificates"),
    )
    assert not read({**KUEUE, "internalCertManagement": {"enable": False}}).webhooks.makes_certificates
    assert reached_by_service(read(given)).hosts[0] == "hooks.batch-system.svc"


def test_the_right_to_use_a_queue_is_a_setting():
    configuration = read({"requireQueueUse": True})
    assert hook_rules(configuration).checks_use
    assert hook_rules(configuration).jobs.scheduler == "muster"


@pytest.mark.parametrize("where", ["https://muster:9443", "https://10.0.0.1/", "https://[::1]:9443"])
def test_webhooks_are_reached_at_a_url(where):
    assert reached_at(where, read(KUEUE)).url == where.rstrip("/")


@pytest.mark.parametrize("where", ["http://muster", "muster", "https://", "https://a/path", "https://a?b=c", "Service"])
def test_what_is_no_place_is_refused(where):
    with pytest.raises(InvalidObject, match="give service, or a URL"):
        reached_at(where, read(KUEUE))


# The cluster ---------------------------------------------------------------------------------------------------------


class CountedClient:
    """Has every object that it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Key] = []

    async def find(self, key: Key):
        self.asked.append(key)
        return {"metadata": {"name": key.name}}


def test_what_is_followed_is_not_asked_for():
    async def story():
        clock = VirtualClock()
        cluster = KubeCluster(Kube(Access(url="http://127.0.0.1:1", credentials=FixedCredentials({})), clock), clock)
        client = cluster._client = CountedClient()
        known, new, default = (Key(QUEUES, "team", name) for name in ("main", "new", "default"))
        await cluster.get(known)
        assert client.asked == [known]  # nothing is known yet
        for resource in cluster._feed._followers:
            cluster._feed.listed(resource, [], 1)
        record = Record(known, "u", 2, 2, b'{"metadata":{"name":"main"}}')
        cluster._feed.changed(QUEUES, [Event(Action.ADDED, record, None, 0.0)], 2)
        client.asked.clear()
        assert (await cluster.get(known))["metadata"]["name"] == "main"
        assert await cluster.get(default) is None
        assert client.asked == []
        await cluster.get(new)
        await cluster.get(Key("jobs.batch", "team", "train"))
        assert client.asked == [new, Key("jobs.batch", "team", "train")]

    asyncio.run(story())
