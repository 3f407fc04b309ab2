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

from muster.engine.node_table_rows import BoolArray, Demand, FloatArray, IntArray, NodeRows, Scores
from muster.engine.profile import HOOK_NAMES
from muster.engine.standing import PodStanding, Standing, SubStanding
from muster.model.pod_rules import PodRules
from muster.model.resources import Amounts

if TYPE_CHECKING:
    from muster.engine.fit_scores import Candidates
    from muster.engine.session import Session
    from muster.engine.session_domains import DomainNode

Arguments = TypeVar("Arguments")


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
Valid = Callable[[Standing], str]  # why a group cannot be decided on at all; empty: it can
Ready = Callable[[Standing], bool]  # whether a group has what it needs to start
Promised = Callable[[Standing], Vote]  # whether it will have that once those told to go have left
SubReady = Callable[[SubStanding], bool]
SubPromised = Callable[[SubStanding], Vote]
CompareSubs = Callable[[SubStanding, SubStanding], int]
CompareVictimQueues = Callable[[str, str, str], int]  # two queues and for whom: below zero, the first loses pods first
Preemptive = Callable[[str, PodStanding], bool]  # whether a queue may take back for this pod
Enqueued = Callable[[Standing], None]  # a group was taken up
Keep = Callable[[PodRules], PodRules]  # those of a pod's rules that are followed
FitPod = Callable[[PodStanding], BoolArray | None]  # which rows may take this very pod; None: any
ScorePod = Callable[[PodStanding, IntArray], FloatArray | None]  # what it scores on each of these rows; None: nothing
Wanted = Callable[[Sequence[PodStanding]], Sequence[PodStanding]]  # of running pods those that should go for no one pod
# Where to try a group or sub group, below a domain: domains of one tier at a time, the nearest first.
Gradient = Callable[[Standing | SubStanding, "DomainNode", bool], "Sequence[Sequence[DomainNode]]"]
ScoreDomains = Callable[[SubStanding, "Sequence[DomainNode]"], Mapping[str, float]]
Moved = Callable[[PodStanding, bool], None]  # a pod got a place in the session, or lost it
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
    evict: NameVictims | None = None  # for whole groups, whichever of the two cases it is
    # What sessions of groups ask beside.
    valid: Valid | None = None
    ready: Ready | None = None
    promised: Promised | None = None
    sub_ready: SubReady | None = None
    sub_promised: SubPromised | None = None
    compare_subs: CompareSubs | None = None
    compare_victim_queues: CompareVictimQueues | None = None
    preemptive: Preemptive | None = None
    enqueued: Enqueued | None = None
    keep: Keep | None = None
    fit_pod: FitPod | None = None
    score_pod: ScorePod | None = None
    wanted: Wanted | None = None
    gradient: Gradient | None = None
    score_domains: ScoreDomains | None = None
    moved: Moved | None = None
    close: Callable[[], None] | None = None  # the session is over
    # Whether pods that would leave count as gone for rules about other pods, while somebody looks for the best victims.
    foresee: bool | None = None
    # The same policy for one session: gets all that the session knows, and answers by it.
    open: Callable[[Session], Hooks] | None = None
    # Whether the best node stays the best while alike pods fill it; where not, they are placed one at a time.
    fills_nodes: bool = True
    # The same policy for other pods than it expected: gets how often each kind of pod came of late.
    adapt: Callable[[Mapping[Demand, int]], Hooks] | None = None

    def without(self, off: frozenset[str]) -> Hooks:
        """The same hooks, of which some are not asked."""
        assert off.issubset(HOOK_NAMES), f"{sorted(off)} are not all hooks"
        if not off:
            return self
        changes: dict[str, Any] = dict.fromkeys(off)
        opened = self.open
        if opened is not None:
            changes["open"] = lambda session: opened(session).without(off)
        return replace(self, **changes)


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
    prefix: str = ""  # of an object: arguments that begin so are its entries, as in binpack.resources.nvidia.com/gpu


def argument(default: Any, **bounds: Any) -> Any:
    """A field of a policy's arguments with its default and its `Bounds`."""
    return field(default=default, metadata={"bounds": Bounds(**bounds)})
