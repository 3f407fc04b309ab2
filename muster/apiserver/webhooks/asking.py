"""The `authorizer` of expressions about writes: what the user who asks may do. Used by conditions and policies."""

from __future__ import annotations

from muster.apiserver.cel.library_authorizer import Asked, AuthorizerValue
from muster.apiserver.requests import User
from muster.apiserver.rights.access import Access
from muster.apiserver.rights.rbac import Question

_ACCOUNT = "system:serviceaccount"


def authorizer_of(access: Access, user: User) -> AuthorizerValue:
    """Answers about a user, or about a service account that an expression names."""

    def answers(verb: str, asked: Asked) -> tuple[bool, str]:
        who = _account(*asked.account) if asked.account != ("", "") else user
        question = Question(
            verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name, asked.path
        )
        verdict = access.verdict(who, question)
        return verdict.is_allowed, verdict.reason

    return AuthorizerValue(answers)


def _account(namespace: str, name: str) -> User:
    groups = (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{namespace}", "system:authenticated")
    return User(f"{_ACCOUNT}:{namespace}:{name}", groups=groups)
