"""Shares of cards end to end on a server of ours: agent, extender and a kubelet of our own, over HTTPS and gRPC."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("grpc", reason="the extra muster[node] is not installed")

from muster.agent.cards import FoundCard
from muster.agent.plugin.containers import Places
from muster.agent.plugin.disk import Disk
from muster.agent.plugin.service import PluginService, PluginSettings
from muster.agent.plugin.sockets import KubeletPods, PluginSocket
from muster.agent.watching import Use
from muster.apiserver.cards.extender import CardExtender
from muster.apiserver.cards.knowledge import FOLLOWED, Knowledge
from muster.apiserver.cards.wire import BindArgs, FilterArgs
from muster.app.agent import Agent, AgentOptions, NodeApi
from muster.app.card_extender import KubeCards
from muster.cli.main import app
from muster.controllers.kube_feed import KubeFeed
from muster.controllers.view import View
from muster.dialects.hami.claims import PHASE, SUCCESS
from muster.dialects.hami.filter import Extender
from muster.dialects.hami.node_lock import AGENT, BINDERS, FENCE, LOCK, read_binders
from muster.store.clock import RealClock
from muster.store.errors import Conflict, NotFound
from muster.store.kube import Kube
from muster.store.kube_config import read_kubeconfig
from muster.store.readings import Readings
from muster.store.records import Key
from muster.vendors.nvidia import REGISTER, VENDOR
from tests.agent.plugin.kubelet import FakeKubelet
from tests.agent.plugin.world import RESOURCE, container, short_folder
from tests.e2e.process import Muster, command, started

WAIT_S = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Muster]:
    with started(tmp_path_factory.mktemp("cards") / "state", "--api-only") as muster:
        yield muster


class Found:
    """Cards that can change, and processes that use them."""

    def __init__(self) -> None:
        self.cards = [
            FoundCard(uuid=f"GPU-{n}", index=n, vendor="NVIDIA", model="NVIDIA-H200", memory_mib=10_000)
            for n in range(2)
        ]
        self.used: list[Use] = []

    def found(self) -> list[FoundCard]:
        return list(self.cards)

    def uses(self) -> list[Use]:
        return self.used


class Node:
    """One node with its agent, and an extender for the whole cluster."""

    def __init__(self, muster: Muster, kube: Kube, folder: Path) -> None:
        self.name = f"node-{uuid.uuid4().hex[:8]}"
        self.muster, self.found = muster, Found()
        self.plugins = short_folder()
        self.kubelet = FakeKubelet(self.plugins, random.Random(1))
        self.api = NodeApi(kube, self.name)
        self.pods = KubeletPods(RESOURCE, self.kubelet.pod_socket)
        settings = PluginSettings(places=Places(state=str(folder / "state")))
        disk = Disk(folder / "state", folder / "cdi")
        self.service = PluginService(VENDOR, disk, self.pods, self.api, settings=settings)
        self.options = AgentOptions(access=read_kubeconfig(muster.kubeconfig), node=self.name, evicts=True)
        self.metrics = folder / "figures.prom"
        options = replace(self.options, metrics=self.metrics)
        self.agent = Agent(options, self.found, self.service, self.api, clock=RealClock())
        self.socket = PluginSocket(self.service, RESOURCE, RealClock(), self.plugins)
        self.feed = KubeFeed(kube, View({}, readings := Readings()), RealClock(), resources=FOLLOWED, readings=readings)
        self.cluster = KubeCards(kube, Knowledge(self.feed.view, (VENDOR,)))
        self.extender = CardExtender(Extender(vendors=(VENDOR,)), self.cluster, RealClock())

    def get(self, path: str) -> Any:
        return self.muster.client.request("GET", f"/api/v1/{path}").json

    def create(self, path: str, given: Any) -> Any:
        answer = self.muster.client.request("POST", f"/api/v1/{path}", given)
        assert answer.status == 201, answer.body
        return answer.json

    @property
    def annotations(self) -> dict[str, str]:
        return self.get(f"nodes/{self.name}")["metadata"].get("annotations") or {}

    def a_pod(self, memory: int) -> Any:
        metadata = {"name": f"pod-{uuid.uuid4().hex[:8]}", "namespace": "default"}
        spec = {"containers": [{**container("c", 1, memory, 20), "image": "i"}], "schedulerName": "hami-scheduler"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return self.create("namespaces/default/pods", body)

    async def place(self, pod: Any) -> None:
        await asyncio.wait_for(self.feed.view.reaches("pods", int(pod["metadata"]["resourceVersion"])), WAIT_S)
        answer = await self.extender.filter(FilterArgs(pod=pod, names=(self.name,)))
        assert answer.nodes == (self.name,), answer.refused
        await self.extender.bind(self.bind_args(pod))

    def bind_args(self, pod: Any) -> BindArgs:
        metadata = pod["metadata"]
        return BindArgs(namespace="default", name=metadata["name"], uid=metadata["uid"], node=self.name)


@asynccontextmanager
async def a_node(muster: Muster, folder: Path):
    async with Kube(read_kubeconfig(muster.kubeconfig), RealClock()) as kube:
        node = Node(muster, kube, folder)
        made = node.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}})
        following = asyncio.create_task(node.feed.run())
        try:
            await node.kubelet.start()
            await node.agent.look()
            await node.socket.settle()
            async with asyncio.timeout(WAIT_S):
                await node.kubelet.knows_devices.wait()
                await node.feed.ready()
                while node.name not in node.cluster.state().nodes:
                    await asyncio.sleep(0.02)
            assert made["metadata"]["name"] == node.name
            yield node
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await node.socket.stop()
            await node.pods.close()
            await node.kubelet.stop()
            shutil.rmtree(node.plugins)


def played(muster: Muster, folder: Path, story: Any) -> None:
    async def play() -> None:
        async with a_node(muster, folder) as node:
            await story(node)

    asyncio.run(play())


def test_from_a_card_to_a_container(server, tmp_path):
    async def story(node):
        said = node.get(f"nodes/{node.name}")["metadata"]
        assert said["annotations"][AGENT] == "cdi" and '"GPU-1"' in said["annotations"][REGISTER]
        assert said["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H200-SHARED"
        memories = (6_000, 7_000)
        pods = [node.a_pod(memory) for memory in memories]
        for pod in pods:  # both are on their way at once
            await node.place(pod)
        assert [one.fence for one in read_binders(node.annotations[BINDERS]).binders] == [1, 2]
        for pod, memory in [*zip(pods, memories, strict=True)][::-1]:
            name = f"default/{pod['metadata']['name']}"
            answer = await node.kubelet.admit(name, "c", 1)
            await node.kubelet.prepare(name, "c")
            key = answer["cdi_devices"][0]["name"].partition("=")[2]
            limits = (tmp_path / "state" / "shares" / key / "read" / "limits").read_text()
            assert limits == f"CUDA_DEVICE_MEMORY_LIMIT_0={memory}m\nCUDA_DEVICE_SM_LIMIT=20\n"
            now = node.get(f"namespaces/default/pods/{pod['metadata']['name']}")
            assert now["metadata"]["annotations"][PHASE] == SUCCESS and now["spec"]["nodeName"] == node.name
        assert read_binders(node.annotations[BINDERS]).binders == ()
        assert LOCK not in node.annotations

    played(server, tmp_path, story)


def test_the_command_serves_a_node_without_cards_until_it_is_told_to_stop(server, tmp_path):
    name = f"node-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    assert server.client.request("POST", "/api/v1/nodes", body).status == 201
    config = {"config.json": '{"nodeconfig": [{"name": "other", "devicesplitcount": 3}]}'}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": config}
    assert server.client.request("POST", "/api/v1/namespaces/default/configmaps", made).status == 201
    arguments = ["--kubeconfig", str(server.kubeconfig), "--node", name, "--hami-config", f"default/{name}"]
    whole = command("agent", *arguments, "--runtime", "env", "--state", str(tmp_path / "state"))
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None and running.stderr is not None
            assert name in running.stdout.readline(), running.stderr.read()
            annotations = server.client.request("GET", f"/api/v1/nodes/{name}").json["metadata"]["annotations"]
            assert (annotations[REGISTER], annotations[AGENT]) == ("[]", "env")
            running.terminate()
            assert running.wait(WAIT_S) == 0
        finally:
            running.kill()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        pytest.param(("--runtime", "magic"), "--runtime", id="no such runtime"),
        pytest.param(("--hami-config", "default/none"), "there is no ConfigMap", id="no such config map"),
    ],
)
def test_mistakes_of_the_command_are_said(server, tmp_path, arguments, problem):
    given = ["agent", "--kubeconfig", str(server.kubeconfig), "--node", "n", "--state", str(tmp_path), *arguments]
    done = CliRunner().invoke(app, given)
    assert done.exit_code and done.stderr.startswith("muster agent: ") and problem in done.stderr


def test_a_pod_of_the_same_name_and_another_uid_is_not_written_to(server, tmp_path):
    async def story(node):
        pod = node.a_pod(1_000)
        key = Key("pods", "default", pod["metadata"]["name"])
        with pytest.raises(Conflict):
            await node.cluster.annotate_pod(key, str(uuid.uuid4()), {FENCE: "1"})
        with pytest.raises(NotFound):
            await node.extender.bind(replace(node.bind_args(pod), uid=str(uuid.uuid4())))
        with pytest.raises(Conflict):
            await node.cluster.annotate_node(node.name, "1", {LOCK: "x"})
        now = node.get(f"namespaces/default/pods/{pod['metadata']['name']}")
        assert "annotations" not in now["metadata"] and "nodeName" not in now["spec"]

    played(server, tmp_path, story)


def test_sick_cards_are_told_and_who_uses_too_much_leaves(server, tmp_path):
    async def story(node):
        pod = node.a_pod(6_000)
        await node.place(pod)
        name = f"default/{pod['metadata']['name']}"
        await node.kubelet.admit(name, "c", 1)
        await node.kubelet.prepare(name, "c")
        [grant] = node.service.grants.given.values()
        node.found.cards[1] = replace(node.found.cards[1], is_healthy=False)
        await node.agent.look()
        assert node.annotations[REGISTER].count('"health":true') == 1
        # By a process of this pod: the kernel says so in a real cluster, and the test in its place here.
        lines = node.agent.compare([Use(grant.shares[0].uuid, 1, 7_000)], {1: grant.whose.uid})
        assert [(one.used_mib, one.given_mib, one.is_over) for one in lines] == [(7_000, 6_000, True)]
        await node.agent.judge(lines, 0.0)
        await node.agent.judge(lines, 10.0)
        answer = node.muster.client.request("GET", f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}")
        assert answer.status == 404 or answer.json["metadata"].get("deletionTimestamp")
        assert "muster_share_violations_total" in node.metrics.read_text()

    played(server, tmp_path, story)
