"""Muster says yes and no where a real server does, and with the same words."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from muster.apiserver.rights.first_roles import first_roles
from muster.app.kinds import catalog
from tests.apiserver.world import World
from tests.kubernetes import rights
from tests.kubernetes.client import Answer, Client
from tests.kubernetes.plane import POLL_S, Plane
from tests.kubernetes.rights import GROUP, START, binding, role, user
from tests.support import proof_count
from tools import kubernetes_roles

Json = dict[str, Any]
QUESTIONS = 10_000
WORLDS = 5
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SETTLED_S = 60.0  # for a real server to have seen what was written


def post(client: Client, given: Json) -> None:
    answer = client.request("POST", rights.path_of(given), given)
    assert answer.status in (201, 409), answer.body


def allowed(client: Client, spec: Json) -> Json:
    status: Json = client.request("POST", REVIEWS, {"spec": spec}).json["status"]
    return status


def wait_for(client: Client, name: str) -> None:
    """Wait until the server's caches have what was written before, of all four kinds."""
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["marks"], "resourceNames": [name]}]
    for kind, space in (("Role", "red"), ("ClusterRole", "")):
        post(client, role(name, rules, space))
        post(client, binding(name, kind, name, [user("marker")], space))
        about = {"verb": "get", "resource": "marks", "name": name, "namespace": space}
        deadline_s = time.monotonic() + SETTLED_S
        while not allowed(client, {"user": "marker", "resourceAttributes": about})["allowed"]:
            assert time.monotonic() < deadline_s, "the real server has not seen its own roles"
            time.sleep(POLL_S)


def told(status: Json) -> tuple[bool, list[str]]:
    """What of a verdict has to be the same; the one of several bindings that is found first may differ."""
    if status["allowed"]:
        return True, []
    return False, sorted(status.get("reason", "").removeprefix("RBAC: ").strip("[]").split(", "))


@pytest.fixture(scope="module")
def client(plane: Plane) -> Client:
    for name in rights.SPACES:
        plane.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return plane.client


@pytest.mark.prove
@pytest.mark.parametrize("number", range(WORLDS))
def test_random_questions(client, number):
    chance = Random(number)
    objects = rights.world(chance)
    specs = [rights.question(chance) for _ in range(proof_count(QUESTIONS) // WORLDS)]
    made = [item for item in objects if client.request("POST", rights.path_of(item), item).status == 201]
    assert len(made) == len(objects)
    wait_for(client, f"mark-{number}")
    with ThreadPoolExecutor(4) as pool:
        theirs = list(pool.map(lambda spec: allowed(client, spec), specs))
    for item in objects:
        client.request("DELETE", f"{rights.path_of(item)}/{item['metadata']['name']}")

    async def ask() -> list[Json]:
        world = await muster_world(objects)
        return [(await world.request("POST", REVIEWS, {"spec": spec})).json["status"] for spec in specs]

    ours = asyncio.run(ask())
    pairs = zip(specs, ours, theirs, strict=True)
    unlike = [f"{spec}: {mine}, really {real}" for spec, mine, real in pairs if told(mine) != told(real)]
    assert not unlike, "\n".join(unlike[:20])
    print(f"{sum(one['allowed'] for one in theirs)} of {len(specs)} were allowed")


async def muster_world(objects: list[Json]) -> World:
    world = World(catalog=catalog())
    world.store.write(first_roles_without_kube_system(world))
    for name in rights.SPACES:
        assert (await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})).status == 201
    for item in objects:
        answer = await world.request("POST", rights.path_of(item), item)
        assert answer.status == 201, answer.body
    return world


def first_roles_without_kube_system(world: World) -> Any:
    for name in ("kube-system", "kube-public"):
        given = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        world.store.write(world.objects.create("namespaces", given))
    return first_roles(world.objects)


# The same requests of the same people --------------------------------------------------------------------------------

