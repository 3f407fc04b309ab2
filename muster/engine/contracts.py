"""The records that plugins fill. `app` finds them by the constant of their folder and hands them to whoever needs them.

A job kind is an `Integration`: pure functions on the object as it is stored. They know nothing of queues: which queue a
job waits in, its priority and the form of its workload are the dialect's part.

A family of cards is a `Vendor`: how its cards are registered, asked for and handed out. What a dialect needs of a
vendor it gets as this record, so neither knows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.engine.devices import CardWishes, VendorRule
from muster.model.device import Card, Cards, ContainerShares, Device, DeviceRequest, Share
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


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended."""

    has_succeeded: bool
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """One kind of job. Each function takes the object and changes nothing; mistakes in it raise `InvalidObject`."""

    name: str  # as configuration files call it
    gvk: GroupVersionKind
    pod_sets: Callable[[Fields], tuple[JobPodSet, ...]]
    is_suspended: Callable[[Fields], bool]
    finished: Callable[[Fields], Ending | None]  # None: not yet


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceResources:
    """The names under which containers ask for a vendor's cards; an empty name means that there is no such resource."""

    count: str
    memory: str = ""
    memory_percent: str = ""
    cores: str = ""
    priority: str = ""
    memory_factor: int = 1  # one unit of the memory resource is so many MiB

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(name for name in (self.count, self.memory, self.memory_percent, self.cores, self.priority) if name)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One family of cards. Each function is pure; mistakes in objects raise `InvalidObject`."""

    name: str  # the word that annotations and cards carry
    resources: DeviceResources
    devices_of: Callable[[Fields], tuple[Device, ...]]  # the cards that a node registers
    request_of: Callable[[Fields], DeviceRequest | None]  # what a container asks for; None: nothing
    annotate: Callable[[Fields, ContainerShares], Mapping[str, str]]  # what is written on a pod that got its shares
    shares_of: Callable[[Fields], ContainerShares]  # what a pod holds, as its annotations say
    wishes_of: Callable[[Mapping[str, str]], CardWishes] = lambda _annotations: CardWishes()
    admit: Callable[[Fields], AdmittedContainer] | None = None  # None: containers are stored as they come
    fit: VendorRule | None = None  # a rule of its own for one card
    settle: Callable[[Card, Share], Share] | None = None  # the share as it is charged, where that is not as asked
    score: Callable[[Cards], float] | None = None  # added to the score of a node
