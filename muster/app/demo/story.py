"""A story: which machines there are, what is done one step after the other, and how all stands in the end.

Read by `muster demo` and by tests/stories. A file is one story:

    title: What it is about, in a line.
    profile: muster                       # how pods are placed; muster unless said otherwise
    nodes: {pools: [...]}                 # as in the file of `muster up --nodes`
    steps:
    - say: What happens now, in plain words.
      create: [{apiVersion: batch/v1, kind: Job, ...}]
    - wait: job team-a/train              # a name may end in *, for those that the cluster has named
      until: condition Complete           # or: status.ready = 3
    - patch: workload team-a/job-train-*
      with: {spec: {active: false}}
    - finish: job team-a/train            # its work is done: on simulated nodes pods run until they are told
    - show: [queues, jobs]                # what a teller shows of the cluster then
    end: {jobs: {...}, queues: {...}}     # as `outcome` gives it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from muster.app.manifests import read_file
from muster.controllers.nodes.timing import RUN
from muster.model.documents import parse_value
from muster.model.fields import Fields
from muster.store.kinds import Object

KUEUE = "kueue.x-k8s.io"
RESOURCES = {  # by what a story calls the kind
    "job": "jobs.batch",
    "pod": "pods",
    "node": "nodes",
    "workload": f"workloads.{KUEUE}",
    "clusterqueue": f"clusterqueues.{KUEUE}",
    "localqueue": f"localqueues.{KUEUE}",
}
ANY = "*"
IS_DONE: Object = {"metadata": {"annotations": {RUN: "0s"}}}  # what a simulated pod is told when its work is done


@dataclass(frozen=True, slots=True)
class Target:
    """An object, by what a story calls it."""

    kind: str
    namespace: str  # empty where the kind has none
    name: str  # one that ends in * stands for every object whose name begins so

    @property
    def resource(self) -> str:
        return RESOURCES[self.kind]

    def is_of(self, metadata: Object) -> bool:
        """Whether an object with that metadata is meant."""
        name: str = metadata["name"]
        is_named = name.startswith(self.name[:-1]) if self.name.endswith(ANY) else name == self.name
        return is_named and (metadata.get("namespace") or "") == self.namespace

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is waited for: a condition, or the value of a field."""

    condition: str = ""
    status: str = "True"  # that the condition has
    path: tuple[str, ...] = ()
    value: str = ""

    def holds(self, obj: Object) -> bool:
        """Whether an object is so."""
        if self.condition:
            conditions = (obj.get("status") or {}).get("conditions") or ()
            return any(one["type"] == self.condition and one["status"] == self.status for one in conditions)
        found: Any = obj
        for name in self.path:
            found = found.get(name) if isinstance(found, dict) else None
        return found is not None and str(found) == self.value

    def __str__(self) -> str:
        if self.condition:
            return f"condition {self.condition} is {self.status}"
        return f"{'.'.join(self.path)} = {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that is done, after the words for it; every step has at most one of the things to do."""

    say: str = ""
    create: tuple[Object, ...] = ()
    wait: Target | None = None
    until: Wanted = Wanted()
    patch: Target | None = None
    change: Object | None = None
    finish: Target | None = None
    show: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All of it."""

    name: str
    title: str
    profile: str
    pools: Mapping[str, Any]
    steps: tuple[Step, ...]
    end: Mapping[str, Any]


class Stage(Protocol):
    """A cluster on which a story is played."""

    def create(self, objects: tuple[Object, ...], /) -> None: ...

    def wait(self, target: Target, wanted: Wanted, /) -> None: ...

    def patch(self, target: Target, change: Object, /) -> None: ...

    def finish(self, job: Target, /) -> None: ...

    def all(self, resource: str, /) -> list[Object]: ...


def do(step: Step, stage: Stage) -> None:
    """Carry out a step."""
    if step.create:
        stage.create(step.create)
    if step.patch is not None:
        assert step.change is not None, f"nothing is said of how {step.patch} changes"
        stage.patch(step.patch, step.change)
    if step.finish is not None:
        stage.finish(step.finish)
    if step.wait is not None:
        stage.wait(step.wait, step.until)


def matching(target: Target, objects: Iterable[Object]) -> list[Object]:
    """The objects that a story means."""
    return [one for one in objects if target.is_of(one["metadata"])]


def pods_of(owner: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods that an object owns."""
    uid = owner["metadata"]["uid"]
    return [pod for pod in pods if any(one["uid"] == uid for one in pod["metadata"].get("ownerReferences") or ())]


