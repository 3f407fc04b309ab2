"""What has happened to the containers of a pod, and what is to be done next. Pure; shared by all kinds of nodes.

The order is Kubernetes': init containers one after the other, those that stay (`restartPolicy: Always`) beside what
follows them, then all others at once. What ends is begun again as its policy says, at first at once and then after
pauses that double.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from muster.store.kinds import Object

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
LONG_RUN = 2  # a run of so many longest pauses makes all earlier failures forgotten


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a container."""

    started_s: float
    ended_s: float | None = None  # None: it goes on
    exit_code: int = 0
    signal: int = 0
    reason: str = ""  # empty: what the exit code says
    message: str = ""
    identity: str = ""

    @property
    def is_over(self) -> bool:
        return self.ended_s is not None

    @property
    def has_succeeded(self) -> bool:
        return self.is_over and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class BackOff:
    """The pauses between the runs of a container that ends again and again."""

    first_s: float = 10.0
    most_s: float = 300.0

    def pause_s(self, ends: int) -> float:
        """How long to wait after so many ends in a row: not at all after the first."""
        return 0.0 if ends < 2 else min(self.most_s, self.first_s * 2.0 ** min(ends - 2, 30))

    def ends_after(self, run: Run, ends: int) -> int:
        """How many ends in a row it is with that of this run."""
        assert run.ended_s is not None, "only what has ended is counted"
        return 1 if run.ended_s - run.started_s > LONG_RUN * self.most_s else ends + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What has happened to one container so far."""

    run: Run | None = None  # the present one, or the last
    before: Run | None = None  # the one before that
    restarts: int = 0
    ends: int = 0  # in a row, each soon after the start
    is_started: bool = False  # what is asked of a start was answered, or nothing is
    is_ready: bool = False
    waits_for: str = ""  # the reason why it cannot be begun, such as CreateContainerConfigError
    waits_because: str = ""

    @property
    def is_running(self) -> bool:
        return self.run is not None and not self.run.is_over

    def begun(self, run: Run) -> Container:
        """The container with a new run."""
        count = self.restarts + (self.run is not None)
        return Container(run=run, before=self.run or self.before, restarts=count, ends=self.ends)

    def ended(self, run: Run, back_off: BackOff) -> Container:
        """The container when its run has ended so."""
        ends = back_off.ends_after(run, self.ends)
        return replace(self, run=run, ends=ends, is_started=False, is_ready=False)


NOTHING_YET = Container()


class Steps(NamedTuple):
    """What is to be done with a pod now."""

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    pauses: Mapping[str, float] = {}  # when containers are begun again that wait for it, by the clock
    is_over: bool = False  # nothing runs, and nothing will


@dataclass(frozen=True, slots=True)
class PodPlan:
    """The containers of a pod's spec by the part they play."""

    policy: str
    init: tuple[Object, ...]
    main: tuple[Object, ...]
    back_off: BackOff = field(default_factory=BackOff)

    @staticmethod
    def of(pod: Object, back_off: BackOff) -> PodPlan:
        """The plan of a pod."""
        spec = pod["spec"]
        init, main = tuple(spec.get("initContainers") or ()), tuple(spec["containers"])
        return PodPlan(spec.get("restartPolicy") or ALWAYS, init, main, back_off)

    @property
    def all(self) -> tuple[Object, ...]:
        return (*self.init, *self.main)

    def is_begun_again(self, container: Object, run: Run, *, is_init: bool = False) -> bool:
        """Whether a container that has ended so is to run once more, by its rules, its policy or the pod's."""
        for rule in container.get("restartPolicyRules") or ():
            if rule.get("action") == "Restart" and _is_meant(rule.get("exitCodes") or {}, run.exit_code):
                return True
        policy = container.get("restartPolicy") or self.policy
        if is_init and container.get("restartPolicy") is None and policy == ALWAYS:
            policy = ON_FAILURE  # an init container that has done its work is through
        return policy == ALWAYS or (policy == ON_FAILURE and run.exit_code != 0)


