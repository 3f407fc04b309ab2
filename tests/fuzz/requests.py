"""Requests that begin as good ones and are damaged, each by its number. Used by test_fuzzed_requests.

What is right about a request gets it past the first checks; what is wrong with it is then found deep inside.
"""

from __future__ import annotations

import json
import random
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from urllib.parse import quote

import yaml

from muster.apiserver.protobuf import CONTENT_TYPE, encode
from muster.model.errors import InvalidObject
from tests.apiserver.definitions.chance import schema_of
from tests.apiserver.definitions.stories import definition
from tests.fuzz.mutate import OBJECT_DAMAGE, TEXT_DAMAGE, WRONG, cohort_chain, cohort_circle, parsed
from tests.kubernetes.comparison import kind_of, path_of, samples

Json = dict[str, Any]
Dice = random.Random
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAMES = ("a", "b", "c")  # few, so that later requests find what earlier ones have made
_DAMAGE = [one for one in OBJECT_DAMAGE if one not in (cohort_chain, cohort_circle)]
_ODD = (
    "", "0", "-1", "1", "2", "7", "99999999999999999999", "abc", "true", "null", "é\u202e", "%00", "a=b", "x" * 5_000,
    "../..", "metadata.name=a", "a in (b", "!" * 300, "a,b,c," * 300, "=" * 100, "eyJ2IjoibWV0YSJ9", "All", "Strict",
    "Orphan", "Foreground", "NotOlderThan", "Exact", "5e10", "1.5", "((((", "a notin (" + "b," * 500 + ")",
)  # fmt: skip
_QUERIES = (
    "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "watch",
    "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "dryRun", "fieldManager", "fieldValidation", "force",
    "pretty", "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "includeObject", "strange",
)  # fmt: skip
_SELECTORS = (
    "app=web", "app in (a,b),!c", "app!=x", "metadata.name=a", "spec.nodeName=", "status.phase=Running", "a", "!a",
)  # fmt: skip
_HEADERS = {
    "accept": (
        "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml", "*/*", "", "text/html",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", CONTENT_TYPE, "application/cbor", ";;;",
        "a" * 999,
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json",
    ),
    "content-type": (
        "application/json", "application/yaml", CONTENT_TYPE, MERGE, STRATEGIC, JSON_PATCH, APPLY, "text/plain", "",
        "application/apply-patch+cbor", "application/json; charset=latin-1", "/;=", "é",
    ),
    "content-encoding": ("gzip", "deflate", "identity", "br", "gzip, gzip"),
    "content-length": ("0", "-1", "99999999999", "abc"),
    "impersonate-user": ("ann", "", "system:admin", "é"),
    "impersonate-group": ("system:masters", "x" * 2_000),
    "if-none-match": ("*", '"abc"'),
    "user-agent": ("", "kubectl/v1.36.3", "é" * 500),
}  # fmt: skip
_EXPRESSIONS = (
    "self.a == 1", "self", "self.a.all(x, x.all(y, y == x))", "(" * 200 + "1" + ")" * 200,
    "size(self) > 0 || " * 200 + "true",
    "self.matches('(a+)+$')", "self.a.map(x, self.a.map(y, self.a.map(z, [x, y, z]))).size() > 0", "1 / 0 == 1", "[",
    "'x'.format(['%s'])", "self.b.c.d.e", "duration('99999999999999h') > duration('1s')", "oldSelf == self", "\u0000",
    "quantity('1e999').isGreaterThan(quantity('1'))", "{'a': 1}['b'] == 2", "self.replace('a', 'aa').size() < 9",
)  # fmt: skip
_PATTERNS = (
    "(a+)+$",
    "(.*)*$",
    "[",
    "(?P<x>a)\\1",
    "a{1000}{1000}",
    "(?i)[é-ÿ]+",
    "\\p{L}*",
    "x" * 3_000,
    "(|a)+" * 30,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One request, and what was done to it."""

    number: int
    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    damage: tuple[str, ...] = ()

    def __str__(self) -> str:
        body = b"" if self.body is None else self.body[:300]
        return f"case {self.number}: {self.method} {self.path[:300]} {self.headers} {body!r} after {self.damage}"


def case(number: int) -> Case:
    """The request of a number."""
    dice = Dice(f"request {number}")
    made = _good(number, dice)
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3))):
        damage = dice.choice(_OF_REQUESTS)
        made = replace(damage(made, dice), damage=(*made.damage, damage.__name__))
    return made


# Good requests -------------------------------------------------------------------------------------------------------


@cache
def _definitions() -> tuple[Json, ...]:
    made = []
    for number in range(12):
        dice = Dice(f"definition {number}")
        schema = schema_of(number)
        rules = [{"rule": dice.choice(_EXPRESSIONS)} for _ in range(dice.randrange(3))]
        if rules:
            schema["properties"]["spec"]["x-kubernetes-validations"] = rules
        one = definition(schema, plural=f"{'abcdefghijkl'[number]}things")
        one["spec"]["group"] = "fuzz.example.com"
        one["metadata"]["name"] = f"{one['spec']['names']['plural']}.fuzz.example.com"
        made.append(one)
    return tuple(made)


def _hostile(given: Json, dice: Dice) -> Json:
    """A definition with an expression or a pattern that is costly, somewhere in its schema."""
    schema = given["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = schema["properties"]["spec"].setdefault("properties", {})
    extra = {"type": "string", "pattern": dice.choice(_PATTERNS)}
    extra["x-kubernetes-validations"] = [{"rule": dice.choice(_EXPRESSIONS), "messageExpression": "'a' + self"}]
    fields[dice.choice(("a", "b", "x" * 200))] = extra
    if dice.random() < 0.2:
        deep: Json = {"type": "string"}
        for _ in range(dice.choice((10, 60, 120))):
            deep = (
                {"type": "object", "properties": {"n": deep}}
                if dice.random() < 0.5
                else {"type": "array", "items": deep}
            )
        fields["deep"] = deep
    return given


def _good(number: int, dice: Dice) -> Case:
    chance = dice.random()
    if chance < 0.06:
        item = deepcopy(dice.choice(_definitions()))
        collection = DEFINITIONS
        if dice.random() < 0.5:
            item = _hostile(item, dice)
    elif chance < 0.14:
        given = dice.choice(_definitions())
        spec = given["spec"]
        item = {"apiVersion": f"{spec['group']}/v1", "kind": spec["names"]["kind"], "metadata": {"name": "a"}}
        item["spec"] = {"a": dice.choice(WRONG), "b": {"c": ["a" * 30, 1, None]}, "d": "a" * 60 + "!"}
        collection = f"/apis/{spec['group']}/v1/namespaces/default/{spec['names']['plural']}"
    else:
        item = deepcopy(dice.choice(samples()))
        item["metadata"]["name"] = dice.choice((*_NAMES, item["metadata"]["name"]))
        collection = path_of(kind_of(item))
    return dice.choice(_KINDS_OF_REQUEST)(number, item, collection, dice)


def _one(item: Json, collection: str) -> str:
    return f"{collection}/{quote(str(item['metadata']['name']))}"


def _create(number: int, item: Json, collection: str, _dice: Dice) -> Case:
    return Case(number, "POST", collection, json.dumps(item).encode(), {"content-type": "application/json"})


def _replace(number: int, item: Json, collection: str, dice: Dice) -> Case:
    part = dice.choice(("", "", "", "/status", "/scale", "/finalize"))
    body = json.dumps(item).encode()
    return Case(number, "PUT", _one(item, collection) + part, body, {"content-type": "application/json"})


def _read(number: int, item: Json, collection: str, dice: Dice) -> Case:
    return Case(number, "GET", _one(item, collection) + dice.choice(("", "", "/status", "/scale", "/log")))


def _list(number: int, _item: Json, collection: str, dice: Dice) -> Case:
    query = [f"limit={dice.choice((1, 2, 500))}"] if dice.random() < 0.5 else []
    if dice.random() < 0.5:
        query.append(f"{dice.choice(('labelSelector', 'fieldSelector'))}={quote(dice.choice(_SELECTORS))}")
    return Case(number, "GET", f"{collection}?{'&'.join(query)}" if query else collection)


def _watch(number: int, _item: Json, collection: str, dice: Dice) -> Case:
    return Case(number, "GET", f"{collection}?watch=1&timeoutSeconds=1&resourceVersion={dice.choice(('', '0', '1'))}")


def _delete(number: int, item: Json, collection: str, dice: Dice) -> Case:
    options = {"propagationPolicy": dice.choice(("Background", "Orphan")), "gracePeriodSeconds": 0}
    path = collection if dice.random() < 0.2 else _one(item, collection)
    return Case(number, "DELETE", path, json.dumps(options).encode(), {"content-type": "application/json"})


def _patch(number: int, item: Json, collection: str, dice: Dice) -> Case:
    content_type = dice.choice((MERGE, STRATEGIC, JSON_PATCH))
    body: object = {"metadata": {"labels": {"app": "web"}}, "spec": item.get("spec")}
    if content_type == JSON_PATCH:
        places = ("/metadata/labels", "/spec", "/metadata/name", "/spec/containers/0", "/spec/containers/-", "/a~1b/~0")
        ops = ("add", "remove", "replace", "test", "copy", "move")
        steps = range(dice.choice((1, 1, 3, 40)))
        body = [
            {"op": dice.choice(ops), "path": dice.choice(places), "from": dice.choice(places), "value": {"a": "b"}}
            for _ in steps
        ]
    return Case(number, "PATCH", _one(item, collection), json.dumps(body).encode(), {"content-type": content_type})


def _apply(number: int, item: Json, collection: str, dice: Dice) -> Case:
    path = f"{_one(item, collection)}?fieldManager={dice.choice('xyz')}&force={dice.choice(('true', 'false'))}"
    return Case(number, "PATCH", path, yaml.dump(item, Dumper=yaml.CSafeDumper).encode(), {"content-type": APPLY})


def _review(number: int, _item: Json, _collection: str, dice: Dice) -> Case:
    group, kind = dice.choice(
        (
            ("authorization", "SelfSubjectAccessReview"),
            ("authorization", "SubjectAccessReview"),
            ("authentication", "TokenReview"),
        )
    )
    version = f"{group}.k8s.io/v1"
    attributes = {"verb": "get", "resource": "pods", "namespace": "default"}
    spec = {"resourceAttributes": attributes, "user": "ann", "token": "abc"}
    body = {"apiVersion": version, "kind": kind, "spec": spec}
    return Case(
        number,
        "POST",
        f"/apis/{version}/{kind.lower()}s",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )


def _about_server(number: int, _item: Json, _collection: str, dice: Dice) -> Case:
    paths = (
        "/api",
        "/apis",
        "/apis/apps/v1",
        "/openapi/v3",
        "/openapi/v2",
        "/version",
        "/healthz",
        "/readyz?verbose",
        "/metrics",
    )
    return Case(number, "GET", dice.choice(paths))


_KINDS_OF_REQUEST = (
    _create, _create, _create, _create, _replace, _replace, _read, _list, _list, _watch, _delete, _patch, _patch,
    _patch, _apply, _apply, _review, _about_server,
)  # fmt: skip


# Damage --------------------------------------------------------------------------------------------------------------


def _other_method(one: Case, dice: Dice) -> Case:
    return replace(
        one, method=dice.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "X" * 50, ""))
    )


def _odd_path(one: Case, dice: Dice) -> Case:
    path, mark, query = one.path.partition("?")
    parts = path.split("/")
    at = dice.randrange(len(parts))
    match dice.randrange(5):
        case 0:
            parts[at] = quote(dice.choice(_ODD))
        case 1:
            parts[at:at] = [parts[at]] * dice.choice((1, 3, 500))
        case 2:
            del parts[at]
        case 3:
            parts.append(
                dice.choice(("status", "scale", "log", "exec", "binding", "eviction", "token", "approval", "", ".."))
            )
        case 4:
            parts = [dice.choice(("watch", "proxy", "apis", "api", "")), *parts]
    return replace(one, path=("/".join(parts) or "/") + mark + query)


def _odd_query(one: Case, dice: Dice) -> Case:
    odd = [
        f"{dice.choice(_QUERIES)}={quote(dice.choice((*_ODD, *_SELECTORS)))}" for _ in range(dice.choice((1, 1, 2, 5)))
    ]
    if dice.random() < 0.1:
        odd.append(dice.choice(("&&&", "%zz=%", "=", "a" * 9_000, "limit", "watch&watch")))
    return replace(one, path=one.path + ("&" if "?" in one.path else "?") + "&".join(odd))


def _odd_header(one: Case, dice: Dice) -> Case:
    name = dice.choice(tuple(_HEADERS))
    return replace(one, headers={**one.headers, name: dice.choice(_HEADERS[name])})


def _odd_object(one: Case, dice: Dice) -> Case:
    objects = parsed(one.body or b"{}")  # none where an earlier damage has left no text that can be read
    for _ in range(dice.choice((1, 1, 2, 4))):
        if objects:
            dice.choice(_DAMAGE)(objects, dice)
    return replace(one, body=json.dumps(objects[0]).encode()) if objects else one


def _odd_text(one: Case, dice: Dice) -> Case:
    return replace(one, body=dice.choice(TEXT_DAMAGE)(one.body or b"{}", dice))


def _as_yaml(one: Case, dice: Dice) -> Case:
    try:
        text = yaml.dump(json.loads(one.body or b"{}"), Dumper=yaml.CSafeDumper).encode()
    except (ValueError, RecursionError):
        return one
    if dice.random() < 0.7:
        text = dice.choice(TEXT_DAMAGE)(text, dice)
    return replace(one, body=text, headers={**one.headers, "content-type": "application/yaml"})


def _as_protobuf(one: Case, dice: Dice) -> Case:
    try:
        data = encode(json.loads(one.body or b"{}"))
    except (InvalidObject, ValueError, TypeError, AttributeError, KeyError, AssertionError, RecursionError):
        data = b"k8s\0" + (one.body or b"")  # what it cannot write, it can still be sent as
    for _ in range(dice.choice((0, 1, 3))):
        data = dice.choice((TEXT_DAMAGE[0], TEXT_DAMAGE[3]))(data, dice)
    return replace(one, body=data, headers={**one.headers, "content-type": CONTENT_TYPE})


_OF_REQUESTS = (
    _other_method, _odd_path, _odd_query, _odd_query, _odd_query, _odd_header, _odd_object, _odd_object, _odd_object,
    _odd_object, _odd_text, _as_yaml, _as_protobuf,
)  # fmt: skip
