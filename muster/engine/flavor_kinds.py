"""What a flavor search knows of a kind of workload in a queue, and keeps: its pod sets, their requests, what fits how.

Made and filled by the flavor search. Workloads of a kind are many and alike: which flavors suit them never changes, and
where a request fits as it is, the answer follows from how far up it borrows. So answers are kept and given again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from muster.engine.assignment import Assignment, Attempt, FlavorChoice, PodSetChoice
from muster.model.queue import ResourceGroup
from muster.model.reason import Code, Reason
from muster.model.resources import FlavorResource
from muster.model.workload import PodSet

KINDS_MOST = 20_000
ANSWERS_MOST = 100  # of one question; there are few where a tree is not high

Key = TypeVar("Key")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Member:
    """A pod set in the search: its place in the workload, how many pods, what they ask for together."""

    index: int
    pod_set: PodSet
    count: int
    requests: Mapping[str, int]


@dataclass(slots=True, eq=False)
class Found:
    """What the search of one resource group, or of several, came to."""

    choices: dict[str, FlavorChoice] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    refusal: Code | None = None
    stopped_at: int = -1  # the last flavor looked at
    is_kept: bool = False  # it is found again whenever the same fits at the same levels


@dataclass(slots=True, eq=False)
class Scan:
    """The search in one resource group."""

    group: ResourceGroup
    requests: Mapping[str, int]  # of all pod sets of the party, in the order of their names
    refusals: tuple[Reason | None, ...]  # by flavor: why it is out of the question, whatever quota it has
    suited: tuple[int, ...]  # by flavor: the first one from there on that is not out of the question, -1 for none
    found: dict[tuple[int, ...], Found] = field(default_factory=dict)  # by where it began and the levels of what fits


@dataclass(slots=True, eq=False)
class Share:
    """What a party gets."""

    pod_sets: tuple[PodSetChoice, ...]
    usage: Mapping[FlavorResource, int]
    is_refused: bool
    is_kept: bool


@dataclass(slots=True, eq=False)
class Party:
    """Pod sets that get their flavors together: those of one named group, or one that is alone."""

    members: list[Member]
    scans: list[Scan]
    uncovered: Reason | None  # the resources that no group covers
    shares: dict[tuple[Found, ...], Share] = field(default_factory=dict)  # by what was found in each group


@dataclass(slots=True, eq=False)
class Kind:
    """Workloads that the search cannot tell apart, in one queue."""

    parties: list[Party]
    assignments: dict[tuple[Share, ...], Assignment] = field(default_factory=dict)  # by what each party gets


class SearchCache:
    """What searches know of kinds whatever is used; emptied when queues or flavors change."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[str, str], Kind] = {}  # by queue and kind
        # By queue, kind, pod set, flavor and the resource that names the group.
        self.refusals: dict[tuple[str, str, int, str, str], Reason | None] = {}

    def make_room(self) -> None:
        """Forget everything when there is too much of it: kinds come and go, and nobody says when one is gone."""
        if len(self.kinds) >= KINDS_MOST:
            self.kinds.clear()
            self.refusals.clear()


def keep(answers: dict[Key, Answer], question: Key, answer: Answer) -> None:
    """Remember an answer; where there are too many, those before it are forgotten."""
    if len(answers) >= ANSWERS_MOST:
        answers.clear()
    answers[question] = answer
