"""The same writes to Muster's rules and to a real server, and what each says: code, causes, object.

Both sides only try: nothing is kept. What the two may differ in is said here and in `differences`, and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from http.client import RemoteDisconnected
from pathlib import Path
from random import Random
from typing import Any

import yaml

from muster.apiserver import statuses
from muster.apiserver.facts import KINDS, Kind
from muster.apiserver.field_checks import read_body
from muster.apiserver.kinds import BUILTIN
from muster.apiserver.kinds.base import resource_of
from muster.apiserver.kinds.pods import with_priority
from muster.apiserver.patches import apply_patch, read_patched
from muster.apiserver.served import Served
from muster.store.clock import VirtualClock
from muster.store.identities import Identities
from muster.store.memory import MemoryStore
from muster.store.objects import By, Objects, decode
from muster.store.records import Key
from tests.kubernetes.client import Answer, Client

Json = dict[str, Any]
NO_ANSWER = 0  # the real server has hung up, which it does where its own rules crash
START_S = 1_700_000_000.0
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWN = ("uid", "creationTimestamp", "resourceVersion", "managedFields")


@cache
def samples() -> tuple[Json, ...]:
    """The objects of objects.yaml and objects_rarer.yaml."""
    texts = [Path(__file__).with_name(name).read_text() for name in ("objects.yaml", "objects_rarer.yaml")]
    return tuple(json.loads(json.dumps(one)) for text in texts for one in yaml.safe_load_all(text))


def kind_of(item: Json) -> Kind:
    group, _, version = item["apiVersion"].rpartition("/")
    return KINDS[group, version, item["kind"]]


def label_of(item: Json) -> str:
    return f"{item['kind']} {item['metadata']['name']}"


def path_of(kind: Kind, name: str = "") -> str:
    """Where a kind's objects are."""
    start = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    where = "/namespaces/default" if kind.is_namespaced else ""
    return f"{start}{where}/{kind.plural}" + (f"/{name}" if name else "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a server says to a write."""

    code: int
    causes: frozenset[tuple[str, str]] = frozenset()  # field and reason
    body: Json | None = None
    message: str = ""

    @property
    def outcome(self) -> tuple[int, frozenset[tuple[str, str]]]:
        return self.code, self.causes


def _verdict(code: int, body: Json) -> Verdict:
    if code < 300:
        return Verdict(code, body=_comparable(body))
    causes = (body.get("details") or {}).get("causes") or ()
    named = frozenset((one.get("field", ""), one["reason"]) for one in causes)
    return Verdict(code, named, message=body.get("message", ""))


def _comparable(body: Json) -> Json:
    """An object without what each server makes up, and without nulls, which mean the same as nothing."""
    uid = body["metadata"].get("uid", "")
    born = body["metadata"].get("creationTimestamp", "")
    text = json.dumps(body)
    for own, name in ((uid, "the-uid"), (born, "the-time")):
        text = text.replace(f'"{own}"', f'"{name}"') if own else text
    body = _without_nulls(json.loads(text))
    if _UID.fullmatch(body["metadata"].get("name", "")) or body["metadata"].get("name") == "the-uid":
        body["metadata"]["name"] = "a-name-of-chance"
    for name in _OWN:
        body["metadata"].pop(name, None)
    return body


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


class Ours:
    """Muster's rules over a memory store, spoken to as the routes do."""

    def __init__(self) -> None:
        self.store = MemoryStore(VirtualClock(START_S))
        self.objects = Objects(BUILTIN, VirtualClock(START_S), identities=Identities(Random(0)), has_namespaces=False)

    def create(self, item: Json, *, is_dry_run: bool = True) -> Verdict:
        """Try to create an object."""
        kind = kind_of(item)
        by = By(is_dry_run=is_dry_run)

        def write() -> Json:
            given = _in_namespace(read_body(deepcopy(item), kind.type_name).value, kind)
            if kind.kind == "Pod":
                given = with_priority(given, {})
            return decode(self.store.write(self.objects.create(resource_of(kind), given, by)).record)

        return self._told(kind, item, 201, write)

    def update(self, item: Json) -> Verdict:
        """Try to replace the object of this name."""
        kind = kind_of(item)

        def write() -> Json:
            given = _in_namespace(read_body(deepcopy(item), kind.type_name).value, kind)
            change = self.objects.update(self.key(item), given, by=By(is_dry_run=True))
            return decode(self.store.write(change).record)

        return self._told(kind, item, 200, write)

    def patch(self, item: Json, content_type: str, patch: Any) -> Verdict:
        """Try to patch the object of this name."""
        kind = kind_of(item)

        def how(before: Json) -> Json:
            after = apply_patch(content_type, before, json.dumps(patch).encode(), kind)
            return read_patched(after, kind).value

        def write() -> Json:
            change = self.objects.modify(self.key(item), how, by=By(is_dry_run=True))
            return decode(self.store.write(change).record)

        return self._told(kind, item, 200, write)

    def key(self, item: Json) -> Key:
        kind = kind_of(item)
        return Key(resource_of(kind), "default" if kind.is_namespaced else "", item["metadata"]["name"])

    def _told(self, kind: Kind, item: Json, code: int, write: Any) -> Verdict:
        served = Served(kind, BUILTIN[resource_of(kind)])
        metadata = item.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        try:
            return _verdict(code, write())
        except Exception as error:
            problem = statuses.problem_of(error, served, str(name or ""))
            if problem is None:
                raise
            return _verdict(problem.code, problem.status())


def _in_namespace(item: Json, kind: Kind) -> Json:
    if kind.is_namespaced:
        item["metadata"].setdefault("namespace", "default")
    return item


@dataclass(frozen=True, slots=True)
class Theirs:
    """A real server."""

    client: Client

    def create(self, item: Json, *, is_dry_run: bool = True) -> Verdict:
        path = path_of(kind_of(item)) + ("?dryRun=All" if is_dry_run else "")
        try:
            return self._told(self.client.request("POST", path, item))
        except RemoteDisconnected:
            return Verdict(NO_ANSWER)

    def update(self, item: Json) -> Verdict:
        path = path_of(kind_of(item), item["metadata"]["name"])
        revision = self._revision(path)
        while True:
            # Some kinds of the real server's take no update that does not say of which state.
            given = {**item, "metadata": {**item["metadata"], "resourceVersion": revision}}
            try:
                answer = self.client.request("PUT", f"{path}?dryRun=All", given)
            except RemoteDisconnected:
                return Verdict(NO_ANSWER)
            before, revision = revision, self._revision(path) if answer.status == 409 else revision
            if revision == before:  # else the real server has itself written to the object meanwhile
                return self._told(answer)

    def _revision(self, path: str) -> str:
        revision: str = self.client.request("GET", path).json["metadata"]["resourceVersion"]
        return revision

    def patch(self, item: Json, content_type: str, patch: Any) -> Verdict:
        path = path_of(kind_of(item), item["metadata"]["name"])
        try:
            return self._told(self.client.request("PATCH", f"{path}?dryRun=All", patch, content_type=content_type))
        except RemoteDisconnected:
            return Verdict(NO_ANSWER)

    def delete(self, item: Json) -> None:
        """Delete an object for good, whatever holds it: there are no controllers to wait for."""
        path = path_of(kind_of(item), item["metadata"]["name"])
        self.client.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        if item["kind"] == "Namespace":
            self.client.request("PUT", f"{path}/finalize", {**item, "spec": {"finalizers": []}})
        freed = {"metadata": {"finalizers": None}}
        self.client.request("PATCH", path, freed, content_type="application/merge-patch+json")

    def _told(self, answer: Answer) -> Verdict:
        return _verdict(answer.status, answer.json)


# Many questions at once -----------------------------------------------------------------------------------------------

WORKERS = 8  # that ask the real server: it answers faster than one client asks


@dataclass(frozen=True, slots=True)
class Question:
    """One write, and what is odd about it."""

    what: str
    item: Json
    content_type: str = ""  # of a patch
    patch: Any = None


@contextmanager
def kept(ours: Ours, theirs: Theirs, item: Json) -> Iterator[None]:
    """An object that both have while it is written to."""
    theirs.delete(item)
    verdicts = [ours.create(item, is_dry_run=False), theirs.create(item, is_dry_run=False)]
    assert [one.code for one in verdicts] == [201, 201], [one.message for one in verdicts]
    try:
        yield
    finally:
        theirs.delete(item)


def asked(ask: Callable[[Question], Verdict], questions: Sequence[Question]) -> list[Verdict]:
    """What a server says to each question."""
    with ThreadPoolExecutor(WORKERS) as workers:
        return list(workers.map(ask, questions))


# Objects that are not quite right ------------------------------------------------------------------------------------

_TEXTS = ("", "Not Valid!", "x" * 70)
_NUMBERS = (-1, 0, 70_000)


def broken(item: Json) -> Iterator[tuple[str, Json]]:
    """Copies of an object with one value changed each, and what was changed."""
    for path in _paths(item, ()):
        if path[0] in ("apiVersion", "kind"):
            continue
        for what, value in _replacements(_at(item, path)):
            copy = deepcopy(item)
            holder = _at(copy, path[:-1])
            if what == "without":
                del holder[path[-1]]
            else:
                holder[path[-1]] = value
            yield f"{_text(path)} {what}", copy


def _paths(value: Any, above: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in parts:
        yield (*above, name)
        yield from _paths(one, (*above, name))


def _replacements(value: Any) -> Iterator[tuple[str, Any]]:
    yield "without", None
    yield "null", None
    if isinstance(value, str):
        yield from ((f"= {text[:12]!r}", text) for text in _TEXTS)
        yield "= 7", 7
    elif isinstance(value, bool):
        yield "negated", not value
    elif isinstance(value, (int, float)):
        yield from ((f"= {number}", number) for number in _NUMBERS)
        yield "= text", "many"
    elif isinstance(value, list):
        yield "emptied", []
        yield "= text", "many"
        if value:
            yield "doubled", [*value, deepcopy(value[0])]
    else:
        yield "emptied", {}
        yield "= text", "many"


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def _text(path: tuple[Any, ...]) -> str:
    text = ""
    for name in path:
        text += f"[{name}]" if isinstance(name, int) else f".{name}" if text else str(name)
    return text
