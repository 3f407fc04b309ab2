"""Nodes, pods and quotas as the rules about cards take them, out of what was heard of a cluster. Used by `app`.

Objects are read once for each revision: a filter over thousands of pods must not read thousands of annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from muster.controllers.view import View
from muster.dialects.hami.claims import claimed
from muster.dialects.hami.filter import FilterState, HeldShares
from muster.dialects.hami.quota import QuotaLine, Quotas, amounts_of, charged, read_limits
from muster.dialects.hami.read import node_cards
from muster.engine.contracts import Vendor
from muster.model.device import Device
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.records import Key

NODES, PODS, QUOTAS = "nodes", "pods", "resourcequotas"
FOLLOWED = frozenset({NODES, PODS, QUOTAS})
Read = TypeVar("Read")


class Knowledge:
    """What a view says of cards."""

    def __init__(self, view: View, vendors: Iterable[Vendor]) -> None:
        self._view = view
        self._vendors = tuple(vendors)
        self._by_name = {vendor.name: vendor for vendor in self._vendors}
        self._devices: dict[Key, tuple[int, tuple[Device, ...]]] = {}
        self._held: dict[Key, tuple[int, HeldShares | None]] = {}
        self._limits: dict[Key, tuple[int, Mapping[str, int]]] = {}

    def state(self) -> FilterState:
        """Nodes with cards, what bound pods hold of them, and the quotas with that counted."""
        self._devices = self._read(NODES, self._devices, lambda node: node_cards(node, self._vendors).devices)
        nodes = {key.name: devices for key, (_, devices) in self._devices.items() if devices}
        self._held = self._read(PODS, self._held, lambda pod: self._claim(pod, nodes))
        held = tuple(one for _, one in self._held.values() if one is not None)
        return FilterState(nodes=nodes, pods=held, quotas=self._quotas(held))

    def _claim(self, pod: Fields, nodes: Mapping[str, tuple[Device, ...]]) -> HeldShares | None:
        # What a pod without a node claims is anybody's word; what was given here is remembered here.
        node = pod.child("spec").text("nodeName")
        return claimed(pod, self._vendors, nodes.get(node, ())) if node else None

    def _quotas(self, held: Iterable[HeldShares]) -> Quotas:
        self._limits = self._read(QUOTAS, self._limits, lambda quota: read_limits(quota, self._vendors))
        quotas: dict[str, dict[str, QuotaLine]] = {}
        for key, (_, limits) in self._limits.items():
            lines = quotas.setdefault(key.namespace, {})
            for name, limit in limits.items():
                known = lines.get(name)
                lines[name] = QuotaLine(0, limit if known is None or known.limit is None else min(known.limit, limit))
        counted: Quotas = quotas
        for one in held:
            if one.namespace not in quotas:
                continue
            for name, shares in one.shares.items():
                counted = charged(counted, one.namespace, self._by_name[name].resources, amounts_of(shares))
        return counted

    def _read(
        self, resource: str, known: dict[Key, tuple[int, Read]], read: Callable[[Fields], Read]
    ) -> dict[Key, tuple[int, Read]]:
        """All objects of a resource as they are read; those that cannot be are left out."""
        found: dict[Key, tuple[int, Read]] = {}
        for record in self._view.records(resource):
            before = known.get(record.key)
            if before is not None and before[0] == record.revision:
                found[record.key] = before
                continue
            try:
                found[record.key] = (record.revision, read(Fields.of(self._view.get(record.key))))
            except InvalidObject:
                continue
        return found
