"""Logs over HTTP, and what is said of pods and containers that have none."""

from __future__ import annotations

import asyncio

import pytest

from muster.model.pod_streams import NoNodes
from muster.store.objects import Part
from muster.store.records import Key
from tests.apiserver.pod_streams.process_node import ProcessNode
from tests.apiserver.world import in_world, pod

PODS = "/api/v1/namespaces/default/pods"
RUNNING = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}
SOON_S = 10.0


async def with_node(world, folder, *, status=RUNNING):
    """A pod on a node of processes."""
    world.set_nodes(ProcessNode(folder))
    world.store.write(world.objects.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}))
    world.store.write(world.objects.create("pods", pod("p", namespace="default", spec={"nodeName": "n"})))
    key = Key("pods", "default", "p")
    world.store.write(world.objects.modify(key, lambda one: {**one, "status": status}, part=Part.STATUS))
    return world.api.nodes


def logged(folder, test):
    async def run(world):
        node = await with_node(world, folder)
        try:
            await test(world, node)
        finally:
            await node.close()

    in_world(run)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", b"one\ntwo\nthree"),
        ("?tailLines=1", b"three"),
        ("?tailLines=0", b""),
        ("?limitBytes=5", b"one\nt"),
        ("?tailLines=2&limitBytes=100", b"two\nthree"),
        ("?sinceSeconds=3600", b"one\ntwo\nthree"),
        ("?sinceTime=2999-01-01T00:00:00Z", b""),
        ("?follow=true", b"one\ntwo\nthree"),
        ("?insecureSkipTLSVerifyBackend=true&container=main", b"one\ntwo\nthree"),
    ],
)
def test_parts_of_a_log(tmp_path, query, expected):
    async def test(world, node):
        container = await node.start("p", "main", "print('one\\ntwo\\nthree', end='')")
        await asyncio.wait_for(container.task, SOON_S)
        answer = await world.get(f"{PODS}/p/log{query}")
        assert (answer.status, answer.body) == (200, expected)
        assert answer.headers["content-type"] == "text/plain"

    logged(tmp_path, test)


def test_a_log_is_followed_until_its_container_ends(tmp_path):
    async def test(world, node):
        await node.start("p", "main", "print('old')\ninput()")
        await node.start("p", "main", "for n in range(3): print(input(), flush=True)")
        container = node.containers["p", "main"][-1]
        async with world.exchange("GET", f"{PODS}/p/log?follow=true") as exchange:
            for text in (b"1", b"2", b"3"):
                await container.process.write(text + b"\n")
            await asyncio.wait_for(exchange.done, SOON_S)
            assert exchange.answer().body == b"1\n2\n3\n"

    logged(tmp_path, test)


def test_a_client_that_goes_ends_its_stream(tmp_path):
    async def test(world, node):
        await node.start("p", "main", "print('on', flush=True)\ninput()")
        async with world.exchange("GET", f"{PODS}/p/log?follow=true") as exchange:
            async with asyncio.timeout(SOON_S):
                while b"".join(exchange.chunks) != b"on\n":
                    await asyncio.sleep(0.01)
        assert exchange.done.done()

    logged(tmp_path, test)


def state(**states):
    return {"containerStatuses": [{"name": "main", **states}]}


@pytest.mark.parametrize(
    ("query", "status", "expected"),
    [
        ("", {}, 'container "main" in pod "p" is not available'),
        ("", state(), 'container "main" in pod "p" is waiting to start - no logs yet'),
        (
            "",
            state(state={"waiting": {"reason": "ContainerCreating"}}),
            'container "main" in pod "p" is waiting to start: ContainerCreating',
        ),
        (
            "",
            state(state={"waiting": {"reason": "ErrImagePull"}}),
            'container "main" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        ("?previous=true", RUNNING, 'previous terminated container "main" in pod "p" not found'),
    ],
)
def test_containers_without_a_log(tmp_path, query, status, expected):
    async def test(world):
        await with_node(world, tmp_path, status=status)
        answer = await world.get(f"{PODS}/p/log{query}")
        assert (answer.status, answer.json["message"]) == (400, expected)

    in_world(test)


@pytest.mark.parametrize("what", ["log", "exec", "attach", "portforward"])
def test_a_server_without_nodes_says_so(tmp_path, what):
    async def test(world):
        await with_node(world, tmp_path)
        world.set_nodes(NoNodes())
        answer = await world.get(f"{PODS}/p/{what}")
        if what == "log":
            assert answer.status == 500
            assert answer.json["message"] == "error dialing backend: nothing runs the pods of node n"
        else:
            assert (answer.status, answer.json["message"]) == (400, "Upgrade request required")
            spdy = {"upgrade": "SPDY/3.1", "connection": "Upgrade"}
            answer = await world.request("POST", f"{PODS}/p/{what}", headers=spdy)
            assert answer.status == 400
            assert "kubectl 1.31" in answer.json["message"]

    in_world(test)
