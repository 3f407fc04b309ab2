"""Reviews: who am I, what may I do. They are answered and not kept. Called by `asgi`.

For now whoever has the server's credentials may do everything, and nobody else is let in.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.apiserver.answers import Answer, json_answer
from muster.apiserver.api import Api
from muster.apiserver.authentication import MASTERS, Authenticator
from muster.apiserver.requests import Request, Target, User, read_object
from muster.apiserver.statuses import bad_request
from muster.model.fields import Fields
from muster.model.times import moment_text
from muster.store.kinds import Object

Review = Callable[[Fields, User, Authenticator], Object]  # the status for a review's spec


def _own_access(_spec: Fields, user: User, _known: Authenticator) -> Object:
    return {"allowed": _may_all(user.groups)}


def _access(spec: Fields, _user: User, _known: Authenticator) -> Object:
    return {"allowed": _may_all(spec.texts("groups"))}


def _may_all(groups: tuple[str, ...]) -> bool:
    return MASTERS in groups


def _own_rules(_spec: Fields, user: User, _known: Authenticator) -> Object:
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    everywhere = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    may_all = _may_all(user.groups)
    return {
        "resourceRules": everything if may_all else [],
        "nonResourceRules": everywhere if may_all else [],
        "incomplete": False,
    }


def _self(_spec: Fields, user: User, _known: Authenticator) -> Object:
    return {"userInfo": _info(user)}


def _token(spec: Fields, _user: User, known: Authenticator) -> Object:
    token = spec.text("token")
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    user = known.user_of_token(token)
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": _info(user)}


def _info(user: User) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    return {**info, "uid": user.uid} if user.uid else info


_REVIEWS: dict[str, Review] = {
    "LocalSubjectAccessReview": _access,
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
    status = _REVIEWS[kind.kind](Fields.of(given).child("spec"), request.user, known)
    answer: Object = {
        "kind": kind.kind,
        "apiVersion": target.served.api_version,
        "metadata": given.get("metadata") or {},
    }
    if kind.kind == "SelfSubjectReview":
        answer["metadata"] = {"creationTimestamp": moment_text(api.clock.now_s())}
    else:
        answer["spec"] = given.get("spec") or {}
    return json_answer({**answer, "status": status}, 201)
