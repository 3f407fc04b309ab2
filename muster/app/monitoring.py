"""Figures and health of `muster manage` on sockets of their own. Made by `manage` where that is asked for.

Figures name everybody's queues: they are for those whom the cluster allows to get `/metrics`, over a connection that
nobody else reads. Health is told to whoever asks.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from contextlib import ExitStack

from muster.apiserver.hooks.authorities import renewed
from muster.apiserver.hooks.serving import ServedCertificate, serve_beside
from muster.apiserver.monitoring import Pages
from muster.apiserver.server import CannotListen, listen
from muster.apiserver.statuses import Problem
from muster.app.config import MonitoringSettings
from muster.app.figures import Figures
from muster.app.hooks import everywhere
from muster.model.errors import InvalidObject
from muster.model.fields import shown
from muster.store.clock import Clock
from muster.store.kinds import Object
from muster.store.kube_client import KubeClient

METRICS = "/metrics"
_KNOWN_S = 60.0  # for which an answer about a token is believed
_KNOWN_MOST = 256


class Tokens:
    """Which tokens may read which paths, as the cluster says."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[bytes, str], tuple[float, bool]] = {}  # until when, by what nobody could show again

    async def may_get(self, token: str, path: str) -> bool:
        """Whether whoever has a token may read a path."""
        key, now_s = (hashlib.sha256(token.encode()).digest(), path), self._clock.monotonic_s()
        until_s, is_allowed = self._known.get(key, (0.0, False))
        if now_s >= until_s:
            is_allowed = await self._ask(token, path)
            if len(self._known) >= _KNOWN_MOST:
                self._known.clear()
            self._known[key] = now_s + _KNOWN_S, is_allowed
        return is_allowed

    async def _ask(self, token: str, path: str) -> bool:
        found = await self._review("authentication.k8s.io", "TokenReview", {"token": token})
        user = found.get("user") or {}
        if found.get("authenticated") is not True or not user.get("username"):
            return False
        spec = {"user": user["username"], **{name: user[name] for name in ("groups", "uid", "extra") if name in user}}
        asked = {**spec, "nonResourceAttributes": {"path": path, "verb": "get"}}
        return (await self._review("authorization.k8s.io", "SubjectAccessReview", asked)).get("allowed") is True

    async def _review(self, group: str, kind: str, spec: Object) -> Object:
        review = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
        return (await self._client.create(f"{kind.lower()}s.{group}", review)).get("status") or {}


class Monitoring:
    """The pages of one process."""

    def __init__(self, settings: MonitoringSettings, figures: Figures, tokens: Tokens) -> None:
        self._settings = settings
        self._figures = figures
        self._tokens = tokens

    async def run(self, served: ServedCertificate) -> None:
        """Answer until cancelled, and show this certificate to those who ask for figures."""
        settings = self._settings
        with ExitStack() as sockets:
            metrics = _listening("metrics.bindAddress", settings.metrics_address, sockets)
            health = _listening("health.healthProbeBindAddress", settings.health_address, sockets)
            async with asyncio.TaskGroup() as group:
                if metrics is not None:
                    pages = Pages({METRICS: self._figures.page}, self._tokens.may_get)
                    group.create_task(serve_beside(pages, metrics, served))
                if health is not None:
                    answers = {
                        f"/{settings.readiness}": lambda: _readiness(served),
                        f"/{settings.liveness}": lambda: "ok",
                    }
                    group.create_task(serve_beside(Pages(answers), health, None))


def _readiness(served: ServedCertificate) -> str:
    if not served.is_there.is_set():
        raise Problem(503, "ServiceUnavailable", "there is no certificate yet")
    return "ok"


def own_certificate(clock: Clock) -> ServedCertificate:
    """One that only keeps others from reading along: whoever wants to know whom they ask needs that of webhooks."""
    identity, served = renewed(None, [socket.gethostname()], clock.now_s()), ServedCertificate()
    served.show(identity.certificate, identity.key)
    return served


def _listening(where: str, address: str, sockets: ExitStack) -> socket.socket | None:
    """The socket for an address such as `:8443`; None where it is `0`, which means nowhere."""
    if address in ("", "0"):
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise InvalidObject(where, f"is {shown(address)}", "give an address such as :8443, or 0 for none")
    try:
        found = listen(host.strip("[]") or everywhere(), int(port), is_authenticated=True)
    except (CannotListen, OSError) as problem:
        raise InvalidObject(where, str(problem), "give one that is free") from None
    return sockets.enter_context(found)
