"""Keeps the certificate of the webhooks in a Secret that all replicas share: renewed in time, trusted by whoever asks.

Every replica runs this. The Secret decides: whoever writes it first is right, and the others take over what it holds.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from copy import deepcopy

from muster.apiserver.hooks.authorities import Identity, identity_in, is_due, renewed
from muster.apiserver.hooks.cluster import Cluster
from muster.apiserver.hooks.configurations import NAME, Reached, definition_names
from muster.apiserver.hooks.serving import ServedCertificate
from muster.model.errors import InvalidObject
from muster.store.clock import Clock
from muster.store.errors import AlreadyExists, Conflict, NotFound, StoreError
from muster.store.kinds import Object
from muster.store.records import Key

LOOKED_AT_S = 60.0
_TRIED_AGAIN_S = 2.0
_TRIES = 10  # of a write that others were faster with
_ADMISSION = "admissionregistration.k8s.io"
CONFIGURATIONS = tuple(
    Key(f"{kind}webhookconfigurations.{_ADMISSION}", "", NAME) for kind in ("mutating", "validating")
)
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
log = logging.getLogger(__name__)


class Certificates:
    """The certificate of the webhooks on one cluster."""

    def __init__(
        self, cluster: Cluster, clock: Clock, *, served: ServedCertificate, secret: Key, reached: Reached
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._served = served
        self._secret = secret
        self._reached = reached
        self._hosts = reached.hosts
        self._settling = asyncio.Lock()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            wait_s = LOOKED_AT_S
            try:
                await self.settle()
            except (StoreError, InvalidObject, ssl.SSLError) as problem:
                log.warning("the certificate of the webhooks is not settled: %s", problem)
                wait_s = _TRIED_AGAIN_S
            await self._clock.sleep(wait_s)

    async def settle(self, *, is_renewed: bool = False) -> None:
        """Have a certificate that is good, show it, and have it trusted; a new one where that is asked for."""
        async with self._settling:
            identity = await self._settled(is_renewed=is_renewed)
            # Trust first, where there is none yet: what is shown to somebody who knows no authority is refused.
            if not self._served.is_there.is_set():
                await self._trust(identity)
            if self._served.show(identity.certificate, identity.key):
                log.info("the webhooks show a new certificate")
            await self._trust(identity)

    async def _settled(self, *, is_renewed: bool) -> Identity:
        for _ in range(_TRIES):
            stored = await self._cluster.get(self._secret)
            before = identity_in(stored) if stored is not None else None
            if before is not None and not is_renewed and not is_due(before, self._hosts, self._clock.now_s()):
                return before
            made = renewed(before, self._hosts, self._clock.now_s())
            try:
                await self._keep(made, stored)
            except (AlreadyExists, Conflict, NotFound):
                is_renewed = False  # another replica was faster: what it has made is as good
                continue
            log.info("the certificate of the webhooks was renewed")
            return made
        raise Conflict(self._secret, "others keep changing it")

    async def _keep(self, made: Identity, stored: Object | None) -> None:
        if stored is not None:
            # What else somebody has put there stays.
            await self._cluster.update(self._secret, {**stored, "data": {**(stored.get("data") or {}), **made.data()}})
            return
        metadata = {"name": self._secret.name, "namespace": self._secret.namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": made.data()}
        await self._cluster.create(self._secret.resource, secret)

    async def _trust(self, identity: Identity) -> None:
        """Tell the API server whom to trust; what is not there needs nobody to trust."""
        for key in (*CONFIGURATIONS, *(Key(_DEFINITIONS, "", name) for name in definition_names())):
            for _ in range(_TRIES):
                found = await self._cluster.get(key)
                changed = self._trusting(found, identity.bundle) if found is not None else None
                if changed is None:
                    break
                try:
                    await self._cluster.update(key, changed)
                    break
                except Conflict:
                    continue

    def _trusting(self, given: Object, bundle: str) -> Object | None:
        """An object that trusts the webhooks if these authorities vouch for them; None where that is so already."""
        new = deepcopy(given)
        # Definitions may be converted by somebody else, whom Muster knows nothing of.
        configs = [one for one in _client_configs(new) if self._reached.is_named_by(one)]
        if all(one.get("caBundle") == bundle for one in configs):
            return None
        for one in configs:
            one["caBundle"] = bundle
        return new


def _client_configs(given: Object) -> Iterable[Object]:
    yield from (one["clientConfig"] for one in given.get("webhooks") or ())
    conversion = (given.get("spec") or {}).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        yield conversion["webhook"]["clientConfig"]
