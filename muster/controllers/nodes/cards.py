"""Cards of simulated nodes that are lost on demand: an annotation on a node names them. Put together by `app`.

The node registers a lost card as unhealthy and offers less, and the pods that hold a part of it fail; what a device
plugin and a driver would do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from muster.controllers.loop import Turn
from muster.controllers.nodes.timing import PREFIX
from muster.controllers.view import Seen, View
from muster.engine.devices_text import register_text
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.store.records import Key
from muster.vendors.nvidia import REGISTER, VENDOR, devices_of, shares_of

NODES = "nodes"
LOST = PREFIX + "lost-cards"  # on a node: the uuids of cards, with commas between them


def lost_cards(node: Object | None) -> frozenset[str]:
    """The cards that somebody has let a node lose."""
    text = ((node or {}).get("metadata", {}).get("annotations") or {}).get(LOST) or ""
    return frozenset(one.strip() for one in text.split(",") if one.strip())


def has_lost_card(pod: Object, node: Object) -> bool:
    """Whether a pod holds a part of a card that its node has lost."""
    lost = lost_cards(node)
    if not lost:
        return False
    try:
        return any(share.uuid in lost for shares in shares_of(Fields.of(pod)) for share in shares)
    except InvalidObject:
        return False  # what it holds cannot be read


def offered(registered: Object, node: Object) -> Object:
    """The status of a node as it registers, less the cards that it has lost."""
    status: Object = registered.get("status") or {}
    lost, count = lost_cards(node), VENDOR.resources.count
    if not lost or count not in (status.get("allocatable") or {}) or not _has_cards(registered):
        return status
    gone = sum(device.slots for device in devices_of(Fields.of(registered)) if device.uuid in lost)
    left = max(0, int(status["allocatable"][count]) - gone)
    return {**status, "allocatable": {**status["allocatable"], count: str(left)}}


def _has_cards(registered: Object) -> bool:
    return REGISTER in (registered["metadata"].get("annotations") or {})


class LostCards:
    """Keeps what nodes register true to what they have lost."""

    name = "lost cards"

    def __init__(self, nodes: Mapping[str, Object]) -> None:
        self._nodes = {name: node for name, node in nodes.items() if _has_cards(node)}  # as they register

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        registered = self._nodes.get(seen.key.name) if seen.key.resource == NODES else None
        if registered is None or seen.now is None:
            return
        said = (seen.now["metadata"].get("annotations") or {}).get(REGISTER)
        if lost_cards(seen.now) or said != registered["metadata"]["annotations"][REGISTER]:
            yield seen.key

    async def reconcile(self, turn: Turn) -> None:
        node = turn.view.get(turn.key)
        if node is None:
            return
        lost = lost_cards(node)
        devices = devices_of(Fields.of(self._nodes[turn.key.name]))
        wanted = register_text(replace(one, is_healthy=one.is_healthy and one.uuid not in lost) for one in devices)
        annotations = node["metadata"].get("annotations") or {}
        if annotations.get(REGISTER) != wanted:
            changed = {**annotations, REGISTER: wanted}
            await turn.update(turn.key, {**node, "metadata": {**node["metadata"], "annotations": changed}})
