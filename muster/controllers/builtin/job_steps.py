"""What is to be done next for a job: pods to make and to delete, its status, and which pods may go as they are counted.

Pure: the job and its pods in, steps out. Called by the Job controller, which carries the steps out in the order: pods
made and deleted, the status, finalizers. A pod that has ended is first noted by its uid in the status and only then
loses its finalizer; when it has lost it, it is counted. So each is counted exactly once, wherever that is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.controllers.builtin.job_conditions import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    Finish,
    begun_finish,
    condition,
    true_condition,
    with_condition,
)
from muster.controllers.builtin.job_failures import (
    Ending,
    finished_s,
    has_failed,
    is_tracked,
    replaces_failed_only,
    verdict,
    wait_after_s,
    wait_s,
)
from muster.controllers.builtin.job_indexes import Indexes, parse_indexes
from muster.controllers.builtin.job_pods import (
    Names,
    all_failures_of,
    first_to_go,
    index_of,
    indexed_pod,
    plain_pods,
)
from muster.controllers.builtin.job_verdicts import (
    deadline_left_s,
    failed_indexes,
    failure,
    index_failure,
    policy_success,
)
from muster.controllers.builtin.pods import is_active, is_ready, is_terminating, phase_of
from muster.controllers.events import NORMAL, WARNING, Note
from muster.model.times import moment_text
from muster.store.kinds import Object
from muster.store.metadata import is_deleting

CHANGED_MOST = 500  # pods that are made or deleted in one turn
NOTED_MOST = 500  # uids that a status holds
_INDEXED = "Indexed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A job as its controller sees it."""

    job: Object
    pods: list[Object]  # those it controls
    now_s: float
    endings: Mapping[str, Ending] = field(default_factory=dict)  # of its pods, those too that are gone
    is_taken: Callable[[str], bool] = lambda _name: False  # whether there is a pod of this name


@dataclass(slots=True, kw_only=True)
class Steps:
    """What follows."""

    status: Object
    create: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    drop: list[Object] = field(default_factory=list)  # pods to delete that are not to be counted
    release: list[Object] = field(default_factory=list)  # pods that lose their finalizer once the status is kept
    notes: list[Note] = field(default_factory=list)
    again_s: float | None = None


def job_steps(sight: Sight) -> Steps:
    """The next steps for a job that has not finished."""
    return _Deciding(sight).decide()


