"""ray: starts a head and workers that find it. Volcano's plugin of that name."""

from __future__ import annotations

from muster.dialects.volcano.job.plugins.contract import (
    Flags,
    JobPlugin,
    Object,
    PluginObject,
    add_port,
    host,
    port_of,
)
from muster.dialects.volcano.job.plugins.svc import object_of, pods_of
from muster.dialects.volcano.job.pods import PodPlace, containers_of
from muster.dialects.volcano.job.spec import VolcanoJob
from muster.dialects.volcano.job.words import TASK_SPEC
from muster.model.errors import InvalidObject

_PORTS = {"gcs": "port", "dashboard": "dashboardPort", "client-server": "clientPort"}


def _add(pod: Object, place: PodPlace, flags: Flags) -> None:
    head = place.job.task(flags["head"])
    if head is None:
        raise InvalidObject("spec.tasks", f"have none named {flags['head']}", "the plugin ray needs a head")
    ports = {name: port_of(flags, flag) for name, flag in _PORTS.items()}
    for container in containers_of(pod, has_init=False):
        if place.task.name == head.name and container.get("name") == flags["headContainer"]:
            container["command"] = ["sh", "-c", _head_command(ports)]
            for name, number in ports.items():
                add_port(container, name, number)
        elif place.task.name == flags["worker"] and container.get("name") == flags["workerContainer"]:
            address = f"{host(place.job, head, 0)}:{ports['gcs']}"
            container["command"] = ["sh", "-c", f"ray start --block --address={address}"]


def _head_command(ports: dict[str, int]) -> str:
    return (
        f"ray start --head --block --dashboard-host=0.0.0.0 --port={ports['gcs']}"
        f" --dashboard-port={ports['dashboard']} --ray-client-server-port={ports['client-server']}"
    )


def _objects(job: VolcanoJob, flags: Flags) -> list[PluginObject]:
    name = f"{job.name}-head-svc"
    ports = [{"name": one, "port": port_of(flags, flag), "targetPort": one} for one, flag in _PORTS.items()]
    selector = {**pods_of(job), TASK_SPEC: flags["head"]}
    service = {**object_of(job, "v1", "Service", name), "spec": {"selector": selector, "ports": ports}}
    return [PluginObject("services", service, is_kept=True)]


PLUGIN = JobPlugin(
    name="ray",
    flags={
        "head": "head",
        "headContainer": "head",
        "worker": "worker",
        "workerContainer": "worker",
        "port": "6379",
        "dashboardPort": "8265",
        "clientPort": "10001",
    },
    add=_add,
    objects=_objects,
)
