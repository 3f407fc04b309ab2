"""The stage of `muster demo`: a cluster in simulated time, on which a story takes no time at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.apiserver.merge_json import merged
from muster.app.config import Configuration
from muster.app.demo.story import IS_DONE, Story, Target, Wanted, matching, pods_of
from muster.app.node_pools import pools_of
from muster.app.simulation import simulated_world
from muster.store.kinds import Object
from muster.store.records import Key

WITHIN_S = 600.0  # what is waited for longer than that does not come


class SimulatedStage:
    """A cluster with the nodes of a story."""

    def __init__(self, story: Story, *, seed: int = 0) -> None:
        configuration = Configuration().with_profile(story.profile, "profile")
        self.world = simulated_world(pools_of(story.pools), seed=seed, configuration=configuration)

    def create(self, objects: tuple[Object, ...], /) -> None:
        for one in objects:
            self.world.create(one)

    def wait(self, target: Target, wanted: Wanted, /) -> None:
        self.world.run_until(
            lambda: any(map(wanted.holds, matching(target, self.all(target.resource)))), within_s=WITHIN_S
        )

    def patch(self, target: Target, change: Object, /) -> None:
        for one in matching(target, self.all(target.resource)):
            self._change(target.resource, one, change)

    def finish(self, job: Target, /) -> None:
        for one in matching(job, self.all(job.resource)):
            for pod in pods_of(one, self.all("pods")):
                self._change("pods", pod, IS_DONE)

    def all(self, resource: str, /) -> list[Object]:
        return self.world.all(resource)

    def close(self) -> None:
        """End the cluster."""
        self.world.close()

    def _change(self, resource: str, obj: Object, change: Mapping[str, Any]) -> None:
        metadata = obj["metadata"]
        key = Key(resource, metadata.get("namespace") or "", metadata["name"])
        self.world.change(key, lambda before: merged(before, change))
