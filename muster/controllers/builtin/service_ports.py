"""What services lead to: the pods behind one, and the ports of each. Used by `endpoints` and `endpointslices`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.controllers.builtin.owners import plain_selector_of
from muster.controllers.builtin.pods import ENDED, PODS, phase_of
from muster.controllers.view import View
from muster.model.labels import Operator, Selector
from muster.store.kinds import Object
from muster.store.metadata import is_deleting

SERVICES = "services"
LABELS = "labels"  # the index of pods by each of their labels
HEADLESS = "service.kubernetes.io/headless"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"


def label_terms(given: Object) -> Iterator[str]:
    """The terms of an object: its namespace with each of its labels."""
    metadata = given["metadata"]
    for name, value in (metadata.get("labels") or {}).items():
        yield f"{metadata['namespace']} {name}={value}"


def selected(view: View, namespace: str, selector: Selector) -> list[Object]:
    """The pods of a namespace that a selector takes, found by one of its labels where it names any."""
    exact = next((one for one in selector.requirements if one.operator is Operator.IN and len(one.values) == 1), None)
    found: Iterable[Object] = view.all(PODS, namespace)
    if exact is not None:
        found = view.with_term(PODS, LABELS, f"{namespace} {exact.key}={next(iter(exact.values))}")
    return [pod for pod in found if selector.matches(pod["metadata"].get("labels") or {})]


def pods_behind(view: View, service: Object) -> list[Object]:
    """The pods that a service selects."""
    selector = plain_selector_of(service)
    return [] if selector is None else selected(view, service["metadata"]["namespace"], selector)


def is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def can_serve(pod: Object, *, has_leaving: bool) -> bool:
    """Whether a pod has an address that can lead anywhere."""
    if phase_of(pod) in ENDED or not addresses_of(pod):
        return False
    return has_leaving or not is_deleting(pod)


def addresses_of(pod: Object) -> list[str]:
    """The addresses of a pod."""
    status = pod.get("status") or {}
    found = [str(one["ip"]) for one in status.get("podIPs") or () if one.get("ip")]
    return found or ([str(status["podIP"])] if status.get("podIP") else [])


def ports_of(service: Object, pod: Object) -> list[Object]:
    """The ports of a service as one pod has them; one that the pod does not name is left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _number(pod, port)
        if number is None:
            continue
        one: Object = {"name": port.get("name") or "", "port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("appProtocol"):
            one["appProtocol"] = port["appProtocol"]
        found.append(one)
    return found


def _number(pod: Object, port: Object) -> int | None:
    target = port.get("targetPort")
    if not isinstance(target, str):
        return int(target or port["port"])
    for container in _serving(pod):
        for one in container.get("ports") or ():
            if one.get("name") == target and one.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return int(one["containerPort"])
    return None


def _serving(pod: Object) -> Iterable[Object]:
    spec = pod["spec"]
    beside = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    return [*(spec.get("containers") or ()), *beside]


def pod_reference(pod: Object) -> Object:
    """How an endpoint names its pod."""
    metadata = pod["metadata"]
    return {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}


def host_name(service: Object, pod: Object) -> str:
    """The name of its own that a pod has under a service."""
    spec = pod["spec"]
    is_named = spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]
    return str(spec["hostname"]) if is_named else ""


def labels_for(service: Object, own: dict[str, str]) -> dict[str, str]:
    """The labels of what describes a service: its own, and those that say what this is."""
    labels = {name: value for name, value in (service["metadata"].get("labels") or {}).items() if name != HEADLESS}
    return {**labels, **own, **({HEADLESS: ""} if is_headless(service) else {})}
