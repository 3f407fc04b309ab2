"""What a pod asks of cards by memory and cores, what it got, and beside whom it wants to be: all of it hashable.

A dialect makes a `CardAsk` of a pod and puts it into the pod's `Demand`; `muster/engine/slices.py` screens rows by it
and chooses the cards; the node table charges the `Slices` that come out.

Two annotations of a pod say beside whom it may be on a card, each with a selector of labels as text ("app=web",
"tier in (a, b), !old"), among pods of its namespace that hold slices of cards:

- `muster.dev/card-affinity`: every card it gets must be shared with such a pod. Where there is no such pod anywhere,
  and the selector selects the pod itself, it may go anywhere: somebody has to be the first.
- `muster.dev/card-anti-affinity`: no card it gets may be shared with such a pod, neither now nor later: pods that come
  afterwards keep away as well.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from muster.engine.devices import ANY_CARD
from muster.engine.devices_pod import PodCards
from muster.model.device import WHOLE_CORES, DeviceRequest
from muster.model.errors import InvalidObject
from muster.model.fields import shown
from muster.model.labels import Operator, Requirement, Selector, label_key_problem, label_value_problem

CARD_AFFINITY, CARD_ANTI_AFFINITY = "muster.dev/card-affinity", "muster.dev/card-anti-affinity"

_WHOLE_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Beside whom a pod may be on a card; a selector that is not given has nothing against anybody."""

    near: Selector | None = None
    apart: Selector | None = None


ANYBODY = Neighbours()


@dataclass(frozen=True, slots=True)
class CardAsk:
    """What a pod asks of cards and how it wants them; asks that mean the same are equal."""

    pod: PodCards = field(compare=False)
    neighbours: Neighbours = ANYBODY
    requests: tuple[DeviceRequest, ...] = field(init=False, repr=False, compare=False)  # those that differ, each once
    # The same for a quick look at many cards: of vendors who choose in their own way only what they look at first.
    screened: tuple[DeviceRequest, ...] = field(init=False, repr=False, compare=False)
    plain: DeviceRequest | None = field(init=False, repr=False, compare=False)  # all it asks, where it has no wishes
    _key: Hashable = field(init=False, repr=False)
    _hash: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pod = self.pod
        asked = pod.asked_vendors
        assert asked, "an ask without a request is no ask"
        key = (
            tuple(tuple(requests[name] for name in sorted(requests)) for requests in pod.requests),
            pod.init_count,
            tuple((pod.vendors[name], pod.wishes.get(name), pod.orders.get(name)) for name in asked),
            pod.weights,
        )
        requests = dict.fromkeys(request for requests in pod.requests for request in requests.values())
        object.__setattr__(self, "requests", tuple(requests))
        object.__setattr__(self, "screened", tuple(self._screened(request) for request in requests))
        object.__setattr__(self, "plain", self._only_request() if self.neighbours == ANYBODY else None)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_hash", None)

    def _screened(self, request: DeviceRequest) -> DeviceRequest:
        if self.pod.vendors[request.vendor].choose is None:
            return request
        return replace(request, memory_mib=0, memory_percent=None, cores=0)

    def _only_request(self) -> DeviceRequest | None:
        pod = self.pod
        requests = [request for requests in pod.requests for request in requests.values()]
        if len(requests) > 1 or pod.init_count or pod.wishes.get(requests[0].vendor, ANY_CARD) != ANY_CARD:
            return None
        return requests[0] if pod.vendors[requests[0].vendor].choose is None else None

    def __hash__(self) -> int:
        # Asked for on every look at a column, and deep: worked out once.
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self._key, self.neighbours)))
        assert self._hash is not None
        return self._hash

    @property
    def cards(self) -> int:
        """On how many cards it will be at least; whole cards of several containers cannot be the same ones."""
        running = (request for requests in self.pod.requests[self.pod.init_count :] for request in requests.values())
        wholes = sum(request.count for request in running if _is_whole(request))
        return max(wholes, 1, *(request.count for request in self.requests))

    def percent(self, card_memory_mib: int) -> int:
        """The part of a card of so much memory that the hungriest container takes of one, in whole per cents."""
        return max(_percent(request, card_memory_mib) for request in self.requests)


def _is_whole(request: DeviceRequest) -> bool:
    return request.cores >= WHOLE_CORES or (not request.memory_mib and request.memory_percent == _WHOLE_PERCENT)


def _percent(request: DeviceRequest, card_memory_mib: int) -> int:
    memory = request.memory_percent or 0
    if request.memory_mib:
        memory = -(-request.memory_mib * _WHOLE_PERCENT // card_memory_mib) if card_memory_mib else 0
    return min(_WHOLE_PERCENT, max(1, memory, request.cores))


# Neighbours as pods write them ---------------------------------------------------------------------------------------

_WORD = r"[^\s,=!()]+"
_SET = re.compile(rf"({_WORD})\s+(in|notin)\s*\(([^()]*)\)")
_PAIR = re.compile(rf"({_WORD})\s*(==|=|!=)\s*({_WORD})?")
_PRESENCE = re.compile(rf"(!?)\s*({_WORD})")
_PARTS = re.compile(r"(?:[^,()]|\([^()]*\))+")  # commas inside brackets part values, not requirements


def read_neighbours(annotations: Mapping[str, str], path: str = "metadata.annotations") -> Neighbours:
    """Beside whom the pod's annotations say that it may be."""
    near, apart = (
        read_selector_text(annotations[name], f"{path}[{name}]") if name in annotations else None
        for name in (CARD_AFFINITY, CARD_ANTI_AFFINITY)
    )
    return Neighbours(near, apart)


def read_selector_text(text: str, path: str = "") -> Selector:
    """A selector of labels written as one line, as kubectl takes it; an empty one would select every pod: refused."""
    hint = 'give requirements such as "app=web, tier in (a, b), !old"'
    parts = _PARTS.findall(text)
    if not parts or ",".join(parts) != text:
        raise InvalidObject(path, f"is {shown(text)}", hint)
    requirements = []
    for part in parts:
        requirement = _requirement(part.strip())
        if requirement is None or not _is_sound(requirement):
            raise InvalidObject(path, f"holds {shown(part.strip())}", hint)
        requirements.append(requirement)
    return Selector(tuple(requirements))


def _requirement(text: str) -> Requirement | None:
    """One requirement; `None` where the text is none."""
    if found := _SET.fullmatch(text):
        key, word, values = found.groups()
        operator = Operator.IN if word == "in" else Operator.NOT_IN
        return Requirement(key, operator, frozenset(value.strip() for value in values.split(",")))
    if found := _PAIR.fullmatch(text):
        key, word, value = found.groups()
        return Requirement(key, Operator.NOT_IN if word == "!=" else Operator.IN, frozenset([value or ""]))
    if found := _PRESENCE.fullmatch(text):
        return Requirement(found[2], Operator.DOES_NOT_EXIST if found[1] else Operator.EXISTS)
    return None


def _is_sound(requirement: Requirement) -> bool:
    values = requirement.values
    return not label_key_problem(requirement.key) and not any(label_value_problem(value) for value in values)
