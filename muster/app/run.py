"""The embedded server: store, rules, API and the loops beside it, put together and run in one process.

Called by `muster up`. What takes long to load is loaded while something else is waited for, or not at all.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from muster.apiserver.admission import Admission, Checks
from muster.apiserver.admission.jobs import JobAdmission
from muster.apiserver.api import Api
from muster.apiserver.apply.ownership import Ownership
from muster.apiserver.asgi import App
from muster.apiserver.authentication import Tokens
from muster.apiserver.certificates import TlsFiles, prepare
from muster.apiserver.definitions.establishing import Definitions
from muster.apiserver.definitions.merging import MergeTypes
from muster.apiserver.kubeconfig import write_kubeconfig
from muster.apiserver.private_files import token_in
from muster.apiserver.rights.audit import AuditLog
from muster.apiserver.rights.first_roles import first_roles
from muster.apiserver.rights.submission import Submission
from muster.apiserver.rights.tokens import signing_key_in
from muster.apiserver.server import listen, serve, tls_of
from muster.app.card_admission import card_webhook
from muster.app.collector import settle_collector
from muster.app.config import Configuration
from muster.app.first_objects import first_definitions, first_objects, first_of_definitions
from muster.app.job_control import job_admission
from muster.app.kinds import catalog
from muster.app.state_folder import kubeconfig_in, prepare_folder, tls_folder_in, token_file_in, volumes_in
from muster.controllers.accounts import Accounts
from muster.controllers.aggregation import Aggregation
from muster.controllers.following import Following, Part
from muster.controllers.old_events import OldEvents
from muster.controllers.quotas import recounts
from muster.controllers.tidying import Tidying
from muster.model.pod_streams import NoNodes
from muster.model.usage import NoUsages
from muster.store.aio import AsyncStore
from muster.store.backup import backup
from muster.store.clock import RealClock
from muster.store.identities import Identities
from muster.store.objects import Notes, Objects, Written
from muster.store.port import Change
from muster.store.records import Key
from muster.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from muster.app.nodes import NodeOptions, Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Where to keep the state, and where to listen."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0  # 0: any that is free
    is_fresh: bool = False
    has_audit: bool = True  # whether each request is written down
    has_accounts: bool = True  # whether each namespace gets its service account and the authority's certificate
    is_living: bool = True  # whether workloads are admitted, pods bound, and controllers run
    nodes: NodeOptions | None = None  # None: pods are on paper only
    configuration: Configuration = field(default_factory=Configuration)


@dataclass(frozen=True, slots=True)
class Ready:
    """A server that answers."""

    url: str
    kubeconfig: Path


async def run_embedded(options: UpOptions, on_ready: Callable[[Ready], None]) -> None:
    """Run a server until it is told to stop."""
    settle_collector()
    prepare_folder(options.folder, is_fresh=options.is_fresh)
    clock = RealClock()
    store = SqliteStore(options.folder, clock)
    try:
        await _run(options, store, clock, on_ready)
    finally:
        store.close()


def _admission(store: SqliteStore, jobs: JobAdmission | None, options: UpOptions) -> Admission:
    """What new objects get from others, by what the options turn on."""
    cards = card_webhook(options.configuration.cards, "")
    has_accounts = options.has_accounts and options.is_living
    return Admission(store, jobs=jobs, cards=cards, has_accounts=has_accounts)


async def _run(options: UpOptions, store: SqliteStore, clock: RealClock, on_ready: Callable[[Ready], None]) -> None:
    folder = options.folder
    listening = listen(options.host, options.port, is_authenticated=True)
    try:
        host, port = listening.getsockname()[:2]
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        files = prepare(tls_folder_in(folder), [options.host], clock.now_s())
        token = token_in(token_file_in(folder))
        write_kubeconfig(kubeconfig_in(folder), url=url, authority=files.authority.read_bytes(), token=token)
        served = catalog(has_metrics=options.nodes is not None)
        ownership = Ownership(MergeTypes(served))
        jobs = job_admission(store, options.configuration) if options.is_living else None
        notes = Notes(ownership=ownership, guard=Checks(jobs))
        objects = Objects(served.rules, clock, identities=Identities(), notes=notes)
        front = AsyncStore(store)
        await _begin(front, objects, volumes_in(folder) if options.is_living else None)
        definitions = Definitions(front, objects, served, clock)
        await _define(front, objects, definitions, is_living=options.is_living)
        nodes = _nodes(front, objects, options)
        api = Api(
            store=front,
            objects=objects,
            catalog=served,
            clock=clock,
            admission=_admission(store, jobs, options),
            ownership=ownership,
            key=signing_key_in(files.signing_key),
            on_definitions=definitions.settle,
            submission=Submission(jobs) if jobs is not None and options.configuration.checks_queue_use else None,
            nodes=NoNodes() if nodes is None else nodes.streams,
            usages=NoUsages() if nodes is None else nodes.usages,
        )
        audit = AuditLog(folder) if options.has_audit else None
        app = App(api, Tokens(token, api.accounts), partial(backup, store), audit=audit)
        work = [definitions.run(), *(loop.run() for loop in _loops(api, files, options))]
        if nodes is not None:
            nodes.prepare(folder, url, api.accounts)
            work.append(nodes.run())
        is_ready = asyncio.Event()
        if options.is_living:
            work.append(_live(api, is_ready, options))
        loops = [asyncio.create_task(one) for one in work]

        def tell_ready() -> None:
            on_ready(Ready(url, kubeconfig_in(folder)))
            is_ready.set()

        try:
            gc.freeze()  # what is there now stays; there is no use in looking at it again and again
            await serve(app, listening, tls_of(files), tell_ready)
        finally:
            for one in loops:
                one.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await api.webhooks.close()
            if audit is not None:
                audit.close()
    finally:
        listening.close()


async def _begin(front: AsyncStore, objects: Objects, volumes: Path | None) -> None:
    """Write what is there in every cluster, and what can only be counted while nobody writes."""
    await _make(front, first_objects(objects, front.store, volumes))
    await front.write(first_roles(objects))
    for recount in recounts(front.store):
        await front.write(recount)


async def _define(front: AsyncStore, objects: Objects, definitions: Definitions, *, is_living: bool) -> None:
    """Have kinds served that are defined, and in a living cluster those that it brings along."""
    if is_living:
        await _make(front, first_definitions(objects, front.store))
    await definitions.settle()
    if is_living:
        await _make(front, first_of_definitions(objects, front.store))


async def _make(front: AsyncStore, changes: Iterable[Change[Written]]) -> None:
    """Make writes, each when the one before it is done."""
    for change in changes:
        await front.write(change)


def _loops(api: Api, files: TlsFiles, options: UpOptions) -> tuple[Tidying, Following, OldEvents]:
    """What goes on beside the server."""
    parts: list[Part[Key]] = [Aggregation(api.objects)]
    if options.has_accounts:
        authority = files.authority.read_text()
        parts.append(Accounts(api.objects, authority=authority, token_for=api.accounts.lasting_token))
    return (
        Tidying(api.store, api.objects, api.clock),
        Following(api.store, api.clock, parts),
        OldEvents(api.store, api.objects, api.clock),
    )


async def _live(api: Api, is_ready: asyncio.Event, options: UpOptions) -> None:
    """Be a cluster once the server answers; what that takes is loaded then, beside the first requests."""
    await is_ready.wait()
    living = await asyncio.to_thread(import_module, "muster.app.living")
    await living.live(api, options.configuration, options.nodes.pools if options.nodes is not None else ())


def _nodes(front: AsyncStore, objects: Objects, options: UpOptions) -> Nodes | None:
    """The nodes, if there are any."""
    if options.nodes is None:
        return None
    from muster.app.nodes import Nodes

    return Nodes(options.nodes, front, objects, RealClock())
