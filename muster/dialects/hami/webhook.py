"""HAMi's admission webhook as a pure function: the pod as it is stored, or why it is not taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.dialects.hami.quota import NamespaceQuota, fits_quota, pod_amounts
from muster.dialects.hami.requests import containers_of, init_count, requests_of
from muster.dialects.hami.settings import DEFAULT_SCHEDULER, DEFAULTS, HamiSettings
from muster.engine.contracts import Vendor
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

BAD_REQUEST, FORBIDDEN, BROKEN = 400, 403, 500  # as the API server answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The verdict on a pod."""

    is_allowed: bool
    code: int = 200
    message: str = ""
    pod: Mapping[str, Any]  # as it is to be stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The webhook under its settings."""

    vendors: tuple[Vendor, ...]
    settings: HamiSettings = DEFAULTS

    def admit(self, pod: Mapping[str, Any], quota: NamespaceQuota) -> Admission:
        """The verdict on a new pod in a namespace with this quota."""
        try:
            return self._admit(Fields.of(pod), quota)
        except InvalidObject as problem:
            return Admission(is_allowed=False, code=BAD_REQUEST, message=str(problem), pod=pod)

    def _admit(self, pod: Fields, quota: NamespaceQuota) -> Admission:
        spec = pod.child("spec")
        if not spec.items("containers"):
            return _refused(pod, "the pod has no containers")
        if self._is_of_another_scheduler(spec.text("schedulerName")):
            return Admission(is_allowed=True, message="the pod names another scheduler", pod=pod.values)
        try:
            changed, is_asking = self._with_defaults(pod)
        except InvalidObject as mistake:
            return _refused(pod, str(mistake), BROKEN)
        if is_asking:
            changed, problem = self._taken_over(changed)
            if problem:
                return _refused(pod, problem)
        # A container may ask for cards by requests alone, which the vendors do not look at above: quota counts those.
        if not fits_pod_quota(changed, self.vendors, quota):
            return _refused(pod, "the pod asks for more of cards than the quota of its namespace has left")
        return Admission(is_allowed=True, pod=changed.values)

    def _is_of_another_scheduler(self, name: str) -> bool:
        if not name or name == self.settings.scheduler:
            return False
        return not (name == DEFAULT_SCHEDULER and self.settings.is_default_scheduler_replaced)

    def _with_defaults(self, pod: Fields) -> tuple[Fields, bool]:
        """The pod with what each vendor adds to its containers, and whether any of them asks for cards."""
        spec, metadata = dict(pod.child("spec").values), pod.child("metadata")
        annotations = before = metadata.text_map("annotations")
        is_asking = False
        for part in ("initContainers", "containers"):
            containers = []
            for container in pod.child("spec").children(part):
                for vendor in self.vendors:
                    if vendor.admit is None:
                        continue
                    admitted = vendor.admit(container, annotations)
                    container = Fields(admitted.container, container.path)
                    annotations = {**annotations, **admitted.annotations}
                    is_asking = is_asking or admitted.is_asking
                    if admitted.runtime_class and not spec.get("runtimeClassName"):
                        spec["runtimeClassName"] = admitted.runtime_class
                containers.append(container.values)
            if containers:
                spec[part] = containers
        changed = {**pod.values, "spec": spec}
        if annotations != before:
            changed["metadata"] = {**metadata.values, "annotations": annotations}
        return Fields(changed, pod.path), is_asking

    def _taken_over(self, pod: Fields) -> tuple[Fields, str]:
        """The pod under this scheduler, and what stands against it; an empty text: nothing."""
        spec = pod.child("spec")
        for container in containers_of(pod):
            if container.child("securityContext").flag("privileged"):
                return pod, f"container {container.text('name')} is privileged: it would see every card of its node"
        if not self.settings.scheduler:
            return pod, ""
        if spec.text("nodeName"):
            return pod, "the pod names its node, so nobody could give it cards"
        taken = {**spec.values, "schedulerName": self.settings.scheduler}
        return Fields({**pod.values, "spec": taken}, pod.path), ""


def fits_pod_quota(pod: Fields, vendors: Iterable[Vendor], quota: NamespaceQuota) -> bool:
    """Whether the namespace may use what the pod asks for of each vendor."""
    known = tuple(vendors)
    requests = requests_of(pod, known)
    first = init_count(pod)
    return all(
        fits_quota(quota, vendor.resources, pod_amounts([asked.get(vendor.name) for asked in requests], first))
        for vendor in known
    )


def _refused(pod: Fields, message: str, code: int = FORBIDDEN) -> Admission:
    return Admission(is_allowed=False, code=code, message=message, pod=pod.values)
