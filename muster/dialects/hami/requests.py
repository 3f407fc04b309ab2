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
    return tuple(container_requests(one, vendors_named(one, known)) for one in containers_of(pod))


def vendors_named(container: Fields, vendors: Sequence[Vendor]) -> list[Vendor]:
    """Those whose resources a container names: most containers name nobody's, and nobody else has to look."""
    named = _resources_named(container)
    return [vendor for vendor in vendors if not vendor.resources.names.isdisjoint(named)]


def is_sized(container: Fields, vendor: Vendor) -> bool:
    """Whether a container names more than a number of a vendor's cards."""
    return not (vendor.resources.names - {vendor.resources.count}).isdisjoint(_resources_named(container))


def _resources_named(container: Fields) -> set[str]:
    resources = container.child("resources")
    return resources.child("limits").values.keys() | resources.child("requests").values.keys()


def container_requests(container: Fields, vendors: Iterable[Vendor]) -> dict[str, DeviceRequest]:
    """What one container asks for."""
    read = {vendor.name: vendor.request_of(container) for vendor in vendors}
    return {name: request for name, request in read.items() if request is not None and request.count > 0}


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
