"""Webhooks, limits and quotas: the same stories in a real server and in Muster, with webhooks that both call."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.admission.rows import SETS, preparations, sorted_words
from tests.apiserver.admission.rows import TOLD as ROWS_TOLD
from tests.apiserver.webhooks import policy_stories
from tests.apiserver.webhooks.hooks import Hooks, running
from tests.apiserver.webhooks.stories import STORIES, TOLD, Json, asked, configurations, told
from tests.e2e.process import Muster, started
from tests.kubernetes.client import Client
from tests.kubernetes.plane import POLL_S

HEARD_S = 30.0
HEARD_LATER_S = 3.0  # until a real server knows what there is; nothing tells when


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    with started(tmp_path_factory.mktemp("muster"), "--api-only") as server:
        yield server


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    with running(tmp_path_factory.mktemp("hooks")) as server:
        yield server


def _namespace(name: str) -> str:
    return f"story-{list(STORIES).index(name)}"


def _run(client: Client, name: str, hooks: Hooks) -> Json:
    """What a server says and asks in a story."""
    story, namespace = STORIES[name], _namespace(name)
    client.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    made = configurations(story, namespace, hooks)
    try:
        for path, body in made:
            answer = client.request("POST", path, body)
            assert answer.status == 201, answer.body
        _wait_until_heard(client, namespace, hooks)
        hooks.asked.clear()
        answers = [_ask(client, request, namespace) for request in story.requests]
        return {"answers": answers, "asked": asked(hooks.asked)}
    finally:
        for path, _ in made:
            client.request("DELETE", f"{path}/{namespace}")


def _wait_until_heard(client: Client, namespace: str, hooks: Hooks) -> None:
    """A real server hears of configurations after a while."""
    hooks.asked.clear()
    deadline = time.monotonic() + HEARD_S
    while len({path for path, _ in hooks.asked if "/probe/" in path}) < 2:
        assert time.monotonic() < deadline, "the webhooks were never asked"
        probe = {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "probe-"}}
        probe["metadata"]["labels"] = {"probe": namespace}
        client.request("POST", f"/api/v1/namespaces/{namespace}/secrets?dryRun=All", probe)
        time.sleep(POLL_S)


def _ask(client: Client, request: tuple[Any, ...], namespace: str) -> Json:
    method, path, body, *content_type = request
    form = content_type[0] if content_type else "application/json"
    return told(client.request(method, path.format(ns=namespace), body, content_type=form))


def _record(file: Path, name: str, said: Any) -> None:
    """Keep what the real server said for tests that run without one."""
    if os.environ.get("MUSTER_RECORD"):
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**known, name: said}, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("name", STORIES)
def test_webhooks_have_the_same_say(name, plane, muster, hooks):
    real = _run(plane.client, name, hooks)
    _record(TOLD, name, real)
    assert _run(muster.client, name, hooks) == real


def _run_policy(client: Client, name: str) -> list[Json]:
    """What a server says in a story of policies."""
    story, namespace = policy_stories.STORIES[name], f"policy-{list(policy_stories.STORIES).index(name)}"
    client.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    made = policy_stories.configurations(story, namespace)
    try:
        for path, body in made:
            answer = client.request("POST", path, body)
            assert answer.status == 201, answer.body
        _wait_until_obeyed(client, namespace)
        if story.objects:
            _wait_until_parameters_are_found(client, namespace)
        return [_ask(client, request, namespace) for request in story.requests]
    finally:
        for path, body in made:
            # Policies stay, which without a binding are without effect: a real server that has lost the last one with a
            # kind of parameters finds none for the next.
            if path != policy_stories.POLICIES:
                client.request("DELETE", f"{path}/{body['metadata']['name']}")


def _wait_until_obeyed(client: Client, namespace: str) -> None:
    deadline = time.monotonic() + HEARD_S
    path = f"/api/v1/namespaces/{namespace}/podtemplates?dryRun=All"
    while client.request("POST", path, policy_stories.PROBE).status == 201:
        assert time.monotonic() < deadline, "the policy never took effect"
        time.sleep(POLL_S)


def _wait_until_parameters_are_found(client: Client, namespace: str) -> None:
    """A real server hears of the objects that hold parameters later than of the policy."""
    deadline = time.monotonic() + HEARD_S
    for method, path, body in policy_stories.SHORT_ONES:
        dry = f"{path.format(ns=namespace)}?dryRun=All"
        while b"no params found" in client.request(method, dry, body).body:
            assert time.monotonic() < deadline, "the parameters were never found"
            time.sleep(POLL_S)


@pytest.mark.parametrize("name", policy_stories.STORIES)
def test_policies_have_the_same_say(name, plane, muster):
    real = _run_policy(plane.client, name)
    _record(policy_stories.TOLD, name, real)
    assert _run_policy(muster.client, name) == real


# Limits, quotas, classes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", SETS)
def test_limits_quotas_and_classes_do_the_same(namespace, plane, muster):
    for client in (plane.client, muster.client):
        for method, path, body in preparations(namespace):
            assert client.request(method, path, body).status in (200, 201)
    time.sleep(HEARD_LATER_S)
    said = [sorted_words(_ask(plane.client, row, namespace)) for row in SETS[namespace]]
    _record(ROWS_TOLD, namespace, said)
    for row, real in zip(SETS[namespace], said, strict=True):
        assert sorted_words(_ask(muster.client, row, namespace)) == real, row
