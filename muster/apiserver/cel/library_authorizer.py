"""Questions about rights, asked step by step: authorizer.group("").resource("pods").check("create").allowed().

Whoever evaluates an expression with an `authorizer` gives it a function that answers. Collected by `functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from muster.apiserver.cel.signatures import overload
from muster.apiserver.cel.values import Opaque

CHECK_STEPS = 350_000  # Kubernetes' price of one question


class Asked(NamedTuple):
    """What somebody wants to do: to a resource, or with a path that is none."""

    account: tuple[str, str] = ("", "")  # namespace and name of a service account that is asked about instead
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str | None = None


NOTHING = Asked()
Answers = Callable[[str, Asked], tuple[bool, str]]  # the verb: whether it is allowed, and why


@dataclass(frozen=True, slots=True)
class AuthorizerValue(Opaque):
    """Somebody who may be asked about."""

    type_name: ClassVar[str] = "kubernetes.authorization.Authorizer"
    answers: Answers
    asked: Asked = NOTHING

    def about(self, field: str, text: str) -> Asked:
        """The question with more of it known."""
        more: dict[str, Any] = {field: text}
        return self.asked._replace(**more)


@dataclass(frozen=True, slots=True)
class PathCheck(AuthorizerValue):
    type_name: ClassVar[str] = "kubernetes.authorization.PathCheck"


@dataclass(frozen=True, slots=True)
class GroupCheck(AuthorizerValue):
    type_name: ClassVar[str] = "kubernetes.authorization.GroupCheck"


@dataclass(frozen=True, slots=True)
class ResourceCheck(AuthorizerValue):
    type_name: ClassVar[str] = "kubernetes.authorization.ResourceCheck"


@dataclass(frozen=True, slots=True)
class Decision(Opaque):
    """An answer; one that could not be found does not happen here."""

    type_name: ClassVar[str] = "kubernetes.authorization.Decision"
    is_allowed: bool
    reason: str


def _checked(value: AuthorizerValue, verb: str) -> Decision:
    return Decision(*value.answers(verb, value.asked))


def _asking(_value: AuthorizerValue, _verb: str) -> int:
    return CHECK_STEPS


def _account(value: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    return replace(value, asked=value.asked._replace(account=(namespace, name)))


def _more(made: type[AuthorizerValue], field: str) -> Callable[[AuthorizerValue, str], AuthorizerValue]:
    return lambda value, text: made(value.answers, value.about(field, text))


OVERLOADS = [
    overload("authorizer.path(string) -> pathcheck", _more(PathCheck, "path")),
    overload("authorizer.group(string) -> groupcheck", _more(GroupCheck, "group")),
    overload("authorizer.serviceAccount(string, string) -> authorizer", _account),
    overload("groupcheck.resource(string) -> resourcecheck", _more(ResourceCheck, "resource")),
    overload("resourcecheck.subresource(string) -> resourcecheck", _more(ResourceCheck, "subresource")),
    overload("resourcecheck.namespace(string) -> resourcecheck", _more(ResourceCheck, "namespace")),
    overload("resourcecheck.name(string) -> resourcecheck", _more(ResourceCheck, "name")),
    overload("resourcecheck.check(string) -> decision", _checked, _asking),
    overload("pathcheck.check(string) -> decision", _checked, _asking),
    overload("decision.allowed() -> bool", lambda value: value.is_allowed),
    overload("decision.reason() -> string", lambda value: value.reason),
    overload("decision.errored() -> bool", lambda _: False),
    overload("decision.error() -> string", lambda _: ""),
]
