"""A connection to another cluster by a kubeconfig, for as long as what it was made from stays the same. Made by `app`.

The other cluster need not be trusted to answer, or to answer what was asked: every request has a limit of time and
size, and only what carries the label of this cluster is followed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.controllers.kube_feed import KubeFeed
from muster.controllers.multikueue.clusters import Open, Remote
from muster.controllers.view import Terms, View
from muster.dialects.kueue.job_steps import WORKLOADS
from muster.dialects.kueue.names import MULTIKUEUE_ORIGIN
from muster.dialects.kueue.validate_others import kubeconfig_path_problem
from muster.model.fields import Fields
from muster.store.clock import Clock
from muster.store.errors import Forbidden, Unavailable
from muster.store.kinds import Object
from muster.store.kube import Kube, Limits, problem_of
from muster.store.kube_client import KubeClient
from muster.store.kube_config import Access, read_kubeconfig, read_kubeconfig_text
from muster.store.readings import Readings
from muster.store.records import Key

LIMITS = Limits(in_flight=8, timeout_s=10.0, answer_bytes=64 << 20)
SECRET_KEY = "kubeconfig"  # of the data of a Secret
_TEXT_MOST = 1 << 20
ReadSecret = Callable[[str], Awaitable[Object | None]]  # of the namespace that has them, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How other clusters are reached, and what is followed there."""

    secret: ReadSecret
    clock: Clock
    origin: str
    jobs: tuple[str, ...]  # the resources of the jobs that may be sent
    queues: tuple[str, ...] = ()  # what else there is to know
    indexes: Mapping[tuple[str, str], Terms]
    limits: Limits = LIMITS


def opener(ways: Ways) -> Open:
    """What opens a connection by the MultiKueueCluster that says how."""

    @asynccontextmanager
    async def open_one(cluster: Object) -> AsyncIterator[Remote]:
        source = Fields(cluster).child("spec").child("clusterSource")
        text = await _text_of(source, ways)
        selectors = dict.fromkeys((WORKLOADS, *ways.jobs), f"{MULTIKUEUE_ORIGIN}={ways.origin}")
        async with Kube(_access_of(source, text), ways.clock, limits=ways.limits, selectors=selectors) as kube:
            allowed = await _allowed(kube, ways.jobs, ways.origin)

            async def is_same() -> bool:
                return await _text_of(source, ways) == text

            yield KubeRemote(kube, ways, allowed, is_same)

    return open_one


class KubeRemote:
    """An open connection."""

    def __init__(self, kube: Kube, ways: Ways, jobs: Iterable[str], is_same: Callable[[], Awaitable[bool]]) -> None:
        self._kube = kube
        self._origin = ways.origin
        readings = Readings()
        followed = {WORKLOADS, *jobs, *ways.queues}
        self.feed = KubeFeed(kube, View(ways.indexes, readings), ways.clock, resources=followed, readings=readings)
        self.client = KubeClient(kube)
        self._is_same = is_same

    async def run(self) -> None:
        await self.feed.run()

    async def ready(self) -> None:
        await self.feed.ready()

    async def probe(self) -> None:
        """Ask for a workload, which needs all of the cluster: its server, its store and our right to ask."""
        await _asked(self._kube, WORKLOADS, self._origin)
        if not await self._is_same():
            raise Unavailable("its credentials have changed")


async def _asked(kube: Kube, resource: str, origin: str) -> None:
    place = await kube.where(resource)
    if place is None:
        raise Unavailable(f"the cluster has no {resource}: install Muster or Kueue there")
    query = {"limit": "1", "labelSelector": f"{MULTIKUEUE_ORIGIN}={origin}"}
    answer = await kube.ask("GET", place.path(), query=query)
    if not answer.is_good:
        raise problem_of(Key(resource, "", ""), answer)


async def _allowed(kube: Kube, resources: Iterable[str], origin: str) -> list[str]:
    """Those of some resources that we may follow; the others are never sent there."""
    await _asked(kube, WORKLOADS, origin)
    allowed = []
    for resource in resources:
        try:
            if await kube.where(resource) is not None:
                await _asked(kube, resource, origin)
        except Forbidden:
            continue
        allowed.append(resource)
    return allowed


# Credentials ---------------------------------------------------------------------------------------------------------


async def _text_of(source: Fields, ways: Ways) -> bytes:
    """The kubeconfig that a cluster is reached by."""
    if source.has("clusterProfileRef"):
        raise source.error("clusterProfileRef", "is not supported", "give a kubeConfig")
    given = source.child("kubeConfig")
    location = given.text("location")
    if given.text("locationType") == "Path":
        if problem := kubeconfig_path_problem(location):
            raise given.error("location", problem, "put the file there")
        try:
            return Path(location).read_bytes()[:_TEXT_MOST]
        except OSError as failure:
            raise given.error("location", f"cannot be read: {failure.strerror}", "mount the file") from None
    secret = await ways.secret(location)
    if secret is None:
        raise given.error("location", f"names the Secret {location}, which is not there", "create it")
    data = (secret.get("data") or {}).get(SECRET_KEY)
    try:
        return base64.b64decode(data or "", validate=True)[:_TEXT_MOST] or _no_text(given)
    except (binascii.Error, ValueError):
        raise given.error("location", f"names a Secret whose {SECRET_KEY} is not base64", "") from None


def _no_text(given: Fields) -> bytes:
    raise given.error("location", f"names a Secret without {SECRET_KEY}", "give the kubeconfig under that name")


def _access_of(source: Fields, text: bytes) -> Access:
    given = source.child("kubeConfig")
    if given.text("locationType") == "Path":
        return read_kubeconfig(Path(given.text("location")))
    return read_kubeconfig_text(text, f"Secret {given.text('location')}")
