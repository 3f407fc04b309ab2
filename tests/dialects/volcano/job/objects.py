"""Jobs and pods for the tests of this folder."""

from __future__ import annotations

from typing import Any

from muster.dialects.volcano.job.spec import VolcanoJob, read_job
from muster.dialects.volcano.job.words import JOB_VERSION, TASK_INDEX, TASK_SPEC
from muster.model.fields import Fields

Object = dict[str, Any]


def task(name: str, replicas: int = 1, **more: Any) -> Object:
    pod = {"containers": [{"name": "main", "image": "i"}], **more.pop("pod", {})}
    return {"name": name, "replicas": replicas, "template": {"spec": pod}, **more}


def job_object(*tasks: Object, metadata: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
    named = {"name": "j", "namespace": "x", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {**named, **(metadata or {})},
        "spec": {"tasks": list(tasks), **spec},
        **({"status": status} if status is not None else {}),
    }


def job(*tasks: Object, **spec: Any) -> VolcanoJob:
    return read_job(Fields(job_object(*tasks, **spec)))


def pod(of: str, index: int = 0, phase: str = "Running", *, version: int = 0, **more: Any) -> Object:
    """A pod of a task as it is stored; `code`, `restarts`, `ready`, `created`, `ended`, `leaving` say the rest."""
    created = more.pop("created", "2026-01-01T00:00:00Z")
    state = {}
    if phase in ("Succeeded", "Failed"):
        ended = {"exitCode": more.pop("code", 0), "finishedAt": more.pop("ended", created)}
        state = {"terminated": ended}
    container = {"restartCount": more.pop("restarts", 0), "ready": more.pop("ready", True), "state": state}
    metadata = {
        "name": f"j-{of}-{index}",
        "namespace": "x",
        "uid": f"uid-{of}-{index}",
        "creationTimestamp": created,
        "annotations": {TASK_SPEC: of, TASK_INDEX: str(index), JOB_VERSION: str(version), **more.pop("notes", {})},
    }
    if more.pop("leaving", False):
        metadata["deletionTimestamp"] = created
    assert not more, more
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, "containerStatuses": [container]}}
