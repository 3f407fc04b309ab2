"""Writes that webhooks have a say in. Called by the handlers of writes; without webhooks it is the plain write.

Webhooks are asked outside of any transaction. So a write is made in steps: it is begun, up to the object that it would
keep, and given up; webhooks change that object; the write is rehearsed with it, and others judge what would be kept; it
is made if the object that it changes is still the one that was judged. Else all begins anew, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from muster.apiserver.admission.chain import Completion
from muster.apiserver.api import Api
from muster.apiserver.requests import Request, Target
from muster.apiserver.statuses import MODIFIED, conflict
from muster.apiserver.webhooks import Attributes, Operation
from muster.apiserver.webhooks.attributes import Sort
from muster.store.kinds import KindRules, Object
from muster.store.objects import Written, decode
from muster.store.port import Change, Transaction

Outcome = tuple[Written, int]  # what was written, and the code of the answer
Build = Callable[[Api], Change[Outcome]]  # the write, by the admission that the given one has
_TRIES = 5
_NOT_YET = {"uid": "", "creationTimestamp": "1970-01-01T00:00:00Z"}  # what defaults may look for in a new object
_OPTIONS = {Operation.CREATE: "CreateOptions", Operation.UPDATE: "UpdateOptions", Operation.DELETE: "DeleteOptions"}


class View(NamedTuple):
    """How a part of an object is sent by itself, such as its scale."""

    kind: Sort
    of: Callable[[Object], Object]
    back: Callable[[Object, Object], Object]  # the whole object with what was sent


class _Begun(Exception):
    """A write that has come to the object that it would keep, and goes no further."""

    def __init__(self, given: Object, before: Object | None) -> None:
        super().__init__()
        self.given = given
        self.before = before


class _Moved(Exception):
    """The object is not the one any more that the webhooks have seen."""


class _Beginning:
    """Admission that ends a write with the object that it would go on with."""

    def __init__(self, inner: Completion) -> None:
        self._inner = inner

    def complete_new(self, resource: str, given: Object) -> NoReturn:
        raise _Begun(self._inner.complete_new(resource, given), None)

    def complete(self, resource: str, given: Object, before: Object) -> NoReturn:
        raise _Begun(self._inner.complete(resource, given, before), deepcopy(before))


class _Settled:
    """Admission that goes on with the object that webhooks have agreed on."""

    def __init__(self, given: Object, before: Object | None) -> None:
        self._given = given
        self._before = before

    def complete_new(self, _resource: str, _given: Object) -> Object:
        if self._before is not None:
            raise _Moved
        return deepcopy(self._given)

    def complete(self, _resource: str, _given: Object, before: Object) -> Object:
        if self._before is None or _revision(self._before) != _revision(before):
            raise _Moved
        return deepcopy(self._given)


def _revision(given: Object) -> str:
    return str(given["metadata"]["resourceVersion"])


async def reviewed(api: Api, request: Request, target: Target, build: Build, *, view: View | None = None) -> Outcome:
    """Make a write that all webhooks agree to; `view` where what is sent is only a part of the object."""
    if not (api.webhooks.are_there and _may_concern(api, request, target)):
        return await api.store.write(build(api))
    for _ in range(_TRIES):
        try:
            return await _reviewed_once(api, request, target, build, view=view)
        except _Moved:
            continue
    raise conflict(target.key, MODIFIED)


def _may_concern(api: Api, request: Request, target: Target) -> bool:
    """Whether any webhook may have to be asked; whether it creates or changes is known only when it is made."""
    return any(
        api.webhooks.concern(attributes_of(request, target, one)) for one in (Operation.CREATE, Operation.UPDATE)
    )


async def _reviewed_once(api: Api, request: Request, target: Target, build: Build, *, view: View | None) -> Outcome:
    try:
        return await api.store.write(build(api.with_admission(_Beginning(api.admission))))
    except _Begun as begun:
        whole, before = begun.given, begun.before
    served = target.served
    asked = attributes_of(request, target, Operation.CREATE if before is None else Operation.UPDATE)
    asked = replace(asked, name=_name_in(whole))
    seen = view.of if view is not None else lambda given: given
    if view is not None:
        asked = replace(asked, kind=view.kind)
    if before is not None:
        asked = replace(asked, before=seen(_in_version(deepcopy(before), target)))

    def complete(given: Object) -> Object:
        if view is not None:
            return given
        if before is None:
            return as_defaulted(served.kept, api.admission.complete_new(served.resource, given), target)
        return as_defaulted(served.kept, api.admission.complete(served.resource, given, deepcopy(before)), target)

    given = seen(whole) if view is not None else as_defaulted(served.kept, whole, target)
    mutated = await api.webhooks.mutate(asked.about(given), request, complete)
    assert mutated is not None, "what was sent is an object"
    if mutated is not given:
        whole = view.back(whole, mutated) if view is not None else mutated
    request.object_name = _name_in(whole) or request.object_name
    change = build(api.with_admission(_Settled(whole, before)))
    rehearsed, _ = await api.store.write(_discarded(change))
    final = _as_judged(decode(rehearsed.record), before)
    judged = replace(asked, name=_name_in(final), object=seen(_in_version(final, target)))
    await api.webhooks.validate(judged, request)
    return await api.store.write(change)


def _name_in(given: Object) -> str:
    return str(given["metadata"].get("name") or "")


def _discarded(change: Change[Outcome]) -> Change[Outcome]:
    def rehearsal(write: Transaction) -> Outcome:
        write.discard()  # before it begins, so that quotas are left to the write itself
        return change(write)

    return rehearsal


def _as_judged(final: Object, before: Object | None) -> Object:
    """An object that would be kept, with the revision that it has before that."""
    if before is None:
        final["metadata"].pop("resourceVersion", None)
    else:
        final["metadata"]["resourceVersion"] = _revision(before)
    return final


def _in_version(stored: Object, target: Target) -> Object:
    served = target.served
    return stored if served.is_stored_version else served.kept.convert(stored, served.api_version)


def as_defaulted(rules: KindRules, given: Object, target: Target) -> Object:
    """An object as webhooks that change it see it: with its defaults, and without what it gets when it is kept."""
    metadata = dict(given["metadata"])
    made_up = {name: value for name, value in _NOT_YET.items() if name not in metadata}
    stored = deepcopy({**given, "metadata": metadata | made_up})
    if stored.get("apiVersion") != rules.api_version:
        stored = rules.convert(stored, rules.api_version)
    is_new = not metadata.get("resourceVersion")
    new = rules.default(stored, None)
    for name in made_up:
        new["metadata"].pop(name, None)
    if is_new and rules.has_status and not rules.is_status_kept and "status" in new:
        new["status"] = given.get("status") or {}
    return _in_version(new, target)


# What is sent and not kept -------------------------------------------------------------------------------------------


async def admitted(api: Api, request: Request, asked: Attributes) -> Object | None:
    """What was sent as webhooks want it; raises what those say who do not allow it."""
    if not api.webhooks.concern(asked):
        return asked.object
    new = await api.webhooks.mutate(asked, request, lambda given: given)
    await api.webhooks.validate(asked.about(new), request)
    return new


async def admitted_part(api: Api, request: Request, target: Target, sent: Object) -> Object:
    """What was sent to a part of an object that keeps nothing of it, such as a binding."""
    part = target.served.kind.subresources.get(target.subresource)
    kind = Sort(part.group, part.version, part.kind) if part is not None else None
    metadata = sent.get("metadata")
    if target.namespace and (metadata is None or isinstance(metadata, dict)):
        sent = {**sent, "metadata": {**(metadata or {}), "namespace": target.namespace}}
    asked = attributes_of(request, target, Operation.CREATE, object=sent, kind=kind)
    return await admitted(api, request, asked) or sent


def attributes_of(request: Request, target: Target, operation: Operation, **more: Any) -> Attributes:
    """A request as webhooks are told of it, without its objects."""
    options: Object = {"kind": _OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"}
    for name in ("fieldManager", "fieldValidation"):
        if given := request.option(name):
            options[name] = given
    is_dry_run = bool(request.query.get("dryRun"))
    if is_dry_run:
        options["dryRun"] = ["All"]
    is_namespace = target.served.resource == "namespaces"
    return Attributes(
        served=target.served,
        operation=operation,
        namespace=target.name if is_namespace else target.namespace,
        name=target.name,
        subresource=target.subresource,
        user=request.user,
        is_dry_run=is_dry_run,
        options=options,
        **more,
    )