# Reading -------------------------------------------------------------------------------------------------------------


def read_story(path: Path) -> Story:
    """The story of a file."""
    fields = Fields.of(parse_value(read_file(path), path.name))
    return Story(
        name=path.stem,
        title=fields.text("title"),
        profile=fields.text("profile", "muster"),
        pools=fields.child("nodes").values,
        steps=tuple(_step(one) for one in fields.children("steps")),
        end=fields.child("end").values,
    )


def _step(fields: Fields) -> Step:
    return Step(
        say=" ".join(fields.text("say").split()),
        create=tuple(dict(one) for one in fields.items("create")),
        wait=_target(fields, "wait"),
        until=_wanted(fields),
        patch=_target(fields, "patch"),
        change=dict(fields.child("with").values) or None,
        finish=_target(fields, "finish"),
        show=tuple(fields.texts("show")),
    )


def _target(fields: Fields, name: str) -> Target | None:
    if not fields.has(name):
        return None
    kind, _, named = fields.text(name).partition(" ")
    if kind not in RESOURCES:
        raise fields.error(name, f"names no kind: {kind!r}", f"give one of {', '.join(RESOURCES)}")
    namespace, _, own = named.rpartition("/")
    return Target(kind, namespace, own)


def _wanted(fields: Fields) -> Wanted:
    text = fields.text("until")
    if text.startswith("condition "):
        name, _, status = text.removeprefix("condition ").partition("=")
        return Wanted(condition=name.strip(), status=status.strip() or "True")
    path, _, value = text.partition("=")
    return Wanted(path=tuple(path.strip().split(".")), value=value.strip())


# The end -------------------------------------------------------------------------------------------------------------


def outcome(stage: Stage) -> dict[str, Any]:
    """How all stands: the same for the same story, however it was played, and however long it took."""
    pods = stage.all("pods")
    return {
        "jobs": {_name(job): _job(job, pods) for job in stage.all("jobs.batch")},
        "queues": {queue["metadata"]["name"]: _queue(queue) for queue in stage.all(f"clusterqueues.{KUEUE}")},
    }


def _name(obj: Object) -> str:
    """A name that is the same in every run; those that the cluster has made up end in *."""
    metadata = obj["metadata"]
    made_up = metadata.get("generateName")
    return f"{metadata['namespace']}/{f'{made_up}{ANY}' if made_up else metadata['name']}"


def _job(job: Object, pods: list[Object]) -> str:
    """A job and its pods in a line, such as `Complete, 3 Succeeded`."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    stands = next((one["type"] for one in conditions if one["status"] == "True" and one["type"] in _ENDS), "Active")
    phases = Counter(pod["status"]["phase"] for pod in pods_of(job, pods))
    return ", ".join([stands, *(f"{phases[phase]} {phase}" for phase in sorted(phases))])


_ENDS = ("Complete", "Failed", "Suspended")


def _queue(queue: Object) -> str:
    """What a queue says of itself, such as `1 pending, 2 admitted, cpu 4`; what nobody uses is left out."""
    status = queue.get("status") or {}
    counts = [f"{status.get(f'{name}Workloads') or 0} {name}" for name in ("pending", "reserving", "admitted")]
    return ", ".join([*counts, *_used(status)])


def _used(status: Object) -> Iterator[str]:
    for flavor in status.get("flavorsReservation") or ():
        for one in flavor["resources"]:
            if str(one["total"]) != "0":
                yield f"{one['name']} {one['total']} of {flavor['name']}"
