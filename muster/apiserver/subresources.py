"""The parts of objects that are asked for by themselves: status, scale, binding, finalize. Called by `asgi`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from muster.apiserver import namespaces, visibility
from muster.apiserver.admission.review import Outcome, View, admitted, admitted_part, attributes_of, reviewed
from muster.apiserver.answers import Answer, Form, Stream, form_of, json_answer, one_answer, shown_object
from muster.apiserver.api import Api
from muster.apiserver.apply.handling import APPLY_PATCH, applied_by, applier, check_config, read_config
from muster.apiserver.bodies import read_given
from muster.apiserver.definitions.kinds import CustomKind
from muster.apiserver.definitions.scales import scale_of as custom_scale_of
from muster.apiserver.definitions.scales import scaled
from muster.apiserver.eviction import evict
from muster.apiserver.patches import apply_patch
from muster.apiserver.pod_parts import ephemeral_containers, resize
from muster.apiserver.pod_streams.connecting import without_upgrade
from muster.apiserver.pod_streams.logs import log
from muster.apiserver.requests import Request, Target, read_object
from muster.apiserver.rights.token_requests import request_token
from muster.apiserver.served import Served
from muster.apiserver.statuses import bad_request, invalid
from muster.apiserver.webhooks import Operation
from muster.apiserver.webhooks.attributes import Sort
from muster.apiserver.writes import changed, in_version, patch, settle_name, update
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.binding import Binding, bound
from muster.store.kinds import Object
from muster.store.objects import Part, Written, decode
from muster.store.port import Change, Transaction
from muster.store.records import Key, Record

Handler = Callable[[Api, Request, Target], Awaitable[Answer | Stream]]
CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_SCALE = "Scale"
_SCALE_TYPE = "io.k8s.api.autoscaling.v1.Scale"
_SCALE_VERSION = "autoscaling/v1"


async def status(api: Api, request: Request, target: Target) -> Answer:
    """Look at an object or change its status."""
    if request.method in ("GET", "HEAD"):
        return one_answer(api.clock, request, target.served, api.store.store.get(target.key))
    change = update if request.method == "PUT" else patch
    return await change(api, request, target, Part.STATUS)


async def finalize(api: Api, request: Request, target: Target) -> Answer:
    """Say what a namespace still waits for."""
    by = request.writer("UpdateOptions", target)
    given = await read_given(request, target.served)
    settle_name(given, target)
    asked = attributes_of(request, target, Operation.UPDATE, object=given)
    given = await admitted(api, request, asked) or given
    written = await api.store.write(namespaces.finalize(api.objects, target.key, given, by))
    return one_answer(api.clock, request, target.served, written.record)


# Scale ---------------------------------------------------------------------------------------------------------------


async def scale(api: Api, request: Request, target: Target) -> Answer:
    """Look at how many replicas an object has, or change that."""
    custom = target.served.custom
    if request.method in ("GET", "HEAD"):
        return _scale_answer(api, request, target.served, api.store.store.get(target.key))
    body = await request.body()
    if request.content_type == APPLY_PATCH:
        written, _ = await _reviewed_scale(api, request, target, lambda api: _scale_applied(api, request, target, body))
        return _scale_answer(api, request, target.served, written.record)
    by = request.writer("PatchOptions" if request.method == "PATCH" else "UpdateOptions", target)
    given = None if request.method == "PATCH" else read_object(request, body, _SCALE)
    if given is not None:
        settle_name(given, target)
    content_type = request.content_type
    # Kinds of definitions are never merged strategically, nor are their scales.
    scale_kind = replace(target.served.kind, type_name=_SCALE_TYPE) if custom is None else None

    def how(before: Object) -> Object:
        before = in_version(before, target.served)
        wanted = (
            given if given is not None else apply_patch(content_type, _patched_scale(before, custom), body, scale_kind)
        )
        revision = Fields.of(wanted.get("metadata"), "metadata").text("resourceVersion")
        metadata = {**before["metadata"], "resourceVersion": revision or before["metadata"]["resourceVersion"]}
        return {**_scaled(before, _replicas_in(wanted, target), target), "metadata": metadata}

    written, _ = await _reviewed_scale(api, request, target, lambda api: changed(api, target.key, how, by=by))
    return _scale_answer(api, request, target.served, written.record)


async def _reviewed_scale(
    api: Api, request: Request, target: Target, build: Callable[[Api], Change[Written]]
) -> Outcome:
    """A write to the scale, of which webhooks see nothing else."""

    def build_outcome(api: Api) -> Change[Outcome]:
        change = build(api)
        return lambda write: (change(write), 200)

    view = View(
        Sort("autoscaling", "v1", _SCALE),
        lambda whole: _patched_scale(whole, target.served.custom),
        lambda whole, sent: _scaled(whole, _replicas_in(sent, target), target),
    )
    return await reviewed(api, request, target, build_outcome, view=view)


def _replicas_in(wanted: Object, target: Target) -> int:
    count = Fields.of(wanted.get("spec"), "spec").integer("replicas", 0)
    if count < 0 and target.served.custom is None:  # else the definition says what is too little
        why = f"Invalid value: {count}: must be greater than or equal to 0"
        raise invalid(_SCALE, "autoscaling", target.name, InvalidObject("spec.replicas", why))
    return count


def _scaled(given: Object, count: int, target: Target) -> Object:
    """An object that wants so many replicas."""
    custom = target.served.custom
    if custom is None:
        return {**given, "spec": {**(given.get("spec") or {}), "replicas": count}}
    assert custom.scale is not None, "only a kind that has a scale is asked for it"
    return scaled(given, custom.scale, count)


def _patched_scale(before: Object, custom: CustomKind | None) -> Object:
    """What a patch of a scale starts from; an object that wants no count yet wants none."""
    if custom is None:
        return scale_of(before)
    assert custom.scale is not None, "only a kind that has a scale is asked for it"
    return custom_scale_of(before, custom.scale, is_complete=False)


def _scale_applied(api: Api, request: Request, target: Target, body: bytes) -> Change[Written]:
    """A scale that is applied: the same as applying to the object, by somebody who speaks of nothing but this."""
    by = applier(request, target)
    config = read_config(body)
    check_config(config, _SCALE_VERSION, _SCALE)
    kind = target.served.kind
    wanted = {"apiVersion": target.served.api_version, "kind": kind.kind, "metadata": config.get("metadata") or {}}
    if "replicas" in (config.get("spec") or {}):
        wanted = _scaled(wanted, _replicas_in(config, target), target)
    applied = applied_by(api, request, target, wanted, by)

    def change(write: Transaction) -> Written:
        def how(before: Object) -> Object:
            after = applied(in_version(before, target.served), write.now_s)
            return after if target.served.custom is not None else _scaled(after, _replicas_in(after, target), target)

        return changed(api, target.key, how, by=by)(write)

    return change


def _scale_answer(api: Api, request: Request, served: Served, record: Record) -> Answer:
    paths = served.custom.scale if served.custom is not None else None
    found = custom_scale_of(shown_object(record, served), paths) if paths is not None else scale_of(decode(record))
    form = form_of(request)
    if form is Form.METADATA:
        return json_answer(
            {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": found["metadata"]}
        )
    if form is Form.PLAIN:
        return json_answer(found)
    from muster.apiserver.tables import table

    metadata = {"resourceVersion": str(record.revision)}
    return json_answer(table(("autoscaling", "v1", _SCALE), [found], now_s=api.clock.now_s(), metadata=metadata))


def scale_of(given: Object) -> Object:
    """How many replicas an object wants and has."""
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: given["metadata"][name] for name in kept if name in given["metadata"]}
    spec, status = given.get("spec") or {}, given.get("status") or {}
    counts: Object = {"replicas": status.get("replicas", 0)}
    if selector := _selector_text(spec.get("selector")):
        counts["selector"] = selector
    wanted = {"replicas": spec["replicas"]} if spec.get("replicas") else {}
    return {"kind": _SCALE, "apiVersion": _SCALE_VERSION, "metadata": metadata, "spec": wanted, "status": counts}


def _selector_text(selector: Object | None) -> str:
    """A selector as a query would write it; replication controllers have labels alone."""
    if not selector:
        return ""
    is_plain = not {"matchLabels", "matchExpressions"} & selector.keys()
    terms = [
        f"{key}={value}" for key, value in sorted((selector if is_plain else selector.get("matchLabels", {})).items())
    ]
    for one in () if is_plain else selector.get("matchExpressions") or ():
        values = ",".join(sorted(one.get("values") or ()))
        forms = {"In": f"{one['key']} in ({values})", "NotIn": f"{one['key']} notin ({values})"}
        terms.append(forms.get(one["operator"]) or ("!" * (one["operator"] == "DoesNotExist") + one["key"]))
    return ",".join(terms)


# Binding -------------------------------------------------------------------------------------------------------------


async def bind(api: Api, request: Request, target: Target) -> Answer:
    """Put a pod on a node; the pod is named by the path, or by the binding itself."""
    by = request.writer("CreateOptions")
    sent = read_object(request, await request.body(), "Binding")
    binding = Fields.of(await admitted_part(api, request, target, sent))
    metadata = binding.child("metadata")
    name = target.name or metadata.text("name")
    if metadata.text("name") not in ("", name):
        raise bad_request(f"name in URL does not match name in Binding object: {name}")
    node = binding.child("target").text("name")
    if not node:
        raise InvalidObject("target.name", "Required value")
    if binding.child("target").text("kind") not in ("", "Node"):
        raise InvalidObject("target.kind", 'Unsupported value: supported values: "Node", "<empty>"')
    key = Key("pods", target.namespace, name)
    given = Binding(
        key=key,
        node=node,
        uid=metadata.text("uid"),
        labels=metadata.text_map("labels"),
        annotations=metadata.text_map("annotations"),
        is_dry_run=by.is_dry_run,
    )
    await api.store.write(bound(api.objects, given))
    return json_answer(CREATED, 201)


HANDLERS: dict[str, Handler] = {
    "approval": status,
    "status": status,
    "scale": scale,
    "binding": bind,
    "eviction": evict,
    "finalize": finalize,
    "token": request_token,
    "ephemeralcontainers": ephemeral_containers,
    "resize": resize,
    "log": log,
    "exec": without_upgrade,
    "attach": without_upgrade,
    "portforward": without_upgrade,
    "pendingworkloads": visibility.pending,
}
