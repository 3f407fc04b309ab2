"""The plugin on the kubelet's sockets, by gRPC: serves, registers, and comes back when the kubelet was restarted.

A kubelet that starts removes all sockets of plugins; so the plugin serves on a new one whenever its own is gone or the
kubelet's is another than before. gRPC is loaded here alone, and comes with the extra `muster[node]`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc

from muster.agent.plugin import messages
from muster.agent.plugin.grants import NotGranted
from muster.agent.plugin.protobuf import MOST_BYTES, Table, Values, decoded, encoded
from muster.agent.plugin.service import Holder, PluginService
from muster.model.errors import InvalidObject
from muster.store.clock import Clock
from muster.store.errors import StoreError

log = logging.getLogger(__name__)
FOLDER = Path("/var/lib/kubelet/device-plugins")
POD_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
KUBELET, OWN = "kubelet.sock", "muster-gpu.sock"
LOOKED_AT_S = 1.0
CALL_S = 10.0
_STOP_S = 0.1
_SIZES = (("grpc.max_receive_message_length", MOST_BYTES), ("grpc.max_send_message_length", MOST_BYTES))
# A kubelet that was restarted is found at once, and not after minutes of waiting for the old one.
_QUICK = (*_SIZES, ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))


def _reads(table: Table) -> Callable[[bytes], Values]:
    return lambda content: decoded(table, content)


def _writes(table: Table) -> Callable[[Values], bytes]:
    return lambda values: encoded(table, values)


async def _asked(method: Callable[[Values], Awaitable[Values]], request: Values, context: Any) -> Values:
    """An answer, or why there is none, in the words that the kubelet shows on the pod."""
    try:
        return await method(request)
    except (NotGranted, InvalidObject, StoreError) as problem:
        log.warning("the kubelet gets no cards: %s", problem)
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem)[:1_000])
        raise AssertionError("abort raises") from None


def _handlers(service: PluginService) -> Any:
    async def options(request: Values, _context: Any) -> Values:
        return service.options(request)

    async def watch(_request: Values, _context: Any) -> AsyncIterator[Values]:
        async for devices in service.watch():
            yield devices

    def unary(method: Callable[[Values], Awaitable[Values]], request: Table, answer: Table) -> Any:
        async def handle(values: Values, context: Any) -> Values:
            return await _asked(method, values, context)

        return grpc.unary_unary_rpc_method_handler(handle, _reads(request), _writes(answer))

    methods = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
            options, _reads(messages.EMPTY), _writes(messages.OPTIONS)
        ),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(watch, _reads(messages.EMPTY), _writes(messages.DEVICES)),
        "GetPreferredAllocation": unary(service.preferred, messages.PREFERENCE, messages.PREFERRED),
        "Allocate": unary(service.allocate, messages.ALLOCATE, messages.ALLOCATED),
        "PreStartContainer": unary(service.pre_start, messages.PRE_START, messages.EMPTY),
    }
    return grpc.method_handlers_generic_handler(messages.PLUGIN, methods)


class PluginSocket:
    """Keeps the plugin known to the kubelet."""

    def __init__(self, service: PluginService, resource: str, clock: Clock, folder: Path = FOLDER) -> None:
        self._service = service
        self._resource = resource
        self._clock = clock
        self._folder = folder
        self._server: Any = None
        self._seen: object = None  # the kubelet's socket that the plugin is registered with
        self.registrations = 0

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                try:
                    await self.settle()
                except (grpc.RpcError, OSError, TimeoutError) as problem:
                    log.warning("the kubelet does not take the plugin: %s", problem)
                    self._seen = None
                await self._clock.sleep(LOOKED_AT_S)
        finally:
            await self.stop()

    async def settle(self) -> None:
        """Serve and be registered, if that is not so already."""
        kubelet = _identity(self._folder / KUBELET)
        if kubelet is None:
            self._seen = None
            return
        if kubelet == self._seen and _identity(self._folder / OWN) is not None:
            return
        await self.stop()
        (self._folder / OWN).unlink(missing_ok=True)
        self._server = grpc.aio.server(options=_SIZES)
        self._server.add_generic_rpc_handlers((_handlers(self._service),))
        self._server.add_insecure_port(f"unix://{self._folder / OWN}")
        await self._server.start()
        await self._register()
        self._seen = kubelet
        self.registrations += 1
        log.info("the kubelet knows of %s", self._resource)

    async def _register(self) -> None:
        request = {
            "version": messages.VERSION,
            "endpoint": OWN,
            "resource_name": self._resource,
            "options": self._service.options({}),
        }
        async with grpc.aio.insecure_channel(f"unix://{self._folder / KUBELET}", options=_QUICK) as channel:
            register = channel.unary_unary(
                f"/{messages.REGISTRATION}/Register",
                request_serializer=_writes(messages.REGISTER),
                response_deserializer=_reads(messages.EMPTY),
            )
            await register(request, timeout=CALL_S)

    async def stop(self) -> None:
        """Serve no longer."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(_STOP_S)


def _identity(path: Path) -> object:
    """Which socket this is; None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


class KubeletPods:
    """The kubelet's own list of which container has which devices."""

    def __init__(self, resource: str, socket: Path = POD_SOCKET) -> None:
        self._resource = resource
        self._socket = socket
        self._channel: Any = None  # None: it is made when it is needed

    async def holders(self, ids: frozenset[str]) -> Sequence[Holder]:
        """Whose exactly these devices are; raises `NotGranted` where the kubelet does not say."""
        try:
            async with asyncio.timeout(CALL_S):
                told = await self._listed()
        except (grpc.RpcError, OSError, TimeoutError) as problem:
            await self.close()  # a kubelet that comes back has another socket
            raise NotGranted(f"the kubelet does not say whose devices these are: {problem}") from None
        return [
            Holder(f"{pod['namespace']}/{pod['name']}", container["name"])
            for pod in told["pod_resources"]
            for container in pod["containers"]
            if ids
            == {one for held in container["devices"] if held["resource_name"] == self._resource for one in held["ids"]}
        ]

    async def close(self) -> None:
        """Give up the connection."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _listed(self) -> Values:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(f"unix://{self._socket}", options=_QUICK)
        listing = self._channel.unary_unary(
            f"/{messages.PODS}/List",
            request_serializer=_writes(messages.EMPTY),
            response_deserializer=_reads(messages.POD_LIST),
        )
        told: Values = await listing({}, timeout=CALL_S)
        return told
