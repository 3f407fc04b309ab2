"""The records that plugins fill. `app` finds them by the constant of their folder and hands them to whoever needs them.

A job kind is an `Integration`: pure functions on the object as it is stored. They know nothing of queues: which queue a
job waits in, its priority and the form of its workload are the dialect's part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
