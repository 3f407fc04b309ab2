"""What becomes of a workload that is sent elsewhere, here and there, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.job_steps import Step
from muster.dialects.kueue.multikueue import LOST, Copy, Course, Sending, SendingRules, course, digest_of
from muster.dialects.kueue.multikueue_capacity import asked_of, fits_of
from muster.dialects.kueue.multikueue_copies import Mirroring, copied_job, copied_workload, next_copy_step
from muster.engine.dispatch import Candidate, Dispatch
from muster.jobs.job import INTEGRATION as JOB
from muster.model.fields import Fields
from muster.model.times import moment_text

Json = dict[str, Any]
NOW = 1_700_000_000.0
POD = {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"zone": "a"}}}
PLAIN = {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}


def condition(name: str, *, is_true: bool = True, at: float = NOW, reason: str = "R") -> Json:
    status = "True" if is_true else "False"
    return {"type": name, "status": status, "reason": reason, "message": "m", "lastTransitionTime": moment_text(at)}


def workload(*conditions: str, state: str = "Pending", **status: Any) -> Fields:
    metadata = {"name": "job-train", "namespace": "n", "uid": "w", "resourceVersion": "1", "ownerReferences": [OWNER]}
    check = {"name": "elsewhere", "state": state, "message": "", "lastTransitionTime": moment_text(NOW)}
    whole = {
        "conditions": [condition(name) for name in conditions],
        "admissionChecks": [check],
        "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": "2"}}]},
        **status,
    }
    spec = {"queueName": "main", "active": True, "podSets": [{"name": "main", "count": 1, "template": PLAIN}]}
    return Fields({"kind": "Workload", "metadata": metadata, "spec": spec, "status": whole})


def job(*, is_suspended: bool = False, managed_by: str = "kueue.x-k8s.io/multikueue", **status: Any) -> Fields:
    spec = {
        "suspend": is_suspended,
        "parallelism": 1,
        "template": POD,
        "managedBy": managed_by,
        "ttlSecondsAfterFinished": 5,
        "selector": {"matchLabels": {"controller-uid": "j"}},
    }
    metadata = {"name": "train", "namespace": "n", "uid": "j", "resourceVersion": "1", "labels": {"team": "t"}}
    return Fields({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": status})


def there(*conditions: str, job_status: Json | None = None, cluster: str = "a", at: float = NOW) -> Copy:
    """A copy, with its job where a status of that is given."""
    copied = copied_workload(workload(), "multikueue")
    metadata = {**copied["metadata"], "uid": "wc", "resourceVersion": "7"}
    status = {"conditions": [condition(name, at=at) for name in conditions], "admission": {"clusterQueue": "q"}}
    of_job = None
    if job_status is not None:
        labels = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
        of_job = Fields({"metadata": {"name": "train", "namespace": "n", "labels": labels}, "status": job_status})
    return Copy(cluster=cluster, workload=Fields({**copied, "metadata": metadata, "status": status}), job=of_job)


def away(cluster: str = "a", since: float | None = NOW - 10) -> Copy:
    return Copy(cluster=cluster, is_reachable=False, lost_at=since)


def empty(cluster: str) -> Copy:
    return Copy(cluster=cluster)


def sent(given: Fields, *copies: Copy, of_job: Fields | None = None, dispatch: Dispatch | None = None) -> Course:
    rules = SendingRules(lost_s=60.0, dispatch=dispatch or Dispatch())
    candidates = tuple(Candidate(name=one.cluster, is_reachable=one.is_reachable) for one in copies)
    return course(
        Sending(
            workload=given,
            check="elsewhere",
            copies=copies,
            job=of_job or job(),
            kind=JOB,
            candidates=candidates,
            rules=rules,
            now=NOW,
        )
    )


def told(steps: tuple[Step, ...]) -> str:
    """What writes say, in a few words."""
    words = []
    for step in steps:
        status = step.obj["status"]
        if step.resource != "workloads.kueue.x-k8s.io":
            words.append(f"job {status}")
        elif any(one["type"] == "Finished" and one["status"] == "True" for one in status["conditions"]):
            words.append("finished")
        else:
            (check,) = status["admissionChecks"]
            where = status.get("clusterName") or ",".join(status.get("nominatedClusterNames") or ())
            words.append(f"{check['state']} {where}".strip())
    return "; ".join(words)


RESERVED = ("QuotaReserved",)
IN_A = {"state": "Ready", "clusterName": "a"}


@pytest.mark.parametrize(
    ("given", "copies", "want"),
    [
        pytest.param(workload(), (empty("a"), empty("b")), "", id="without quota it waits here"),
        pytest.param(workload(*RESERVED), (empty("a"), empty("b")), "Pending a,b", id="it is offered to all"),
        pytest.param(workload(*RESERVED), (empty("a"), away("b")), "Pending a", id="but to who is away"),
        pytest.param(
            workload(*RESERVED, nominatedClusterNames=["a", "b"]),
            (there(), there(*RESERVED, cluster="b")),
            "Ready b",
            id="the first with room has it",
        ),
        pytest.param(
            workload(*RESERVED, nominatedClusterNames=["a", "b"]),
            (there(*RESERVED, at=NOW - 5), there(*RESERVED, cluster="b", at=NOW - 9)),
            "Ready b",
            id="of two the earlier one",
        ),
        pytest.param(
            workload(*RESERVED, nominatedClusterNames=["a"]),
            (there(*RESERVED), there(*RESERVED, cluster="b", job_status={})),
            "",
            id="not while another still has a job of it",
        ),
        pytest.param(
            workload(*RESERVED, nominatedClusterNames=["a"]),
            (there(*RESERVED, "Finished"),),
            "",
            id="who says that it ended was not given it",
        ),
        pytest.param(
            workload(*RESERVED, nominatedClusterNames=["a"]), (there(*RESERVED, "Evicted"),), "", id="evicted there"
        ),
        pytest.param(
            workload(*RESERVED, **IN_A), (there(*RESERVED, "Finished"),), "Retry a", id="ended without the job"
        ),
        pytest.param(
            workload(*RESERVED, **IN_A),
            (there(*RESERVED, job_status={"active": 1}),),
            "job {'active': 1}",
            id="the status comes back",
        ),
        pytest.param(
            workload(*RESERVED, **IN_A),
            (there(*RESERVED, "Finished", job_status={"succeeded": 1}),),
            "job {'succeeded': 1}; finished",
            id="and the end",
        ),
        pytest.param(workload(*RESERVED, **IN_A), (away(since=NOW - 59),), "", id="away for a while"),
        pytest.param(workload(*RESERVED, **IN_A), (away(since=None),), "", id="nobody knows yet"),
        pytest.param(workload(*RESERVED, **IN_A), (away(since=NOW - 60),), "Retry a", id="lost"),
        pytest.param(workload(*RESERVED, **IN_A), (empty("b"),), "Retry a", id="no longer a cluster of the check"),
        pytest.param(workload(*RESERVED, **IN_A), (empty("a"),), "Retry a", id="gone there"),
        pytest.param(workload(*RESERVED, **IN_A), (there("Evicted"),), "Retry a", id="sent away there"),
        pytest.param(workload(*RESERVED, "Evicted", clusterName="a"), (there(job_status={}),), "", id="it has to go"),
        pytest.param(workload(*RESERVED, "Evicted", clusterName="a"), (empty("a"),), "Pending", id="it is gone"),
        pytest.param(
            workload(*RESERVED, "Evicted", clusterName="a"),
            (there(*RESERVED, "Finished", job_status={"succeeded": 1}),),
            "job {'succeeded': 1}; finished",
            id="it ended before it could be stopped",
        ),
        pytest.param(workload(*RESERVED, "Finished"), (empty("a"),), "", id="over"),
        pytest.param(workload(*RESERVED, state="Retry"), (empty("a"),), "", id="on its way back"),
        pytest.param(workload(nominatedClusterNames=["a"]), (empty("a"),), "Pending", id="nobody is asked in vain"),
    ],
)
def test_course(given, copies, want):
    assert told(sent(given, *copies).steps) == want


def test_when_a_cluster_counts_as_lost():
    assert sent(workload(*RESERVED, **IN_A), away(since=NOW - 10)).due_s == NOW + 50


def test_who_is_not_managed_by_us_stays_suspended():
    found = sent(
        workload(*RESERVED, nominatedClusterNames=["a"]), there(*RESERVED), of_job=job(is_suspended=True, managed_by="")
    )
    assert told(found.steps) == "Pending a"


def test_a_retry_says_why_and_waits_longer_each_time():
    given = workload(*RESERVED, **IN_A)
    (step,) = sent(given, empty("a")).steps
    (check,) = step.obj["status"]["admissionChecks"]
    assert (check["message"], check["requeueAfterSeconds"]) == (LOST, 0)
    given.values["status"]["admissionChecks"][0]["retryCount"] = 3
    (step,) = sent(given, empty("a")).steps
    assert step.obj["status"]["admissionChecks"][0]["requeueAfterSeconds"] == 8


def test_what_cannot_be_sent_is_rejected():
    found = course(Sending(workload=workload(*RESERVED), check="elsewhere", copies=(empty("a"),), now=NOW))
    assert told(found.steps) == "Rejected"


def test_counts_never_fall():
    given = workload(*RESERVED, **IN_A)
    (step,) = sent(given, there(*RESERVED, job_status={"active": 1}), of_job=job(succeeded=2)).steps
    assert step.obj["status"] == {"active": 1, "succeeded": 2}


# There ---------------------------------------------------------------------------------------------------------------


def mirrored(given: Fields | None, copy: Copy) -> str:
    step = next_copy_step(Mirroring(copy=copy, origin="multikueue", workload=given, job=job(), kind=JOB))
    return "" if step is None else f"{step.verb.value} {step.resource.partition('.')[0]}"


OFFERED = {"nominatedClusterNames": ["a"]}


@pytest.mark.parametrize(
    ("given", "copy", "want"),
    [
        pytest.param(workload(*RESERVED, **OFFERED), empty("a"), "create workloads", id="offered"),
        pytest.param(workload(*RESERVED, **OFFERED), empty("b"), "", id="offered to another"),
        pytest.param(workload(*RESERVED, **OFFERED), there(*RESERVED), "", id="no job before it is given"),
        pytest.param(workload(*RESERVED, **IN_A), there(*RESERVED), "create jobs", id="given"),
        pytest.param(workload(*RESERVED, **IN_A), there(), "", id="no longer room"),
        pytest.param(workload(*RESERVED, **IN_A), empty("a"), "", id="gone there"),
        pytest.param(workload(*RESERVED, **IN_A), there(cluster="b"), "delete workloads", id="a loser"),
        pytest.param(workload(*RESERVED, **IN_A), there(cluster="b", job_status={}), "delete jobs", id="its job first"),
        pytest.param(None, there(), "delete workloads", id="an orphan"),
        pytest.param(None, there(job_status={}), "delete jobs", id="an orphan's job first"),
        pytest.param(workload(*RESERVED, "Evicted", **IN_A), there(job_status={}), "delete jobs", id="evicted here"),
        pytest.param(
            workload(*RESERVED, **IN_A), there(*RESERVED, "Finished", job_status={}), "", id="its end is not known yet"
        ),
        pytest.param(
            workload(*RESERVED, "Finished", **IN_A), there("Finished", job_status={}), "delete jobs", id="it is known"
        ),
    ],
)
def test_next_copy_step(given, copy, want):
    assert mirrored(given, copy) == want


def test_a_copy_of_something_else_is_made_anew():
    copy = there(*RESERVED)
    assert copy.workload is not None
    copy.workload.values["metadata"]["annotations"]["muster.dev/multikueue-spec"] = "other"
    assert mirrored(workload(*RESERVED, **OFFERED), copy) == "delete workloads"


def test_a_copied_job_is_as_it_was_before_its_start():
    made = copied_job(job(), JOB, workload(*RESERVED), "me")
    assert made["spec"] == {"suspend": True, "parallelism": 1, "template": PLAIN}
    assert made["metadata"]["labels"] == {
        "team": "t",
        "kueue.x-k8s.io/prebuilt-workload-name": "job-train",
        "kueue.x-k8s.io/multikueue-origin": "me",
    }


def test_a_copied_workload_belongs_to_nobody():
    made = copied_workload(workload(*RESERVED), "me")
    assert "ownerReferences" not in made["metadata"] and "status" not in made
    assert made["metadata"]["annotations"] == {"muster.dev/multikueue-spec": digest_of(workload())}


def test_room():
    resources = [{"name": "cpu", "nominalQuota": "9"}]
    used = [{"name": "f", "resources": [{"name": "cpu", "total": "4"}]}]
    queue = {
        "spec": {"resourceGroups": [{"flavors": [{"name": "f", "resources": resources}]}]},
        "status": {"flavorsReservation": used},
    }
    assert fits_of(asked_of(workload(*RESERVED)), Fields(queue)) == 2.5
    assert fits_of({"cpu": 1_000, "memory": 1}, Fields(queue)) == 0
