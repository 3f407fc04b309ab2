"""AdmissionReview as a real API server sends it, and the answer to it. Pure; used by `asgi`."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from muster.apiserver.answers import encode
from muster.apiserver.hooks.differences import patch_between
from muster.apiserver.requests import User
from muster.apiserver.statuses import Problem, bad_request
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object

API_VERSION = "admission.k8s.io/v1"
_MOST_WARNINGS = 20
_WARNING_CHARACTERS = 256  # Kubernetes shows no more of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A write that an API server asks about."""

    uid: str
    resource: str  # as the store calls it: `pods`, `jobs.batch`
    group: str
    kind: str
    subresource: str
    operation: str
    name: str
    namespace: str
    user: User
    object: Object | None
    before: Object | None

    @property
    def is_new(self) -> bool:
        return self.operation == "CREATE"


def read_review(review: Object) -> Asked:
    """The question in a review; raises Problem where it is none."""
    try:
        return _read(Fields.of(review))
    except InvalidObject as problem:
        raise bad_request(f"the AdmissionReview cannot be read: {problem}") from None


def _read(review: Fields) -> Asked:
    if (review.text("apiVersion"), review.text("kind")) != (API_VERSION, "AdmissionReview"):
        raise review.error(
            "apiVersion", "is not of a review that is known here", f"send an AdmissionReview {API_VERSION}"
        )
    request = review.child("request")
    if not request.text("uid"):
        raise request.error("uid", "is missing", "send the uid of the request")
    resource, kind = request.child("resource"), request.child("kind")
    group = resource.text("group")
    return Asked(
        uid=request.text("uid"),
        resource=f"{resource.text('resource')}.{group}" if group else resource.text("resource"),
        group=kind.text("group"),
        kind=kind.text("kind"),
        subresource=request.text("subResource"),
        operation=request.text("operation"),
        name=request.text("name"),
        namespace=request.text("namespace"),
        user=_user(request.child("userInfo")),
        object=_object_in(request, "object"),
        before=_object_in(request, "oldObject"),
    )


def _user(given: Fields) -> User:
    extra = given.child("extra")
    known = tuple((name, extra.texts(name)) for name in extra.values)
    return User(given.text("username"), given.texts("groups"), given.text("uid"), known)


def _object_in(request: Fields, name: str) -> Object | None:
    """An object whose metadata can be looked into; what else is wrong with it is for the rules to say."""
    if not request.has(name):
        return None
    given = request.child(name)
    given.child("metadata").text_map("labels")
    given.child("metadata").text_map("annotations")
    return dict(given.values)


def allowed(asked: Asked, *, after: Object | None = None, warnings: Iterable[str] = ()) -> Object:
    """The answer that lets a write through, changed into `after` where that is given."""
    response: dict[str, Any] = {"uid": asked.uid, "allowed": True}
    operations = patch_between(asked.object, after) if asked.object is not None and after is not None else []
    if operations:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(encode(operations)).decode()}
    told = [one[:_WARNING_CHARACTERS] for one in dict.fromkeys(warnings)][:_MOST_WARNINGS]
    if told:
        response["warnings"] = told
    return _review(response)


def denied(asked: Asked, problem: Problem) -> Object:
    """The answer that does not let a write through, and why not."""
    return _review({"uid": asked.uid, "allowed": False, "status": problem.status()})


def _review(response: Object) -> Object:
    return {"kind": "AdmissionReview", "apiVersion": API_VERSION, "response": response}
