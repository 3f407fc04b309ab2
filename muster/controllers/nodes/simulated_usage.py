"""What simulated pods use: as annotations say, else half of what their containers ask for. Put together by `app`.

sim.muster.dev/cpu-usage: 250m                    of each container
sim.muster.dev/memory-usage: 100Mi
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from muster.controllers.nodes.timing import PREFIX
from muster.model.quantity import InvalidQuantity, parse_quantity
from muster.model.usage import Measure, Usage
from muster.store.clock import Clock
from muster.store.kinds import Object

USAGES = {"cpu": PREFIX + "cpu-usage", "memory": PREFIX + "memory-usage"}
WINDOW_S = 15.0
_MOST = 2**63 - 1
_NONE = Usage(cpu_nanos=0, memory_bytes=0)


class SimulatedUsage:
    """The usage of all simulated nodes."""

    def __init__(self, pods_on: Callable[[str], Iterable[Object]], clock: Clock) -> None:
        self._pods_on = pods_on
        self._clock = clock

    def of_node(self, node: Mapping[str, Any], /) -> Measure | None:
        measures = (self.of_pod(pod) for pod in self._pods_on(node["metadata"]["name"]))
        total = reduce(lambda so_far, one: so_far + one.total if one else so_far, measures, _NONE)
        return Measure(at_s=self._clock.now_s(), window_s=WINDOW_S, parts={"": total})

    def of_pod(self, pod: Mapping[str, Any], /) -> Measure | None:
        if (pod.get("status") or {}).get("phase") != "Running":
            return None
        notes = pod["metadata"].get("annotations") or {}
        parts = {
            one["name"]: Usage(
                cpu_nanos=_amount("cpu", notes, one, scale=9), memory_bytes=_amount("memory", notes, one, scale=0)
            )
            for one in pod["spec"]["containers"]
        }
        return Measure(at_s=self._clock.now_s(), window_s=WINDOW_S, parts=parts)


def _amount(resource: str, notes: Mapping[str, str], container: Object, *, scale: int) -> int:
    text = notes.get(USAGES[resource])
    if text is not None:
        try:
            return max(0, parse_quantity(text).scaled(scale, _MOST))
        except InvalidQuantity:
            return 0  # what cannot be read is told by nobody: it is not in use
    asked = ((container.get("resources") or {}).get("requests") or {}).get(resource)
    return 0 if asked is None else parse_quantity(str(asked)).scaled(scale, _MOST) // 2
