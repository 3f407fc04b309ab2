"""pytorch: tells pods where the master is and which of all they are. Volcano's plugin of that name."""

from __future__ import annotations

from muster.dialects.volcano.job.plugins.contract import (
    Flags,
    JobPlugin,
    Object,
    add_port,
    add_variables,
    host,
    port_of,
)
from muster.dialects.volcano.job.pods import PodPlace, containers_of

PORT_NAME = "pytorchjob-port"
_WAIT = (
    "end=$(( $(date +%s) + {timeout} )); until nc -z -w 2 {address} {port}; do "
    '[ "$(date +%s)" -lt "$end" ] || exit 1; sleep 2; done'
)


def _add(pod: Object, place: PodPlace, flags: Flags) -> None:
    job, task = place.job, place.task
    master, worker = job.task(flags["master"]), job.task(flags["worker"])
    if master is None:
        return
    port, address = port_of(flags), host(job, master, 0)
    size = master.replicas + (worker.replicas if worker is not None else 0)
    variables = [
        {"name": "MASTER_ADDR", "value": address},
        {"name": "MASTER_PORT", "value": str(port)},
        {"name": "WORLD_SIZE", "value": str(size)},
    ]
    is_worker = worker is not None and task.name == worker.name
    if task.name == master.name:
        variables.append({"name": "RANK", "value": "0"})
    elif is_worker:
        variables.append({"name": "RANK", "value": str(place.index + 1)})
    for container in containers_of(pod):
        add_variables(container, *variables)
    for container in containers_of(pod, has_init=False):
        add_port(container, PORT_NAME, port)
    if is_worker and flags["wait-master-enabled"] == "true":
        wait = _WAIT.format(timeout=_seconds(flags["wait-master-timeout"]), address=address, port=port)
        waiting = {"name": "wait-for-master", "image": flags["wait-master-image"], "command": ["sh", "-c", wait]}
        pod["spec"]["initContainers"] = [*(pod["spec"].get("initContainers") or ()), waiting]


def _seconds(text: str) -> int:
    digits = text.removesuffix("s")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 8 else 300


PLUGIN = JobPlugin(
    name="pytorch",
    flags={
        "master": "master",
        "worker": "worker",
        "port": "23456",
        "wait-master-enabled": "false",
        "wait-master-timeout": "300",
        "wait-master-image": "busybox:1.36.1",
    },
    add=_add,
)
