"""Reviews: who am I, what may I do, what may another. They are answered and not kept. Called by `asgi`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from muster.apiserver.answers import Answer, json_answer
from muster.apiserver.api import Api
from muster.apiserver.authentication import Authenticator
from muster.apiserver.requests import Request, Target, User, read_object
from muster.apiserver.rights.access import Access
from muster.apiserver.rights.audit import user_info
from muster.apiserver.rights.rbac import Question, missing_text
from muster.apiserver.statuses import Problem, bad_request, invalid
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.times import moment_text
from muster.store.kinds import Object

_GROUP = "authorization.k8s.io"
_MOST_AUDIENCES = 100


@dataclass(frozen=True, slots=True)
class _Asking:
    """One review: its spec, who asks, and what answers come from."""

    spec: Fields
    user: User
    access: Access
    known: Authenticator
    namespace: str  # of a review that is local


Review = Callable[[_Asking], Object]  # the status of a review


def _own_access(asking: _Asking) -> Object:
    return _judged(asking, asking.user)


def _access(asking: _Asking) -> Object:
    spec = asking.spec
    extra = Fields.of(spec.raw("extra"), "spec.extra")
    given = tuple((key.lower(), extra.texts(key)) for key in extra.values)
    user = User(spec.text("user"), spec.texts("groups"), spec.text("uid"), given)
    if not user.name and not user.groups:
        raise _invalid("spec.user", '"": at least one of user or group must be specified')
    return _judged(asking, user)


def _local_access(asking: _Asking) -> Object:
    attributes = asking.spec.child("resourceAttributes")
    if asking.spec.has("nonResourceAttributes"):
        shown = _shown_path(asking.spec)
        raise _invalid("spec.nonResourceAttributes", f"{shown}: disallowed on this kind of request")
    if asking.spec.has("resourceAttributes") and attributes.text("namespace") != asking.namespace:
        why = f"{json.dumps(attributes.text('namespace'))}: must match metadata.namespace"
        raise _invalid("spec.resourceAttributes.namespace", why)
    return _access(asking)


def _judged(asking: _Asking, user: User) -> Object:
    verdict = asking.access.verdict(user, _question(asking.spec))
    status: Object = {"allowed": verdict.is_allowed}
    return {**status, "reason": verdict.reason} if verdict.reason else status


def _question(spec: Fields) -> Question:
    has_path, has_resource = spec.has("nonResourceAttributes"), spec.has("resourceAttributes")
    if has_path and has_resource:
        why = f"{_shown_path(spec)}: cannot be specified in combination with resourceAttributes"
        raise _invalid("spec.nonResourceAttributes", why)
    if has_path:
        given = spec.child("nonResourceAttributes")
        return Question(given.text("verb"), path=given.text("path"))
    if not has_resource:
        why = "null: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid("spec.resourceAttributes", why)
    given = spec.child("resourceAttributes")
    names = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Question(*(given.text(name) for name in names))


def _shown_path(spec: Fields) -> str:
    given = spec.child("nonResourceAttributes")
    shown = {"Path": given.text("path")[:100], "Verb": given.text("verb")[:100]}
    return json.dumps(shown, separators=(",", ":"))


def _own_rules(asking: _Asking) -> Object:
    namespace = asking.spec.text("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    rules, missing = asking.access.rules_of(asking.user, namespace)
    status: Object = {
        "resourceRules": [one.object() for one in rules if one.resources],
        "nonResourceRules": [one.object() for one in rules if one.paths],
        "incomplete": False,
    }
    return {**status, "evaluationError": missing_text(missing)} if missing else status


def _self(asking: _Asking) -> Object:
    return {"userInfo": user_info(asking.user)}


def _token(asking: _Asking) -> Object:
    token = asking.spec.text("token")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    audiences = asking.spec.texts("audiences")
    if len(audiences) > _MOST_AUDIENCES:
        raise bad_request(f"a review is about at most {_MOST_AUDIENCES} audiences")
    found = asking.known.review(token, audiences)
    if found.user is None:
        return {"user": {}, "error": found.problem}
    return {"authenticated": True, "user": user_info(found.user), "audiences": list(found.audiences)}


def _invalid(field: str, problem: str) -> Problem:
    return invalid("", _GROUP, "", InvalidObject(field, f"Invalid value: {problem}"))


_REVIEWS: dict[str, Review] = {
    "LocalSubjectAccessReview": _local_access,
    "SelfSubjectAccessReview": _own_access,
    "SelfSubjectReview": _self,
    "SelfSubjectRulesReview": _own_rules,
    "SubjectAccessReview": _access,
    "TokenReview": _token,
}


async def review(api: Api, request: Request, target: Target, known: Authenticator) -> Answer:
    """Answer a question about somebody's rights."""
    kind = target.served.kind
    given = read_object(request, await request.body(), kind.kind)
    spec = Fields.of(Fields.of(given).raw("spec"), "spec")
    asking = _Asking(spec, request.user, api.access, known, target.namespace)
    status = _REVIEWS[kind.kind](asking)
    answer: Object = {
        "kind": kind.kind,
        "apiVersion": target.served.api_version,
        "metadata": given.get("metadata") or {},
    }
    if kind.kind == "SelfSubjectReview":
        answer["metadata"] = {"creationTimestamp": moment_text(api.clock.now_s())}
    elif kind.kind == "SelfSubjectRulesReview":
        answer["spec"] = {}  # as Kubernetes leaves it
    else:
        answer["spec"] = given.get("spec") or {}
    return json_answer({**answer, "status": status}, 201)
