"""Bodies in YAML mean the same to both: scalars, keys given twice, unknown fields, and what is no object at all."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.process import BARE, Muster, started
from tests.kubernetes.client import Answer

REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions?dryRun=All"  # they hold data of any form
_WORDS = """
y Y yes Yes YES no No n N on off On OFF true True TRUE false tRue ~ null Null NULL nuLL 010 0o10 0O7 08 0777 0x1F 0X1f
0b101 1_000 1_000.5 1:30 1:30:45 190:20:30 2001-01-01 2001-12-14t21:59:43.10-05:00 1e3 1E3 1e+3 .5 5. -.5 +1 -1 +12e03
.inf -.inf .nan 12345678901234567890 9223372036854775807 1e400 0.1 1.0 100000000000000000000000.0 = << !!int !!float
'yes' "no" <<x @x `x 0xZZ 0_1 1__0 _1 -0 -010 +0x10 -0b11 1.5e3 1e-7 123456789.123456789 00 000 09 0.0 1.
"""
SCALARS = _WORDS.split()
REST = "metadata: {name: x}\nrevision: 1\n"
BODIES = {
    "a key twice": "metadata: {name: x}\nrevision: 1\nrevision: 2\ndata: {a: 1}\n",
    "keys twice in data": REST + "data: {a: 1, a: 2, a: 3, yes: 1, true: 2, 1: 2, 1: 3}\n",
    "an unknown key twice": REST + "zzz: 2\nzzz: 3\ndata: {a: 1}\n",
    "unknown fields": "metadata: {name: x, foo: 1}\nrevision: 1\nbar: 2\ndata: {a: 1}\n",
    "keys that are no text": REST + "data: {1: a, true: b, 1.5: c}\n",
    "a key that is nothing": REST + "data: {~: f}\n",
    "a merge": "metadata: &m {name: x}\nrevision: 1\ndata: {<<: *m, v: 1}\n",
    "two documents": REST + "data: {a: 1}\n---\nmetadata: {name: y}\n",
    "nothing": "",
    "a comment": "# hi\n",
    "a text": "hello",
    "a list": "- a\n",
    "tabs": "a:\t b\n\tc: d\n",
    "an anchor within itself": REST + "data: &a {v: *a}\n",
    "JSON": '{"metadata":{"name":"x"},"revision":1,"revision":2,"data":{"a":1},"nope":1}',
    "half a character": REST + 'data: {v: "\\ud800"}\n',
    "two colons": "a: b: c",
    "an open bracket": "a: [1",
    "no name": "data: {a: 1}",
    "an octal": "metadata: {name: x}\nrevision: 010\ndata: {a: 1}\n",
    "a fraction": "metadata: {name: x}\nrevision: 1.5\ndata: {a: 1}\n",
    "a word for a number": "metadata: {name: x}\nrevision: yes\ndata: {a: 1}\n",
    "a word for a name": "metadata: {name: no}\nrevision: 1\ndata: {a: 1}\n",
}
# Muster refuses what nobody means: tags of other programs, NUL. Numbers beyond 64 bits stay exact.
DIFFERENT = {
    REST + "data: !!python/object:os.x {v: 1}\n": (400, 201),
    REST + 'data: {v: "\\0"}\n': (400, 201),
}


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Muster as a process of its own."""
    with started(tmp_path_factory.mktemp("up") / "state", module=BARE) as running:
        yield running


def told(answer: Answer) -> tuple[object, ...]:
    """The object, or the fields that are wrong, and the warnings: the words about a text that is none differ."""
    body = json.loads(answer.body)
    if answer.status == 201:
        return answer.status, body["data"], body["revision"], answer.warnings
    causes = (body.get("details") or {}).get("causes", [])
    start, strict, problems = body["message"].partition("strict decoding error")
    return answer.status, [one["field"] for one in causes], strict and (start, problems), answer.warnings


def both(plane, muster, text: str, query: str = "") -> list[tuple[object, ...]]:
    clients = (plane.client, muster.client)
    return [
        told(one.request("POST", REVISIONS + query, text.encode(), content_type="application/yaml")) for one in clients
    ]


@pytest.mark.parametrize("scalar", SCALARS)
def test_scalars_mean_the_same(plane, muster, scalar):
    theirs, ours = both(plane, muster, f"{REST}data:\n  v: {scalar}\n")
    assert ours == theirs


@pytest.mark.parametrize("level", ["", "Strict", "Warn", "Ignore"])
@pytest.mark.parametrize("name", BODIES)
def test_bodies_mean_the_same(plane, muster, name, level):
    theirs, ours = both(plane, muster, BODIES[name], f"&fieldValidation={level}" if level else "")
    assert ours == theirs


@pytest.mark.parametrize("text", DIFFERENT)
def test_what_nobody_means_is_refused(plane, muster, text):
    theirs, ours = both(plane, muster, text)
    assert (ours[0], theirs[0]) == DIFFERENT[text]
