"""The same objects to two definitions of a kind on one server, theirs and ours; both must say the same of each.

Used by the tests of the definitions, on our own server and on a real one. Each version is a definition of its own in a
group of its own, so that nobody has to translate and both sets can be there at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from muster.dialects.kueue import definitions as kueue
from muster.dialects.volcano import definitions as volcano
from tests.definition_objects import kueue_objects, volcano_objects
from tests.definitions import original
from tests.dialects.kueue.objects import paths, replaced
from tests.kubernetes.client import Answer

Object = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEARNS_S = 120.0


class Server(Protocol):
    """Whoever answers requests of the Kubernetes API."""

    def request(self, method: str, path: str, body: object = None, /) -> Answer: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One version of a kind, defined twice, and sound objects of it."""

    ours: Object
    theirs: Object
    objects: tuple[Object, ...]

    @property
    def name(self) -> str:
        names, group = self.ours["spec"]["names"], self.ours["spec"]["group"]
        return f"{names['kind']} {group.split('.')[1]}"

    @property
    def has_status(self) -> bool:
        return bool(self.ours["spec"]["versions"][0].get("subresources"))


def pairs() -> Iterator[Pair]:
    """All versions of all kinds; ours are the strict ones."""
    for definition in (*kueue.definitions(None, is_strict=True), *volcano.definitions()):
        theirs = original(definition["metadata"]["name"])
        for version in definition["spec"]["versions"]:
            yield Pair(
                ours=renamed(definition, "ours", version["name"]),
                theirs=renamed(theirs, "theirs", version["name"]),
                objects=tuple(_objects(definition, version["name"])),
            )


def _objects(definition: Object, version: str) -> Iterator[Object]:
    api_version = f"{definition['spec']['group']}/{version}"
    for one in (*kueue_objects(), *volcano_objects()):
        if one["apiVersion"] == api_version and one["kind"] == definition["spec"]["names"]["kind"]:
            yield one


def renamed(definition: Any, side: str, version: str) -> Object:
    """One version of a definition in a group of its own."""
    group = f"{side}.{version}.{definition['spec']['group']}.example.com"
    spec = {**definition["spec"], "group": group}
    spec.pop("conversion", None)
    spec["versions"] = [{**one, "storage": True} for one in spec["versions"] if one["name"] == version]
    return {**definition, "metadata": {"name": f"{spec['names']['plural']}.{group}"}, "spec": spec}


def define(server: Server, pair: Pair) -> None:
    """Give a server both definitions, and wait until it serves them."""
    for definition in (pair.ours, pair.theirs):
        answer = server.request("POST", DEFINITIONS, definition)
        assert answer.status == 201, f"{pair.name}: {answer.json['message']}"
    deadline_s = time.monotonic() + LEARNS_S
    for definition in (pair.ours, pair.theirs):
        while server.request("GET", f"{path_of(definition)}?limit=1").status != 200:
            assert time.monotonic() < deadline_s, f"{pair.name} is not served"


def path_of(definition: Object) -> str:
    """Where the objects of a renamed definition are."""
    spec = definition["spec"]
    where = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{where}{spec['names']['plural']}"


def sent_to(definition: Object, body: Object, metadata: Object) -> Object:
    """An object as it is sent to a renamed definition."""
    spec = definition["spec"]
    return {**body, "apiVersion": f"{spec['group']}/{spec['versions'][0]['name']}", "metadata": metadata}


# Asking -----------------------------------------------------------------------------------------------------------


def verdict(answer: Answer) -> Any:
    """What two definitions must agree on: whether an object is taken, how it is stored, which fields are at fault."""
    body = answer.json
    if answer.status < 300:
        kept = {name: part for name, part in body.items() if name not in ("apiVersion", "metadata")}
        return answer.status, kept, answer.headers.get("warning", "").count("unknown field")
    causes = (body.get("details") or {}).get("causes") or []
    return answer.status, {(one.get("field"), one.get("reason")) for one in causes}


