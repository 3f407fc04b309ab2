"""exec and attach: a process and a client's terminal, over the channels of a WebSocket. Called by `connecting`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

import msgspec

from muster.apiserver.answers import encode
from muster.apiserver.pod_streams.sockets import Channels, Gone, Socket
from muster.apiserver.statuses import Json, Problem
from muster.model.pod_streams import CommandOptions, Running, Unreachable

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "base64.channel.k8s.io")
_STDIN, _STATUS, _RESIZE, _CLOSE = 0, 3, 4, 255
_MOST_SIDE = 65_535


class _Size(msgspec.Struct):
    """What a client says of its terminal."""

    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


_size = msgspec.json.Decoder(_Size).decode


async def serve_command(socket: Socket, protocol: str, opened: Awaitable[Running], options: CommandOptions) -> None:
    """Connect a client with a process until the process ends or the client goes."""
    channels = Channels(socket, is_text="base64" in protocol)
    try:
        running = await opened
    except Unreachable as problem:
        refusal = Problem(500, "InternalError", f"Internal error occurred: {problem}")
        await channels.write(_STATUS, encode(refusal.status()))
        await socket.close()
        return
    try:
        await _both_ways(channels, running, options, can_close="v5" in protocol)
    finally:
        await running.close()
    await socket.close()


async def _both_ways(channels: Channels, running: Running, options: CommandOptions, *, can_close: bool) -> None:
    feeding = asyncio.create_task(_feed(channels, running, options, can_close=can_close))
    showing = asyncio.create_task(_show(channels, running, options))
    try:
        await asyncio.wait({feeding, showing}, return_when=asyncio.FIRST_COMPLETED)
        is_gone = not showing.done()
        (feeding if is_gone else showing).result()
        if is_gone:
            raise Gone
    finally:
        feeding.cancel()
        showing.cancel()
        await asyncio.gather(feeding, showing, return_exceptions=True)


async def _feed(channels: Channels, running: Running, options: CommandOptions, *, can_close: bool) -> None:
    """What the client types goes to the process, until the client has gone."""
    has_input = options.has_stdin
    while (message := await channels.read()) is not None:
        channel, data = message
        if channel == _STDIN and has_input and data:
            await running.write(data)
        elif channel == _CLOSE and can_close and data == bytes((_STDIN,)) and has_input:
            has_input = False
            await running.end_input()
        elif channel == _RESIZE and options.has_terminal:
            with suppress(msgspec.MsgspecError):
                size = _size(data)
                if 0 < size.width <= _MOST_SIDE and 0 < size.height <= _MOST_SIDE:
                    running.resize(size.width, size.height)


async def _show(channels: Channels, running: Running, options: CommandOptions) -> None:
    """What the process writes goes to the client, and at the end how it has ended."""
    wanted = (False, options.has_stdout, options.has_stderr)
    async for output, data in running.output():
        if wanted[output]:
            await channels.write(output, data)
    await channels.write(_STATUS, encode(_ending(await running.exit_code())))


def _ending(code: int) -> Json:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
