"""AdmissionReview: the question that a webhook gets, and what its answer says. Pure; called by `dispatch`."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from muster.apiserver.outgoing import CallFailed
from muster.apiserver.patches import JSON_PATCH, apply_patch
from muster.apiserver.requests import MOST_DEPTH, depth_of
from muster.apiserver.statuses import Problem, internal_error
from muster.apiserver.webhooks.attributes import Attributes, Sort
from muster.store.kinds import Object

GROUP = "admission.k8s.io"
VERSIONS = ("v1", "v1beta1")  # the newer is preferred where a webhook takes both
_WARNING_CHARACTERS = 256
_INVALID = "received invalid webhook response"
_UNDECODABLE = "received undecodable patch in webhook response"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a webhook says."""

    is_allowed: bool
    status: Object
    patch: bytes = b""  # JSON
    patch_type: str = ""
    warnings: tuple[str, ...] = ()


def request_of(asked: Attributes, matched: Attributes, uid: str) -> Object:
    """The request part of a review; `matched` is the write in the version that the webhook is for."""
    kind = matched.sent_kind
    review: Object = {
        "uid": uid,
        "kind": kind.told("kind"),
        "resource": matched.resource.told("resource"),
        "requestKind": asked.sent_kind.told("kind"),
        "requestResource": asked.resource.told("resource"),
        "operation": asked.operation.value,
        "userInfo": _user_of(asked),
        "object": _typed(matched.object, kind),
        "oldObject": _typed(matched.before, kind),
        "dryRun": asked.is_dry_run,
        "options": asked.options or None,
    }
    if asked.subresource:
        review |= {"subResource": asked.subresource, "requestSubResource": asked.subresource}
    if asked.name:
        review["name"] = asked.name
    if asked.namespace:
        review["namespace"] = asked.namespace
    return review


def _user_of(asked: Attributes) -> Object:
    user = asked.user
    told: Object = {"username": user.name}
    if user.uid:
        told["uid"] = user.uid
    if user.groups:
        told["groups"] = list(user.groups)
    return told


def _typed(given: Object | None, kind: Sort) -> Object | None:
    if given is None:
        return None
    version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    return {"kind": given.get("kind") or kind.name, "apiVersion": given.get("apiVersion") or version, **given}


def review_of(request: Object, version: str) -> bytes:
    """The whole review as it is sent."""
    review = {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()


def version_for(webhook: Object) -> str:
    """The version of reviews that a webhook takes; raises CallFailed where it knows none of ours."""
    taken = webhook.get("admissionReviewVersions") or ()
    for one in taken:
        if one in VERSIONS:
            return str(one)
    raise CallFailed("webhook does not accept known AdmissionReview versions (v1, v1beta1)")


# Answers -------------------------------------------------------------------------------------------------------------


def verdict_of(body: bytes, *, uid: str, version: str, is_mutating: bool) -> Verdict:
    """What an answer says; raises CallFailed where it is none, in Kubernetes' words."""
    try:
        review: Any = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise CallFailed(f"couldn't get version/kind; json parse error: {problem}") from None
    if not isinstance(review, dict) or depth_of(review) > MOST_DEPTH:
        raise CallFailed("couldn't get version/kind; json parse error: the answer is no object")
    wanted = f"{GROUP}/{version}"
    if version == "v1" and (review.get("apiVersion"), review.get("kind")) != (wanted, "AdmissionReview"):
        found = str(review.get("apiVersion") or "")[:100], str(review.get("kind") or "")[:100]
        raise CallFailed(f'no kind "{found[1]}" is registered for version "{found[0]}"')
    response = review.get("response")
    if not isinstance(response, dict):
        raise CallFailed("webhook response was absent", step=_INVALID)
    if version == "v1" and response.get("uid") != uid:
        raise CallFailed(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"', step=_INVALID)
    status = response.get("status")
    warnings = response.get("warnings")
    return Verdict(
        is_allowed=response.get("allowed") is True,
        status=status if isinstance(status, dict) else {},
        patch=_patch_in(response, is_mutating=is_mutating, is_strict=version == "v1"),
        patch_type=str(response.get("patchType") or "")[:100],
        warnings=tuple(str(one)[:_WARNING_CHARACTERS] for one in warnings) if isinstance(warnings, list) else (),
    )


def _patch_in(response: Object, *, is_mutating: bool, is_strict: bool) -> bytes:
    given, kind = response.get("patch"), response.get("patchType")
    if not is_mutating:
        if is_strict and given:
            raise CallFailed("validating webhook may not return response.patch", step=_INVALID)
        if is_strict and kind:
            raise CallFailed("validating webhook may not return response.patchType", step=_INVALID)
        return b""
    if is_strict and given and not kind:
        raise CallFailed("webhook returned response.patch but not response.patchType", step=_INVALID)
    if is_strict and kind and not given:
        raise CallFailed("webhook returned response.patchType but not response.patch", step=_INVALID)
    if not given:
        return b""
    try:
        return base64.b64decode(str(given), validate=True)
    except binascii.Error:
        raise CallFailed("the patch is no base64") from None


def patched(given: Object, verdict: Verdict) -> Object:
    """The object after a webhook's patch; `given` is used up. Raises CallFailed, or Problem where it does not fit."""
    try:
        operations = json.loads(verdict.patch)
    except (ValueError, RecursionError) as problem:
        raise CallFailed(str(problem), step=_UNDECODABLE) from None
    if not isinstance(operations, list):
        what = "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        raise CallFailed(what, step=_UNDECODABLE)
    if verdict.patch_type not in ("", "JSONPatch"):
        raise CallFailed(f'unsupported patch type "{verdict.patch_type}"')
    try:
        return apply_patch(JSON_PATCH, given, verdict.patch, None)
    except Problem as problem:
        raise internal_error(problem.message) from None


def denial(name: str, status: Object) -> Problem:
    """The answer to a write that a webhook does not allow."""
    denied = f'admission webhook "{name}" denied the request'
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    code = status.get("code")
    told = f"{denied}: {message or reason}" if message or reason else f"{denied} without explanation"
    details = status.get("details")
    return Problem(
        code if isinstance(code, int) and 400 <= code < 600 else 400,
        reason,
        told,
        details=details if isinstance(details, dict) else None,
    )
