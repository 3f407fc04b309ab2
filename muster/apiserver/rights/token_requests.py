"""The subresource `token` of service accounts: a token for so long, for these audiences. Called by `subresources`."""

from __future__ import annotations

from muster.apiserver.answers import Answer, json_answer
from muster.apiserver.api import Api
from muster.apiserver.requests import Request, Target, read_object
from muster.apiserver.rights.service_accounts import BOUND, ISSUER, Bound
from muster.apiserver.statuses import Problem, bad_request, invalid
from muster.model.errors import InvalidObject
from muster.model.fields import INT64_MAX, Fields
from muster.model.times import moment_text
from muster.store.errors import NotFound
from muster.store.objects import decode
from muster.store.records import Key, Record

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_LEAST_S, _MOST_S, _USUAL_S = 600, 1 << 32, 3_600
_MOST_AUDIENCES = 100


async def request_token(api: Api, request: Request, target: Target) -> Answer:
    """Make a token for a service account."""
    by = request.writer("CreateOptions")
    given = Fields.of(read_object(request, await request.body(), _KIND))
    spec = given.child("spec")
    lasting_s = spec.integer("expirationSeconds", _USUAL_S, least=-INT64_MAX, most=INT64_MAX)
    if lasting_s < _LEAST_S:
        raise _invalid("", "spec.expirationSeconds", f"{lasting_s}: may not specify a duration less than 10 minutes")
    if lasting_s > _MOST_S:
        why = f"{lasting_s}: may not specify a duration larger than 2^32 seconds"
        raise _invalid("", "spec.expirationSeconds", why)
    audiences = spec.texts("audiences") or (ISSUER,)
    if len(audiences) > _MOST_AUDIENCES:
        raise _invalid("", "spec.audiences", f"{len(audiences)} of them: give at most {_MOST_AUDIENCES}")
    account = api.store.store.get(target.key)
    metadata = given.child("metadata")
    for name, wanted in (("name", target.name), ("namespace", target.namespace)):
        if metadata.text(name) not in ("", wanted):
            why = f'"{metadata.text(name)}": must match the service account {name} if specified'
            raise _invalid(target.name, f"metadata.{name}", why)
    bound = _bound(api, account, spec.child("boundObjectRef"))
    token, ends_s = api.accounts.token(bound, audiences, lasting_s)
    status = {"token": "" if by.is_dry_run else token, "expirationTimestamp": moment_text(ends_s)}
    answer = {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "uid": account.uid,
            "creationTimestamp": moment_text(api.clock.now_s()),
        },
        "spec": {
            "audiences": list(audiences),
            "expirationSeconds": lasting_s,
            "boundObjectRef": spec.raw("boundObjectRef"),
        },
        "status": status,
    }
    return json_answer(answer, 201)


def _bound(api: Api, account: Record, reference: Fields) -> Bound:
    kind, version, name = (reference.text(one) for one in ("kind", "apiVersion", "name"))
    if not (kind or version or name):
        return Bound(account)
    if kind not in BOUND or version != "v1":
        raise bad_request(f"cannot bind token to object of type {_shown(version)}, Kind={kind[:100]}")
    store = api.store.store
    found = store.get(Key(BOUND[kind], "" if kind == "Node" else account.key.namespace, name))
    uid = reference.text("uid")
    if uid not in ("", found.uid):
        why = f"the UID in the bound object reference ({uid[:100]}) does not match the UID in record"
        why += ". The object might have been deleted and then recreated"
        message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
        raise Problem(409, "Conflict", message, details={"name": name, "kind": kind})
    if kind != "Pod":
        return Bound(account, kind, found)
    spec = decode(found)["spec"]
    if (spec.get("serviceAccountName") or "default") != account.key.name:
        who = f'cannot bind token for serviceaccount "{account.key.name}"'
        raise bad_request(f"{who} to pod running with different serviceaccount name.")
    return Bound(account, kind, found, _node(api, spec.get("nodeName", "")))


def _node(api: Api, name: str) -> Record | None:
    try:
        return api.store.store.get(Key("nodes", "", name))
    except NotFound:
        return None


def _shown(version: str) -> str:
    return version[:100] if "/" in version else f"/{version[:100]}"


def _invalid(name: str, field: str, problem: str) -> Problem:
    return invalid(_KIND, _GROUP, name, InvalidObject(field, f"Invalid value: {problem}"))
