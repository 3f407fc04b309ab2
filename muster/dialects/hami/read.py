"""Nodes and pods as HAMi's annotations describe them: the cards of a node, and what a pod holds of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.dialects.hami.filter import HeldShares
from muster.dialects.hami.requests import containers_of, init_count
from muster.dialects.hami.settings import ASSIGNED_NODE
from muster.engine.contracts import Vendor
from muster.model.device import ContainerShares, Device, Share, standing_shares
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards that a node registers. What a vendor cannot read gives no cards, so nothing unknown is sold."""

    devices: tuple[Device, ...] = ()
    problems: tuple[InvalidObject, ...] = ()


def node_cards(node: Fields, vendors: Iterable[Vendor]) -> NodeCards:
    """The cards of a node, vendor by vendor."""
    devices: list[Device] = []
    problems = []
    for vendor in vendors:
        try:
            devices.extend(vendor.devices_of(node))
        except InvalidObject as problem:
            problems.append(problem)
    return NodeCards(tuple(devices), tuple(problems))


def held_shares(pod: Fields, vendors: Iterable[Vendor]) -> HeldShares | None:
    """What a pod holds; `None` where it holds nothing: it was never placed, or it has ended."""
    metadata, status = pod.child("metadata"), pod.child("status")
    # The node that it is bound to is the API server's word; the annotation could be anybody's.
    node = pod.child("spec").text("nodeName") or metadata.text_map("annotations").get(ASSIGNED_NODE, "")
    if not node or status.text("phase") in ENDED:
        return None
    held = {vendor.name: _standing(pod, vendor.shares_of(pod)) for vendor in vendors}
    shares = {name: got for name, got in held.items() if got}
    if not shares:
        return None
    return HeldShares(uid=metadata.text("uid"), namespace=metadata.text("namespace"), node=node, shares=shares)


def _standing(pod: Fields, entries: ContainerShares) -> tuple[Share, ...]:
    """What is held of each card now; init containers that are through have given theirs back."""
    count, first = len(containers_of(pod)), init_count(pod)
    # The text ends every entry, so it reads as one more than was written.
    written = entries[:-1] if entries and not entries[-1] else entries
    if len(written) != count:
        # Entries of containers without cards may be missing: whose an entry is is unknown, so all of them count.
        return standing_shares(written, 0)
    if first and _are_init_containers_through(pod):
        return standing_shares(written[first:], 0)
    return standing_shares(written, first)


def _are_init_containers_through(pod: Fields) -> bool:
    statuses = tuple(pod.child("status").children("initContainerStatuses"))
    ended = (status.child("state").child("terminated") for status in statuses)
    return len(statuses) == init_count(pod) and all(
        state.has("exitCode") and state.integer("exitCode") == 0 for state in ended
    )
