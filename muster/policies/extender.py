"""extender: another server is asked about nodes, victims, queues and groups. Volcano's plugin of that name.

Each question is one POST with JSON to an address of its own, through the port that the session was given; what is sent
is in `muster/engine/session_json.py`. A server that fails several times in a row is left alone for the rest of the
session, so that a dead one costs a few timeouts and not one for every pod and node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster.engine.durations import duration_s
from muster.engine.gangs import may_stand
from muster.engine.node_table_rows import BoolArray, FloatArray, IntArray
from muster.engine.outside import NoAnswer
from muster.engine.policy import Hooks, Policy, Vote, argument
from muster.engine.session import Session
from muster.engine.session_json import group_json, node_json, pod_json, queue_json, session_json
from muster.engine.standing import PodStanding, Standing

FAILURES_MOST = 3  # in a row
TIMEOUT_MOST_S = 60.0
_VOTES = {1: Vote.PERMIT, 0: Vote.ABSTAIN, -1: Vote.REJECT}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Where the server is, how long it may take, and the path of each question; what is left empty is not asked."""

    address: str = argument("", alias="extender.urlPrefix")
    timeout: str = argument("1s", alias="extender.httpTimeout")
    ignorable: bool = argument(False, alias="extender.ignorable")
    resources: tuple[str, ...] = argument((), alias="extender.managedResources")  # none: it is asked about all pods
    open: str = argument("", alias="extender.onSessionOpenVerb")
    close: str = argument("", alias="extender.onSessionCloseVerb")
    fit: str = argument("", alias="extender.predicateVerb")
    score: str = argument("", alias="extender.prioritizeVerb")
    preempt: str = argument("", alias="extender.preemptableVerb")
    reclaim: str = argument("", alias="extender.reclaimableVerb")
    overused: str = argument("", alias="extender.queueOverusedVerb")
    enqueueable: str = argument("", alias="extender.jobEnqueueableVerb")
    enqueued: str = argument("", alias="extender.jobEnqueuedVerb")
    ready: str = argument("", alias="extender.jobReadyVerb")
    allocate: str = argument("", alias="extender.allocateFuncVerb")
    deallocate: str = argument("", alias="extender.deallocateFuncVerb")

    def __post_init__(self) -> None:
        if self.address and not self.address.startswith(("http://", "https://")):
            raise ValueError(f"address is {self.address[:80]!r}: give one that begins with http:// or https://")
        if not 0 < (duration_s(self.timeout) or 0) <= TIMEOUT_MOST_S:
            raise ValueError(f"timeout is {self.timeout[:40]!r}: give a time such as 100ms, at most 1m")


def build(arguments: Arguments) -> Hooks:
    if not arguments.address:
        return Hooks()
    return Hooks(open=lambda session: _Extender(session, arguments).hooks())


