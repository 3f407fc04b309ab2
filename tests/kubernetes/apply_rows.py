"""Requests about applying, for both servers one after the other: what is refused, and how. For `test_apply`."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
APPLY = "application/apply-patch+yaml"
CBOR = "application/apply-patch+cbor"
MERGE = "application/merge-patch+json"
JSON = "application/json"
CONFIG = "/api/v1/namespaces/default/configmaps/rows"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/rows"
Row = tuple[str, str, Any, str]


def config(**more: Any) -> Json:
    metadata = {"name": "rows", **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def deployment(**spec: Any) -> Json:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "rows"}, "spec": spec}


def pods(**spec: Any) -> Json:
    return deployment(template={"spec": spec})


def applied(path: str, body: Any, query: str = "fieldManager=a") -> Row:
    return "PATCH", f"{path}?{query}", body, APPLY


def updater(number: int) -> Row:
    return "PATCH", f"{CONFIG}?fieldManager=u{number:02}", {"data": {f"k{number}": "x"}}, MERGE


def managed(*entries: Json) -> Row:
    return "PATCH", f"{CONFIG}?fieldManager=m", {"metadata": {"managedFields": list(entries)}}, MERGE


def entry(**more: Any) -> Json:
    plain = {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {**plain, "fieldsV1": {"f:data": {"f:a": {}}}, **more}


_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
_SOUND = deployment(selector={"matchLabels": {"a": "b"}}, template=_TEMPLATE)

ROWS: list[Row] = [
    # What is no apply at all.
    applied(CONFIG, config(), ""),
    applied(CONFIG, config(), f"fieldManager={'c' * 129}"),
    applied(CONFIG, config(), "fieldManager=c%01"),
    ("PATCH", f"{CONFIG}?fieldManager=a", config(), CBOR),
    ("PATCH", f"{CONFIG}?fieldManager=a", config(), "application/odd"),
    ("PATCH", f"{CONFIG}?force=true", {}, MERGE),
    applied(CONFIG, [1]),
    applied(CONFIG, b"text"),
    applied(CONFIG, b""),
    applied(CONFIG, {"apiVersion": "v1", "kind": "ConfigMap"}),
    applied(CONFIG, config(metadata={"name": "other"})),
    applied(CONFIG, config(metadata={"namespace": "other"})),
    applied(CONFIG, {**config(), "kind": "Pod"}),
    applied(CONFIG, {**config(), "apiVersion": "v2"}),
    applied(CONFIG, {"metadata": {"name": "rows"}}),
    applied(CONFIG, config(metadata={"managedFields": []})),
    applied(CONFIG, config(metadata={"managedFields": [{}]})),
    applied(CONFIG, config(metadata={"uid": "1"})),
    applied(f"{DEPLOYMENT}/status", _SOUND),
    # What does not fit the schema.
    applied(CONFIG, config(unknown=1)),
    applied(CONFIG, config(immutable="x")),
    applied(CONFIG, config(data={"a": 1})),
    applied(CONFIG, config(data={"a": {"b": "c"}})),
    applied(CONFIG, config(data=3)),
    applied(DEPLOYMENT, deployment(replicas="x")),
    applied(DEPLOYMENT, deployment(replicas=[1])),
    applied(DEPLOYMENT, pods(containers={"a": 1})),
    applied(DEPLOYMENT, pods(containers=[None])),
    applied(DEPLOYMENT, pods(containers=[3])),
    applied(DEPLOYMENT, pods(containers=[{"name": "x"}, {"name": "x"}])),
    applied(DEPLOYMENT, pods(tolerations=[{"bar": 1}])),
    applied(DEPLOYMENT, pods(nodeSelector={"a": 3})),
    applied(DEPLOYMENT, pods(containers=[{"image": "nameless"}], imagePullSecrets=[{}])),
    applied(DEPLOYMENT, pods(containers=[{"name": "x", "ports": [{"name": "portless"}]}])),
    applied(DEPLOYMENT, {**deployment(), "metadata": {"name": "rows", "finalizers": ["a/b", "a/b"]}}),
    # Who owns what.
    applied(CONFIG, config(metadata={"resourceVersion": "1", "managedFields": None})),
    applied(CONFIG, config(data={"a": "b"})),
    applied(CONFIG, config(data={"a": "b"}), "fieldManager=b"),
    applied(CONFIG, config(data={"a": "c"}), "fieldManager=c"),
    applied(CONFIG, config(data={"a": "c"}), "fieldManager=c&force=true&dryRun=All"),
    applied(CONFIG, config(metadata={"resourceVersion": "1"})),
    applied(CONFIG, config(metadata={"uid": "1"})),
    applied(CONFIG, b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rows}\ndata:\n  a: b\n", "fieldManager=y"),
    # Managers that somebody writes down.
    managed(entry(operation="Odd")),
    managed(entry(apiVersion="")),
    managed(entry(fieldsType="FieldsV2")),
    managed(entry(fieldsV1={"q": {}})),
    managed(entry(fieldsV1="text")),
    managed(entry(), entry(manager="old", apiVersion="v9")),
    managed(entry(fieldsV1={"f:data": {"f:a": {}, "x:later": {}}, 'k:{"b": 1, "a": 2}': {}})),
    managed({}),
    ("PATCH", f"{CONFIG}?fieldManager=m", {"data": {"z": "z"}}, MERGE),
    applied(CONFIG, config(data={"z": "y"})),
    applied(CONFIG, config(data={"y": "y"})),
    # Of those who update only so many are told apart.
    *[updater(number) for number in range(12)],
    # A part of an object.
    ("POST", f"{DEPLOYMENT.removesuffix('/rows')}?fieldManager=m", _SOUND, JSON),
    applied(f"{DEPLOYMENT}/status", {**deployment(), "status": {"replicas": 1}}, "fieldManager=s"),
    applied(
        f"{DEPLOYMENT}/status",
        {**deployment(replicas=4), "status": {"replicas": 2, "readyReplicas": 1}},
        "fieldManager=s",
    ),
    applied(f"{DEPLOYMENT}/scale", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "rows"}}),
    applied(
        f"{DEPLOYMENT}/scale",
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "rows"}, "spec": {"replicas": 5}},
    ),
    applied(
        f"{DEPLOYMENT}/scale",
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "rows"}, "spec": {"replicas": 5}},
        "fieldManager=a&force=true",
    ),
    applied(DEPLOYMENT, deployment(replicas=6), "fieldManager=q"),
]
