"""What the containers of a pod ask of cards, vendor by vendor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.engine.contracts import Vendor
from muster.model.device import DeviceRequest
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
    return tuple(_requests_of(container, known) for container in containers_of(pod))


def _requests_of(container: Fields, vendors: tuple[Vendor, ...]) -> dict[str, DeviceRequest]:
    resources = container.child("resources")
    named = resources.child("limits").values.keys() | resources.child("requests").values.keys()
    # Most containers ask for no cards, and those who do for one vendor's: nobody else has to look.
    meant = [vendor for vendor in vendors if not vendor.resources.names.isdisjoint(named)]
    asked = {vendor.name: vendor.request_of(container) for vendor in meant}
    return {name: request for name, request in asked.items() if request is not None and request.count > 0}
