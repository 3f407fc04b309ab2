"""mpi: tells the master where the workers are. Volcano's plugin of that name."""

from __future__ import annotations

from muster.dialects.volcano.job.plugins.contract import (
    Flags,
    JobPlugin,
    Object,
    add_port,
    add_variables,
    hosts,
    port_of,
)
from muster.dialects.volcano.job.pods import PodPlace, containers_of

PORT_NAME = "mpijob-port"


def _add(pod: Object, place: PodPlace, flags: Flags) -> None:
    job, port = place.job, port_of(flags)
    is_master = place.task.name == flags["master"]
    worker = job.task(flags["worker"])
    if is_master and worker is None:
        return  # Volcano leaves such a master alone altogether
    for container in containers_of(pod):
        if is_master and worker is not None:
            add_variables(container, {"name": "MPI_HOST", "value": ",".join(hosts(job, worker))})
        add_port(container, PORT_NAME, port)


PLUGIN = JobPlugin(name="mpi", flags={"master": "master", "worker": "worker", "port": "22"}, add=_add)
