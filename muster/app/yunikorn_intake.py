"""What of some documents is YuniKorn's: pods whose scheduler it is, and its queue configuration. Called by `intake`.

An object that names a queue of Kueue's is Kueue's, whatever its pods' scheduler: everything is charged once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.dialects.kueue.names import QUEUE_NAME
from muster.dialects.yunikorn import names
from muster.engine.contracts import Integration, JobPodSet
from muster.engine.reading import template_as_pod
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields
from muster.model.times import moment

if TYPE_CHECKING:  # loaded where there is something of YuniKorn's, so that nobody else pays for it
    from muster.dialects.yunikorn.applications import PodOfApplication
    from muster.dialects.yunikorn.configuration import QueueConfiguration

PODS_MOST = 5000  # of one job: they are decided on one by one
POD = "Pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class YunikornInput:
    """What there is of YuniKorn's."""

    configuration: QueueConfiguration | None = None
    pods: tuple[PodOfApplication, ...] = ()

    @property
    def is_any(self) -> bool:
        return bool(self.pods) or self.configuration is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An object on its way in, as `intake` has it."""

    job: Fields
    integration: Integration
    reference: str  # how it is called in messages
    source: str


class YunikornIntake:
    """Gathers what is YuniKorn's, one object after the other."""

    def __init__(self) -> None:
        self._configurations: dict[str, QueueConfiguration] = {}  # by the name of the ConfigMap; of a file: empty
        self._pods: list[PodOfApplication] = []
        self._running: Counter[str] = Counter()  # by job: its pods that were given themselves

    def takes_file(self, value: Mapping[str, Any]) -> bool:
        """Take a queue configuration that is no Kubernetes object, if that is what the value is."""
        if "partitions" not in value or "kind" in value or "apiVersion" in value:
            return False
        from muster.dialects.yunikorn.validate import read_plain_configuration

        self._configurations[""] = read_plain_configuration(value)
        return True

    def takes_map(self, obj: Mapping[str, Any]) -> bool:
        """Take a ConfigMap with YuniKorn's settings, if that is what the object is; one that is wrong is refused."""
        fields = Fields(obj)
        name = fields.child("metadata").text("name")
        if fields.text("kind") != "ConfigMap" or name not in (names.CONFIG_MAP, names.DEFAULTS_MAP):
            return False
        from muster.dialects.yunikorn.validate import read_configuration

        data = fields.child("data")
        key = f"{data.text(names.POLICY_GROUP) or names.DEFAULT_POLICY_GROUP}.yaml"
        if text := data.text(key):
            try:
                self._configurations[name] = read_configuration(text, data.at(key))
            except InvalidObjects as several:
                raise InvalidObjects(tuple(_inside(one, data.at(key)) for one in several.problems)) from None
            except InvalidObject as problem:
                raise _inside(problem, data.at(key)) from None
        return True

    def claims(self, job: Fields, integration: Integration) -> bool:
        """Whether YuniKorn decides on the pods of an object."""
        metadata = job.child("metadata")
        if QUEUE_NAME in metadata.text_map("labels") or QUEUE_NAME in metadata.text_map("annotations"):
            return False
        pod_sets = integration.pod_sets(job)
        return bool(pod_sets) and all(_scheduler_of(one) == names.SCHEDULER for one in pod_sets)

    def take(self, found: Found, priorities: Mapping[str, int]) -> str:
        """Take the pods of an object; the answer says why some are left out, if so."""
        job, metadata = found.job, found.job.child("metadata")
        namespace, name = metadata.text("namespace"), metadata.text("name")
        if found.integration.finished(job) is not None:
            return "has ended"
        if found.integration.gvk.kind == POD:
            for one in metadata.children("ownerReferences"):
                if one.flag("controller"):
                    self._running[f"{one.text('kind')} {namespace}/{one.text('name')}"] += 1
            self._add(job, f"{namespace}/{name}", found, priorities)
            return ""
        if found.integration.is_suspended(job):
            return "is suspended"
        number = 0
        pod_sets = found.integration.pod_sets(job)
        for pod_set in pod_sets:
            pod = template_as_pod(Fields(pod_set.template, pod_set.template_path), namespace)
            for _ in range(min(pod_set.count, PODS_MOST - number)):
                self._add(pod, f"{namespace}/{name}-{number}", found, priorities)
                number += 1
        count = sum(pod_set.count for pod_set in pod_sets)
        return f"has {count} pods, of which the first {number} are decided on" if count > number else ""

    def _add(self, pod: Fields, key: str, found: Found, priorities: Mapping[str, int]) -> None:
        from muster.dialects.yunikorn.applications import PodOfApplication

        spec = pod.child("spec")
        named = priorities.get(spec.text("priorityClassName"), 0)
        self._pods.append(
            PodOfApplication(
                pod=pod,
                key=key,
                owner=found.reference,
                source=found.source,
                priority=spec.integer("priority") if spec.has("priority") else named,
                created_at=moment(found.job.child("metadata"), "creationTimestamp") or 0.0,
            )
        )

    def finish(self) -> YunikornInput:
        """All of it. Of a job's pods those are left out that were given themselves."""
        left = Counter(self._running)
        pods = []
        for pod in self._pods:
            if left[pod.owner] > 0:
                left[pod.owner] -= 1
            else:
                pods.append(pod)
        # A file that is given for the plan goes before what the cluster has.
        order = ("", names.CONFIG_MAP, names.DEFAULTS_MAP)
        configuration = next((self._configurations[name] for name in order if name in self._configurations), None)
        return YunikornInput(configuration=configuration, pods=tuple(pods))


def _scheduler_of(pod_set: JobPodSet) -> str:
    return Fields(pod_set.template, pod_set.template_path).child("spec").text("schedulerName")


def _inside(problem: InvalidObject, path: str) -> InvalidObject:
    """A problem with the text of a field, named by the field too."""
    where = problem.path if problem.path.startswith(path) else f"{path}: {problem.path}"
    return InvalidObject(where, problem.problem, problem.hint)
