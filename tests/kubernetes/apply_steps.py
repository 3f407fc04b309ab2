"""Random writes by several managers to objects of several kinds, for both servers. Used by the tests of apply.

Each kind has fragments: parts that a manager may speak of, with a few values each. A step takes some of them and
applies them, puts them into the object that is there, or patches them in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

Json = dict[str, Any]
Fragment = tuple[str, Sequence[Any]]  # a path with dots, and what may be there
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
MANAGERS = ("alpha", "beta", "gamma", "kubectl")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

METADATA: tuple[Fragment, ...] = (
    ("metadata.labels.a", ("1", "2", None)),
    ("metadata.labels.b", ("1", "2")),
    ("metadata.labels", ({}, None, {"c": "3"})),
    ("metadata.annotations.note", ("x", "y<&>\u2028é")),
    ("metadata.finalizers", (["x.io/a"], ["x.io/b", "x.io/a"], ["x.io/c"], [])),
    ("metadata.ownerReferences", ([{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u1"}],)),
)


def container(name: str = "main", **more: Any) -> Json:
    return {"name": name, **more}


CONTAINERS: tuple[Any, ...] = (
    [container(image="i:1")],
    [container(image="i:2", command=["a", "b"], resources={"requests": {"cpu": "1000m"}})],
    [container(image="i:1", env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])],
    [container(env=[{"name": "B", "value": "3"}])],
    [container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP", "name": "u"}])],
    [container(ports=[{"containerPort": 80, "protocol": "TCP", "name": "web"}], resources={"limits": {"cpu": 2}})],
    [container("side", image="s:1"), container(image="i:1")],
    [container("side", image="s:2")],
    [container("last", image="l"), container("side", image="s:1"), container(image="i:1")],
    [container(volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}])],
    [container(securityContext={"runAsUser": 5, "capabilities": {"add": ["A"]}})],
    [container(image="i:1"), container(image="i:1")],
)
POD_SPEC: tuple[Fragment, ...] = (
    ("containers", CONTAINERS),
    ("volumes", ([{"name": "tmp", "emptyDir": {}}], [{"name": "tmp", "emptyDir": {"medium": "Memory"}}], [])),
    ("nodeSelector", ({"a": "b"}, {"c": "d"}, None)),
    ("tolerations", ([{"key": "a", "operator": "Exists"}], [{"key": "b"}])),
    ("terminationGracePeriodSeconds", (5, 7)),
    ("hostAliases", ([{"ip": "1.2.3.4", "hostnames": ["h"]}], [{"ip": "1.2.3.5", "hostnames": ["h"]}])),
    ("imagePullSecrets", ([{"name": "s"}], [{"name": "t"}, {"name": "s"}])),
    (
        "topologySpreadConstraints",
        ([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}],),
    ),
)


def below(path: str, fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    return tuple((f"{path}.{name}", values) for name, values in fragments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A kind: where its objects are, what one needs, and what may be said of it."""

    path: str
    base: Json
    fragments: tuple[Fragment, ...]
    status: tuple[Fragment, ...] = ()


def _template(**more: Any) -> Json:
    spec = {"containers": [container(image="i:1")], **more}
    return {"metadata": {"labels": {"app": "x"}}, "spec": spec}


_CONDITIONS = (
    [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}],
    [{"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z", "reason": "Odd"}],
    [{"type": "Other", "status": "True"}],
)
_WORKLOAD_STATUS: tuple[Fragment, ...] = (
    ("status.replicas", (1, 3)),
    ("status.observedGeneration", (1,)),
    ("status.conditions", _CONDITIONS),
    ("metadata.labels.s", ("1", "2")),
    ("metadata.annotations.s", ("1", "2")),
    ("spec.replicas", (7,)),
)
_SELECTED = {"selector": {"matchLabels": {"app": "x"}}, "template": _template()}

