"""Reaching into simulated pods: their logs, and the few commands that have an answer there. Put together by `app`.

`nvidia-smi` shows the slices of cards that the pod was given, as its annotations say.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable

from muster.dialects.hami.cards import shares_of_container
from muster.engine.contracts import Vendor
from muster.model.device import Device, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.pod_streams import CommandOptions, Connection, LogOptions, Output, Place, Running, Unreachable
from muster.store.kinds import Object

Find = Callable[[str, str, str], Object | None]  # resource, namespace, name
_NOT_FOUND = 127


class Answered:
    """A command that has said all it will say."""

    def __init__(self, text: str, complaint: str = "", code: int = 0) -> None:
        self._text = text
        self._complaint = complaint
        self._code = code

    async def output(self) -> AsyncGenerator[tuple[Output, bytes], None]:
        if self._text:
            yield Output.STDOUT, self._text.encode()
        if self._complaint:
            yield Output.STDERR, self._complaint.encode()

    async def write(self, data: bytes) -> None:
        """It reads nothing."""

    async def end_input(self) -> None:
        """Nor does it wait for more."""

    def resize(self, width: int, height: int) -> None:
        """It has no terminal."""

    async def exit_code(self) -> int:
        return self._code

    async def close(self) -> None:
        """Nothing is held."""


class SimulatedStreams:
    """Logs and commands of simulated pods."""

    def __init__(self, find: Find, vendors: Iterable[Vendor]) -> None:
        self._find = find
        self._vendors = tuple(vendors)

    async def open_log(self, place: Place, options: LogOptions, /) -> AsyncGenerator[bytes, None]:
        status = self._status(place)
        state = status.get("lastState" if options.is_previous else "state") or {}
        run = state.get("running") or state.get("terminated")
        if run is None:
            raise Unreachable(f'container "{place.container}" in pod "{place.pod}" has not run')
        return _log(place, run, options)

    async def run(self, place: Place, options: CommandOptions, /) -> Running:
        if "running" not in (self._status(place).get("state") or {}):
            raise Unreachable(f'container "{place.container}" in pod "{place.pod}" is not running')
        name = options.command[0].rpartition("/")[2] if options.command else ""
        if name == "nvidia-smi":
            return self._nvidia_smi(place, options.command[1:])
        if name == "hostname":
            return Answered(f"{place.pod}\n")
        if name == "echo":
            return Answered(" ".join(options.command[1:]) + "\n")
        complaint = f"{name}: nothing really runs in a simulated pod; it knows nvidia-smi, hostname and echo\n"
        return Answered("", complaint, _NOT_FOUND)

    async def attach(self, place: Place, _options: CommandOptions, /) -> Running:
        self._status(place)
        return Answered("")

    async def connect(self, place: Place, port: int, /) -> Connection:
        raise Unreachable(f"port {port}: nobody listens in the simulated pod {place.pod}")

    def _pod(self, place: Place) -> Object:
        pod = self._find("pods", place.namespace, place.pod)
        if pod is None or pod["metadata"]["uid"] != place.uid:
            raise Unreachable(f'pod "{place.pod}" is not on this node')
        return pod

    def _status(self, place: Place) -> Object:
        status = self._pod(place).get("status") or {}
        for kind in ("containerStatuses", "initContainerStatuses"):
            for one in status.get(kind) or ():
                if one["name"] == place.container:
                    return dict(one)
        raise Unreachable(f'container not found ("{place.container}")')

    def _nvidia_smi(self, place: Place, arguments: tuple[str, ...]) -> Answered:
        node = self._find("nodes", "", place.node) or {}
        try:
            slices = list(self._slices(self._pod(place), place.container, node))
        except InvalidObject as problem:
            return Answered("", f"{problem}\n", 1)
        if not slices:
            return Answered("No devices were found\n", code=6)
        if arguments in (("-L",), ("--list-gpus",)):
            return Answered("".join(_listed(number, *one) for number, one in enumerate(slices)))
        return Answered(_table(slices))

    def _slices(self, pod: Object, container: str, node: Object) -> Iterable[tuple[Share, Device | None]]:
        """What a container holds, with the cards it is of."""
        for vendor in self._vendors:
            shares = shares_of_container(Fields.of(pod), container, vendor)
            devices = {device.uuid: device for device in vendor.devices_of(Fields.of(node))} if shares else {}
            for share in shares:
                yield share, devices.get(share.uuid)


async def _log(place: Place, run: Object, options: LogOptions) -> AsyncGenerator[bytes, None]:
    lines = [(run.get("startedAt"), f"simulated container {place.container} of {place.namespace}/{place.pod} runs")]
    if "finishedAt" in run:
        lines.append((run["finishedAt"], f"simulated container {place.container} ends with {run.get('exitCode', 0)}"))
    if options.tail_lines is not None:
        lines = lines[len(lines) - min(len(lines), options.tail_lines) :]
    for moment, line in lines:
        yield f"{moment} {line}\n".encode() if options.has_timestamps else f"{line}\n".encode()


def _listed(number: int, share: Share, device: Device | None) -> str:
    return f"GPU {number}: {_model(device)} (UUID: {share.uuid})\n"


def _model(device: Device | None) -> str:
    return device.model if device is not None else "unknown"


def _table(slices: list[tuple[Share, Device | None]]) -> str:
    """The table that people know, with the memory of the slice as the whole."""
    rule = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+\n"
    text = "+" + "-" * 89 + "+\n"
    text += f"| {'NVIDIA-SMI 580.00 (simulated)':<40}{'Driver Version: 580.00':<26}{'CUDA Version: 13.0':<21} |\n"
    text += rule
    text += f"| {'GPU  Name':<39} | {'Memory-Usage':>22} | {'GPU-Util  Compute M.':>20} |\n"
    text += rule.replace("-", "=")
    for number, (share, device) in enumerate(slices):
        memory = f"0MiB / {share.memory_mib}MiB"
        cores = f"0%  up to {share.cores or 100}%"
        text += f"| {number:>3}  {_model(device)[:34]:<34} | {memory:>22} | {cores:>20} |\n"
    return text + rule
