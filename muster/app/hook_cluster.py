"""A real cluster as the webhooks see it: a few kinds are followed, the rest is asked for. Made by `manage`.

It has a connection of its own. An API server that carries out one of Muster's writes may ask Muster about it: if both
waited for room on the same connection, neither would go on.
"""

from __future__ import annotations

from muster.controllers.kube_feed import KubeFeed
from muster.controllers.view import View
from muster.dialects.kueue.job_workloads import DEFAULT_NAME
from muster.dialects.kueue.names import GROUP
from muster.store.clock import Clock
from muster.store.kinds import Object
from muster.store.kube import Kube
from muster.store.kube_client import KubeClient
from muster.store.readings import Readings
from muster.store.records import Key

# What is looked at for each job that comes. There are few of these, and they seldom change.
FOLLOWED = frozenset(
    {
        "namespaces",
        *(
            f"{plural}.{GROUP}"
            for plural in ("admissionchecks", "clusterqueues", "localqueues", "workloadpriorityclasses")
        ),
    }
)
_OWN = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}


class KubeCluster:
    """Reads and writes of single objects through the API, and what is known of some of them already."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        readings = Readings()
        self._feed = KubeFeed(kube, View({}, readings), clock, resources=FOLLOWED, readings=readings)
        self._client = KubeClient(kube)

    async def run(self) -> None:
        """Follow what is looked at often, until cancelled."""
        await self._feed.run()

    async def own_user(self) -> str:
        """As whom Muster writes to this cluster."""
        review = await self._client.create("selfsubjectreviews.authentication.k8s.io", _OWN)
        return str(review["status"]["userInfo"]["username"])

    async def get(self, key: Key) -> Object | None:
        """An object as it is, or as it was a moment ago; None where there is none."""
        if key.resource in FOLLOWED and self._feed.is_ready:
            found = self._feed.view.get(key)
            # What a job names may have come just now. A queue for those that name none is looked for each time.
            if found is not None or key.name == DEFAULT_NAME:
                return found
        return await self._client.find(key)

    async def create(self, resource: str, given: Object) -> Object:
        """Add an object; gives it as it is kept, or a review with its answer."""
        return await self._client.create(resource, given)

    async def update(self, key: Key, given: Object) -> Object:
        """Replace an object; refused when it has another revision than the one given."""
        return await self._client.update(key, given)
