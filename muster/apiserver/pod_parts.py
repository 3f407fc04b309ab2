"""The parts of a pod that may change while it runs: ephemeralcontainers and resize. Called by `asgi`."""

from __future__ import annotations

from collections.abc import Callable

from muster.apiserver.answers import Answer, one_answer
from muster.apiserver.api import Api
from muster.apiserver.bodies import checked_after_patch, read_given
from muster.apiserver.kinds.pod_changes import resized, with_debuggers
from muster.apiserver.patches import apply_patch
from muster.apiserver.requests import Request, Target
from muster.apiserver.statuses import MODIFIED, bad_request, conflict
from muster.apiserver.writes import as_tried, check_uid, settle_name, settle_namespace
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.metadata import metadata_of
from muster.store.objects import decode
from muster.store.port import Transaction
from muster.store.records import Record

Take = Callable[[Object, Object], Object]  # from the pod before and the pod as given, the pod afterwards


async def ephemeral_containers(api: Api, request: Request, target: Target) -> Answer:
    """Look at a pod, or have debuggers join it."""
    return await _part(api, request, target, with_debuggers)


async def resize(api: Api, request: Request, target: Target) -> Answer:
    """Look at a pod, or change what its containers may use."""
    return await _part(api, request, target, resized)


async def _part(api: Api, request: Request, target: Target, take: Take) -> Answer:
    if request.method in ("GET", "HEAD"):
        return one_answer(api.clock, request, target.served, api.store.store.get(target.key))
    by = request.writer("PatchOptions" if request.method == "PATCH" else "UpdateOptions")
    read = await _reader(request, target)

    def change(write: Transaction) -> Record:
        record = write.get(target.key)
        if record is None:
            raise NotFound(target.key)
        rules = target.served.kept
        before = decode(record)
        given = rules.default(read(decode(record)), before)
        check_uid(target.key, before, metadata_of(given).get("uid"))
        if metadata_of(given).get("resourceVersion") not in (None, "", before["metadata"]["resourceVersion"]):
            raise conflict(target.key, MODIFIED)
        new = take(before, given)
        rules.validate(new, new)  # what may change was decided already
        if new == before:
            return record
        generation = int(before["metadata"].get("generation", 0)) + 1
        new["metadata"] = {**new["metadata"], "generation": generation}
        api.objects.settle(write, target.key, new, by=by)
        written = write.get(target.key)
        assert written is not None, "a pod that was changed is there"
        if not by.is_dry_run:
            return written
        write.discard()
        return as_tried(written, before["metadata"]["resourceVersion"])

    return one_answer(api.clock, request, target.served, await api.store.write(change))


async def _reader(request: Request, target: Target) -> Callable[[Object], Object]:
    """Makes the pod as given of the pod that is there."""
    if request.method == "PUT":
        whole = await read_given(request, target.served)
        settle_namespace(whole, target)
        settle_name(whole, target)
        return lambda _: whole
    body = await request.body()

    def patched(before: Object) -> Object:
        after = apply_patch(request.content_type, before, body, target.served.kind)
        if after.get("metadata") is None or after.get("spec") is None:
            raise bad_request("the patch has removed the metadata or the spec")
        settle_namespace(after, target)
        settle_name(after, target)
        return checked_after_patch(request, after, target.served)

    return patched
