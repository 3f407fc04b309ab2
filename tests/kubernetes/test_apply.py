"""Whoever writes to an object in whichever way, both servers give the same answer, keep the same object, and note the
same owners of its fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.apiserver.direct import Direct, direct
from tests.kubernetes.apply_rows import ROWS
from tests.kubernetes.apply_steps import Step, steps, with_change
from tests.kubernetes.client import Client
from tests.support import assert_sound, proof_count

Json = dict[str, Any]
SEQUENCES = 300
STEPS = 12
PUT_BACK = ("spec.selector", "spec.template.metadata.labels")
_IDENTITY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWN = ("resourceVersion", "uid", "creationTimestamp")


class Theirs:
    """A real server, asked in the same way."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def request(self, method: str, path: str, body: object = None, content_type: str = "application/json"):
        answer = self.client.request(method, path, body, content_type=content_type)
        return answer.status, answer.json


def told(answer: tuple[int, Json]) -> Json:
    """An answer without what each server makes up, with managers in an order that time has no say in."""
    status, body = answer
    if body.get("kind") == "Status":
        causes = (body.get("details") or {}).get("causes") or ()
        if status == 422:  # whose words are compared elsewhere; what a job needs is put back before it is missed
            named = {f"{one.get('field')} {one['reason']}" for one in causes}
            return {"status": status, "causes": sorted(one for one in named if not one.startswith(PUT_BACK))}
        causes = sorted(map(json.dumps, causes))
        return {"status": status, "message": sorted(_IDENTITY.sub("U", body["message"]).split("\n")), "causes": causes}
    body = json.loads(_IDENTITY.sub("U", json.dumps(body)))
    metadata = body["metadata"]
    for name in _OWN:
        metadata.pop(name, None)
    for entry in metadata.get("managedFields") or ():
        entry["time"] = "T" if "time" in entry else None
    metadata.get("managedFields", []).sort(key=lambda one: json.dumps(one))
    spec = body.get("spec") or {}
    if body["kind"] == "Service":
        for name in ("clusterIP", "clusterIPs"):
            spec[name] = bool(spec.get(name))
        for port in spec.get("ports") or ():
            port["nodePort"] = bool(port.get("nodePort"))
    return {"status": status, "object": without_nulls(body)}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def done(server: Any, step: Step) -> Json:
    """What a server says to a step."""
    body = step.body
    if body is None:
        present, _ = step.path.split("?")
        status, found = server.request("GET", present)
        if status != 200:
            return {"status": status}
        body = with_change(found, step.change)
    return told(server.request(step.method, step.path, body, step.content_type))


def differences(mine: Any, real: Any, path: str = "") -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(real, dict):
        for name in sorted(mine.keys() | real.keys()):
            yield from differences(mine.get(name), real.get(name), f"{path}.{name}")
    elif isinstance(mine, list) and isinstance(real, list) and len(mine) == len(real):
        for place, (one, other) in enumerate(zip(mine, real, strict=True)):
            yield from differences(one, other, f"{path}[{place}]")
    elif mine != real:
        yield f"{path}: {json.dumps(mine)[:600]} instead of {json.dumps(real)[:600]}"


@pytest.fixture
def ours() -> Iterator[Direct]:
    with direct() as server:
        yield server


@pytest.fixture
def theirs(plane) -> Theirs:
    return Theirs(plane.client)


@pytest.mark.prove
def test_managers_own_the_same_after_any_writes(ours, theirs):

    def check(random: Random) -> None:
        name = f"o{random.randrange(10**9)}"
        for number, step in enumerate(steps(random, name, STEPS)):
            mine, real = done(ours, step), done(theirs, step)
            found = list(differences(mine, real))
            what = (
                f"step {number}: {step.method} {step.path} {json.dumps(step.body or step.change)} ({step.content_type})"
            )
            assert not found, what + "\n  " + "\n  ".join(found[:6])

    assert_sound(check, range(proof_count(SEQUENCES)))


def test_the_same_is_said_to_each_request(ours, theirs):
    problems = []
    for number, (method, path, body, content_type) in enumerate(ROWS):
        mine = told(ours.request(method, path, body, content_type))
        real = told(theirs.request(method, path, body, content_type))
        found = list(differences(mine, real))
        problems += [f"row {number}: {path} {str(body)[:200]}\n  " + "\n  ".join(found[:4])] if found else []
    assert not problems, "\n".join(problems)
