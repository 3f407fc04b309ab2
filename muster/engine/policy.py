"""Policies: what a plugin file in `muster/policies` fills, and the questions that it may answer.

A policy is one file with the constant `POLICY`. `build(arguments)` gives hooks; a hook not given is not asked. `fit`
and `score` answer for whole columns of nodes at once, see `muster/engine/node_table_columns.py`; the others compare,
share out, let in and name victims, and are asked by the stages. How several answers become one is said in
`muster/engine/tiers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from muster.engine.node_table_rows import BoolArray, Demand, IntArray, NodeRows, Scores
from muster.engine.profile import HOOK_NAMES
from muster.model.resources import Amounts
from muster.model.workload import Workload

if TYPE_CHECKING:
    from muster.engine.fit_scores import Candidates

Arguments = TypeVar("Arguments")

# What is asked about -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A workload as it stands in the middle of a cycle."""

    workload: Workload
    ready: int = 0  # pods that have a place of their own, finished ones included
    promised: int = 0  # pods that get a place when others have left it

    @property
    def count(self) -> int:
        """All its pods."""
        return sum(pod_set.count for pod_set in self.workload.pod_sets)

    @property
    def count_least(self) -> int:
        """How many of its pods must run together."""
        return sum(pod_set.count_least for pod_set in self.workload.pod_sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStanding:
    """One pod and whose it is."""

    key: str  # namespace/name
    owner: Standing
    priority: int = 0  # of the pod itself


class Vote(Enum):
    """An answer that may be left to others."""

    PERMIT = "permit"
    ABSTAIN = "abstain"
    REJECT = "reject"


# The questions -------------------------------------------------------------------------------------------------------

Shares = Callable[[Mapping[str, Amounts]], Mapping[str, Amounts]]  # what each queue deserves, from what each asks for
CompareQueues = Callable[[str, str], int]  # below zero: the first goes first; zero: no opinion
CompareWorkloads = Callable[[Standing, Standing], int]
ComparePods = Callable[[PodStanding, PodStanding], int]
Overused = Callable[[str], bool]  # whether a queue has all that it is due, and waits
Allocatable = Callable[[str, PodStanding], bool]  # whether a queue may take one pod more
Starving = Callable[[Standing], bool]  # whether a workload lacks pods so much that others may leave for it
Enqueueable = Callable[[Standing], Vote]  # whether a workload may be taken up at all
Fit = Callable[[Demand, NodeRows], BoolArray]
Score = Callable[[Demand, NodeRows], Scores]
Prefer = Callable[["Candidates"], IntArray]  # a score for each node that fits, compared with the others
# For whom, and who could go, those first that would go first; the keys of those who may. None: abstains.
NameVictims = Callable[[PodStanding, Sequence[PodStanding]], frozenset[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The answers of one policy, built with its arguments."""

    shares: Shares | None = None
    compare_queues: CompareQueues | None = None
    compare_workloads: CompareWorkloads | None = None
    compare_pods: ComparePods | None = None
    # Letting in asks four questions, each with a rule of its own.
    overused: Overused | None = None
    allocatable: Allocatable | None = None
    starving: Starving | None = None
    enqueueable: Enqueueable | None = None
    fit: Fit | None = None
    score: Score | None = None
    prefer: Prefer | None = None
    # Victims are asked for in two cases: for somebody of the same queue, and for another queue that takes back.
    preempt: NameVictims | None = None
    reclaim: NameVictims | None = None
    # Whether the best node stays the best while alike pods fill it; where not, they are placed one at a time.
    fills_nodes: bool = True
    # The same policy for other pods than it expected: gets how often each kind of pod came of late.
    adapt: Callable[[Mapping[Demand, int]], Hooks] | None = None

    def without(self, off: frozenset[str]) -> Hooks:
        """The same hooks, of which some are not asked."""
        assert off.issubset(HOOK_NAMES), f"{sorted(off)} are not all hooks"
        changes: dict[str, Any] = dict.fromkeys(off)
        return replace(self, **changes) if off else self


# The record ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policy(Generic[Arguments]):
    """A policy as its file offers it."""

    name: str
    arguments: type[Arguments]  # a frozen dataclass with a default for every field
    build: Callable[[Arguments], Hooks]

    def hooks(self, arguments: Arguments | None = None) -> Hooks:
        """The hooks with these arguments, or with the default ones."""
        return self.build(self.arguments() if arguments is None else arguments)


AnyPolicy = Policy[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a configuration file may give for one argument, and the other name that it goes by."""

    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    alias: str = ""  # Volcano: arguments carry the plugin's name, as in binpack.weight


def argument(default: Any, **bounds: Any) -> Any:
    """A field of a policy's arguments with its default and its `Bounds`."""
    return field(default=default, metadata={"bounds": Bounds(**bounds)})
