"""The pods of a job: how new ones look and are called, what their annotations say, and which go first.

Pure functions, used by `job_steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from muster.controllers.builtin.job_failures import FINALIZER, verdict
from muster.controllers.builtin.names import DIGEST_LENGTH, digest
from muster.controllers.builtin.pods import created_s, phase_of, pod_from, ready_since_s
from muster.store.kinds import Object
from muster.store.metadata import GENERATED_MOST

INDEX = "batch.kubernetes.io/job-completion-index"  # annotation and label
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def index_of(pod: Object, below: int) -> int | None:
    """The completion index of a pod; `None` where it has none that the job has."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX) or ""
    index = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else below
    return index if index < below else None


def failures_of(pod: Object, annotation: str = FAILURES) -> int:
    """How many pods of the same index failed before this one."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0


def all_failures_of(pod: Object) -> int:
    """How many pods of the same index failed before this one, those that are ignored too."""
    return failures_of(pod) + failures_of(pod, IGNORED)


# New pods ------------------------------------------------------------------------------------------------------------


class Names:
    """Names for new pods that follow from the job and a number: whoever writes one again meets the first."""

    def __init__(self, job: Object, is_taken: Callable[[str], bool]) -> None:
        self._job = job
        self._is_taken = is_taken
        self._given: set[str] = set()
        self._tried: dict[int | None, int] = {}  # by index: the number up to which none is free

    def next(self, prefix: str, index: int | None, first: int = 0) -> str:
        """The first name that no pod has, of those from a number on."""
        number = self._tried.get(index, first)
        while True:
            name = f"{prefix}{digest([self._job['metadata']['uid'], index, number], DIGEST_LENGTH)}"
            number += 1
            if name not in self._given and not self._is_taken(name):
                self._given.add(name)
                self._tried[index] = number
                return name


def plain_pods(job: Object, count: int, names: Names) -> list[Object]:
    """So many new pods of a job without indexes."""
    status = job.get("status") or {}
    ended = int(status.get("succeeded") or 0) + int(status.get("failed") or 0)
    prefix = f"{job['metadata']['name']}-"[:GENERATED_MOST]
    return [_pod(job, prefix, names.next(prefix, None, ended)) for _ in range(count)]


def indexed_pod(job: Object, index: int, names: Names, replaced: Object | None) -> Object:
    """A new pod of an index, that knows of the failures of the one it takes the place of."""
    name = job["metadata"]["name"]
    ending = f"-{index}-"
    prefix = name[: GENERATED_MOST - len(ending)] + ending
    pod = _pod(job, prefix, names.next(prefix, index))
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
    metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
    if job["spec"].get("backoffLimitPerIndex") is not None:
        metadata["annotations"] |= _failure_counts(job, replaced)
    spec["hostname"] = f"{name}-{index}"
    for containers in ("initContainers", "containers"):
        for container in spec.get(containers) or ():
            container["env"] = _with_index(container.get("env") or [])
    return pod


def _pod(job: Object, prefix: str, name: str) -> Object:
    pod = pod_from(job["spec"]["template"], job, name=name)
    metadata = pod["metadata"]
    metadata["generateName"] = prefix
    metadata["finalizers"] = [*(one for one in metadata.get("finalizers", ()) if one != FINALIZER), FINALIZER]
    return pod


def _with_index(variables: Sequence[Object]) -> list[Object]:
    if any(one.get("name") == INDEX_VARIABLE for one in variables):
        return list(variables)
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return [*variables, {"name": INDEX_VARIABLE, "valueFrom": source}]


def _failure_counts(job: Object, replaced: Object | None) -> dict[str, str]:
    if replaced is None:
        return {FAILURES: "0"}
    is_counted = verdict(job, replaced).is_counted
    counted, ignored = failures_of(replaced), failures_of(replaced, IGNORED)
    if is_counted:
        counted += 1
    else:
        ignored += 1
    found = {FAILURES: str(counted)}
    return {**found, IGNORED: str(ignored)} if ignored else found


# Which go first ------------------------------------------------------------------------------------------------------


def removal_order(pod: Object) -> tuple[object, ...]:
    """Sorts pods so that those come first that have got least far: their loss costs least."""
    since_s = ready_since_s(pod)
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    restarts = max((int(one.get("restartCount") or 0) for one in statuses), default=0)
    return (
        bool((pod.get("spec") or {}).get("nodeName")),
        _PHASES.get(phase_of(pod), 0),
        since_s is not None,
        -(since_s or 0.0),
        -restarts,
        -created_s(pod),
        pod["metadata"]["name"],
    )


def doubled(active: Iterable[Object], completions: int) -> list[Object]:
    """Pods whose index the job does not have, or that another pod has which got further."""
    by_index: dict[int, list[Object]] = {}
    found: list[Object] = []
    for pod in active:
        index = index_of(pod, completions)
        if index is None:
            found.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    for same in by_index.values():
        found += sorted(same, key=removal_order)[:-1]
    return found


def first_to_go(active: Sequence[Object], least: int, completions: int | None) -> list[Object]:
    """The pods to delete: those that are not needed at all, and as many more as have to go."""
    needless = [] if completions is None else doubled(active, completions)
    if len(needless) >= least:
        return needless
    gone = {pod["metadata"]["name"] for pod in needless}
    others = sorted((pod for pod in active if pod["metadata"]["name"] not in gone), key=removal_order)
    return needless + others[: least - len(needless)]
