"""The webhooks of a real cluster, put together: rules, certificates, socket. Each replica of `muster manage` has them.

What a configuration says of objects on their way in becomes rules here, the same as of the embedded server.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from muster.apiserver.hooks.admission import HookRules, Rules
from muster.apiserver.hooks.asgi import HookApp
from muster.apiserver.hooks.cluster import Cluster
from muster.apiserver.hooks.configurations import Asking, Reached, webhook_configurations
from muster.apiserver.hooks.keeping import Certificates
from muster.apiserver.hooks.serving import ServedCertificate, follow_files, serve_beside
from muster.apiserver.server import CannotListen, listen
from muster.app.card_admission import card_webhook
from muster.app.config import Configuration
from muster.app.job_control import job_rules, managed_kinds
from muster.model.errors import InvalidObject
from muster.model.fields import shown
from muster.store.clock import Clock
from muster.store.kinds import Object
from muster.store.records import Key

SERVICE = "service"
SCHEDULER = "muster"  # who finds nodes for the pods of managed jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """What a configuration cannot know of the webhooks of one process."""

    own_user: str = ""  # as whom it writes
    reached: Reached | None = None  # None: as the service that the configuration names
    on_ready: Callable[[int], None] = field(default=lambda _port: None)  # told the port
    served: ServedCertificate | None = None  # that others show, too


def hook_rules(configuration: Configuration, own_user: str = "") -> HookRules:
    """What a configuration says of objects on their way in."""
    return HookRules(
        kinds=managed_kinds(configuration),
        jobs=replace(job_rules(configuration), scheduler=SCHEDULER),
        checks_use=configuration.checks_queue_use,
        own_user=own_user,
        cards=card_webhook(configuration.cards, SCHEDULER),
    )


def reached_by_service(configuration: Configuration) -> Reached:
    """Where an API server finds the webhooks of an installation."""
    settings = configuration.webhooks
    return Reached(service=settings.service, namespace=settings.namespace)


def reached_at(where: str, configuration: Configuration) -> Reached:
    """Where an API server finds the webhooks: at a URL, or by the service; raises `InvalidObject`."""
    if where == SERVICE:
        return reached_by_service(configuration)
    place = urlsplit(where)
    if place.scheme != "https" or not place.hostname or place.path.strip("/") or place.query or place.fragment:
        raise InvalidObject("--webhooks", f"is {shown(where)}", f"give {SERVICE}, or a URL such as https://muster:9443")
    return Reached(url=where.rstrip("/"))


def configurations(configuration: Configuration, reached: Reached, own_user: str = "") -> list[Object]:
    """The objects that have an API server ask about what a configuration manages."""
    asking = Asking(
        kinds=managed_kinds(configuration),
        namespace=configuration.webhooks.namespace,
        managed_namespaces=configuration.managed_namespaces,
        manages_without_queue=configuration.manages_jobs_without_queue,
        own_user=own_user,
        has_cards=configuration.cards.completes_pods,
    )
    return webhook_configurations(asking, reached)


class WebhookServer:
    """The webhooks of one process, and their certificate."""

    def __init__(
        self, configuration: Configuration, cluster: Cluster, clock: Clock, options: HookOptions | None = None
    ) -> None:
        self._options = options or HookOptions()
        self._settings = settings = configuration.webhooks
        self._app = HookApp(Rules(hook_rules(configuration, self._options.own_user), cluster))
        self._served = self._options.served or ServedCertificate()
        self._clock = clock
        self.certificates: Certificates | None = None  # None: somebody else keeps them as files
        if settings.makes_certificates:
            self.certificates = Certificates(
                cluster,
                clock,
                served=self._served,
                secret=Key("secrets", settings.namespace, settings.secret),
                reached=self._options.reached or reached_by_service(configuration),
            )

    async def run(self) -> None:
        """Answer until cancelled."""
        settings = self._settings
        # Whoever asks is not asked who they are: answers follow from the question, and nothing is kept.
        try:
            listening = listen(settings.host or everywhere(), settings.port, is_authenticated=True)
        except CannotListen as problem:
            raise InvalidObject("webhook.port", str(problem), "give one that is free") from None
        port = listening.getsockname()[1]
        keeping = self.certificates
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    keeping.run() if keeping else follow_files(settings.folder, self._served, self._clock)
                )
                serving = serve_beside(self._app, listening, self._served, lambda: self._options.on_ready(port))
                group.create_task(serving)
        finally:
            listening.close()


def everywhere() -> str:
    """All addresses of the machine, of both kinds where it has both."""
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
