"""Answers the kubelet: which cards there are, which it should pick, and what containers get. Called by `sockets`.

One question at a time is answered about shares, because each answer changes what is left for the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from muster.agent.plugin import messages
from muster.agent.plugin.containers import (
    Places,
    allocated,
    cdi_name,
    cdi_text,
    limit_variables,
    limits_text,
    share_key,
    sight,
)
from muster.agent.plugin.disk import Disk, Kept
from muster.agent.plugin.grants import Grant, Grants, Node, NotGranted, Whose
from muster.agent.plugin.protobuf import Values
from muster.dialects.hami.node_lock import BY_UID
from muster.engine.contracts import Vendor
from muster.model.device import Device

log = logging.getLogger(__name__)
BETWEEN = "::"  # a card's uuid and the number of one of its slots
_MOST_IDS = 1_024


@dataclass(frozen=True, slots=True)
class Holder:
    """The container that the kubelet has given some devices to."""

    pod: str  # namespace/name
    container: str


class Kubelet(Protocol):
    """What the kubelet says of devices that it has given to containers."""

    async def holders(self, ids: frozenset[str]) -> Sequence[Holder]:
        """Whose exactly these devices are."""


class Around(Protocol):
    """The node and its pods, as the API server knows them."""

    async def node(self, devices: tuple[Device, ...]) -> Node:
        """The node as it is now, with the cards that the agent has found."""

    async def served(self, grant: Grant, *, is_whole: bool) -> None:
        """Tell that a container has its shares, and whether its pod has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """How shares are given out."""

    mode: str = BY_UID
    places: Places = field(default_factory=Places)
    is_scaled: bool = False  # more memory is given out than there is


