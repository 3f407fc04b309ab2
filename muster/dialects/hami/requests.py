"""What the containers of a pod ask of cards, vendor by vendor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from muster.engine.contracts import Vendor
from muster.model.device import DeviceRequest
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

ContainerRequests = tuple[Mapping[str, DeviceRequest], ...]  # by container, init containers first; by vendor


def containers_of(pod: Fields) -> tuple[Fields, ...]:
    """The containers in the order in which annotations count them: init containers first."""
    spec = pod.child("spec")
    return (*spec.children("initContainers"), *spec.children("containers"))


def init_count(pod: Fields) -> int:
    """How many of a pod's containers run before the others."""
    return len(pod.child("spec").items("initContainers"))


def requests_of(pod: Fields, vendors: Iterable[Vendor]) -> ContainerRequests:
    """What each container asks for."""
    known = tuple(vendors)
    return tuple(read_requests(container, known)[0] for container in containers_of(pod))


def read_requests(
    container: Fields, vendors: Sequence[Vendor]
) -> tuple[dict[str, DeviceRequest], tuple[Vendor, ...]]:
    """What a container asks for, and those of whom it names resources without asking for anything."""
    resources = container.child("resources")
    named = resources.child("limits").values.keys() | resources.child("requests").values.keys()
    # Most containers ask for no cards, and those who do for one vendor's: nobody else has to look.
    meant = [vendor for vendor in vendors if not vendor.resources.names.isdisjoint(named)]
    if not meant:
        return {}, ()
    read = {vendor.name: vendor.request_of(container) for vendor in meant}
    asked = {name: request for name, request in read.items() if request is not None and request.count > 0}
    return asked, tuple(vendor for vendor in meant if vendor.name not in asked)


def request_problem(container: Fields, vendor: Vendor) -> InvalidObject | None:
    """What is wrong where a container names a vendor's resources and still asks for nothing; `None`: all are 0."""
    resources = container.child("resources")
    for side in ("limits", "requests"):
        amounts = resources.child(side)
        for name in sorted(vendor.resources.names):
            amount = amounts.quantity(name)
            if amount is not None and not amount.is_zero:
                hint = "give a number of cards, and of each no more than a card could have"
                return InvalidObject(f"{amounts.path}[{name}]", f"asks for no card of {vendor.name}", hint)
    return None