class _Deciding:
    """One look at one job; what is found out is kept here while the steps are put together."""

    def __init__(self, sight: Sight) -> None:
        self.job, self.now_s, self.sight = sight.job, sight.now_s, sight
        self.spec: Object = self.job["spec"]
        completions = self.spec.get("completions")
        self.completions: int | None = completions
        # Only a job with indexes has a bound for them.
        self.indexes_below: int | None = completions if self.spec.get("completionMode") == _INDEXED else None
        self.pods = sorted(sight.pods, key=self._place)
        self.active = [pod for pod in self.pods if is_active(pod)]
        self.terminating = [pod for pod in self.pods if is_terminating(pod)]
        self.before: Object = self.job.get("status") or {}
        self.steps = Steps(status={**self.before, "conditions": self.before.get("conditions") or []})
        noted = self.before.get("uncountedTerminatedPods") or {}
        self.noted: dict[str, list[str]] = {how: list(noted.get(how) or ()) for how in ("succeeded", "failed")}
        self.known_indexes = self.done_indexes = Indexes()  # completed as the status says, and as the pods say
        self.lost_indexes: Indexes | None = None  # failed; only where they fail one by one
        self.last_of_index: dict[int, Object] = {}  # failed pods that wait to be replaced

    def _place(self, pod: Object) -> tuple[int, str]:
        index = None if self.indexes_below is None else index_of(pod, self.indexes_below)
        return (-1 if index is None else index, pod["metadata"]["name"])

    def decide(self) -> Steps:
        """All steps."""
        self._count_released()
        self._look_at_indexes()
        is_suspended = bool(self.spec.get("suspend"))
        status = self.steps.status
        if status.get("startTime") is None and not is_suspended:
            status["startTime"] = moment_text(self.now_s)
        finish = begun_finish(self.job) or self._finish_now()
        if finish is not None:
            self.steps.delete = list(self.active)
        else:
            if not is_deleting(self.job):
                self._manage(is_suspended=is_suspended)
            left = len(self.active) + len(self.steps.create) - len(self.steps.drop)
            if self._is_complete(left):
                finish = Finish(True, "CompletionsReached", "Reached expected number of succeeded pods")
            elif not is_deleting(self.job):
                self._note_suspension(is_suspended=is_suspended)
        self._set_counts()
        is_all_noted = self._note_ended(finish)
        if finish is not None:
            self._enact(finish, is_all_noted=is_all_noted)
        return self.steps

    # Counting --------------------------------------------------------------------------------------------------------

    def _count_released(self) -> None:
        """Count what was noted before and has lost its finalizer since."""
        held = {pod["metadata"]["uid"] for pod in self.pods if is_tracked(pod)}
        for how, uids in self.noted.items():
            counted = sum(uid not in held for uid in uids)
            if counted:
                self.steps.status[how] = int(self.before.get(how) or 0) + counted
            self.noted[how] = [uid for uid in uids if uid in held]

    def _look_at_indexes(self) -> None:
        below = self.indexes_below
        if below is None:
            return
        self.known_indexes = parse_indexes(self.before.get("completedIndexes") or "", below)
        ended = (index_of(pod, below) for pod in self.pods if phase_of(pod) == "Succeeded" and is_tracked(pod))
        self.done_indexes = self.known_indexes.plus(index for index in ended if index is not None)
        if self.spec.get("backoffLimitPerIndex") is not None:
            self.lost_indexes = failed_indexes(self.job, self.pods)
            self._find_last_of_index(below)

    def _find_last_of_index(self, below: int) -> None:
        """Of each index that is to be tried again, the failed pod whose annotations say how often it was."""
        assert self.lost_indexes is not None, "only asked where indexes fail one by one"
        running = {index_of(pod, below) for pod in self.active}
        for pod in self.pods:
            index = index_of(pod, below)
            if index is None or index in running or index in self.done_indexes or index in self.lost_indexes:
                continue
            if not is_tracked(pod) or not has_failed(pod, self.job):
                continue
            known = self.last_of_index.get(index)
            if known is None or _how_far(known) <= _how_far(pod):
                self.last_of_index[index] = pod

    def _counts_as_failed(self, pod: Object) -> bool:
        """Whether the failure of a pod is one of the job's: its index is, and no rule ignores it."""
        is_own = self.indexes_below is None or index_of(pod, self.indexes_below) is not None
        return is_own and verdict(self.job, pod).is_counted

    def _succeeded(self) -> int:
        """How many completions there are, those included that are not in the status yet."""
        if self.indexes_below is not None:
            return self.done_indexes.total
        return self._total("succeeded", [pod for pod in self.pods if phase_of(pod) == "Succeeded"])

    def _failed(self) -> int:
        ended = [pod for pod in self.pods if has_failed(pod, self.job)]
        return self._total("failed", [pod for pod in ended if self._counts_as_failed(pod)])

    def _total(self, how: str, ended: list[Object]) -> int:
        noted = set(self.noted[how])
        new = sum(is_tracked(pod) and pod["metadata"]["uid"] not in noted for pod in ended)
        return int(self.steps.status.get(how) or 0) + len(noted) + new

    def _set_counts(self) -> None:
        """The counts as they are once the steps are taken."""
        gone = {pod["metadata"]["name"] for pod in (*self.steps.delete, *self.steps.drop)}
        staying = [pod for pod in self.active if pod["metadata"]["name"] not in gone]
        status = self.steps.status
        set_or_leave_out(status, "active", len(staying) + len(self.steps.create))
        status["ready"] = sum(is_ready(pod) for pod in staying)
        status["terminating"] = len(self.terminating) + len(gone)

    def _note_ended(self, finish: Finish | None) -> bool:
        """Note the pods that have ended and let them go; gives whether that was all of them."""
        done: list[int] = []
        for pod in self.pods:
            if not is_tracked(pod) or not self._may_go(pod, finish):
                continue
            if len(done) + sum(map(len, self.noted.values())) >= NOTED_MOST:
                return self._keep_notes(done, is_all=False)
            self.steps.release.append(pod)
            uid = pod["metadata"]["uid"]
            # When a job has failed, so have all of its pods that had not ended.
            is_failure = has_failed(pod, self.job) or (finish is not None and not finish.is_success)
            if phase_of(pod) == "Succeeded" and uid not in self.noted["failed"]:
                self._note_success(pod, uid, done)
            elif is_failure and uid not in self.noted["failed"] and self._counts_as_failed(pod):
                self.noted["failed"].append(uid)
        return self._keep_notes(done, is_all=True)

    def _note_success(self, pod: Object, uid: str, done: list[int]) -> None:
        if self.indexes_below is None:
            if uid not in self.noted["succeeded"]:
                self.noted["succeeded"].append(uid)
        elif (index := index_of(pod, self.indexes_below)) is not None and index not in self.known_indexes:
            done.append(index)

    def _keep_notes(self, done: list[int], *, is_all: bool) -> bool:
        status = self.steps.status
        status["uncountedTerminatedPods"] = {how: uids for how, uids in self.noted.items() if uids}
        if self.indexes_below is not None:
            completed = self.known_indexes.plus(done)
            set_or_leave_out(status, "succeeded", completed.total)
            set_or_leave_out(status, "completedIndexes", completed.text)
            if self.lost_indexes is not None:
                status["failedIndexes"] = self.lost_indexes.text
        return is_all

    def _may_go(self, pod: Object, finish: Finish | None) -> bool:
        """Whether a pod need not be held any longer."""
        if is_deleting(self.job) or finish is not None or phase_of(pod) == "Succeeded":
            return True
        if not has_failed(pod, self.job):
            return False
        index = None if self.indexes_below is None else index_of(pod, self.indexes_below)
        # The one that takes its place needs its annotations.
        return index is None or self.last_of_index.get(index) is not pod

    # Finishing -------------------------------------------------------------------------------------------------------

    def _finish_now(self) -> Finish | None:
        """How the job ends as of now, if it does."""
        found = failure(self.job, self.pods, failed=self._failed(), now_s=self.now_s)
        if found is not None:
            return found
        # A job that starts now has its status yet to be written.
        if (left_s := deadline_left_s({**self.job, "status": self.steps.status}, self.now_s)) is not None:
            self._look_again(left_s)
        if self.lost_indexes is not None:
            found = index_failure(self.job, self.done_indexes, self.lost_indexes)
        return found if self.indexes_below is None else found or policy_success(self.job, self.done_indexes)

    def _is_complete(self, left: int) -> bool:
        succeeded = self._succeeded()
        if self.completions is None:
            return succeeded > 0 and left == 0
        return succeeded >= self.completions and left == 0

    def _enact(self, finish: Finish, *, is_all_noted: bool) -> None:
        """Say that the job is about to finish, and that it has once nothing of it is left."""
        status = self.steps.status
        interim, final = (SUCCESS_CRITERIA_MET, COMPLETE) if finish.is_success else (FAILURE_TARGET, FAILED)
        if true_condition(self.job, interim) is None:
            self._set_condition(condition(interim, finish.reason, finish.message, self.now_s))
        if not is_all_noted or status["uncountedTerminatedPods"] or status["terminating"]:
            return
        self._set_condition(condition(final, finish.reason, finish.message, self.now_s))
        if finish.is_success:
            status["completionTime"] = moment_text(self.now_s)
            self.steps.notes.append(Note(NORMAL, "Completed", "Job completed"))
        else:
            self.steps.notes.append(Note(WARNING, finish.reason, finish.message))

    def _note_suspension(self, *, is_suspended: bool) -> None:
        if is_suspended == (true_condition(self.job, SUSPENDED) is not None):
            return
        word = "suspended" if is_suspended else "resumed"
        new = condition(SUSPENDED, f"Job{word.capitalize()}", f"Job {word}", self.now_s)
        self._set_condition(new if is_suspended else {**new, "status": "False"})
        self.steps.notes.append(Note(NORMAL, word.capitalize(), f"Job {word}"))
        if is_suspended:
            self.steps.status.pop("startTime", None)
        else:
            self.steps.status["startTime"] = moment_text(self.now_s)  # the deadline counts from here

    def _set_condition(self, new: Object) -> None:
        self.steps.status["conditions"] = with_condition(self.steps.status["conditions"], new)

    # Pods ------------------------------------------------------------------------------------------------------------

    def _manage(self, *, is_suspended: bool) -> None:
        """Make and delete pods: in one turn one or the other."""
        wanted = 0 if is_suspended else self._wanted()
        drop = first_to_go(self.active, max(0, len(self.active) - wanted), self.indexes_below)
        self.steps.drop = drop[:CHANGED_MOST]
        if drop or is_suspended:
            return
        leaving = len(self.terminating) if replaces_failed_only(self.job) else 0
        missing = min(wanted - leaving - len(self.active), CHANGED_MOST)
        if missing <= 0:
            return
        if self.lost_indexes is None and (left_s := wait_s(self.sight.endings, self.now_s)) > 0:
            self._look_again(left_s)
            return
        names = Names(self.job, self.sight.is_taken)
        if self.indexes_below is None:
            self.steps.create = plain_pods(self.job, missing, names)
            return
        for index in self._indexes_to_make(missing, self.indexes_below):
            self.steps.create.append(indexed_pod(self.job, index, names, self.last_of_index.get(index)))

    def _wanted(self) -> int:
        """How many pods are to run."""
        parallelism = int(self.spec.get("parallelism") or 0)
        succeeded = self._succeeded()
        if self.completions is None:
            # After the first success the others end by themselves.
            return len(self.active) if succeeded else parallelism
        return max(0, min(self.completions - succeeded, parallelism))

    def _indexes_to_make(self, count: int, below: int) -> list[int]:
        """The first indexes that no pod has and that need not wait."""
        taken = [index for pod in self.active if (index := index_of(pod, below)) is not None]
        if replaces_failed_only(self.job):
            taken += [index for pod in self.terminating if (index := index_of(pod, below)) is not None]
        busy = self.done_indexes.plus(taken)
        if self.lost_indexes is not None:
            busy = busy.merged(self.lost_indexes)
        pending = [index for index, _ in zip(busy.missing(below), range(count), strict=False)]
        waits = {index: self._index_wait_s(index) for index in pending}
        ready = [index for index in pending if waits[index] <= 0]
        if not ready and waits:
            self._look_again(min(waits.values()))
        return ready

    def _index_wait_s(self, index: int) -> float:
        last = self.last_of_index.get(index)
        return 0.0 if last is None else wait_after_s(all_failures_of(last) + 1, finished_s(last), self.now_s)

    def _look_again(self, after_s: float) -> None:
        again_s = self.steps.again_s
        self.steps.again_s = after_s if again_s is None else min(again_s, after_s)


def _how_far(pod: Object) -> tuple[int, float]:
    return all_failures_of(pod), finished_s(pod)


def set_or_leave_out(status: Object, name: str, value: Any) -> None:
    """Set a field that is left out when it is empty."""
    if value:
        status[name] = value
    else:
        status.pop(name, None)