SUBJECTS: dict[str, Subject] = {
    "ConfigMap": Subject(
        path="/api/v1/namespaces/default/configmaps",
        base={"apiVersion": "v1", "kind": "ConfigMap"},
        fragments=(
            *METADATA,
            ("data.a", ("1", "2", None)),
            ("data.b", ("1", "2")),
            ("data", ({}, None, {"c": "x"})),
            ("binaryData.z", ("AAAA", "BBBB")),
            ("unknown", (1,)),
        ),
    ),
    "Pod": Subject(
        path="/api/v1/namespaces/default/pods",
        base={"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container(image="i:1")]}},
        fragments=(
            *METADATA,
            ("spec.containers", CONTAINERS[:4]),
            ("spec.activeDeadlineSeconds", (5, 4)),
            ("spec.tolerations", ([{"key": "a", "operator": "Exists"}],)),
        ),
        status=(
            ("status.phase", ("Running", "Pending")),
            ("status.conditions", _CONDITIONS),
            ("status.message", ("m", "n")),
            ("metadata.labels.s", ("1", "2")),
            ("spec.activeDeadlineSeconds", (3,)),
        ),
    ),
    "Deployment": Subject(
        path="/apis/apps/v1/namespaces/default/deployments",
        base={"apiVersion": "apps/v1", "kind": "Deployment", "spec": _SELECTED},
        fragments=(
            *METADATA,
            *below("spec.template.spec", POD_SPEC),
            ("spec.replicas", (1, 2, 3, "many")),
            ("spec.strategy", ({"type": "Recreate"}, {"type": "RollingUpdate"}, {})),
            ("spec.template.metadata.annotations.n", ("1", "2")),
            ("spec.paused", (True, False)),
        ),
        status=_WORKLOAD_STATUS,
    ),
    "StatefulSet": Subject(
        path="/apis/apps/v1/namespaces/default/statefulsets",
        base={"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {**_SELECTED, "serviceName": "s"}},
        fragments=(
            *METADATA,
            *below("spec.template.spec", POD_SPEC),
            ("spec.replicas", (1, 2)),
            ("spec.updateStrategy", ({"type": "OnDelete"}, {"rollingUpdate": {"partition": 2}})),
            ("spec.minReadySeconds", (1, 0)),
        ),
        status=_WORKLOAD_STATUS,
    ),
    "Job": Subject(
        path="/apis/batch/v1/namespaces/default/jobs",
        base={"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": _template(restartPolicy="Never")}},
        fragments=(
            *METADATA,
            ("spec.parallelism", (1, 2)),
            ("spec.suspend", (True, False)),
            ("spec.activeDeadlineSeconds", (100, 200)),
        ),
        status=(("status.active", (1, 2)), ("status.terminating", (1, 0)), ("metadata.labels.s", ("1",))),
    ),
    "Service": Subject(
        path="/api/v1/namespaces/default/services",
        base={"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
        fragments=(
            *METADATA,
            (
                "spec.ports",
                (
                    [{"port": 80, "targetPort": 8080}],
                    [{"port": 80, "name": "web"}, {"port": 81, "name": "more"}],
                    [{"port": 80, "name": "web"}, {"port": 80, "protocol": "UDP", "name": "dns"}],
                    [{"port": 81, "name": "more", "protocol": "TCP"}],
                ),
            ),
            ("spec.selector", ({"a": "b"}, {"c": "d"}, {})),
            ("spec.sessionAffinity", ("ClientIP", "None")),
            ("spec.publishNotReadyAddresses", (True, False)),
        ),
        status=(("status.conditions", _CONDITIONS[:1]), ("metadata.labels.s", ("1", "2"))),
    ),
    "Node": Subject(
        path="/api/v1/nodes",
        base={"apiVersion": "v1", "kind": "Node"},
        fragments=(
            *METADATA,
            ("spec.unschedulable", (True, False)),
            ("spec.taints", ([{"key": "a", "effect": "NoSchedule"}], [{"key": "b", "effect": "NoExecute"}])),
        ),
        status=(
            ("status.allocatable", ({"cpu": "4"}, {"cpu": "4000m", "memory": "1Gi"})),
            ("status.conditions", _CONDITIONS),
            ("status.addresses", ([{"type": "InternalIP", "address": "1.1.1.1"}],)),
            ("metadata.labels.s", ("1",)),
            ("spec.unschedulable", (True,)),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One write."""

    method: str
    path: str
    body: Any
    content_type: str
    change: tuple[tuple[str, Any], ...] = ()  # what to put into the present object, where there is no body


def steps(random: Random, name: str, count: int) -> list[Step]:
    """Writes to one object of some kind."""
    subject = random.choice(list(SUBJECTS.values()))
    return [_first(random, subject, name), *(_step(random, subject, name) for _ in range(count - 1))]


def _first(random: Random, subject: Subject, name: str) -> Step:
    base = _named(deepcopy(subject.base), name)
    manager = random.choice(MANAGERS)
    if random.random() < 0.5:
        return Step("PATCH", f"{subject.path}/{name}?fieldManager={manager}", base, APPLY)
    if random.random() < 0.3:
        _set(base, f"metadata.annotations|{LAST_APPLIED}", json.dumps(base))
    return Step("POST", f"{subject.path}?fieldManager={manager}", base, "application/json")


def _step(random: Random, subject: Subject, name: str) -> Step:
    is_status = bool(subject.status) and random.random() < 0.25
    where = f"{subject.path}/{name}" + ("/status" if is_status else "")
    chosen = _chosen(random, subject.status if is_status else subject.fragments)
    query = f"fieldManager={random.choice(MANAGERS)}"
    if random.random() < 0.05:
        query += "&dryRun=All"
    kind = random.random()
    if kind < 0.6:
        body = _named({key: subject.base[key] for key in ("apiVersion", "kind")}, name)
        if random.random() < 0.5 and not is_status:
            body = _named(deepcopy(subject.base), name)
        for path, value in chosen:
            _set(body, path, value)
        force = "&force=true" if random.random() < 0.4 else ""
        return Step("PATCH", f"{where}?{query}{force}", body, APPLY)
    if kind < 0.8:
        return Step("PUT", f"{where}?{query}", None, "application/json", tuple(chosen))
    patch: Json = {}
    for path, value in chosen:
        _set(patch, path, value)
    form = random.choice((MERGE, STRATEGIC))
    return Step("PATCH", f"{where}?{query}", patch, form)


def _chosen(random: Random, fragments: Sequence[Fragment]) -> list[tuple[str, Any]]:
    picked = random.sample(list(fragments), random.randint(0, min(3, len(fragments))))
    return [(path, deepcopy(random.choice(values))) for path, values in picked]


def _named(body: Json, name: str) -> Json:
    body.setdefault("metadata", {})["name"] = name
    return body


def with_change(present: Json, change: Sequence[tuple[str, Any]]) -> Json:
    """An object with some of its fields set; a field set to nothing goes."""
    for path, value in change:
        _set(present, path, value, is_dropping=True)
    return present


def _set(body: Json, path: str, value: Any, *, is_dropping: bool = False) -> None:
    names = path.replace("|", ".", 1).split(".", 2) if "|" in path else path.split(".")
    node = body
    for name in names[:-1]:
        inner = node.get(name)
        if not isinstance(inner, dict):
            inner = node[name] = {}
        node = inner
    if is_dropping and value is None:
        node.pop(names[-1], None)
    else:
        node[names[-1]] = value
