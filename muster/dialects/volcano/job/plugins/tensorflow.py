"""tensorflow: tells containers of the whole cluster in TF_CONFIG. Volcano's plugin of that name."""

from __future__ import annotations

import json

from muster.dialects.volcano.job.plugins.contract import (
    Flags,
    JobPlugin,
    Object,
    add_variables,
    host,
    port_of,
)
from muster.dialects.volcano.job.pods import PodPlace, containers_of

_ROLES = ("ps", "worker", "chief", "evaluator")


def _add(pod: Object, place: PodPlace, flags: Flags) -> None:
    job = place.job
    if len(job.tasks) == 1 and job.tasks[0].replicas == 1:
        return  # alone it needs no cluster
    port = port_of(flags)
    cluster = {}
    for role in _ROLES:
        task = job.task(flags[role])
        if task is not None:
            cluster[role] = [f"{host(job, task, index)}:{port}" for index in range(task.replicas)]
    for role in _ROLES:
        if flags[role] != place.task.name:
            continue
        told = {"cluster": cluster, "task": {"type": role, "index": place.index}}
        variable = {"name": "TF_CONFIG", "value": json.dumps(told, separators=(",", ":"))}
        for container in containers_of(pod, has_init=False):
            add_variables(container, variable)


PLUGIN = JobPlugin(name="tensorflow", flags={**{role: role for role in _ROLES}, "port": "2222"}, add=_add)
