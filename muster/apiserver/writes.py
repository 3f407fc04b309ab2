"""Writes to whole objects: create, update, patch and delete. Called by `asgi`.

Bodies are read and checked before the write begins; what depends on the present state is decided within it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial

import msgspec

from muster.apiserver.admission import volcano
from muster.apiserver.admission.review import Outcome, admitted, attributes_of, reviewed
from muster.apiserver.answers import Answer, encode, list_body, one_answer, prepare, shown_bytes, success
from muster.apiserver.api import Api
from muster.apiserver.apply.handling import APPLY_PATCH, applied_by, applier, read_config
from muster.apiserver.bodies import checked_after_patch, read_given
from muster.apiserver.deletion import deletion_of
from muster.apiserver.kinds.extensions import CERTIFICATES, asked_by
from muster.apiserver.lists import Wanted, find, selection_of
from muster.apiserver.namespaces import delete_namespace
from muster.apiserver.patches import STRATEGIC_PATCH, apply_patch, refuse_unknown_form
from muster.apiserver.requests import Request, Target
from muster.apiserver.rights.access import question_of
from muster.apiserver.rights.escalation import check_grant, check_signing
from muster.apiserver.rights.rbac import RESOURCES
from muster.apiserver.served import Served
from muster.apiserver.statuses import MODIFIED, Problem, bad_request, conflict, invalid, invalid_options
from muster.apiserver.webhooks import Operation
from muster.model.errors import InvalidObject, quoted
from muster.store.errors import Conflict, NotFound
from muster.store.kinds import Object
from muster.store.metadata import metadata_of
from muster.store.objects import NAMESPACES, By, Objects, Part, Written, decode
from muster.store.port import Change, Transaction
from muster.store.records import Key, Record
from muster.store.rules import Deletion

_DELETED_A_WRITE = 100
# Of these Kubernetes shows the object that is gone; of others it only says that it is.
_SHOWN_WHEN_GONE = frozenset(
    {
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "storageclasses.storage.k8s.io",
    }
)
# What a write to nothing makes, as in Kubernetes.
_MADE_BY_UPDATE = frozenset(
    {
        "clusterrolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "endpoints",
        "events",
        "leases.coordination.k8s.io",
        "limitranges",
        "rolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "runtimeclasses.node.k8s.io",
        "services",
    }
)
# Nobody may overwrite these without having seen them; the dialects' own kinds are among them.
_NEEDS_REVISION = frozenset({"leases.coordination.k8s.io", "poddisruptionbudgets.policy", "runtimeclasses.node.k8s.io"})
_JOBS = "jobs.batch"
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


async def create(api: Api, request: Request, target: Target) -> Answer:
    """Add an object."""
    by = request.writer("CreateOptions", target)
    given = await read_given(request, target.served)
    settle_namespace(given, target)
    written, _ = await reviewed(api, request, target, lambda api: _made(api, request, target, given, by))
    record = as_tried(written.record, "") if by.is_dry_run else written.record
    return one_answer(api.clock, request, target.served, record, 201)


def _made(api: Api, request: Request, target: Target, given: Object, by: By) -> Change[Outcome]:
    resource = target.served.resource
    user = request.user
    check_grant(api.access, user, target, given, None)
    request.warn(volcano.remarks(resource, given))
    if resource == CERTIFICATES:
        extra = {name: list(values) for name, values in user.extra}
        given = asked_by(given, user.name, uid=user.uid, groups=user.groups, extra=extra)

    def complete(new: Object, _before: Object | None) -> Object:
        completed = api.admission.complete_new(resource, new)
        if api.submission is not None:  # now, since a namespace may have a queue for jobs that name none
            api.submission.check(api.access, user, resource, completed, None)
        return completed

    make = api.objects.create(resource, given, by, complete=complete)
    return lambda write: (make(write), 201)


def _check_may_create(api: Api, request: Request, target: Target) -> None:
    """Whoever makes an object by another verb needs the right to create it as well."""
    api.access.check(request.user, question_of(request, target)._replace(verb="create"))


def _granting(
    api: Api, request: Request, target: Target, how: Callable[[Object], Object]
) -> Callable[[Object], Object]:
    """The same change, refused where it would give or use rights that the writer does not have."""
    resource, submission = target.served.resource, api.submission
    if resource not in RESOURCES and resource != CERTIFICATES and submission is None:
        return how

    def checked(before: Object) -> Object:
        had = deepcopy(before)  # a patch may use up what it is given
        after = how(before)
        check = check_signing if resource == CERTIFICATES else check_grant
        check(api.access, request.user, target, after, had)
        if submission is not None:
            submission.check(api.access, request.user, resource, after, had)
        return after

    return checked


async def update(api: Api, request: Request, target: Target, part: Part = Part.MAIN) -> Answer:
    """Replace an object, or its status; some kinds are made where there is none."""
    by = request.writer("UpdateOptions", target)
    served = target.served
    given = await read_given(request, served)
    settle_namespace(given, target)
    settle_name(given, target)
    if metadata_of(given).get("resourceVersion") == "0":
        del given["metadata"]["resourceVersion"]  # says the same as none
    revision = metadata_of(given).get("resourceVersion")
    is_made = served.resource in _MADE_BY_UPDATE

    def how(before: Object) -> Object:
        check_uid(target.key, before, metadata_of(given).get("uid"))
        if not revision and (served.resource in _NEEDS_REVISION or not served.kind.type_name):
            raise _no_revision(target)
        return given

    def change(api: Api, write: Transaction) -> Outcome:
        if is_made and write.get(target.key) is None:
            check_uid(target.key, None, metadata_of(given).get("uid"))
            if part is not Part.MAIN:
                raise NotFound(target.key)
            given["metadata"].pop("resourceVersion", None)
            _check_may_create(api, request, target)
            made, _ = _made(api, request, target, given, by)(write)
            return (Written(as_tried(made.record, revision or "")) if by.is_dry_run else made), 201
        return changed(api, target.key, _granting(api, request, target, how), part=part, by=by)(write), 200

    written, status = await reviewed(api, request, target, lambda api: partial(change, api))
    return one_answer(api.clock, request, served, written.record, status)


def _no_revision(target: Target) -> Problem:
    kind = target.served.kind
    problem = InvalidObject("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
    return invalid(kind.plural, kind.group, target.name, problem)


async def patch(api: Api, request: Request, target: Target, part: Part = Part.MAIN) -> Answer:
    """Change some of an object, or of its status."""
    if request.content_type == APPLY_PATCH:
        return await apply(api, request, target, part)
    if request.option("force"):
        raise invalid_options("PatchOptions", "force", "Forbidden: may not be specified for non-apply patch")
    by = request.writer("PatchOptions", target)
    served = target.served
    content_type = request.content_type
    kind = served.kind if served.kind.type_name else None
    refuse_unknown_form(content_type, kind)
    body = await request.body()
    is_strategic = content_type == STRATEGIC_PATCH
    if is_strategic and body.strip() == b"null":
        body = b"{}"  # such a patch says nothing

    def how(before: Object) -> Object:
        uid = before["metadata"]["uid"]
        after = apply_patch(content_type, in_version(before, served), body, kind)
        if is_strategic:
            after.update(kind=served.kind.kind, apiVersion=served.api_version)  # such a patch cannot change them
        if after.get("metadata") is None:
            told = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
            raise bad_request(told)
        settle_namespace(after, target)
        settle_name(after, target)
        if (given := metadata_of(after).get("uid")) not in (None, "", uid):
            raise InvalidObject("metadata.uid", f"Invalid value: {quoted(given)}: field is immutable")
        return checked_after_patch(request, after, served)

    def change(api: Api, write: Transaction) -> Outcome:
        granted = _granting(api, request, target, how)
        return changed(api, target.key, granted, part=part, by=by)(write), 200

    written, _ = await reviewed(api, request, target, lambda api: partial(change, api))
    return one_answer(api.clock, request, target.served, written.record)


async def apply(api: Api, request: Request, target: Target, part: Part = Part.MAIN) -> Answer:
    """Make what a client applies part of an object; one that is not there is made."""
    by = applier(request, target)
    body = await request.body()
    config = read_config(body)
    served = target.served
    applied = applied_by(api, request, target, config, by)

    def settled(live: Object | None, now_s: float) -> Object:
        after = applied(None if live is None else in_version(live, served), now_s)
        settle_namespace(after, target)
        settle_name(after, target)
        return checked_after_patch(request, after, served)

    def change(api: Api, write: Transaction) -> Outcome:
        if write.get(target.key) is None and part is Part.MAIN:
            _check_may_create(api, request, target)
            written, _ = _made(api, request, target, settled(None, write.now_s), by)(write)
            return Written(as_tried(written.record, "")) if by.is_dry_run else written, 201
        granted = _granting(api, request, target, lambda live: settled(live, write.now_s))
        return changed(api, target.key, granted, part=part, by=by)(write), 200

    written, status = await reviewed(api, request, target, lambda api: partial(change, api))
    return one_answer(api.clock, request, served, written.record, status)


def as_tried(record: Record, revision: str) -> Record:
    """What a dry run has left: it has the revision that is there, since there is no new one."""
    tried = decode(record)
    if revision:
        tried["metadata"]["resourceVersion"] = revision
    else:
        del tried["metadata"]["resourceVersion"]
    return msgspec.structs.replace(record, value=encode(tried))


def in_version(stored: Object, served: Served) -> Object:
    """A stored object in the version that is served; of a kind with a definition it is in the newest form already."""
    return stored if served.is_stored_version else served.kept.convert(stored, served.api_version)


def changed(api: Api, key: Key, how: Callable[[Object], Object], *, part: Part = Part.MAIN, by: By) -> Change[Written]:
    """A write that makes a new object out of the present one, refused in Kubernetes' words when that is another."""

    revision = ""

    def checked(before: Object) -> Object:
        nonlocal revision
        revision = before["metadata"]["resourceVersion"]
        after = how(before)
        check_uid(key, before, metadata_of(after).get("uid"))
        if metadata_of(after).get("resourceVersion") not in (None, "", revision):
            raise conflict(key, MODIFIED)
        return after

    complete = partial(api.admission.complete, key.resource)
    modify = api.objects.modify(key, checked, part=part, by=by, complete=complete)

    def change(write: Transaction) -> Written:
        written = modify(write)
        return Written(as_tried(written.record, revision), written.is_gone) if by.is_dry_run else written

    return change


