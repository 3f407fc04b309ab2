"""Lists: the objects of a resource as of one revision, whole or in pages. Called by `asgi`.

A list that asks for no selection and no table is the stored bytes, joined.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from muster.apiserver.answers import (
    Answer,
    Form,
    form_of,
    json_answer,
    list_body,
    metadata_bytes,
    one_answer,
    prepare,
    shown_bytes,
    tabler_of,
)
from muster.apiserver.api import Api
from muster.apiserver.requests import Request, Target
from muster.apiserver.selectors import Selection, read_selection
from muster.apiserver.statuses import bad_request, expired, invalid_options
from muster.model.errors import InvalidObject
from muster.store.errors import Expired, TooNew
from muster.store.kinds import Object
from muster.store.port import Store
from muster.store.records import Cursor, Record, Scope

EXACT, NOT_OLDER = "Exact", "NotOlderThan"
_RECORDS_AT_ONCE = 500  # looked at before others have their turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which part of a list is asked for."""

    limit: int = 0  # 0: all
    at: int = 0  # 0: now
    after: str = ""
    is_continued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A list or a page of one."""

    records: list[Record]
    revision: int
    next: Cursor | None = None
    remaining: int | None = None  # None: not known

    def metadata(self) -> Object:
        """What the list says about itself."""
        found: Object = {"resourceVersion": str(self.revision)}
        if self.next is not None:
            found["continue"] = self.next.text()
            if self.remaining:
                found["remainingItemCount"] = self.remaining
        return found


async def list_objects(api: Api, request: Request, target: Target) -> Answer:
    """The answer to a list."""
    form = form_of(request)
    served = target.served
    selection = selection_of(request, target)
    wanted = read_wanted(request, api.store.store.revision)
    listed = await find(api.store.store, target.scope, wanted, selection)
    if form is not Form.METADATA:
        await prepare(listed.records, served)
    if form is Form.TABLE:
        tabler = tabler_of(request, served, api.clock)
        return json_answer(tabler.table(listed.records, listed.metadata()))
    if form is Form.METADATA:
        items = (metadata_bytes(record) for record in listed.records)
        body = list_body(items, "PartialObjectMetadataList", "meta.k8s.io/v1", listed.metadata())
        return Answer(200, body)
    body = list_body(
        (shown_bytes(record, served) for record in listed.records),
        f"{served.kind.kind}List",
        served.api_version,
        listed.metadata(),
    )
    return Answer(200, body)


def get_object(api: Api, request: Request, target: Target) -> Answer:
    """The answer to a request for one object."""
    store = api.store.store
    revision = read_revision(request.option("resourceVersion"))
    if revision > store.revision:
        raise TooNew(revision, store.revision)
    return one_answer(api.clock, request, target.served, store.get(target.key))


def selection_of(request: Request, target: Target) -> Selection:
    """The objects that a request's selectors mean."""
    return read_selection(request.option("labelSelector"), request.option("fieldSelector"), target.served)


def read_revision(text: str) -> int:
    """The number in a resourceVersion; 0 for any."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        problem = f'Invalid value: "{text[:100]}": strconv.ParseUint: parsing "{text[:100]}": invalid syntax'
        raise bad_request(f"invalid resource version: resourceVersion: {problem}")
    return int(text)


def read_wanted(request: Request, newest: int) -> Wanted:
    """Which part of the list a request asks for, and as of when."""
    limit = max(0, request.number("limit"))
    request.number("timeoutSeconds")  # a list ends by itself, but what is no number is wrong here too
    revision_text, match = request.option("resourceVersion"), request.option("resourceVersionMatch")
    token = request.option("continue")
    _check_match(revision_text, match, is_continued=bool(token))
    if request.option("sendInitialEvents"):
        raise invalid_options("ListOptions", "sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list")
    if token:
        if revision_text not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        try:
            cursor = Cursor.parse(token)
        except InvalidObject as problem:
            raise bad_request(f"invalid continue token: {problem.problem}") from None
        return Wanted(limit=limit, at=cursor.revision, after=cursor.after, is_continued=True)
    revision = read_revision(revision_text)
    if revision > newest:
        raise TooNew(revision, newest)
    is_exact = match == EXACT or (not match and limit > 0 and revision > 0)
    return Wanted(limit=limit, at=revision if is_exact else 0)


def _check_match(revision: str, match: str, *, is_continued: bool) -> None:
    if not match:
        return
    problem = ""
    if is_continued:
        problem = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
    elif not revision:
        problem = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match not in (EXACT, NOT_OLDER):
        problem = f'Unsupported value: "{match[:100]}": supported values: "{EXACT}", "{NOT_OLDER}", ""'
    elif match == EXACT and revision == "0":
        problem = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if problem:
        raise invalid_options("ListOptions", "resourceVersionMatch", problem)


async def find(store: Store, scope: Scope, wanted: Wanted, selection: Selection) -> Listed:
    """The records of a list."""
    try:
        if selection.is_everything:
            page = store.page(scope, limit=wanted.limit, at=wanted.at, after=wanted.after)
            return Listed(
                records=page.records, revision=page.revision, next=page.next, remaining=page.remaining or None
            )
        if not wanted.limit:
            page = store.page(scope, at=wanted.at, after=wanted.after)
            return Listed(records=await _selected(page.records, selection), revision=page.revision)
        return await _find_some(store, scope, wanted, selection)
    except Expired as problem:
        if not wanted.is_continued:
            message = f"The resourceVersion for the provided list is too old: {problem}"
            raise expired(message) from None
        # The rest of the list as it is now; the client is told that it does not fit the pages it has.
        token = Cursor(store.revision, wanted.after).text()
        message = "the continue token is too old; start anew, or go on with the token given here, at another revision"
        raise expired(message, continue_token=token) from None


async def _selected(records: list[Record], selection: Selection) -> list[Record]:
    found: list[Record] = []
    for start in range(0, len(records), _RECORDS_AT_ONCE):
        if start:
            await asyncio.sleep(0)
        found += [one for one in records[start : start + _RECORDS_AT_ONCE] if selection.matches(one)]
    return found


async def _find_some(store: Store, scope: Scope, wanted: Wanted, selection: Selection) -> Listed:
    """The first so many that are selected, however many have to be passed over."""
    found: list[Record] = []
    while True:
        page = store.page(scope, limit=max(wanted.limit, _RECORDS_AT_ONCE), at=wanted.at, after=wanted.after)
        found += await _selected(page.records, selection)
        if len(found) > wanted.limit or (len(found) == wanted.limit and page.remaining):
            last = found[wanted.limit - 1].key.path
            return Listed(records=found[: wanted.limit], revision=page.revision, next=Cursor(page.revision, last))
        if page.next is None:
            return Listed(records=found, revision=page.revision)
        wanted = replace(wanted, at=page.revision, after=page.next.after)