def compare(server: Server, pair: Pair, *, changes: int, seed: str) -> int:
    """Send the objects and changed copies of them to both definitions; gives how many changes were taken."""
    taken = 0
    for number, body in enumerate(pair.objects):
        head = f"{seed} {pair.name} {number}"
        answers = ask(server, pair, ("POST", ""), body)
        assert answers[0].status == 201, f"{head}: the sound object is refused with {answers[0].body!r}"
        if "status" in body and pair.has_status:
            answers = ask(server, pair, ("PUT", "/x/status"), body, held=answers)
            assert answers[0].status == 200, f"{head}: the sound status is refused with {answers[0].body!r}"
        for change in range(changes):
            dice = Random(f"{head} {change}")
            request, changed = _question(body, dice, has_status=pair.has_status)
            taken += ask(server, pair, request, changed, held=answers)[0].status < 300
        for definition in (pair.ours, pair.theirs):
            assert server.request("DELETE", f"{path_of(definition)}/x").status == 200
    return taken


def _question(body: Object, dice: Random, *, has_status: bool) -> tuple[tuple[str, str], Object]:
    """A request with a changed object: as a new one, as the next state of the one there is, or as its next status."""
    changed = body
    part = "status" if has_status and "status" in body and dice.random() < 0.4 else ""
    for _ in range(dice.choice((1, 1, 2))):
        changed = mutated(changed, dice, part=part)
    if part:
        return ("PUT", "/x/status?dryRun=All"), changed
    return ("PUT", "/x?dryRun=All") if dice.random() < 0.5 else ("POST", "?dryRun=All"), changed


def ask(
    server: Server, pair: Pair, request: tuple[str, str], body: Object, *, held: Sequence[Answer] = ()
) -> list[Answer]:
    """Send a request to both definitions, which must be answered alike; `held` is what the objects now are."""
    method, where = request
    answers: list[Answer] = []
    for index, definition in enumerate((pair.ours, pair.theirs)):
        metadata = {"name": "x" if method == "PUT" or not held else "y"}
        if method == "PUT":
            metadata["resourceVersion"] = held[index].json["metadata"]["resourceVersion"]
        answers.append(server.request(method, path_of(definition) + where, sent_to(definition, body, metadata)))
    assert verdict(answers[0]) == verdict(answers[1]), (
        f"{pair.name}: {method} {where} {body}: ours {answers[0].status} {answers[0].body[:2000]!r},"
        f" theirs {answers[1].status} {answers[1].body[:2000]!r}"
    )
    return answers


# Changing ---------------------------------------------------------------------------------------------------------


def mutated(body: Object, dice: Random, *, part: str) -> Object:
    """A copy of an object with one thing changed in its status, or in what is not its status."""
    heads = ("apiVersion", "kind", "metadata", "status")
    parts = [part] if part else [name for name in body if name not in heads]
    places = [(name, *place) for name in parts if name in body for place in ((), *paths(body[name]))]
    if not places:
        return body  # the change before took all there was
    place = dice.choice(places)
    if dice.random() < 0.15:
        return without(body, place)
    fitting = [value for value in _VALUES if type(value) is type(_at(body, place))]
    return replaced(body, place, dice.choice(fitting if fitting and dice.random() < 0.85 else _VALUES))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def without(value: Any, place: tuple[Any, ...]) -> Any:
    """A copy that lacks what is at a place."""
    if len(place) > 1:
        return replaced(value, place[:1], without(value[place[0]], place[1:]))
    if isinstance(value, dict):
        return {name: item for name, item in value.items() if name != place[0]}
    return [item for index, item in enumerate(value) if index != place[0]]


_VALUES: tuple[Any, ...] = (
    None,
    "",
    "a",
    "b",
    "Exists",
    "Equal",
    "NoExecute",
    "Never",
    "Any",
    "LowerPriority",
    "TryNextFlavor",
    "BorrowingOverPreemption",
    "kubernetes.io/hostname",
    "scheduling.k8s.io",
    "True",
    "False",
    "QuotaReserved",
    "Admitted",
    "UPPER case",
    "x" * 400,
    "2030-01-31T12:00:00Z",
    "1Gi",
    "1.5",
    -1,
    0,
    1,
    2,
    3,
    70_000,
    2**31,
    2**63,
    1.5,
    True,
    False,
    [],
    {},
    ["a", "a"],
    ["a", "b"],
    [{}],
    [{"name": "a"}, {"name": "a"}],
    {"a": "b"},
    {"unknown": 1},
)
