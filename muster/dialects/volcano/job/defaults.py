"""What a new job gets that its author has left out, as Volcano's webhook fills it in. Used by admission."""

from __future__ import annotations

from typing import Any

from muster.dialects.volcano.job.spec import read_plugins, read_tasks
from muster.dialects.volcano.job.words import MAX_RETRY
from muster.dialects.volcano.names import DEFAULT_QUEUE, SCHEDULER
from muster.model.fields import Fields

Object = dict[str, Any]


def completed(job: Fields) -> Object:
    """A new job with its defaults; raises `InvalidObject` where it cannot be read."""
    spec = job.child("spec")
    tasks = read_tasks(spec)
    made: Object = {
        **spec.values,
        "queue": spec.text("queue") or DEFAULT_QUEUE,
        "schedulerName": spec.text("schedulerName") or SCHEDULER,
        "maxRetry": spec.integer("maxRetry") or MAX_RETRY,
        "minAvailable": spec.integer("minAvailable") or sum(task.least for task in tasks),
        "tasks": [
            _completed_task(given, name=task.name, least=task.least)
            for given, task in zip(spec.children("tasks"), tasks, strict=True)
        ],
    }
    plugins = read_plugins(spec)
    if plugins:
        made["plugins"] = {name: list(flags) for name, flags in plugins.items()}
    return {**job.values, "spec": made}


def _completed_task(task: Fields, *, name: str, least: int) -> Object:
    made: Object = {
        **task.values,
        "name": name,
        "minAvailable": least,
        "maxRetry": task.integer("maxRetry") or MAX_RETRY,
    }
    template = task.child("template")
    pod = template.child("spec")
    if pod.flag("hostNetwork") and not pod.text("dnsPolicy"):
        made["template"] = {**template.values, "spec": {**pod.values, "dnsPolicy": "ClusterFirstWithHostNet"}}
    return made