class _Extender:
    """The questions of one session."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        self.arguments = arguments
        self.failures = 0
        self._known: dict[
            tuple[str, int], BoolArray
        ] = {}  # by pod: which rows it may go to, as long as nothing changes

    def hooks(self) -> Hooks:
        given = self.arguments
        if given.open and self._ask(given.open, session_json(self.session)) is None and not given.ignorable:
            return Hooks()  # Volcano: whoever could not be told of the session is not asked about it
        return Hooks(
            fit_pod=self.fit if given.fit else None,
            score_pod=self.score if given.score else None,
            preempt=self._victims(given.preempt),
            reclaim=self._victims(given.reclaim),
            overused=self.is_overused if given.overused else None,
            enqueueable=self.vote if given.enqueueable else None,
            enqueued=self.note_enqueued if given.enqueued else None,
            ready=self.is_ready if given.ready else None,
            moved=self.note_moved if given.allocate or given.deallocate else None,
            close=self.note_closed if given.close else None,
        )

    def _ask(self, verb: str, sent: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The answer to a question; `None` where there is none."""
        if self.failures >= FAILURES_MOST:
            return None
        address = f"{self.arguments.address.rstrip('/')}/{verb.lstrip('/')}"
        try:
            answer = self.session.options.ask(address, sent, duration_s(self.arguments.timeout) or 0.0)
        except NoAnswer as problem:
            self.failures += 1
            self.session.outcome.troubles[address] = str(problem)
            return None
        self.failures = 0
        return answer

    def _is_managed(self, pod: PodStanding) -> bool:
        managed = self.arguments.resources
        asked = pod.pod.limits.keys() | pod.pod.requests.keys()
        return not managed or any(name in asked for name in managed)

    # Pods and nodes --------------------------------------------------------------------------------------------------

    def fit(self, pod: PodStanding) -> BoolArray | None:
        if not self._is_managed(pod):
            return None
        key = (pod.key, self.session.version)
        if key not in self._known:
            self._known.clear()
            allowed = np.zeros(self.session.rows, np.bool_)
            for row in np.flatnonzero(may_stand(self.session.placer, pod.demand)).tolist():
                sent = {"task": pod_json(pod), "node": node_json(self.session, row)}
                answer = self._ask(self.arguments.fit, sent)
                allowed[row] = self.arguments.ignorable if answer is None else not answer.get("status")
            self._known[key] = allowed
        return self._known[key]

    def score(self, pod: PodStanding, rows: IntArray) -> FloatArray | None:
        if not self._is_managed(pod):
            return None
        nodes = [node_json(self.session, row) for row in rows.tolist()]
        answer = self._ask(self.arguments.score, {"task": pod_json(pod), "nodes": nodes})
        scores = answer.get("nodeScore") if answer is not None and not answer.get("errorMessage") else None
        if not isinstance(scores, Mapping):
            return None
        return np.array([_number(scores.get(node["Name"])) for node in nodes])

    def _victims(self, verb: str) -> Callable[[PodStanding, Sequence[PodStanding]], frozenset[str] | None] | None:
        def name(evictor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str] | None:
            sent = {"evictor": pod_json(evictor), "evictees": [pod_json(pod) for pod in candidates]}
            answer = self._ask(verb, sent) if self._is_managed(evictor) else {"status": 0}
            if answer is None:
                return None if self.arguments.ignorable else frozenset()
            if answer.get("status") == 0:
                return None  # it abstains
            victims = answer.get("victims")
            named = {one.get("UID") for one in victims if isinstance(one, dict)} if isinstance(victims, list) else set()
            return frozenset(pod.key for pod in candidates if pod.pod.uid in named)

        return name if verb else None

    # Queues and groups -----------------------------------------------------------------------------------------------

    def is_overused(self, queue: str) -> bool:
        answer = self._ask(self.arguments.overused, {"queue": queue_json(self.session.queues[queue])})
        return not self.arguments.ignorable if answer is None else answer.get("overused") is True

    def vote(self, group: Standing) -> Vote:
        answer = self._ask(self.arguments.enqueueable, {"job": group_json(group)})
        if answer is None:
            return Vote.PERMIT if self.arguments.ignorable else Vote.REJECT
        status = answer.get("status")
        return _VOTES.get(status if isinstance(status, int) else -1, Vote.REJECT)

    def note_enqueued(self, group: Standing) -> None:
        self._ask(self.arguments.enqueued, {"job": group_json(group)})

    def is_ready(self, group: Standing) -> bool:
        answer = self._ask(self.arguments.ready, {"job": group_json(group)})
        return self.arguments.ignorable if answer is None else answer.get("status") is True

    def note_moved(self, pod: PodStanding, is_there: bool) -> None:
        """Tell of a pod that got a place, or that lost it."""
        verb = self.arguments.allocate if is_there else self.arguments.deallocate
        if verb and self._is_managed(pod):
            self._ask(verb, {"task": pod_json(pod)})

    def note_closed(self) -> None:
        self._ask(self.arguments.close, {})


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 2**53 else 0.0


POLICY = Policy(name="extender", arguments=Arguments, build=build)
