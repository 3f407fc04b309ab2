"""ConversionReview: objects of Kueue's kinds in another version, one after the other. Used by `asgi`.

A list of all workloads comes as one review. So objects stay texts until it is their turn, and others get theirs between
them: memory and waiting do not grow with the list more than its text does.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from muster.apiserver.answers import Joined, encode
from muster.apiserver.requests import MOST_DEPTH, depth_of
from muster.apiserver.statuses import bad_request
from muster.dialects.kueue.kinds import VERSIONS
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.versions import to_version
from muster.model.errors import InvalidObject

API_VERSION = "apiextensions.k8s.io/v1"
_AT_ONCE = 50  # objects before others have their turn


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[msgspec.Raw] = []


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


_read = msgspec.json.Decoder(_Review).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode


async def convert(body: bytes) -> Joined:
    """The answer to a review, which may say that something in it cannot be converted."""
    try:
        review = _read(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise bad_request(f"the ConversionReview cannot be read: {problem}") from None
    if (review.api_version, review.kind) != (API_VERSION, "ConversionReview"):
        raise bad_request(f"only ConversionReviews of {API_VERSION} are answered here")
    request = review.request
    try:
        version = _version(request.desired_api_version)
        converted = []
        for number, raw in enumerate(request.objects):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            converted.append(_converted(raw, version, number))
    except InvalidObject as problem:
        return _answer(request.uid, [], {"status": "Failure", "message": str(problem)})
    return _answer(request.uid, converted, {"status": "Success"})


def _version(api_version: str) -> str:
    group, _, version = api_version.partition("/")
    if group != GROUP or version not in VERSIONS:
        known = " or ".join(f"{GROUP}/{one}" for one in VERSIONS)
        raise InvalidObject("request.desiredAPIVersion", f"is {api_version[:100]!r}", f"ask for {known}")
    return version


def _converted(raw: msgspec.Raw, version: str, number: int) -> bytes:
    try:
        given = _object(raw)
        if depth_of(given) > MOST_DEPTH:
            raise InvalidObject("", f"has parts that lie deeper than {MOST_DEPTH}")
        return encode(to_version(given, version))
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise InvalidObject(f"request.objects[{number}]", f"cannot be read: {problem}") from None
    except InvalidObject as problem:
        path = f"request.objects[{number}]" + (f".{problem.path}" if problem.path else "")
        raise InvalidObject(path, problem.problem, problem.hint) from None


def _answer(uid: str, converted: list[bytes], result: dict[str, str]) -> Joined:
    head = {"kind": "ConversionReview", "apiVersion": API_VERSION}
    response = encode({"uid": uid, "result": result})
    start = encode(head)[:-1] + b',"response":' + response[:-1] + b',"convertedObjects":['
    return Joined(start, converted, b"]}}")
