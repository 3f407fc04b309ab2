"""Addresses and ports for services. One server owns its store, so that what is free is known here. For the chain."""

from __future__ import annotations

import ipaddress
import random
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Store
from muster.store.records import Scope

SERVICES = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30_000, 32_768)
_PROMISED = 1_024  # given out lately, and perhaps not written yet
_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")
_WITH_PORTS = ("NodePort", "LoadBalancer")


class Addresses:
    """Gives services what they need to be reached."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store = store
        self._chance = chance
        self._promised: OrderedDict[str | int, None] = OrderedDict()

    def complete(self, service: Object, before: Object | None) -> Object:
        """A service with its address and its ports; what it had it keeps."""
        spec = service.get("spec")
        if not isinstance(spec, dict):
            return service
        had = (before or {}).get("spec") or {}
        with_address = spec if had.get("clusterIP") else self._with_address(spec)
        return {**service, "spec": self._with_ports(with_address, had)}

    def _with_address(self, spec: Object) -> Object:
        if spec.get("type", "ClusterIP") not in _WITH_ADDRESS or spec.get("clusterIP") or spec.get("clusterIPs"):
            return spec
        used = {address for one in self._specs() for address in one.get("clusterIPs") or ()}
        size = SERVICES.num_addresses
        # The first addresses are for services that have to know theirs, as the API's own.
        free = (str(SERVICES[number]) for number in self._numbers(range(256, size - 1)))
        address = self._first_free(free, used)
        return {**spec, "clusterIP": address, "clusterIPs": [address]}

    def _with_ports(self, spec: Object, before: Object) -> Object:
        is_wanted = spec.get("type") in _WITH_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False
        ports = spec.get("ports")
        if not is_wanted or not isinstance(ports, list):
            return spec
        had = {port.get("port"): port["nodePort"] for port in before.get("ports") or () if port.get("nodePort")}
        used = {port.get("nodePort") for one in self._specs() for port in one.get("ports") or ()}
        used |= {port.get("nodePort") for port in ports if isinstance(port, dict)}
        settled = []
        for port in ports:
            if isinstance(port, dict) and not port.get("nodePort"):
                kept = had.get(port.get("port")) or self._first_free(self._numbers(NODE_PORTS), used)
                settled.append({**port, "nodePort": kept})
            else:
                settled.append(port)
        return {**spec, "ports": settled}

    def _specs(self) -> list[Object]:
        return [decode(record).get("spec") or {} for record in self._store.page(Scope("services")).records]

    def _numbers(self, within: range) -> Iterator[int]:
        """All numbers of a range, from a random one on."""
        start = self._chance.randrange(len(within))
        yield from within[start:]
        yield from within[:start]

    def _first_free(self, candidates: Iterable[str | int], used: Iterable[object]) -> str | int:
        taken = set(used)
        found = next(one for one in candidates if one not in taken and one not in self._promised)
        self._promised[found] = None
        if len(self._promised) > _PROMISED:
            self._promised.popitem(last=False)
        return found
