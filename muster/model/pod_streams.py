"""Reaching into running pods: what the API server asks of nodes, and what nodes of any kind give it.

The server (`apiserver/pod_streams`) knows the protocols that clients speak, a node knows processes; this is all that
they know of each other. Whoever runs pods implements `PodStreams`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class Unreachable(Exception):
    """Why a node cannot do what was asked of it: there is no such container, it does not run, nobody listens."""


class Output(IntEnum):
    """Where a process writes to, by the number that the protocols use."""

    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A pod, or a container of it."""

    node: str
    namespace: str
    pod: str
    uid: str
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which part of a log, and in which form."""

    is_followed: bool = False  # goes on until the container ends
    is_previous: bool = False  # of the container before the last restart
    has_timestamps: bool = False
    tail_lines: int | None = None  # None: all there are
    since_s: float | None = None  # nothing from before this moment


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """What is to run, and what of it the client is connected with."""

    command: tuple[str, ...] = ()  # empty: what runs already
    has_stdin: bool = False
    has_stdout: bool = False
    has_stderr: bool = False
    has_terminal: bool = False


class Running(Protocol):
    """A process that a client is connected with."""

    def output(self) -> AsyncGenerator[tuple[Output, bytes], None]:
        """What it writes, in pieces of at most 64 KiB, until it has ended; it waits for whoever reads slowly."""

    async def write(self, data: bytes) -> None:
        """Give it input, and wait until it has taken that; what it does not want to read any more is thrown away."""

    async def end_input(self) -> None:
        """Say that no more input comes."""

    def resize(self, width: int, height: int) -> None:
        """Tell its terminal how large the client's is, in characters."""

    async def exit_code(self) -> int:
        """How it ended, once it has."""

    async def close(self) -> None:
        """The client has gone; may be called at any time."""


class Connection(Protocol):
    """A connection with a port of a pod."""

    async def read(self) -> bytes:
        """What comes next, at most 64 KiB; nothing at the end."""

    async def write(self, data: bytes) -> None:
        """Send, and wait until there is room for more; thrown away where the other side has closed."""

    async def end_input(self) -> None:
        """Say that no more comes from this side."""

    async def close(self) -> None:
        """End it both ways; may be called at any time."""


class PodStreams(Protocol):
    """All nodes, as the server asks them. Every method may raise `Unreachable`."""

    async def open_log(self, place: Place, options: LogOptions, /) -> AsyncGenerator[bytes, None]:
        """A container's log in pieces; one that is followed waits for more."""

    async def run(self, place: Place, options: CommandOptions, /) -> Running:
        """Start a command in a container."""

    async def attach(self, place: Place, options: CommandOptions, /) -> Running:
        """Connect with what a container runs."""

    async def connect(self, place: Place, port: int, /) -> Connection:
        """Connect with a port of a pod."""


class NoNodes:
    """For a server without nodes: pods are on paper only."""

    async def open_log(self, place: Place, _options: LogOptions, /) -> AsyncGenerator[bytes, None]:
        raise _nobody(place)

    async def run(self, place: Place, _options: CommandOptions, /) -> Running:
        raise _nobody(place)

    async def attach(self, place: Place, _options: CommandOptions, /) -> Running:
        raise _nobody(place)

    async def connect(self, place: Place, _port: int, /) -> Connection:
        raise _nobody(place)


def _nobody(place: Place) -> Unreachable:
    return Unreachable(f"nothing runs the pods of node {place.node}")
