"""The rights of a real server and of Muster side by side: the same roles in both. Used by `test_rights`."""

from __future__ import annotations

from random import Random
from typing import Any

GROUP = "rbac.authorization.k8s.io"
START = f"/apis/{GROUP}/v1"
SPACES = ("red", "blue")
USERS = ("ann", "bob", "cid", "system:serviceaccount:red:robot", "system:serviceaccount:blue:robot")
GROUPS = ("devs", "ops", "system:serviceaccounts", "system:serviceaccounts:red", "system:authenticated")
VERBS = ("get", "list", "watch", "create", "update", "delete", "*", "deletecollection", "bind", "impersonate")
API_GROUPS = ("", "apps", "batch", "*", "kueue.x-k8s.io")
RESOURCES = ("pods", "pods/log", "pods/*", "*/scale", "*", "secrets", "deployments", "deployments/scale", "jobs", "")
NAMES = ("a", "b", "*", "")
PATHS = ("/", "/healthz", "/api", "/api/*", "/metrics/*", "*", "/met*", "/a/*/b", "/version/")
ASKED = ("/", "/healthz", "/api", "/api/v1", "/metrics", "/metrics/x", "/a/c/b", "/a/*/b", "/version", "")

Json = dict[str, Any]


def some(chance: Random, values: tuple[str, ...], most: int = 3) -> list[str]:
    return chance.sample(values, chance.randint(1, min(most, len(values))))


def rule(chance: Random, *, is_namespaced: bool) -> Json:
    if not is_namespaced and chance.random() < 0.3:
        return {"verbs": some(chance, VERBS), "nonResourceURLs": some(chance, PATHS)}
    given: Json = {"verbs": some(chance, VERBS), "apiGroups": some(chance, API_GROUPS)}
    given["resources"] = some(chance, RESOURCES[:-1])
    if chance.random() < 0.3:
        given["resourceNames"] = some(chance, NAMES[:-1])
    return given


def subject(chance: Random) -> Json:
    match chance.randrange(3):
        case 0:
            return {"kind": "User", "apiGroup": GROUP, "name": chance.choice(USERS)}
        case 1:
            return {"kind": "Group", "apiGroup": GROUP, "name": chance.choice(GROUPS)}
    return {"kind": "ServiceAccount", "name": "robot", "namespace": chance.choice(SPACES)}


def role(name: str, rules: list[Json], namespace: str = "", **metadata: Any) -> Json:
    place = {"namespace": namespace} if namespace else {}
    kind = "Role" if namespace else "ClusterRole"
    given = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, **place, **metadata}}
    return {**given, "rules": rules}


def binding(name: str, role_kind: str, role_name: str, subjects: list[Json], namespace: str = "") -> Json:
    place = {"namespace": namespace} if namespace else {}
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    given = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, **place}}
    return {**given, "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role_name}, "subjects": subjects}


def user(name: str) -> Json:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def world(chance: Random) -> list[Json]:
    """Some roles, and bindings to them; a few are to roles that do not exist."""
    made = []
    for number in range(12):
        space = chance.choice(SPACES)
        rules = [rule(chance, is_namespaced=True) for _ in range(chance.randint(0, 4))]
        made.append(role(f"r{number}", rules, space))
        made.append(binding(f"b{number}", "Role", f"r{chance.randrange(14)}", [subject(chance)], space))
    for number in range(12):
        rules = [rule(chance, is_namespaced=False) for _ in range(chance.randint(0, 4))]
        made.append(role(f"c{number}", rules))
        space = chance.choice(("", *SPACES))
        subjects = [subject(chance) for _ in range(chance.randint(0, 4))]
        made.append(binding(f"d{number}", "ClusterRole", f"c{chance.randrange(14)}", subjects, space))
    return made


def question(chance: Random) -> Json:
    """The spec of an access review."""
    who = {"user": chance.choice(USERS), "groups": chance.sample(GROUPS, chance.randint(0, 2))}
    verb = chance.choice(VERBS)
    if chance.random() < 0.2:
        return {**who, "nonResourceAttributes": {"verb": verb, "path": chance.choice(ASKED)}}
    resource, _, part = chance.choice(RESOURCES).partition("/")
    about = {
        "verb": verb,
        "group": chance.choice(API_GROUPS),
        "resource": resource,
        "subresource": part,
        "namespace": chance.choice((*SPACES, "")),
        "name": chance.choice(NAMES),
    }
    return {**who, "resourceAttributes": {name: value for name, value in about.items() if value}}


def path_of(given: Json) -> str:
    """Where an object of these kinds is made."""
    plural = f"{given['kind'].lower()}s"
    namespace = given["metadata"].get("namespace")
    return f"{START}/namespaces/{namespace}/{plural}" if namespace else f"{START}/{plural}"