LOOK = {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list"]}
ROLES = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create", "update", "patch", "get", "list", "delete"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
BEFORE = [
    role("looking", [LOOK, ROLES]),
    binding("bob-looks", "ClusterRole", "looking", [user("bob")]),
    role("secretive", [SECRETS], "red"),
    role("binder", [{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["bind"], "resourceNames": ["secretive"]}]),
    binding("eve-binds", "ClusterRole", "binder", [user("eve")]),
    binding("eve-looks", "ClusterRole", "looking", [user("eve")]),
    role("lifter", [{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"]}]),
    binding("pat-lifts", "ClusterRole", "lifter", [user("pat")]),
    binding("pat-looks", "ClusterRole", "looking", [user("pat")]),
    role("pretender", [{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}]),
    role("made", [{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["update"]}]),
    binding("tom-updates", "ClusterRole", "made", [user("tom")]),
    binding("lost", "Role", "nothing", [user("zoe")], "red"),
    binding("eve-views", "ClusterRole", "view", [user("eve")], "blue"),
    binding(
        "robots-look", "ClusterRole", "looking", [{"kind": "ServiceAccount", "name": "robot", "namespace": "blue"}]
    ),
]
RED = f"{START}/namespaces/red"
SELF = "/apis/authorization.k8s.io/v1"
ATTRIBUTES = {"verb": "get", "resource": "pods", "namespace": "red"}


def aggregated(name: str) -> Json:
    selectors = [{"matchLabels": {"a": "b"}}]
    return {**role(name, []), "aggregationRule": {"clusterRoleSelectors": selectors}}


ROWS: list[tuple[Any, ...]] = [
    ("bob", "GET", "/api/v1/namespaces/red/pods"),
    ("bob", "GET", "/api/v1/namespaces/red/secrets"),
    ("bob", "GET", "/api/v1/namespaces/red/pods?watch=1&timeoutSeconds=1"),
    ("bob", "GET", "/api/v1/namespaces/red/pods/x/log"),
    ("bob", "GET", "/api/v1/namespaces/red"),
    ("bob", "GET", "/api/v1/nope"),
    ("bob", "GET", "/api/v1/namespaces/red/nope/a/b"),
    ("bob", "GET", "/apis/batch/v1/jobs"),
    ("bob", "DELETE", "/api/v1/namespaces/red/pods?fieldSelector=metadata.name%3Dx"),
    ("bob", "PATCH", "/api/v1/namespaces/red/configmaps/x", {}),
    ("bob", "GET", "/metrics"),
    ("bob", "POST", "/healthz"),
    ("bob", "GET", "/healthz"),
    ("zoe", "GET", "/api/v1/namespaces/red/secrets"),
    ("zoe", "GET", "/api/v1/namespaces/red/secrets/a"),
    ("bob", "POST", f"{RED}/roles", role("a", [PODS], "red")),
    ("bob", "POST", f"{RED}/roles", role("b", [SECRETS], "red")),
    (
        "bob",
        "POST",
        f"{RED}/roles",
        role("b", [{**PODS, "resources": ["pods", "secrets"], "verbs": ["get", "watch"]}], "red"),
    ),
    (
        "bob",
        "POST",
        f"{RED}/roles",
        role("b", [{**SECRETS, "apiGroups": ["", "apps"], "resourceNames": ["x", "y"]}], "red"),
    ),
    ("bob", "POST", f"{RED}/roles", role("b", [{**PODS, "resourceNames": ["x"]}], "red")),
    (
        "bob",
        "POST",
        f"{RED}/roles",
        role("c", [{**SECRETS, "resources": ["secrets/*", "*/log"], "verbs": ["*"]}], "red"),
    ),
    (
        "bob",
        "POST",
        f"{START}/clusterroles",
        role("d", [{"nonResourceURLs": ["/a", "/b*", "/api/*"], "verbs": ["get", "post"]}]),
    ),
    ("bob", "POST", f"{START}/clusterroles", aggregated("e")),
    ("bob", "POST", f"{RED}/roles", role("f", [{**PODS, "verbs": []}], "red")),
    ("bob", "PUT", f"{RED}/roles/secretive", role("secretive", [SECRETS], "red", labels={"a": "b"})),
    ("bob", "PUT", f"{RED}/roles/a", role("a", [PODS], "red", labels={"a": "b"})),
    ("bob", "PUT", f"{RED}/roles/a", role("a", [SECRETS], "red")),
    ("bob", "PUT", f"{RED}/roles/made-by-put", role("made-by-put", [PODS], "red")),
    ("tom", "PUT", f"{RED}/roles/not-made", role("not-made", [], "red")),
    ("pat", "POST", f"{RED}/roles", role("lifted", [SECRETS], "red")),
    ("pat", "POST", f"{START}/clusterroles", role("lifted", [SECRETS])),
    ("bob", "POST", f"{RED}/rolebindings", binding("x", "Role", "none", [], "red")),
    ("bob", "POST", f"{RED}/rolebindings", binding("x", "Role", "secretive", [], "red")),
    ("bob", "POST", f"{RED}/rolebindings", binding("x", "Role", "a", [user("ann")], "red")),
    ("bob", "PUT", f"{RED}/rolebindings/x", binding("x", "Role", "secretive", [], "red")),
    ("eve", "POST", f"{RED}/rolebindings", binding("y", "Role", "secretive", [user("ann")], "red")),
    ("eve", "POST", f"{RED}/rolebindings", binding("z", "ClusterRole", "cluster-admin", [user("eve")], "red")),
    ("bob", "POST", f"{START}/clusterrolebindings", binding("x", "ClusterRole", "cluster-admin", [user("bob")])),
    ("zoe", "POST", f"{SELF}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": ATTRIBUTES}}),
    ("bob", "POST", f"{SELF}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": ATTRIBUTES}}),
    ("bob", "POST", f"{SELF}/selfsubjectaccessreviews", {"spec": {}}),
    ("bob", "POST", f"{SELF}/selfsubjectrulesreviews", {"spec": {}}),
    ("zoe", "POST", f"{SELF}/selfsubjectrulesreviews", {"spec": {"namespace": "red"}}),
    ("bob", "POST", REVIEWS, {"spec": {"user": "x", "resourceAttributes": ATTRIBUTES}}),
    ("admin", "POST", REVIEWS, {"spec": {"resourceAttributes": ATTRIBUTES}}),
    ("admin", "POST", REVIEWS, {"spec": {"user": "x", "nonResourceAttributes": {"verb": "get", "path": "/"}}}),
    (
        "admin",
        "POST",
        REVIEWS,
        {
            "spec": {
                "user": "x",
                "resourceAttributes": ATTRIBUTES,
                "nonResourceAttributes": {"verb": "get", "path": "/"},
            }
        },
    ),
    ("admin", "POST", REVIEWS, {"spec": {"user": "bob", "resourceAttributes": ATTRIBUTES}}),
    (
        "admin",
        "POST",
        REVIEWS,
        {"spec": {"user": "system:serviceaccount:blue:robot", "resourceAttributes": ATTRIBUTES}},
    ),
    (
        "admin",
        "POST",
        f"{SELF}/namespaces/red/localsubjectaccessreviews",
        {"spec": {"user": "x", "resourceAttributes": {"verb": "get"}}},
    ),
    (
        "admin",
        "POST",
        f"{SELF}/namespaces/red/localsubjectaccessreviews",
        {"metadata": {"namespace": "red"}, "spec": {"user": "bob", "resourceAttributes": ATTRIBUTES}},
    ),
    ("bob", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
    ("system:serviceaccount:blue:robot", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
    ("bob", "POST", "/api/v1/namespaces/red/serviceaccounts/robot/token", {}),
    ("admin", "POST", "/api/v1/namespaces/red/serviceaccounts/none/token", {}),
    ("admin", "POST", "/api/v1/namespaces/red/serviceaccounts/robot/token", {"spec": {"expirationSeconds": 5}}),
    ("admin", "POST", "/api/v1/namespaces/red/serviceaccounts/robot/token", {"spec": {"expirationSeconds": 1 << 40}}),
    ("admin", "POST", "/api/v1/namespaces/red/serviceaccounts/robot/token", {"metadata": {"name": "x"}, "spec": {}}),
    (
        "admin",
        "POST",
        "/api/v1/namespaces/red/serviceaccounts/robot/token",
        {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}}},
    ),
    (
        "admin",
        "POST",
        "/api/v1/namespaces/red/serviceaccounts/robot/token",
        {"spec": {"boundObjectRef": {"kind": "Job", "apiVersion": "batch/v1", "name": "none"}}},
    ),
    ("admin", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}}),
]
ROBOT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}