class PluginService:
    """One vendor's cards on one node."""

    def __init__(
        self, vendor: Vendor, disk: Disk, kubelet: Kubelet, around: Around, *, settings: PluginSettings
    ) -> None:
        self._disk = disk
        self._kubelet = kubelet
        self._around = around
        self._settings = settings
        kept = disk.kept()
        self.grants = Grants(vendor, (one.grant for one in kept))
        self._keys = {one.grant.whose: one.key for one in kept}
        self._guessed: dict[frozenset[str], Whose] = {}  # answers that were given before it was known for whom
        self._one = asyncio.Lock()
        self._devices: tuple[Device, ...] = ()
        self._news = asyncio.Event()

    # Cards -----------------------------------------------------------------------------------------------------------

    def show(self, devices: Sequence[Device]) -> bool:
        """Have the kubelet know of these cards from now on; says whether that is news."""
        if tuple(devices) == self._devices:
            return False
        self._devices = tuple(devices)
        self._news.set()
        self._news = asyncio.Event()
        return True

    @property
    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def options(self, _request: Values) -> Values:
        """What the kubelet has to ask for."""
        return {"pre_start_required": True, "get_preferred_allocation_available": True}

    async def watch(self) -> AsyncIterator[Values]:
        """All slots of all cards, and once more whenever that changes."""
        while True:
            news = self._news
            yield {"devices": [one for device in self._devices for one in _slots(device)]}
            await news.wait()

    # Shares ----------------------------------------------------------------------------------------------------------

    async def preferred(self, request: Values) -> Values:
        """Devices of the cards that the next container waits for, as far as can be said; else of different cards."""
        answers = []
        for one in request["container_requests"]:
            size = min(max(0, one["size"]), _MOST_IDS)
            async with self._one:
                node = await self._around.node(self._devices)
                waiting = self.grants.waiting(size, node, frozenset(self._guessed.values()))
            wanted = [share.uuid for share in waiting[0].shares] if waiting else []
            answers.append({"ids": _picked(one["available"], one["must_include"], size=size, wanted=wanted)})
        return {"container_responses": answers}

    async def allocate(self, request: Values) -> Values:
        """What containers with these devices get; raises `NotGranted`."""
        return {"container_responses": [await self._allocate(one["ids"]) for one in request["container_requests"]]}

    async def _allocate(self, ids: Sequence[str]) -> Values:
        self._check(ids)
        key = share_key(ids)
        if self._settings.mode == BY_UID:
            # Whose it is turns out before the container is created, and then the runtime reads what stands there.
            return {"cdi_devices": [{"name": cdi_name(key)}]}
        async with self._one:
            node = await self._around.node(self._devices)
            self._forget_gone(node)
            taken = {whose for held, whose in self._guessed.items() if held != frozenset(ids)}
            waiting = self.grants.waiting(len(ids), node, taken)
            if not waiting:
                raise NotGranted(f"no pod on this node waits for {len(ids)} cards")
            guess = waiting[0]
            self._guessed[frozenset(ids)] = guess.whose
            # Where another could be meant, only the file says how much: it is written once that is known.
            others = [one for one in self.grants.waiting(len(ids), node) if one.whose.uid != guess.whose.uid]
            is_sure = all(one.shares == guess.shares and one.settings == guess.settings for one in others)
            limits = self._limits(guess) if is_sure else {}
            self._disk.make_folder(key)
            return allocated(
                sight(key, guess.shares, self._settings.places, is_opted_out=guess.is_opted_out, limits=limits)
            )

    async def pre_start(self, request: Values) -> Values:
        """Settle whose devices these are, before their container is created; raises `NotGranted`."""
        ids = frozenset(request["ids"])
        self._check(request["ids"])
        async with self._one:
            holders = await self._kubelet.holders(ids)
            if len(holders) != 1:
                raise NotGranted(f"the kubelet names {len(holders)} containers for these devices")
            node = await self._around.node(self._devices)
            self._forget_gone(node)
            guessed = self._guessed.pop(ids, None)
            grant = self.grants.grant(holders[0].pod, holders[0].container, node)
            if len(grant.shares) != len(ids):
                raise NotGranted(
                    f"container {holders[0].container} was given {len(grant.shares)} cards, not {len(ids)}"
                )
            if self._settings.mode != BY_UID and guessed is not None and guessed != grant.whose:
                self._check_guess(guessed, grant, node)
            self._write(grant, share_key(ids))
            is_whole = self.grants.is_served(grant.whose.uid, node)
        await self._around.served(grant, is_whole=is_whole)
        return {}

    def _check_guess(self, guessed: Whose, grant: Grant, node: Node) -> None:
        """A container that was taken for another sees that one's cards: right only where they are the same."""
        waiting = {one.whose: one for one in self.grants.waiting(len(grant.shares), node)}
        known = self.grants.given.get(guessed) or waiting.get(guessed)
        if known is None or [one.uuid for one in known.shares] != [one.uuid for one in grant.shares]:
            del self.grants.given[grant.whose]
            raise NotGranted(f"pod {grant.pod} was shown another pod's cards: delete it, and it will be made anew")

    def _write(self, grant: Grant, key: str) -> None:
        limits = self._limits(grant)
        before = self._keys.get(grant.whose)
        if before is not None and before != key:
            self._disk.remove(before)
        if not grant.is_opted_out:
            self._disk.write_limits(key, limits_text(limits))
        if self._settings.mode == BY_UID:
            seen = sight(key, grant.shares, self._settings.places, is_opted_out=grant.is_opted_out, limits=limits)
            self._disk.write_cdi(key, cdi_text(key, seen))
        if before != key:
            # Devices that were another's before are this container's now.
            self._keys = {whose: known for whose, known in self._keys.items() if known != key}
            self._keys[grant.whose] = key
            self._keep()

    def _limits(self, grant: Grant) -> dict[str, str]:
        return limit_variables(grant.shares, settings=grant.settings, is_scaled=self._settings.is_scaled)

    def _forget_gone(self, node: Node) -> None:
        live = {str(pod["metadata"].get("uid")) for pod in node.pods}
        self._guessed = {ids: whose for ids, whose in self._guessed.items() if whose.uid in live}
        gone = self.grants.forget_gone(node.pods)
        for grant in gone:
            key = self._keys.pop(grant.whose, None)
            if key is not None:
                self._disk.remove(key)
        if gone:
            self._keep()

    def _keep(self) -> None:
        self._disk.keep(
            Kept(grant, self._keys[whose]) for whose, grant in self.grants.given.items() if whose in self._keys
        )

    def _check(self, ids: Sequence[str]) -> None:
        known = {device.uuid: device for device in self._devices}
        if not ids or len(ids) > _MOST_IDS or len(set(ids)) != len(ids):
            raise NotGranted("these are no devices of this plugin")
        for one in ids:
            uuid, _, slot = one.rpartition(BETWEEN)
            device = known.get(uuid)
            if device is None or not slot.isdigit() or len(slot) > 4 or int(slot) >= device.slots:
                raise NotGranted(f"{one[:80]!r} is no device of this plugin")


def _slots(device: Device) -> Iterable[Values]:
    health = messages.HEALTHY if device.is_healthy else messages.UNHEALTHY
    topology = {"nodes": [{"ID": device.numa}]}
    return (
        {"ID": f"{device.uuid}{BETWEEN}{slot}", "health": health, "topology": topology} for slot in range(device.slots)
    )


def _picked(available: Sequence[str], must: Sequence[str], *, size: int, wanted: Sequence[str]) -> list[str]:
    """So many of the devices there are: those that must be, then of the wanted cards, then of cards not yet picked."""
    chosen = list(dict.fromkeys(must))[:size]
    by_card: dict[str, list[str]] = {}
    for one in sorted(set(available) - set(chosen)):
        by_card.setdefault(one.rpartition(BETWEEN)[0], []).append(one)
    for uuid in wanted:
        if len(chosen) < size and by_card.get(uuid):
            chosen.append(by_card[uuid].pop(0))
    while len(chosen) < size and any(by_card.values()):
        for uuid in sorted(by_card):
            if len(chosen) < size and by_card[uuid]:
                chosen.append(by_card[uuid].pop(0))
    return chosen
