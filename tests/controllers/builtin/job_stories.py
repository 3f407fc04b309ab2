"""Stories of jobs: what is done to them step by step. Told to the controllers of Muster and to Kubernetes' own.

After each step both have to be in the same state: the job's status, and its pods with all that a controller gives
them. What Kubernetes said is kept in job_stories.jsonl; tests/kubernetes/test_job_controller.py asks it anew.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any, NamedTuple, Protocol

Json = dict[str, Any]
LONG_AGO = "2020-01-01T00:00:00Z"  # a failure then is no reason to wait now
_INDEX = "batch.kubernetes.io/job-completion-index"
_USUAL_LABELS = {
    "batch.kubernetes.io/controller-uid": "UID",
    "batch.kubernetes.io/job-name": "j",
    "controller-uid": "UID",
    "job-name": "j",
}
_USUAL_OWNER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "j",
    "uid": "UID",
    "controller": True,
    "blockOwnerDeletion": True,
}


class Pick(NamedTuple):
    """Which pods a step is about: the first few of those, by index and name."""

    count: int = 1
    index: int | None = None
    phase: str = "Pending"
    is_deleting: bool = False


class Step(NamedTuple):
    """One thing that is done."""

    verb: str
    pick: Pick = Pick()
    given: Any = None


class Side(Protocol):
    """A cluster that a story is told to."""

    def do(self, verb: str, names: list[str], given: Any) -> None: ...

    def job(self) -> Json | None: ...

    def pods(self) -> list[Json]: ...


def job(**spec: Any) -> Step:
    return Step("job", given=spec)


def end(code: int = 0, **pick: Any) -> Step:
    return Step("status", Pick(**pick), ended(code))


def disrupted(**pick: Any) -> Step:
    condition = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": LONG_AGO}
    return Step("status", Pick(**pick), {**ended(137), "conditions": [condition]})


def running(restarts: int = 0, **pick: Any) -> Step:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}
    container = {**_container(), "state": {"running": {"startedAt": LONG_AGO}}, "restartCount": restarts}
    return Step("status", Pick(**pick), {"phase": "Running", "conditions": [ready], "containerStatuses": [container]})


def change(**spec: Any) -> Step:
    return Step("change", given=spec)


def bind(**pick: Any) -> Step:
    return Step("bind", Pick(**pick))


def delete(grace_s: int | None = None, **pick: Any) -> Step:
    return Step("delete", Pick(**pick), grace_s)


def delete_job(propagation: str) -> Step:
    return Step("delete job", given=propagation)


def pause(seconds: float) -> Step:
    return Step("pause", given=seconds)


def relabel(**pick: Any) -> Step:
    return Step("relabel", Pick(**pick))


def _container() -> Json:
    return {"name": "main", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}


def ended(code: int) -> Json:
    """The status of a pod that has ended long ago."""
    terminated = {"exitCode": code, "startedAt": LONG_AGO, "finishedAt": LONG_AGO}
    container = {**_container(), "state": {"terminated": terminated}}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}


def policy(*rules: Json) -> Json:
    return {"rules": list(rules)}


def on_code(action: str, *codes: int) -> Json:
    return {"action": action, "onExitCodes": {"operator": "In", "values": list(codes)}}


def on_disruption(action: str) -> Json:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


APP: Json = {"matchLabels": {"app": "a"}}
OWN_INDEX: Json = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
INDEXED: Json = {"completionMode": "Indexed"}
STORIES: dict[str, list[Step]] = {
    "one pod succeeds": [job(), running(), end(phase="Running")],
    "several at a time": [job(completions=5, parallelism=2), end(), end(count=2), end(count=2)],
    "any success ends the work": [job(parallelism=3), end(), end(count=2)],
    "any success, and others fail": [job(parallelism=3), end(), end(1), end()],
    "nothing to complete": [job(completions=0)],
    "no pods at a time": [job(completions=2, parallelism=0), change(parallelism=2), end(count=2)],
    "failures are replaced up to the limit": [job(backoffLimit=1), end(1), end(1)],
    "the limit takes the others along": [
        job(backoffLimit=0, parallelism=3, completions=3),
        running(),
        end(1),
    ],
    "the others have to leave first": [
        job(backoffLimit=0, parallelism=2, completions=2),
        bind(count=2),
        running(count=2),
        end(1, phase="Running"),
        delete(0, phase="Running", is_deleting=True),
    ],
    "restarts in place count": [
        job(restart="OnFailure", backoffLimit=2),
        running(restarts=1),
        running(restarts=2, phase="Running"),
    ],
    "restarts in place with no limit left": [job(restart="OnFailure", backoffLimit=0), running(restarts=1)],
    "the deadline has passed": [job(activeDeadlineSeconds=1), pause(1)],
    "a pod is deleted and counts": [job(backoffLimit=1), delete(), pause(11), delete()],
    "a pod leaves slowly and is replaced at once": [
        job(),
        bind(),
        delete(),
        pause(11),
        delete(0, is_deleting=True),
        end(),
    ],
    "a pod leaves slowly and is waited for": [
        job(podReplacementPolicy="Failed"),
        bind(),
        delete(),
        end(1, is_deleting=True),
        end(),
    ],
    "more and fewer at a time": [
        job(parallelism=1, completions=6),
        change(parallelism=4),
        running(count=2),
        change(parallelism=2),
        change(parallelism=0),
        change(parallelism=6),
        end(count=6),
    ],
    "suspended from the start": [job(suspend=True, completions=2, parallelism=2), change(suspend=False), end(count=2)],
    "suspended on the way": [
        job(completions=3, parallelism=2),
        end(),
        change(suspend=True),
        change(suspend=False),
        end(count=2),
    ],
    "suspended with pods that leave slowly": [
        job(),
        bind(),
        running(),
        change(suspend=True),
        delete(0, phase="Running", is_deleting=True),
        change(suspend=False),
        end(),
    ],
    "indexes": [job(**INDEXED, completions=5, parallelism=2), end(index=1), end(index=0), end(count=2), end(index=4)],
    "indexes fail and are tried again": [
        job(**INDEXED, completions=3, parallelism=3),
        end(1, index=1),
        end(index=1),
        end(index=0),
        end(1, index=2),
        end(index=2),
    ],
    "indexes by the many": [
        job(**INDEXED, completions=9, parallelism=9),
        end(index=8),
        end(index=3),
        end(index=4),
        end(index=1),
        end(index=5),
        end(count=4),
    ],
    "indexes grow and shrink": [
        job(**INDEXED, completions=3, parallelism=3),
        end(index=2),
        change(completions=4, parallelism=4),
        change(completions=2, parallelism=2),
        end(count=2),
    ],
    "each index has its own limit": [
        job(**INDEXED, completions=3, parallelism=3, backoffLimitPerIndex=1),
        end(1, index=0),
        end(1, index=0),
        end(index=1),
        end(index=2),
    ],
    "too many indexes fail": [
        job(**INDEXED, completions=4, parallelism=4, backoffLimitPerIndex=0, maxFailedIndexes=1),
        end(1, index=0),
        end(1, index=2),
    ],
    "each index alone, some ignored": [
        job(
            **INDEXED,
            completions=2,
            parallelism=2,
            backoffLimitPerIndex=1,
            podFailurePolicy=policy(on_code("Ignore", 7), on_code("FailIndex", 9)),
        ),
        end(7, index=0),
        end(1, index=0),
        end(9, index=1),
        end(index=0),
    ],
    "a rule fails the job": [
        job(completions=2, parallelism=2, podFailurePolicy=policy(on_code("FailJob", 42))),
        end(42),
    ],
    "a rule ignores a failure": [
        job(backoffLimit=0, podFailurePolicy=policy(on_disruption("Ignore"))),
        disrupted(),
        end(),
    ],
    "a rule fails the job at a disruption": [
        job(backoffLimit=3, podFailurePolicy=policy(on_disruption("FailJob"))),
        disrupted(),
    ],
    "a rule counts a failure": [
        job(backoffLimit=0, podFailurePolicy=policy(on_code("Count", 3), on_code("Ignore", 3, 4))),
        end(4),
        end(3),
    ],
    "some indexes are enough": [
        job(
            **INDEXED,
            completions=4,
            parallelism=4,
            successPolicy={"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]},
        ),
        end(index=1),
        end(index=2),
        end(index=0),
    ],
    "all of some indexes are enough": [
        job(**INDEXED, completions=3, parallelism=3, successPolicy={"rules": [{"succeededIndexes": "0-1"}]}),
        end(1, index=2),
        end(index=0),
        end(index=1),
    ],
    "a count is enough": [
        job(**INDEXED, completions=4, parallelism=2, successPolicy={"rules": [{"succeededCount": 2}]}),
        bind(count=2),
        running(count=2),
        end(index=0, phase="Running"),
        end(index=1, phase="Running"),
    ],
    "somebody else manages it": [job(managedBy="example.com/other")],
    "deleted in the background": [job(parallelism=2), end(), delete_job("Background")],
    "deleted, and the pods stay": [job(parallelism=2, completions=2), end(), delete_job("Orphan")],
    "deleted after its pods": [job(parallelism=2, completions=2), bind(), delete_job("Foreground")],
    "a pod is let go": [job(), relabel(), end()],
    "a pod is taken": [
        job(
            manualSelector=True, selector=APP, pods={"labels": {"app": "a"}}, parallelism=2, completions=3, suspend=True
        ),
        Step("pod", given={"app": "a"}),
        change(suspend=False),
        end(count=2),
        end(),
    ],
    "others go on while a failure is waited for": [
        job(parallelism=2, completions=2),
        delete(),
        pause(11),
        end(count=2),
    ],
    "an index waits by itself": [
        job(**INDEXED, completions=2, parallelism=2, backoffLimitPerIndex=1),
        delete(index=0),
        pause(11),
        end(count=2),
    ],
    "the template has its own ideas": [
        job(
            **INDEXED,
            completions=2,
            pods={"labels": {"app": "a"}, "annotations": {"note": "yes"}, "finalizers": ["example.com/mine"]},
            pod={"hostname": "mine", "containers": [{"name": "main", "image": "i", "env": [OWN_INDEX]}]},
        ),
        end(),
    ],
    "gone when it has finished": [job(ttlSecondsAfterFinished=0), end()],
    "gone some time after it has finished": [job(ttlSecondsAfterFinished=2, backoffLimit=0), end(1), pause(3)],
    "suspended with indexes": [
        job(**INDEXED, completions=4, parallelism=3, backoffLimitPerIndex=2),
        end(index=1),
        end(1, index=0),
        change(suspend=True),
        change(suspend=False),
        end(count=3),
    ],
    "waited for, with indexes": [
        job(**INDEXED, completions=3, parallelism=2, podReplacementPolicy="Failed"),
        bind(count=2),
        delete(index=0),
        end(index=1),
        end(1, index=0, is_deleting=True),
        end(count=2),
    ],
    "the least far go first": [
        job(parallelism=4, completions=4),
        bind(count=3),
        running(),
        change(parallelism=1),
    ],
    "a failure after enough": [job(completions=1, parallelism=1, backoffLimit=0), end(), pause(0)],
    "a rule with a container": [
        job(
            backoffLimit=0,
            podFailurePolicy=policy(
                {"action": "Ignore", "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [5]}}
            ),
        ),
        end(4),
        end(5),
    ],
    "ignored disruptions of indexes": [
        job(
            **INDEXED,
            completions=2,
            parallelism=2,
            backoffLimitPerIndex=0,
            podFailurePolicy=policy(on_disruption("Ignore")),
        ),
        disrupted(index=0),
        disrupted(index=0),
        end(1, index=0),
        end(index=1),
    ],
}


def tell(side: Side, step: Step) -> None:
    """Do one step of a story."""
    pick = step.pick
    wants_pods = step.verb in ("status", "bind", "delete", "relabel")
    names = [one["metadata"]["name"] for one in sorted(side.pods(), key=_order) if _fits(one, pick)]
    if wants_pods:
        assert len(names) >= pick.count, f"{step.verb} needs {pick.count} pods, of {len(names)} that fit"
    side.do(step.verb, names[: pick.count] if wants_pods else [], step.given)


def _fits(pod: Json, pick: Pick) -> bool:
    return (
        (pod["status"].get("phase") or "Pending") == pick.phase
        and (pick.index is None or _index(pod) == pick.index)
        and ("deletionTimestamp" in pod["metadata"]) == pick.is_deleting
        and not pod["metadata"].get("labels", {}).get("gone")
    )


def _index(pod: Json) -> int:
    return int(pod["metadata"].get("annotations", {}).get(_INDEX, -1))


def _order(pod: Json) -> tuple[int, str]:
    return _index(pod), pod["metadata"]["name"]


# What has to be the same ---------------------------------------------------------------------------------------------


def state(side: Side) -> Json:
    """The job and its pods, less what each cluster makes up."""
    found = side.job()
    pods = sorted((_pod(one) for one in side.pods()), key=repr)
    alike = [[pod, len(list(same))] for pod, same in groupby(pods)]
    return {"job": None if found is None else _job(found), "pods": alike}


def _job(given: Json) -> Json:
    status = dict(given.get("status") or {})
    for name in ("startTime", "completionTime"):
        if name in status:
            status[name] = "TIME"
    if "conditions" in status:
        status["conditions"] = sorted((_condition(one) for one in status["conditions"]), key=repr)
    uncounted = status.pop("uncountedTerminatedPods", None) or {}
    status["noted"] = {how: len(uids) for how, uids in uncounted.items()}
    if "deletionTimestamp" in given["metadata"]:
        # The collector deletes its pods while their finalizers are taken off: chance says which of it is seen first.
        status.pop("failed", None)
    found: Json = {"status": status}
    for name in ("finalizers", "deletionTimestamp"):
        if name in given["metadata"]:
            found[name] = given["metadata"][name] if name == "finalizers" else "TIME"
    return found


def _condition(given: Json) -> list[str]:
    message = re.sub(r"pod [^ /]+/[^ ]+", "pod POD", given.get("message") or "", flags=re.IGNORECASE)
    return [given["type"], given["status"], given.get("reason") or "", message]


def _pod(given: Json) -> Json:
    metadata, spec = given["metadata"], given["spec"]
    labels = {name: "UID" if "uid" in name else value for name, value in (metadata.get("labels") or {}).items()}
    owners = [{**one, "uid": "UID"} for one in metadata.get("ownerReferences") or ()]
    if labels.items() >= _USUAL_LABELS.items() and owners == [_USUAL_OWNER]:
        labels = {name: value for name, value in labels.items() if name not in _USUAL_LABELS} | {"and": "as usual"}
        owners = []
    container = spec["containers"][0]
    found = {
        "start of name": metadata["name"][: len(metadata.get("generateName") or "")],
        "labels": dict(sorted(labels.items())),
        "annotations": dict(sorted((metadata.get("annotations") or {}).items())),
        "finalizers": metadata.get("finalizers"),
        "owners": owners,
        "is deleting": "deletionTimestamp" in metadata,
        "hostname": spec.get("hostname"),
        "env": container.get("env"),
        "phase": given["status"].get("phase"),
    }
    return {name: value for name, value in sorted(found.items()) if value}
