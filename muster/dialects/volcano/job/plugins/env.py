"""env: tells each container the number of its pod. Volcano's plugin of that name."""

from __future__ import annotations

from muster.dialects.volcano.job.plugins.contract import Flags, JobPlugin, Object, add_variables
from muster.dialects.volcano.job.pods import PodPlace, containers_of


def _add(pod: Object, place: PodPlace, _flags: Flags) -> None:
    for container in containers_of(pod):
        add_variables(
            container, *({"name": name, "value": str(place.index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX"))
        )


PLUGIN = JobPlugin(name="env", flags={}, add=_add)
