"""Objects of a definition in another of its versions: by name alone, or by asking a webhook. Used by `kinds`.

What a webhook has to be asked for is asked outside of any write: `converted` raises Unconverted, whoever handles the
request has `prepare` ask, and begins anew. Answers are remembered, so that the second time is the last.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.apiserver.definitions.schemas import is_same, text_of
from muster.apiserver.definitions.shaping import copied
from muster.apiserver.outgoing import CallFailed, Client, endpoint_of, services_in_environment
from muster.apiserver.statuses import Problem

Json = dict[str, Any]
_REMEMBERED_S = 60.0
_REMEMBERED_BYTES = 32 * 1024 * 1024
OBJECTS_A_CALL = 500
_TIMEOUT_S = 30
_ANSWER_BYTES = 32 * 1024 * 1024
_CHANGEABLE = ("labels", "annotations")


class Converter(Protocol):
    """Turns an object of one version into another."""

    def converted(self, given: Json, api_version: str) -> Json:
        """The object in another version."""


class ByName:
    """All versions look alike: only the name of the version changes."""

    def converted(self, given: Json, api_version: str) -> Json:
        return {**given, "apiVersion": api_version}


class Unconverted(Exception):
    """An object that a webhook has to be asked about first."""

    def __init__(self, converter: ByWebhook, objects: list[Json], api_version: str) -> None:
        super().__init__(f"not converted to {api_version} yet")
        self.converter = converter
        self.objects = objects
        self.api_version = api_version

    async def prepare(self) -> None:
        """Ask for what was missing."""
        await self.converter.prepare(self.objects, self.api_version)


@dataclass(slots=True)
class ByWebhook:
    """Asks a server of the user's, and remembers its answers."""

    config: Json  # where it is
    _known: OrderedDict[tuple[bytes, str], tuple[float, Json]] = field(default_factory=OrderedDict)
    _size_bytes: int = 0
    _client: Client = field(default_factory=lambda: Client(kept=0, most_bytes=_ANSWER_BYTES))

    def converted(self, given: Json, api_version: str) -> Json:
        found = self._fresh((_told_apart_by(given), api_version))
        if found is None:
            raise Unconverted(self, [given], api_version)
        made: Json = copied(found)
        return _with_metadata(given, made)

    async def prepare(self, objects: Sequence[Json], api_version: str) -> None:
        """Have objects converted, all in one call, and remember them."""
        missing = [one for one in objects if self._fresh((_told_apart_by(one), api_version)) is None]
        for start in range(0, len(missing), OBJECTS_A_CALL):
            some = missing[start : start + OBJECTS_A_CALL]
            answers = await self._ask(some, api_version)
            for given, answer in zip(some, answers, strict=True):
                self._remember(given, api_version, answer)

    def _fresh(self, key: tuple[bytes, str]) -> Json | None:
        """An answer that is not too old: whoever mends a webhook wants to see it."""
        asked_s, found = self._known.get(key, (0.0, None))
        return found if found is not None and time.monotonic() - asked_s < _REMEMBERED_S else None

    def _remember(self, given: Json, api_version: str, answer: Json) -> None:
        key = (_told_apart_by(given), api_version)
        self._known.pop(key, None)
        self._known[key] = (time.monotonic(), answer)
        self._size_bytes += 2 * len(key[0])
        while self._size_bytes > _REMEMBERED_BYTES and len(self._known) > OBJECTS_A_CALL:
            (text, _), _ = self._known.popitem(last=False)
            self._size_bytes -= 2 * len(text)

    async def _ask(self, objects: list[Json], api_version: str) -> list[Json]:
        identity = str(uuid.uuid4())
        review = {
            "kind": "ConversionReview",
            "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": identity, "desiredAPIVersion": api_version, "objects": objects},
        }
        kind = f"{objects[0].get('apiVersion')}, Kind={objects[0].get('kind')}"
        try:
            endpoint = endpoint_of(self.config, services_in_environment())
            body = await self._client.post(endpoint, json.dumps(review).encode(), timeout_s=_TIMEOUT_S)
            return _checked(_read(body), objects, api_version=api_version, identity=identity)
        except CallFailed as failure:
            message = f"conversion webhook for {kind} failed: {failure.problem}"
            raise Problem(500, "InternalError", message, details={}) from None


def _told_apart_by(given: Json) -> bytes:
    """What an answer is remembered under: all of an object but what the server makes up anew for each try."""
    metadata = given.get("metadata") or {}
    names = (*_CHANGEABLE, "namespace") if metadata.get("generateName") else (*_CHANGEABLE, "namespace", "name")
    return text_of({**given, "metadata": {name: metadata[name] for name in names if name in metadata}})


def converter_of(spec: Json) -> Converter:
    """How the objects of a definition are converted."""
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return ByName()
    return ByWebhook(conversion["webhook"]["clientConfig"])


# What a webhook answers ----------------------------------------------------------------------------------------------


def _read(body: bytes) -> Json:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise CallFailed("the answer is no JSON") from None
    if not isinstance(found, dict):
        raise CallFailed("the answer is no object")
    return found


def _checked(answer: Json, objects: list[Json], *, api_version: str, identity: str) -> list[Json]:
    """The objects of an answer; raises CallFailed for whatever a webhook must not do."""
    if answer.get("kind") != "ConversionReview" or answer.get("apiVersion") != "apiextensions.k8s.io/v1":
        raise CallFailed("invalid response: expected a ConversionReview of apiextensions.k8s.io/v1")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise CallFailed("no response provided")
    if response.get("uid") != identity:
        raise CallFailed(f'expected response.uid="{identity}"')
    result = response.get("result")
    told = result if isinstance(result, dict) else {}
    if told.get("status") != "Success":
        raise CallFailed(str(told.get("message") or "the webhook gave no reason"))
    converted = response.get("convertedObjects")
    if not isinstance(converted, list) or len(converted) != len(objects):
        count = len(converted) if isinstance(converted, list) else 0
        raise CallFailed(f"webhook returned {count} objects, expected {len(objects)}")
    for index, (given, one) in enumerate(zip(objects, converted, strict=True)):
        _check_converted(given, one, api_version=api_version, place=f"object at index {index}")
    return converted


def _check_converted(given: Json, one: Any, *, api_version: str, place: str) -> None:
    if not isinstance(one, dict):
        raise CallFailed(f"invalid converted {place}: is no object")
    for name, wanted in (("apiVersion", api_version), ("kind", given.get("kind"))):
        if (actual := one.get(name)) != wanted:
            word = "groupVersion" if name == "apiVersion" else name
            raise CallFailed(f"invalid converted {place}: invalid {word} (expected {wanted}, received {actual})")
    metadata = one.get("metadata")
    if not isinstance(metadata, dict):
        raise CallFailed(f"invalid metadata of converted {place}: missing metadata in converted object")
    before = given.get("metadata") or {}
    for name in ("name", "namespace", "uid"):
        if metadata.get(name) != before.get(name):
            shown = f"{name} must not be changed"
            raise CallFailed(f"invalid metadata of converted {place}: {shown}")


def _with_metadata(given: Json, one: Json) -> Json:
    """Labels and annotations may change in a conversion; everything else stays as it was."""
    metadata = dict(given.get("metadata") or {})
    for name in _CHANGEABLE:
        wanted = one["metadata"].get(name)
        if wanted is None:
            metadata.pop(name, None)
        elif not is_same(wanted, metadata.get(name)):
            metadata[name] = wanted
    return {**one, "metadata": metadata}