def is_sidecar(container: Object) -> bool:
    """Whether an init container stays beside those that follow it."""
    return container.get("restartPolicy") == ALWAYS


def next_steps(plan: PodPlan, known: Mapping[str, Container], now_s: float, *, is_halted: bool) -> Steps:
    """What is to be done with a pod's containers; one that is halted only has to end."""
    return _Steps(plan, known, now_s).halted() if is_halted else _Steps(plan, known, now_s).going_on()


def is_through_init(plan: PodPlan, known: Mapping[str, Container]) -> bool:
    """Whether the containers proper may run, or have run before."""
    if any(_of(known, one).run is not None for one in plan.main):
        return True
    return all(_is_passed(one, _of(known, one)) for one in plan.init)


def has_failed_init(plan: PodPlan, known: Mapping[str, Container]) -> bool:
    """Whether an init container has ended for good without success."""
    for one in plan.init:
        run = _of(known, one).run
        if run is not None and run.is_over and run.exit_code and not plan.is_begun_again(one, run, is_init=True):
            return True
    return False


def _is_passed(container: Object, state: Container) -> bool:
    """Whether what follows an init container may begin."""
    if is_sidecar(container):
        return state.is_running and state.is_started
    return state.run is not None and state.run.has_succeeded


def _of(known: Mapping[str, Container], container: Object) -> Container:
    return known.get(container["name"], NOTHING_YET)


def _is_meant(codes: Object, exit_code: int) -> bool:
    is_listed = exit_code in (codes.get("values") or ())
    return is_listed if codes.get("operator") == "In" else not is_listed


class _Steps:
    """Lives for one decision."""

    def __init__(self, plan: PodPlan, known: Mapping[str, Container], now_s: float) -> None:
        self._plan = plan
        self._known = known
        self._now_s = now_s
        self._start: list[str] = []
        self._pauses: dict[str, float] = {}

    def going_on(self) -> Steps:
        """Begin what has to run, and end what is left over when all work is done."""
        plan = self._plan
        if has_failed_init(plan, self._known):
            return self.halted()
        if not is_through_init(plan, self._known):
            self._initialize()
            return Steps(tuple(self._start), (), self._pauses)
        for one in plan.main:
            self._keep_running(one)
        if self._is_work_done():
            return self.halted()
        for one in plan.init:
            if is_sidecar(one):
                self._keep_running(one)
        return Steps(tuple(self._start), (), self._pauses)

    def halted(self) -> Steps:
        """End the containers proper, then those that stay beside them, the last first."""
        main = [one["name"] for one in self._plan.main if _of(self._known, one).is_running]
        beside = [one["name"] for one in self._plan.init if _of(self._known, one).is_running]
        stop = main or beside[-1:]
        return Steps((), tuple(stop), {}, is_over=not stop)

    def _is_work_done(self) -> bool:
        runs = [(_of(self._known, one).run, one) for one in self._plan.main]
        return all(run is not None and run.is_over and not self._plan.is_begun_again(one, run) for run, one in runs)

    def _initialize(self) -> None:
        for one in self._plan.init:
            self._keep_running(one, is_init=True)
            if not _is_passed(one, _of(self._known, one)):
                return

    def _keep_running(self, container: Object, *, is_init: bool = False) -> None:
        """Begin a container that does not run and should."""
        name, state = container["name"], _of(self._known, container)
        if state.run is None:
            self._start.append(name)
            return
        if state.run.ended_s is None or not self._plan.is_begun_again(container, state.run, is_init=is_init):
            return
        due_s = state.run.ended_s + self._plan.back_off.pause_s(state.ends)
        if due_s > self._now_s:
            self._pauses[name] = due_s
        else:
            self._start.append(name)


def running(known: Mapping[str, Container], containers: Iterable[Object]) -> Iterator[str]:
    """The names of those that run."""
    return (one["name"] for one in containers if _of(known, one).is_running)


def named(containers: Sequence[Object], name: str) -> Object:
    """The container of a name, which is there."""
    return next(one for one in containers if one["name"] == name)
