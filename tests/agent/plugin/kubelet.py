"""A kubelet of our own: plugins register with it, pods are admitted one by one, containers start, and it restarts.

As much of the real one as a plugin can see: devices are picked out of those that are healthy and free, the plugin is
asked what it would rather have, what is given out is remembered over restarts, and the sockets of all plugins are
removed when it starts.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import grpc

from muster.agent.plugin import messages
from muster.agent.plugin.protobuf import decoded, encoded


class Refused(Exception):
    """What the plugin said instead of giving devices."""


def _served(service: str, method: str, handler: Any, *tables: Any) -> Any:
    sent, answer = tables
    handle = grpc.unary_unary_rpc_method_handler(
        handler, lambda one: decoded(sent, one), lambda one: encoded(answer, one)
    )
    return grpc.method_handlers_generic_handler(service, {method: handle})


class FakeKubelet:
    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.pod_socket = folder / "pods.sock"
        self.held: dict[tuple[str, str], tuple[str, ...]] = {}  # (namespace/name, container) -> devices
        self.devices: dict[str, str] = {}  # health by id
        self.resource = ""
        self.registered = asyncio.Event()
        self.knows_devices = asyncio.Event()
        self._chance = chance
        self._servers: list[Any] = []
        self._channel: Any = None
        self._watching: asyncio.Task[None] | None = None
        self._admitting = asyncio.Lock()

    # Its own life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        for socket in self.folder.glob("*.sock"):
            socket.unlink()
        self.registered.clear()
        self.knows_devices.clear()
        registration = _served(messages.REGISTRATION, "Register", self._register, messages.REGISTER, messages.EMPTY)
        pods = _served(messages.PODS, "List", self._list, messages.EMPTY, messages.POD_LIST)
        for handler, path in ((registration, self.folder / "kubelet.sock"), (pods, self.pod_socket)):
            server = grpc.aio.server()
            server.add_generic_rpc_handlers((handler,))
            server.add_insecure_port(f"unix://{path}")
            await server.start()
            self._servers.append(server)

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
        for server in self._servers:
            await server.stop(None)
        self._servers = []

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    # Plugins ---------------------------------------------------------------------------------------------------------

    async def _register(self, request: Any, _context: Any) -> Any:
        assert request["version"] == "v1beta1" and request["options"]["pre_start_required"]
        self.resource = request["resource_name"]
        if self._watching is not None:
            self._watching.cancel()
        if self._channel is not None:
            await self._channel.close()
        options = (("grpc.use_local_subchannel_pool", 1),)
        self._channel = grpc.aio.insecure_channel(f"unix://{self.folder / request['endpoint']}", options=options)
        self._watching = asyncio.create_task(self._watch(self._channel))
        self.registered.set()
        return {}

    async def _watch(self, channel: Any) -> None:
        watch = channel.unary_stream(
            f"/{messages.PLUGIN}/ListAndWatch",
            request_serializer=lambda one: encoded(messages.EMPTY, one),
            response_deserializer=lambda one: decoded(messages.DEVICES, one),
        )
        try:
            async for told in watch({}):
                self.devices = {one["ID"]: one["health"] for one in told["devices"]}
                self.knows_devices.set()
        except grpc.RpcError:
            pass
        self.devices = {}  # as the real one does: an endpoint that is gone has none

    async def call(self, method: str, request: Any, sent: Any, answer: Any) -> Any:
        ask = self._channel.unary_unary(
            f"/{messages.PLUGIN}/{method}",
            request_serializer=lambda one: encoded(sent, one),
            response_deserializer=lambda one: decoded(answer, one),
        )
        try:
            return await ask(request, timeout=60)
        except grpc.aio.AioRpcError as problem:
            raise Refused(problem.details()) from None

    # Pods ------------------------------------------------------------------------------------------------------------

    async def admit(self, pod: str, container: str, count: int) -> Any:
        """Give a container devices; pods are admitted one after the other."""
        async with self._admitting:
            taken = {one for ids in self.held.values() for one in ids}
            free = [one for one, health in self.devices.items() if health == "Healthy" and one not in taken]
            if len(free) < count:
                raise Refused(f"only {len(free)} devices are free")
            self._chance.shuffle(free)
            picked = free[:count]
            if self._chance.random() < 0.7:
                wanted = {"container_requests": [{"available": free, "must_include": [], "size": count}]}
                said = await self.call("GetPreferredAllocation", wanted, messages.PREFERENCE, messages.PREFERRED)
                picked = said["container_responses"][0]["ids"]
                assert len(picked) == len(set(picked)) == count and set(picked) <= set(free)
            request = {"container_requests": [{"ids": picked}]}
            answer = await self.call("Allocate", request, messages.ALLOCATE, messages.ALLOCATED)
            if self._chance.random() < 0.1:  # an answer that got lost, and is asked for again
                answer = await self.call("Allocate", request, messages.ALLOCATE, messages.ALLOCATED)
            self.held[pod, container] = tuple(picked)
            return answer["container_responses"][0]

    async def prepare(self, pod: str, container: str) -> None:
        """What comes right before a container is created."""
        request = {"ids": list(self.held[pod, container])}
        await self.call("PreStartContainer", request, messages.PRE_START, messages.EMPTY)

    def end(self, pod: str) -> None:
        """A pod is over, and its devices are free."""
        self.held = {key: ids for key, ids in self.held.items() if key[0] != pod}

    async def _list(self, _request: Any, _context: Any) -> Any:
        pods: dict[str, list[Any]] = {}
        for (pod, container), ids in self.held.items():
            # The real one tells of devices by NUMA node, so one resource may come in parts.
            parts = [{"resource_name": self.resource, "ids": [one]} for one in ids]
            pods.setdefault(pod, []).append({"name": container, "devices": parts})
        return {
            "pod_resources": [
                {"namespace": pod.partition("/")[0], "name": pod.partition("/")[2], "containers": containers}
                for pod, containers in pods.items()
            ]
        }
