"""Addresses and ports for services. One server owns its store, so that what is free is known here. For the chain."""

from __future__ import annotations

import ipaddress
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from muster.apiserver.kinds.problems import Problems, invalid, raise_all
from muster.apiserver.statuses import internal_error
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Store, Transaction
from muster.store.records import Key, Record, Scope

SERVICES = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30_000, 32_768)
_PROMISED = 1_024  # given out lately, and perhaps not written yet
_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")
_WITH_PORTS = ("NodePort", "LoadBalancer")


class Holdings:
    """What services hold. Each state of one is read once: a new service looks at all the others."""

    def __init__(self) -> None:
        self._known: dict[Key, _Held] = {}

    def of(self, services: Sequence[Record]) -> tuple[set[str], set[tuple[str, int]]]:
        """The addresses that services have, and the ports with their protocols."""
        if len(self._known) > 2 * len(services) + _PROMISED:
            self._known.clear()  # most of those are gone
        held = [self._held(record) for record in services]
        addresses = {address for one in held for address in one.addresses}
        return addresses, {port for one in held for port in one.ports}

    def _held(self, record: Record) -> _Held:
        known = self._known.get(record.key)
        if known is None or known.revision != record.revision:
            spec = decode(record).get("spec") or {}
            ports = [(port.get("protocol") or "TCP", port.get("nodePort") or 0) for port in spec.get("ports") or ()]
            held = tuple((protocol, number) for protocol, number in ports if number)
            known = self._known[record.key] = _Held(record.revision, tuple(spec.get("clusterIPs") or ()), held)
        return known


class _Held(NamedTuple):
    revision: int
    addresses: tuple[str, ...]
    ports: tuple[tuple[str, int], ...]


def check_addresses(write: Transaction, key: Key, service: Object, holdings: Holdings) -> None:
    """Refuse a new service whose own choice of an address or of ports is out of range or taken."""
    spec = service.get("spec") or {}
    raise_all(_problems(spec, lambda: holdings.of([one for one in write.page(Scope("services"), 0) if one.key != key])))


def _problems(spec: Object, held: Callable[[], tuple[set[str], set[tuple[str, int]]]]) -> Problems:
    wanted = [one for one in spec.get("clusterIPs") or () if one != "None"]
    ports = [port.get("nodePort") or 0 for port in spec.get("ports") or ()]
    for address in wanted:
        if ipaddress.ip_address(address) not in SERVICES:
            why = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {SERVICES}"
            yield invalid("spec.clusterIPs", wanted, f"failed to allocate IP {address}: {why}")
    for index, port in enumerate(ports):
        if port and port not in NODE_PORTS:
            known = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
            why = f"provided port is not in the valid range. The range of valid ports is {known}"
            yield invalid(f"spec.ports[{index}].nodePort", port, why)
    if not wanted and not any(ports):
        return  # nothing that others could have
    addresses, numbers = held()
    if taken := next((one for one in wanted if one in addresses), ""):
        problem = f"failed to allocate IP {taken}: provided IP is already allocated"
        yield invalid("spec.clusterIPs", wanted, problem)
    for index, port in enumerate(spec.get("ports") or ()):
        if port.get("nodePort") and (port.get("protocol") or "TCP", port["nodePort"]) in numbers:
            yield invalid(f"spec.ports[{index}].nodePort", port["nodePort"], "provided port is already allocated")


class Addresses:
    """Gives services what they need to be reached."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store = store
        self._chance = chance
        self._holdings = Holdings()
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
        used, _ = self._held()
        size = SERVICES.num_addresses
        # The first addresses are for services that have to know theirs, as the API's own.
        free = (str(SERVICES[number]) for number in self._numbers(range(256, size - 1)))
        address = self._first_free("serviceIP", free, used)
        return {**spec, "clusterIP": address, "clusterIPs": [address]}

    def _with_ports(self, spec: Object, before: Object) -> Object:
        is_wanted = spec.get("type") in _WITH_PORTS and spec.get("allocateLoadBalancerNodePorts") is not False
        ports = spec.get("ports")
        if not is_wanted or not isinstance(ports, list):
            return spec
        had = {port.get("port"): port["nodePort"] for port in before.get("ports") or () if port.get("nodePort")}
        used = {number for _, number in self._held()[1]}
        used |= {port.get("nodePort") or 0 for port in ports if isinstance(port, dict)}
        settled = []
        for port in ports:
            if isinstance(port, dict) and not port.get("nodePort"):
                kept = had.get(port.get("port")) or self._first_free("nodePort", self._numbers(NODE_PORTS), used)
                settled.append({**port, "nodePort": kept})
            else:
                settled.append(port)
        return {**spec, "ports": settled}

    def _held(self) -> tuple[set[str], set[tuple[str, int]]]:
        return self._holdings.of(self._store.page(Scope("services")).records)

    def _numbers(self, within: range) -> Iterator[int]:
        """All numbers of a range, from a random one on."""
        start = self._chance.randrange(len(within))
        yield from within[start:]
        yield from within[:start]

    def _first_free(self, what: str, candidates: Iterable[str | int], used: Iterable[object]) -> str | int:
        """One that nobody has; what was promised to others is given again only where there is nothing else."""
        taken = set(used)
        promised: str | int | None = None
        for found in candidates:
            if found in taken:
                continue
            if found not in self._promised:
                break
            promised = promised or found
        else:
            if promised is None:
                raise internal_error(f"failed to allocate a {what}: range is full")
            found = promised
        self._promised[found] = None
        if len(self._promised) > _PROMISED:
            self._promised.popitem(last=False)
        return found
