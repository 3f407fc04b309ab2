"""What the server answers when it cannot do what was asked: Status objects with Kubernetes' codes, reasons and words.

Handlers raise `Problem`; whatever else a store or a rule raises is made one by `problem_of`. Called by the routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from muster.apiserver.served import Served
from muster.model.errors import InvalidObject, InvalidObjects
from muster.store.errors import AlreadyExists, Conflict, Expired, Forbidden, NotFound, Refused, TooNew, Unavailable
from muster.store.records import Key

Json = dict[str, Any]
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_SHOWN_CHARACTERS = 2_000  # of a message: it may quote what the client sent

# How the sentence about a field begins says what kind of mistake it is.
_CAUSES = {
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Invalid type": "FieldValueTypeInvalid",
    "Internal error": "InternalError",
    "Invalid value": "FieldValueInvalid",
    "is missing": "FieldValueRequired",  # as the store's own rules say it
}


class Problem(Exception):
    """An answer that says why not."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message[:_SHOWN_CHARACTERS]
        self.details = details
        self.continue_token = continue_token

    def status(self) -> Json:
        """The Status object that clients get."""
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        answer: Json = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
        answer["message"] = self.message
        if self.reason:
            answer["reason"] = self.reason
        if self.details is not None:
            answer["details"] = self.details
        return {**answer, "code": self.code}

    @property
    def retry_after_s(self) -> int:
        """When to ask again, where that is known."""
        return int((self.details or {}).get("retryAfterSeconds", 0))


def named(key: Key) -> str:
    """An object as messages name it: `pods "a"`, `jobs.batch "b"`."""
    return f'{key.resource} "{key.name}"'


def about(key: Key) -> Json:
    """The details that say which object a problem is about."""
    plural, _, group = key.resource.partition(".")
    details = {"name": key.name, "group": group, "kind": plural}
    return {name: value for name, value in details.items() if value}


def bad_request(message: str) -> Problem:
    return Problem(400, "BadRequest", message)


def no_such_route() -> Problem:
    return Problem(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> Problem:
    message = "the server does not allow this method on the requested resource"
    return Problem(405, "MethodNotAllowed", message, details={})


def too_many(message: str, *, after_s: int = 1) -> Problem:
    return Problem(429, "TooManyRequests", message, details={"retryAfterSeconds": after_s})


def conflict(key: Key, problem: str) -> Problem:
    """Somebody else was faster, or the object is not the one that was meant."""
    message = f"Operation cannot be fulfilled on {named(key)}: {problem}"
    return Problem(409, "Conflict", message, details=about(key))


def forbidden(key: Key, problem: str, causes: Sequence[Json] = ()) -> Problem:
    details = {**about(key), **({"causes": list(causes)} if causes else {})}
    return Problem(403, "Forbidden", f"{named(key)} is forbidden: {problem}", details=details)


def invalid(kind: str, group: str, name: str, error: InvalidObject) -> Problem:
    """What is wrong with an object, each mistake with its field."""
    causes = [_cause(one) for one in (error.problems if isinstance(error, InvalidObjects) else (error,))]
    sentences = [f"{one['field']}: {one['message']}" if one["field"] else one["message"] for one in causes]
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    full_kind = f"{kind}.{group}" if group else kind
    details = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    return Problem(422, "Invalid", f'{full_kind} "{name}" is invalid: {text}', details={**details, "causes": causes})


def _cause(error: InvalidObject) -> Json:
    told = next((reason for words, reason in _CAUSES.items() if error.problem.startswith(words)), "")
    reason = error.cause or told
    if error.problem == "is missing":
        message = f"Required value: {error.hint}"
    elif reason:
        message = f"{error.problem}: {error.hint}" if error.hint else error.problem
    else:
        # A rule of Muster's own that says what to do about it.
        message = f"Invalid value: {error.problem}" + (f"; {error.hint}" if error.hint else "")
    return {"reason": reason or "FieldValueInvalid", "message": message, "field": error.path}


def invalid_options(kind: str, field: str, problem: str) -> Problem:
    """A parameter of the request that has no such value; `kind` is of meta.k8s.io, such as ListOptions."""
    return invalid(kind, "meta.k8s.io", "", InvalidObject(field, problem))


def expired(message: str, *, continue_token: str = "") -> Problem:
    """What was asked for is no longer known: list anew."""
    return Problem(410, "Expired", message, continue_token=continue_token)


def problem_of(error: Exception, served: Served | None, name: str) -> Problem | None:
    """The answer to what a store or a rule has raised; `None` for what should not have happened."""
    match error:
        case Problem():
            return error
        case InvalidObject():
            kind = served.kind if served is not None else None
            return invalid(kind.kind if kind else "", kind.group if kind else "", name, error)
        case NotFound():
            return Problem(404, "NotFound", f"{named(error.key)} not found", details=about(error.key))
        case AlreadyExists():
            message = "object is being deleted: " * error.is_deleting + f"{named(error.key)} already exists"
            return Problem(409, "AlreadyExists", message, details=about(error.key))
        case Conflict():
            return conflict(error.key, error.problem)
        case Refused():
            return _refused(error)
        case Forbidden():
            return forbidden(error.key, error.problem)
        case Expired():
            return expired(f"too old resource version: {error.asked} ({error.oldest})")
        case TooNew():
            return too_new(error)
        case Unavailable():
            return Problem(503, "ServiceUnavailable", error.reason, details={"retryAfterSeconds": 1})
        case msgspec.MsgspecError() | RecursionError():
            return bad_request(f"the object cannot be read: {error}")
    return None


def _refused(error: Refused) -> Problem:
    """The one thing that stands in the way of a write elsewhere is a namespace that is being deleted."""
    namespace = error.key.namespace
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(error.key, why, [cause])


def too_new(error: TooNew) -> Problem:
    """A revision that is still to come."""
    message = f"Timeout: Too large resource version: {error.asked}, current: {error.newest}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Problem(504, "Timeout", message, details={"causes": causes, "retryAfterSeconds": 1})


def internal_error(why: str) -> Problem:
    """What is said where something that the server needs does not work, or is used up."""
    message = f"Internal error occurred: {why}"
    return Problem(500, "InternalError", message, details={"causes": [{"message": why}]})
