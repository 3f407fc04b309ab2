"""The webhooks of a real cluster, put together: rules, certificates, socket. Each replica of `muster manage` has them.

What a configuration says of objects on their way in becomes rules here, the same as of the embedded server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from muster.apiserver.hooks.admission import HookRules, Rules
from muster.apiserver.hooks.asgi import HookApp
from muster.apiserver.hooks.cluster import Cluster
from muster.apiserver.hooks.configurations import Asking, Reached, webhook_configurations
from muster.apiserver.hooks.keeping import Certificates
from muster.apiserver.hooks.serving import ServedCertificate, follow_files, serve_hooks
from muster.apiserver.server import listen
from muster.app.config import Configuration
from muster.app.job_control import job_rules, managed_kinds
from muster.store.clock import Clock
from muster.store.kinds import Object
from muster.store.records import Key

SCHEDULER = "muster"  # who finds nodes for the pods of managed jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """What a configuration cannot know of the webhooks of one process."""

    own_user: str = ""  # as whom it writes
    reached: Reached | None = None  # None: as the service that the configuration names
    on_ready: Callable[[int], None] = field(default=lambda _port: None)  # told the port


def hook_rules(configuration: Configuration, own_user: str = "") -> HookRules:
    """What a configuration says of objects on their way in."""
    return HookRules(
        kinds=managed_kinds(configuration),
        jobs=replace(job_rules(configuration), scheduler=SCHEDULER),
        checks_use=configuration.checks_queue_use,
        own_user=own_user,
    )


def reached_by_service(configuration: Configuration) -> Reached:
    """Where an API server finds the webhooks of an installation."""
    settings = configuration.webhooks
    return Reached(service=settings.service, namespace=settings.namespace)


def configurations(configuration: Configuration, reached: Reached, own_user: str = "") -> list[Object]:
    """The objects that have an API server ask about what a configuration manages."""
    asking = Asking(
        kinds=managed_kinds(configuration),
        namespace=configuration.webhooks.namespace,
        managed_namespaces=configuration.managed_namespaces,
        manages_without_queue=configuration.manages_jobs_without_queue,
        own_user=own_user,
    )
    return webhook_configurations(asking, reached)


async def run_hooks(
    configuration: Configuration, cluster: Cluster, clock: Clock, options: HookOptions | None = None
) -> None:
    """Serve the webhooks until cancelled."""
    chosen = options or HookOptions()
    settings = configuration.webhooks
    app = HookApp(Rules(hook_rules(configuration, chosen.own_user), cluster))
    served = ServedCertificate()
    # Whoever asks is not asked who they are: answers follow from the question, and nothing is kept.
    listening = listen(settings.host or "::", settings.port, is_authenticated=True)
    try:
        async with asyncio.TaskGroup() as group:
            if settings.makes_certificates:
                reached = chosen.reached or reached_by_service(configuration)
                secret = Key("secrets", settings.namespace, settings.secret)
                keeper = Certificates(cluster, clock, served=served, secret=secret, reached=reached)
                group.create_task(keeper.run())
            else:
                group.create_task(follow_files(settings.folder, served, clock))
            port = listening.getsockname()[1]
            group.create_task(serve_hooks(app, listening, served, lambda: chosen.on_ready(port)))
    finally:
        listening.close()