def seen(answer: Answer) -> Json:
    """What of an answer has to be the same in both."""
    if answer.headers.get("content-type", "").startswith("text/"):
        return {"status": answer.status, "text": answer.body.decode()}
    if answer.status == 200 and not answer.body:
        return {"status": 200}
    body = json.loads(answer.body.splitlines()[0])
    found = {"status": answer.status, "kind": body.get("kind")}
    if body.get("kind") == "Status":
        return {**found, "message": body["message"], "reason": body.get("reason"), "details": body.get("details")}
    status = body.get("status") or {}
    for name in ("resourceRules", "nonResourceRules"):
        status = {**status, name: sorted(map(str, status[name]))} if name in status else status
    return {**found, "answer": status}


def test_the_same_people_are_told_the_same(client):
    for item in BEFORE:
        post(client, item)
    post_account = "/api/v1/namespaces/red/serviceaccounts"
    client.request("POST", post_account, ROBOT)
    wait_for(client, "rows")

    async def ask() -> list[Json]:
        world = await muster_world(BEFORE)
        assert (await world.request("POST", post_account, ROBOT)).status == 201
        answers = []
        for who, method, path, *body in ROWS:
            headers = {} if who == "admin" else {"impersonate-user": who}
            answers.append(seen(await world.request(method, path, *body, headers=headers)))
        return answers

    ours = asyncio.run(ask())
    unlike = []
    for (who, method, path, *body), mine in zip(ROWS, ours, strict=True):
        asking = client if who == "admin" else replace(client, headers=(("Impersonate-User", who),))
        real = seen(asking.request(method, path, *body))
        deadline_s = time.monotonic() + 2.0
        while real != mine and real["status"] in (403, 404) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)  # its caches may be late
            real = seen(asking.request(method, path, *body))
        if real != mine:
            unlike.append(f"{who} {method} {path} {body}:\n  {mine}\n  really {real}")
    assert not unlike, "\n".join(unlike)


def test_the_first_roles_are_the_real_ones(client):
    assert kubernetes_roles.table(client) == kubernetes_roles.FILE.read_text()
