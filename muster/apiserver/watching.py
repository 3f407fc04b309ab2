"""Watches: what changes, as lines, from a revision on until the client has enough. Called by `asgi`.

A watch holds no events of its own; one that is too slow for the history is told so and ends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass

from muster.apiserver.answers import (
    Form,
    Stream,
    columns_of,
    encode,
    form_of,
    metadata_bytes,
    prepare,
    shown_bytes,
    tabler_of,
    warning_headers,
)
from muster.apiserver.api import Api
from muster.apiserver.lists import NOT_OLDER, read_revision, selection_of
from muster.apiserver.requests import Request, Target
from muster.apiserver.selectors import Selection
from muster.apiserver.statuses import invalid_options, problem_of
from muster.apiserver.watch_lines import Show, bookmark_object, in_chunks, line, selected_lines, special_line
from muster.store.aio import AsyncWatch
from muster.store.errors import Expired, TooNew
from muster.store.records import Action, Event, Record

BOOKMARK_S = 60.0
LAST_BOOKMARK_S = 2.0  # before the end: who comes back then has little to catch up with
_SHORTEST_S = 1_800.0  # a watch without a time of its own ends after this, or up to twice as long
_RECORDS_A_CHUNK = 100
_NO_COLUMNS = b'"columnDefinitions":null'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watching:
    """What one watch has been asked for."""

    api: Api
    target: Target
    form: Form
    form_name: str  # tells apart what is shown differently
    show: Show
    selection: Selection
    has_bookmarks: bool
    is_marking_initial: bool
    timeout_s: float
    after: int  # a revision that is still to come; what happens up to there is not told


def watch_objects(api: Api, request: Request, target: Target) -> Stream:
    """The answer to a watch; what is wrong with the request is raised before it starts."""
    form = form_of(request)
    served = target.served
    epoch = api.catalog.epoch  # a definition that has changed may show the same records differently
    revision = read_revision(request.option("resourceVersion"))
    wants_initial = _wants_initial(request)
    store = api.store.store
    headers = tuple(warning_headers(request.warnings))
    if revision > store.revision and wants_initial:
        return Stream(_refused(TooNew(revision, store.revision)), headers)
    watching = _Watching(
        api=api,
        target=target,
        form=form,
        form_name=f"{form.value} {request.option('includeObject')} {served.resource} {served.api_version} {epoch}",
        show=_show_in(form, api, request, target),
        selection=selection_of(request, target),
        has_bookmarks=request.flag("allowWatchBookmarks"),
        is_marking_initial=bool(wants_initial) and request.flag("allowWatchBookmarks"),
        timeout_s=_timeout_s(request),
        after=revision if revision > store.revision else 0,
    )
    initial: list[Record] = []
    if wants_initial or (wants_initial is None and not revision):
        page = store.page(target.scope)
        initial, revision = page.records, page.revision
    elif not revision:
        revision = store.revision
    watch = api.store.watch(target.scope, min(revision, store.revision))
    lines = _lines(watching, watch, initial, revision)
    return Stream(_headed(lines, columns_of(served)) if form is Form.TABLE else lines, headers)


def _wants_initial(request: Request) -> bool | None:
    """Whether the present state is to come first; `None` where the client leaves that to the revision."""
    match = request.option("resourceVersionMatch")
    if not request.option("sendInitialEvents"):
        if match:
            why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise invalid_options("ListOptions", "resourceVersionMatch", why)
        return None
    if match != NOT_OLDER:
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("ListOptions", "resourceVersionMatch", why)
    return request.flag("sendInitialEvents")


def _timeout_s(request: Request) -> float:
    asked_s = request.number("timeoutSeconds")
    # Spread, so that not all clients come back at once.
    return float(asked_s) if asked_s > 0 else _SHORTEST_S * (1 + random.random())


def _show_in(form: Form, api: Api, request: Request, target: Target) -> Show:
    served = target.served
    if form is Form.METADATA:
        return metadata_bytes
    if form is Form.PLAIN:
        return lambda record: shown_bytes(record, served)

    tabler = tabler_of(request, served, api.clock)

    def show(record: Record) -> bytes:
        found = tabler.table([record], {"resourceVersion": str(record.revision)})
        return encode({**found, "columnDefinitions": None})

    return show


async def _headed(lines: AsyncGenerator[bytes, None], columns: bytes) -> AsyncGenerator[bytes, None]:
    """The lines of tables, of which only the first has the columns."""
    is_first = True
    try:
        async for chunk in lines:
            yield chunk.replace(_NO_COLUMNS, columns, 1) if is_first else chunk
            is_first = False
    finally:
        await lines.aclose()


async def _refused(problem: Exception) -> AsyncGenerator[bytes, None]:
    """A watch that says no more than why there is none."""
    refusal = problem_of(problem, None, "")
    assert refusal is not None, "a watch is refused for a reason that has an answer"
    yield special_line("ERROR", refusal.status())


async def _lines(
    watching: _Watching, watch: AsyncWatch, initial: list[Record], revision: int
) -> AsyncGenerator[bytes, None]:
    listeners = watching.api.catalog.listeners
    if watching.target.served.custom is not None:
        listeners.add(watch.interrupt)
    try:
        for start in range(0, len(initial), _RECORDS_A_CHUNK):
            records = initial[start : start + _RECORDS_A_CHUNK]
            await prepare(records, watching.target.served)
            lines = [line(Action.ADDED, watching.show(one)) for one in records if watching.selection.matches(one)]
            if lines:
                yield b"".join(lines)
        initial.clear()
        if watching.is_marking_initial:
            yield _bookmark(watching, revision, ends_initial=True)
        async for chunk in _following(watching, watch):
            yield chunk
    finally:
        listeners.discard(watch.interrupt)
        watch.close()


async def _following(watching: _Watching, watch: AsyncWatch) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + watching.timeout_s
    bookmark_due_s = _bookmark_due_s(loop.time(), ends_s)
    while (left_s := ends_s - loop.time()) > 0:
        try:
            taken = await watch.take(min(left_s, max(0.0, bookmark_due_s - loop.time())))
        except Expired as problem:
            async for chunk in _refused(problem):
                yield chunk
            return
        events = _from(watching.after, taken.events)
        await prepare([event.record for event in events], watching.target.served)
        for chunk in _chunks(watching, events):
            yield chunk
        if loop.time() >= bookmark_due_s:
            bookmark_due_s = _bookmark_due_s(loop.time(), ends_s)
            if watching.has_bookmarks:
                yield _bookmark(watching, taken.revision)
        if not watching.api.catalog.is_served(watching.target.served):
            return  # its definition has changed or is gone: whoever watches has to ask anew


def _from(after: int, events: Sequence[Event]) -> Sequence[Event]:
    return [one for one in events if one.record.revision > after] if after else events


def _bookmark_due_s(now_s: float, ends_s: float) -> float:
    last_s = ends_s - LAST_BOOKMARK_S
    return min(now_s + BOOKMARK_S, last_s) if last_s > now_s else now_s + BOOKMARK_S


def _chunks(watching: _Watching, events: Sequence[Event]) -> Iterator[bytes]:
    if watching.selection.is_everything:
        yield from watching.api.lines.chunks(events, watching.form_name, watching.show)
        return
    for few in in_chunks(events):
        if chunk := selected_lines(few, watching.selection, watching.show):
            yield chunk


def _bookmark(watching: _Watching, revision: int, *, ends_initial: bool = False) -> bytes:
    given = bookmark_object(watching.target.served, revision, ends_initial=ends_initial)
    if watching.form is not Form.PLAIN:
        given = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": given["metadata"]}
    if watching.form is Form.TABLE:
        given = {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": str(revision)},
            "columnDefinitions": None,
            "rows": [{"cells": [], "object": given}],
        }
    return special_line("BOOKMARK", given)