def check_uid(key: Key, before: Object | None, uid: object) -> None:
    """Refuse what is meant for another object of this name."""
    found = before["metadata"]["uid"] if before is not None else ""
    if uid and uid != found:
        raise conflict(key, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")


def settle_namespace(given: Object, target: Target) -> None:
    """An object is in the namespace of its path; it need not say so itself."""
    metadata = metadata_of(given)
    if metadata.get("namespace") in (None, "", target.namespace):
        if target.namespace:
            metadata["namespace"] = target.namespace
        else:
            metadata.pop("namespace", None)
    elif target.served.kind.is_namespaced:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        metadata.pop("namespace")  # it has none, whatever it says


def settle_name(given: Object, target: Target) -> None:
    """An object that replaces another has its name."""
    name = metadata_of(given).get("name")
    if name and name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    given["metadata"]["name"] = target.name


# Deleting ------------------------------------------------------------------------------------------------------------


async def delete(api: Api, request: Request, target: Target) -> Answer:
    """Delete an object, or mark it for those who have to finish with it first."""
    deletion, by = await _asked_deletion(request, target)
    await _admit_deletion(api, request, target)
    if target.served.resource == NAMESPACES:
        change = delete_namespace(api.objects, target.key, deletion, by)
    else:
        change = api.objects.delete(target.key, deletion, by=by)
    try:
        written = await api.store.write(_tried(change, target.key) if by.is_dry_run else change)
    except Conflict as problem:
        raise _other_object(target, problem) from None
    if written.is_gone and target.served.resource not in _SHOWN_WHEN_GONE:
        return success(target.key, written.record.uid)
    return one_answer(api.clock, request, target.served, written.record)


async def _admit_deletion(api: Api, request: Request, target: Target, key: Key | None = None) -> None:
    """Ask webhooks whether an object may go; `key` says which where the request names many."""
    asked = attributes_of(request, target, Operation.DELETE)
    if api.webhooks.concern(asked):
        before = in_version(decode(api.store.store.get(key or target.key)), target.served)
        await admitted(api, request, replace(asked, before=before))


async def _asked_deletion(request: Request, target: Target) -> tuple[Deletion, By]:
    deletion, by = await deletion_of(request)
    if target.served.resource == _JOBS and deletion.propagation is None:
        request.warn((_PODS_STAY,))
    return deletion, by


def _tried(change: Change[Written], key: Key) -> Change[Written]:
    """A write of which nothing is kept: what it leaves has the revision that is there."""

    def tried(write: Transaction) -> Written:
        before = write.get(key)
        written = change(write)
        assert before is not None, "only what is there can be deleted"
        return Written(as_tried(written.record, str(before.revision)), written.is_gone)

    return tried


def _other_object(target: Target, problem: Conflict) -> Problem:
    """The object is not the one that was meant to be deleted; here messages name the kind, not the resource."""
    kind = target.served.kind
    full_kind = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    name = problem.key.name
    message = f'Operation cannot be fulfilled on {full_kind} "{name}": {problem.problem}'
    details = {"name": name, "group": kind.group, "kind": kind.kind}
    return Problem(409, "Conflict", message, details={name: value for name, value in details.items() if value})


async def delete_collection(api: Api, request: Request, target: Target) -> Answer:
    """Delete all objects that are selected."""
    selection = selection_of(request, target)
    deletion, by = await _asked_deletion(request, target)
    store = api.store.store
    found = await find(store, target.scope, Wanted(), selection)
    for start in range(0, len(found.records), _DELETED_A_WRITE):
        keys = [record.key for record in found.records[start : start + _DELETED_A_WRITE]]
        for key in keys:
            with suppress(NotFound):
                await _admit_deletion(api, request, target, key)
        try:
            await api.store.write(_delete_all(api.objects, keys, deletion, by))
        except Conflict as problem:
            raise _other_object(target, problem) from None
    served = target.served
    await prepare(found.records, served)
    items = (shown_bytes(record, served) for record in found.records)
    metadata = {"resourceVersion": str(store.revision)}
    return Answer(200, list_body(items, f"{served.kind.kind}List", served.api_version, metadata))


def _delete_all(objects: Objects, keys: list[Key], deletion: Deletion, by: By) -> Change[None]:
    def change(write: Transaction) -> None:
        for key in keys:
            with suppress(NotFound):  # somebody else was faster
                objects.delete(key, deletion, by=by)(write)

    return change
