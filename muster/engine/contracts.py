"""The records that plugins fill. `app` finds them by the constant of their folder and hands them to whoever needs them.

A job kind is an `Integration`: pure functions on the object as it is stored. They know nothing of queues: which queue a
job waits in, its priority and the form of its workload are the dialect's part.

A family of cards is a `Vendor`: how its cards are registered, asked for and handed out. What a dialect needs of a
vendor it gets as this record, so neither knows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.engine.devices import CardRules, CardWishes, Choice, VendorRule
from muster.model.device import Card, Cards, ContainerShares, Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """Which kind of object; the group of Kubernetes' own oldest kinds is empty."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPodSet:
    """Equal pods of a job: how many, how few it can start with, and what one looks like."""

    name: str
    count: int
    template: Mapping[str, Any]  # metadata and spec of a pod
    template_path: str  # where the template stands in the job; empty: the job is the pod
    count_least: int | None = None  # None: all of them
    index_label: str = ""  # the label that numbers the pods, where they are numbered
    group_label: str = ""  # the label that numbers equal groups of them, where there are such
    group_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetStart:
    """What the pods of one set get when their job may run."""

    name: str
    count: int
    node_labels: Mapping[str, str] = field(default_factory=dict)  # the nodes that they have to run on
    tolerations: tuple[Mapping[str, Any], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    gates: tuple[str, ...] = ()  # what still has to be settled before their pods look for nodes


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended."""

    has_succeeded: bool
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What the pods or jobs get that wait in place of the object that makes them."""

    labels: Mapping[str, str]  # the queue, the priority
    group: str  # a name for all pods together, where they start together


Job = dict[str, Any]  # the object as it is stored
Find = Callable[[str, str, str], Mapping[str, Any] | None]  # another object, by resource, namespace and name
PodSets = tuple[JobPodSet, ...]


def _none_reclaimable(_job: Fields) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """What is said of every kind of job: rights, webhooks and the page about jobs follow from it.

    Each function takes the object and changes nothing; mistakes in it raise `InvalidObject`.
    """

    name: str  # as configuration files call it
    gvk: GroupVersionKind
    plural: str  # as paths have it
    changes: Callable[[Fields, Fields], Iterable[InvalidObject]] = lambda _new, _before: ()  # that may not be made
    also_read: tuple[str, ...] = ()  # other resources without which its pods are not known
    writes_status: bool = False  # whether a stop changes its status too

    @property
    def resource(self) -> str:
        """What the store calls the kind."""
        return f"{self.plural}.{self.gvk.group}" if self.gvk.group else self.plural

    @property
    def written(self) -> tuple[str, ...]:
        """The verbs that whoever controls jobs needs for objects of the kind, beside reading them."""
        return ()

    @property
    def completed_when(self) -> tuple[str, ...]:
        """The operations in which an object is changed on its way in; every change is checked."""
        return ("CREATE",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier(JobKind):
    """A kind whose objects do not wait themselves: the pods or jobs that they make carry their queue."""

    carry: Callable[[Fields, Carried], Job]  # the object, so that what it makes waits
    is_active: Callable[[Fields], bool]  # whether some of that is running
    makes: str  # what waits: one workload for each of these
    made_as: str  # the kind of job that what it makes is

    @property
    def written(self) -> tuple[str, ...]:
        return ()  # only on its way in

    @property
    def completed_when(self) -> tuple[str, ...]:
        return "CREATE", "UPDATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration(JobKind):
    """A kind of job that waits as one workload."""

    pod_sets: Callable[[Fields], PodSets]
    is_suspended: Callable[[Fields], bool]
    finished: Callable[[Fields], Ending | None]  # None: not yet
    hold: Callable[[Fields], Job]  # a new job, so that none of its pods looks for a node
    start: Callable[[Fields, tuple[PodSetStart, ...]], Job]  # a job that waits, so that it runs
    is_active: Callable[[Fields], bool]  # whether pods of it are still there
    is_ready: Callable[[Fields], bool]  # whether all its pods are ready or have done their work
    # A job that runs, so that its pods go; None: it cannot be held back again, and is deleted instead.
    suspend: Callable[[Fields], Job] | None = None
    # A job that was stopped, with the pods that it had before it was started; no sets: as far as it is known.
    restore: Callable[[Fields, PodSets], Job] = lambda job, _pod_sets: dict(job.values)
    # The same job with what of its status has to go before it can be restored.
    reset: Callable[[Fields], Job] = lambda job: dict(job.values)
    # Pods by set that have done their work, and whose share others may have.
    reclaimable: Callable[[Fields], Mapping[str, int]] = _none_reclaimable
    finalizer: str = ""  # what keeps an object of this kind until its workload has seen its end
    is_marked: Callable[[Fields], bool] = lambda _job: True  # whether it went through `hold` where it has to
    # A new or changed job with what is needed of other objects written on it; raises where they are not there.
    settle: Callable[[Fields, Find], Job] = lambda job, _find: dict(job.values)
    priority_class: tuple[str, ...] = ()  # the way to the name of a class for all its pods, if the kind has one
    managed_by: tuple[str, ...] = ()  # the way to the name of the controller that runs it, if the kind has one
    own_controller: str = ""  # what stands there where its own controller does
    # A job as another cluster can take it: without what its own has written into its spec.
    portable: Callable[[Fields], Job] = lambda job: dict(job.values)

    @property
    def written(self) -> tuple[str, ...]:
        return ("update",) if self.suspend is not None else ("update", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceResources:
    """The names under which containers ask for a vendor's cards; an empty name means that there is no such resource."""

    count: str
    memory: str = ""
    memory_percent: str = ""
    cores: str = ""
    priority: str = ""
    memory_factor: int = 1  # one unit of the memory resource is so many MiB
    names: frozenset[str] = field(init=False, repr=False)  # all of them

    def __post_init__(self) -> None:
        given = (self.count, self.memory, self.memory_percent, self.cores, self.priority)
        object.__setattr__(self, "names", frozenset(name for name in given if name))

    @property
    def quota_names(self) -> tuple[str, str]:
        """The resources that a quota can limit: memory and cores."""
        return self.memory, self.cores


@dataclass(frozen=True, slots=True)
class AdmittedContainer:
    """A container as its vendor wants it to be stored, and whether it asks for the vendor's cards."""

    container: Mapping[str, Any]
    is_asking: bool
    runtime_class: str = ""  # what the pod needs where it names none
    annotations: Mapping[str, str] = field(default_factory=dict)  # what the pod gets


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """Where and when a pod got its shares."""

    node: str = ""
    now_s: int = 0
    devices: tuple[Device, ...] = ()  # of the node


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorSettings:
    """How a section of HAMi's device configuration makes the vendors that it is about."""

    name: str  # of the section
    read: Callable[[Fields], tuple[Vendor, ...]]  # gets the whole configuration; raises `InvalidObject`


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One family of cards. Each function is pure; mistakes in objects raise `InvalidObject`."""

    name: str  # the word that annotations and cards carry
    resources: DeviceResources
    devices_of: Callable[[Fields], tuple[Device, ...]]  # the cards that a node registers
    request_of: Callable[[Fields], DeviceRequest | None]  # what a container asks for; None: nothing
    # What is written on a pod that got its shares.
    annotate: Callable[[Fields, ContainerShares, Assigned], Mapping[str, str]]
    shares_of: Callable[[Fields], ContainerShares]  # what a pod holds, as its annotations say
    register: str = ""  # the node's annotation that registers cards; empty: the node's capacity does
    allocated: str = ""  # the pod's annotation that tells what it holds
    wishes_of: Callable[[Mapping[str, str]], CardWishes] = lambda _annotations: CardWishes()
    wish_names: frozenset[str] = frozenset()  # the annotations that `wishes_of` looks at
    # A container of a pod with these annotations, as it is stored; None: as it comes.
    admit: Callable[[Fields, Mapping[str, str]], AdmittedContainer] | None = None
    fit: VendorRule | None = None  # a rule of its own for one card
    choose: Callable[[Cards, DeviceRequest, CardRules], Choice] | None = None  # None: one card after the other
    settle: Callable[[Card, Share], Share] | None = None  # the share as it is charged, where that is not as asked
    # Added to the score of a node: its cards before the pod, and what the pod would get.
    score: Callable[[Cards, ContainerShares], float] | None = None
    cores_text: Callable[[int], str] = lambda cores: f"{cores} % of cores"  # of a share, as people are told
    is_counted: bool = False  # whole cards may be given out by number, without looking whose they are
