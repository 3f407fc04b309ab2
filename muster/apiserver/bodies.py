"""Objects as clients send them, read into their types, with what is odd about them said or refused. Used by writes."""

from __future__ import annotations

from collections.abc import Sequence

from muster.apiserver import field_checks, patches, protobuf, statuses
from muster.apiserver.answers import encode
from muster.apiserver.kinds.problems import invalid
from muster.apiserver.requests import Request, read_object
from muster.apiserver.served import Served
from muster.apiserver.statuses import bad_request, forbidden, invalid_options
from muster.model.errors import InvalidObject
from muster.store.kinds import Object
from muster.store.records import Key

_LEVELS = ("", "Ignore", "Strict", "Warn")
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


async def read_given(request: Request, served: Served) -> Object:
    """The object of a request's body, as its type has it."""
    level = validation_level(request)
    body = await request.body()
    kind = served.kind
    given = read_object(request, body, kind.kind)
    may_repeat = request.content_type in ("application/json", "") and _may_repeat(body, given)
    if served.custom is not None:
        twice = field_checks.strict_problems(body, []) if may_repeat and level != "Ignore" else []
        return read_custom(request, given, served, level=level, repeated=twice)
    _check_kind(given, served)
    request.object_name = _name_in(given)
    if not kind.type_name:
        return _own_kind(request, given, level)
    read = field_checks.read_body(given, kind.type_name)
    if level != "Ignore" and request.content_type != protobuf.CONTENT_TYPE:
        odd = field_checks.strict_problems(body if may_repeat else b"{}", read.unknown)
        repeated = request.repeated
        if level == "Strict" and (odd or repeated):
            in_yaml = ["\n  ".join(("yaml: unmarshal errors:", *repeated))] if repeated else []
            raise field_checks.strict_refusal(given, kind.type_name, in_yaml + odd)
        request.warn((*repeated, *odd))
    return read.value


def checked_after_patch(request: Request, after: Object, served: Served) -> Object:
    """The object that a patch has left, as its type has it."""
    level = validation_level(request)
    kind = served.kind
    if served.custom is not None:
        return read_custom(request, after, served, level=level)
    if not kind.type_name:
        return _own_kind(request, after, level)
    read = patches.read_patched(after, kind)
    odd = field_checks.unknown_problems(read.unknown) if level != "Ignore" else []
    if odd and level == "Strict":
        raise patches.bad_result(f"strict decoding error: {', '.join(odd)}")
    request.warn(odd)
    return read.value


def validation_level(request: Request) -> str:
    """What to do about fields that a kind does not have; Warn unless the client says otherwise."""
    level = request.option("fieldValidation")
    if level not in _LEVELS:
        known = ", ".join(f'"{one}"' for one in _LEVELS)
        why = f'Unsupported value: "{level[:100]}": supported values: {known}'
        raise invalid_options(_OPTIONS.get(request.method, "UpdateOptions"), "fieldValidation", why)
    return level or "Warn"


def _may_repeat(body: bytes, given: Object) -> bool:
    """Whether a JSON text may have a field twice: it then has more colons after quotes than what was read of it."""
    return b"\\u" in body or body.count(b'":') != encode(given).count(b'":')


def _name_in(given: Object) -> str:
    metadata = given.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else ""
    return name if isinstance(name, str) else ""


def _check_kind(given: Object, served: Served) -> None:
    """A body is of the kind that its path names; one that says nothing is taken to be."""
    wanted, wanted_version = served.kind.kind, served.api_version
    kind, version = given.get("kind") or wanted, given.get("apiVersion") or wanted_version
    if (kind, version) != (wanted, wanted_version):
        said = str(version).rpartition("/")[2]
        raise bad_request(f'{kind} in version "{said}" cannot be handled as a {wanted} in version "{wanted_version}"')
    given.update(kind=kind, apiVersion=version)


def _own_kind(request: Request, given: Object, level: str) -> Object:
    """An object of a dialect's own kind."""
    from muster.dialects.kueue.validate import problems_of, unknown_fields_of  # Only when one of these is written.

    # What is wrong with it is for its rules to say; what is odd about it, only the one who sent it can be told.
    request.warn(str(one) for one in problems_of(given)[1])
    if level == "Ignore":
        return given
    unknown: tuple[InvalidObject, ...] = unknown_fields_of(given)
    odd = [*request.repeated, *field_checks.unknown_problems([one.path for one in unknown])]
    if odd and level == "Strict":
        raise bad_request(f"strict decoding error: {', '.join(odd)}")
    request.warn(odd)
    return given


def read_custom(request: Request, given: Object, served: Served, *, level: str, repeated: Sequence[str] = ()) -> Object:
    """An object of a kind that a definition describes, in the form of its schema."""
    custom, kind = served.custom, served.kind
    assert custom is not None, f"{kind.kind} has no definition"
    if not given.get("kind"):
        text = encode(given).decode()
        why = f"Object 'Kind' is missing in '{text[:1000]}'"
        raise bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {why}")
    request.object_name = _name_in(given)
    is_patch = request.method == "PATCH"
    if request.method == "POST" and custom.definition.is_terminating:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(Key(served.resource, "", request.object_name), why)
    if given["kind"] != kind.kind:
        problem = invalid("kind", given["kind"], f"must be {kind.kind}")
        raise statuses.invalid(str(given["kind"]), kind.group, request.object_name, problem)
    if (version := given.get("apiVersion")) != served.api_version:
        if is_patch:
            raise invalid("apiVersion", version, f"must be {served.api_version}")
        shown = f"the API version in the data ({version or ''})"
        raise bad_request(f"{shown} does not match the expected API version ({served.api_version})")
    if given.get("metadata") is None:
        given["metadata"] = {}
    start = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    try:
        unknown = custom.read(given)
    except field_checks.Mismatch as problem:
        raise bad_request(f"{start}: {problem}") from None
    if level == "Ignore":
        return given
    odd = [*repeated, *request.repeated, *(f'unknown field "{path}"' for path in unknown)]
    if odd and level == "Strict":
        words = f"strict decoding error: {', '.join(odd)}"
        raise invalid("patch", "", words) if is_patch else bad_request(f"{start}: {words}")
    request.warn(odd)
    return given
