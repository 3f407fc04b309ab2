"""Sequences of requests by chance, right ones and wrong ones, that two servers are sent. Used by test_sequences.

A step speaks of what a server has said before by marks such as `<revision of configmaps/a>`, since each of the two
gives out its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote

from tests.kubernetes.comparison import broken

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
YAML = "application/yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST = METADATA.replace("Metadata;", "MetadataList;")
NAMES = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Step:
    """One request; `{ns}` stands for the namespace of the story, and marks for what the server has said."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.content_type} {str(self.body)[:600]} {self.accept[:40]}"


@dataclass(frozen=True, slots=True)
class Family:
    """A kind to write to: where it is, how one is made, and what can be changed about it."""

    plural: str
    prefix: str  # of its paths
    sample: Json
    changes: tuple[Json, ...]  # merge patches that are right
    parts: tuple[str, ...] = ()  # subresources
    is_namespaced: bool = True
    selectors: tuple[str, ...] = ()

    @property
    def collection(self) -> str:
        return (
            f"{self.prefix}/namespaces/{{ns}}/{self.plural}" if self.is_namespaced else f"{self.prefix}/{self.plural}"
        )


def _template(**spec: Any) -> Json:
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


_SELECTOR = {"matchLabels": {"app": "x"}}
_STATUS_OF_JOB = {"status": {"active": 1}}
FAMILIES = (
    Family(
        "configmaps",
        "/api/v1",
        {"data": {"k": "v"}},
        ({"data": {"k": "w"}}, {"data": {"k": None, "l": "x"}}, {"immutable": True}, {"data": None}),
    ),
    Family(
        "secrets",
        "/api/v1",
        {"type": "Opaque", "data": {"k": "dg=="}},
        ({"data": {"k": "dw=="}}, {"stringData": {"l": "x"}}, {"type": "other"}),
        selectors=("type=Opaque", "type!=Opaque"),
    ),
    Family(
        "pods",
        "/api/v1",
        {"spec": _template()["spec"]},
        (
            {"spec": {"containers": [{"name": "c", "image": "j"}]}},
            {"spec": {"nodeName": "n"}},
            {"spec": {"activeDeadlineSeconds": 5}},
            {"status": {"phase": "Running"}},
        ),
        ("status", "binding", "eviction"),
        selectors=("spec.nodeName=", "status.phase=Running", "status.phase!=Running", "spec.restartPolicy=Always"),
    ),
    Family(
        "services",
        "/api/v1",
        {"spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}},
        (
            {"spec": {"selector": {"app": "y"}}},
            {"spec": {"type": "NodePort"}},
            {"spec": {"type": "ClusterIP"}},
            {"spec": {"clusterIP": "10.96.200.200"}},
            {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}},
        ),
        ("status",),
        selectors=("spec.type=ClusterIP",),
    ),
    Family(
        "deployments",
        "/apis/apps/v1",
        {"spec": {"replicas": 2, "selector": _SELECTOR, "template": _template()}},
        (
            {"spec": {"replicas": 3}},
            {"spec": {"paused": True}},
            {"spec": {"template": {"metadata": {"labels": {"v": "1"}}}}},
            {"status": {"replicas": 1, "observedGeneration": 1}},
        ),
        ("status", "scale"),
    ),
    Family(
        "jobs",
        "/apis/batch/v1",
        {"spec": {"template": _template(restartPolicy="Never"), "completions": 2}},
        ({"spec": {"parallelism": 2}}, {"spec": {"suspend": True}}, {"spec": {"completions": 3}}, _STATUS_OF_JOB),
        ("status",),
        selectors=("status.successful=0",),
    ),
    Family(
        "leases",
        "/apis/coordination.k8s.io/v1",
        {"spec": {"holderIdentity": "me"}},
        ({"spec": {"holderIdentity": "you", "leaseDurationSeconds": 5}}, {"spec": {"leaseDurationSeconds": -1}}),
    ),
    Family(
        "poddisruptionbudgets",
        "/apis/policy/v1",
        {"spec": {"minAvailable": 1, "selector": _SELECTOR}},
        ({"spec": {"minAvailable": "50%"}}, {"status": {"disruptionsAllowed": 1, "observedGeneration": 1}}),
        ("status",),
    ),
    Family(
        "events",
        "/api/v1",
        {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"}, "reason": "R", "type": "Normal"},
        ({"count": 2}, {"message": "seen"}),
        selectors=("involvedObject.name=p", "reason!=R", "type=Normal"),
    ),
    Family("serviceaccounts", "/api/v1", {}, ({"automountServiceAccountToken": False},)),
    # It limits nothing: what it limits Muster counts at once, and a real server only where its controllers run.
    Family("resourcequotas", "/api/v1", {"spec": {}}, ({"metadata": {"labels": {"limits": "nothing"}}},)),
    Family(
        "nodes",
        "/api/v1",
        {"spec": {}},
        (
            {"spec": {"unschedulable": True}},
            {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
            {"status": {"capacity": {"cpu": "1"}}},
        ),
        ("status",),
        is_namespaced=False,
        selectors=("spec.unschedulable=true",),
    ),
    Family(
        "priorityclasses",
        "/apis/scheduling.k8s.io/v1",
        {"value": 5},
        ({"description": "x"}, {"value": 6}),
        is_namespaced=False,
    ),
)
_LABELS = ("app=x", "app!=x", "app", "!app", "app in (x,y)", "app notin (x)", "app=x,tier", "app>1", "a b", "app in")
_FIELDS = ("metadata.name=a", "metadata.name!=a", "metadata.namespace={ns}", "nope=1", "metadata.name", "=")


def story(chance: Random, length: int) -> Iterator[Step]:
    """The requests of one story."""
    families = chance.sample(FAMILIES, 4)
    for _ in range(length):
        family = chance.choice(families)
        yield chance.choice(_KINDS_OF_STEPS)(chance, family)


def _name(chance: Random, family: Family) -> str:
    name = chance.choice(NAMES)
    return name if family.is_namespaced else f"{{ns}}-{name}"


def _made(chance: Random, family: Family, name: str) -> Json:
    metadata: Json = {"name": name}
    if chance.random() < 0.6:
        metadata["labels"] = {"app": chance.choice("xy")}
    if chance.random() < 0.1:
        metadata["finalizers"] = ["example.com/hold"]
    return {"metadata": metadata, **deepcopy(family.sample)}


def _broken(chance: Random, item: Json) -> Json:
    """The object with something wrong outside of its metadata."""
    return chance.choice([one for what, one in broken(item) if not what.startswith("metadata")] or [item])


def _create(chance: Random, family: Family) -> Step:
    item = _made(chance, family, _name(chance, family))
    query, content_type, body = "", "application/json", item
    match chance.randrange(12):
        case 0:
            query = "?dryRun=All"
        case 1:
            item["nope"] = 1
            query = chance.choice(("?fieldValidation=Strict", "?fieldValidation=Warn", "?fieldValidation=Ignore", ""))
        case 2:
            item["kind"] = chance.choice(("Pod", "Secret", ""))
        case 3:
            item["apiVersion"] = chance.choice(("v1", "apps/v1", "x/y", ""))
        case 4:
            body = _broken(chance, item)
        case 5:
            body = chance.choice((b"", b"{", b"[]", b"1", b'{"metadata":[]}', b'{"metadata":{"labels":1}}'))
        case 6:
            text = json.dumps(item).replace("{ns}", "default" if family.is_namespaced else "{ns}")
            body, content_type = f"{text}\n---\nsecond: document\n", YAML
        case 7:
            item["metadata"] = {**item["metadata"], **chance.choice(_ODD_METADATA)}
    return Step("POST", f"{family.collection}{query}", body, content_type)


_ODD_METADATA: tuple[Json, ...] = (
    {"namespace": "elsewhere"},
    {"uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "x"},
    {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5},
    {"labels": {"a b": "c"}},
    {"labels": {"a": "b c"}},
    {"annotations": {"a b": "c"}},
    {"finalizers": ["not qualified"]},
    {"finalizers": ["orphan", "foregroundDeletion"]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]},
    {
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": f"u{number}", "controller": True}
            for number in range(2)
        ]
    },
    {"managedFields": [{"manager": "m"}]},
)


def _update(chance: Random, family: Family) -> Step:
    name = _name(chance, family)
    item = _made(chance, family, name)
    of = f"{family.plural}/{name}"
    match chance.randrange(8):
        case 0:
            item["metadata"]["resourceVersion"] = chance.choice(("1", "0", f"<first revision of {of}>"))
        case 1:
            item["metadata"]["uid"] = chance.choice(("u", f"<uid of {of}>"))
        case 2:
            item["metadata"]["name"] = "other"
        case 3:
            item = _broken(chance, item)
        case _:
            item["metadata"]["resourceVersion"] = f"<revision of {of}>"
    item = _merged(item, chance.choice(family.changes)) if chance.random() < 0.7 else item
    path = f"{family.collection}/{name}"
    if family.parts and "status" in family.parts and chance.random() < 0.3:
        path += "/status"
    return Step("PUT", path + chance.choice(("", "", "", "?dryRun=All")), item)


def _merged(item: Json, change: Json) -> Json:
    found = dict(item)
    for name, value in change.items():
        if isinstance(value, dict) and isinstance(found.get(name), dict):
            found[name] = _merged(found[name], value)
        elif value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


_ODD_PATCHES: tuple[Any, ...] = (
    {},
    {"metadata": {"name": "other"}},
    {"metadata": {"uid": "other"}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"generation": 9, "creationTimestamp": None}},
    {"metadata": {"finalizers": ["example.com/hold"]}},
    {"metadata": {"finalizers": None}},
    {"metadata": {"annotations": {"a": "b"}}},
    {"metadata": {"labels": {"a b": "c"}}},
    {"metadata": {"labels": "x"}},
    {"metadata": None},
    {"kind": "Other"},
    {"nope": {"deep": 1}},
    b"{",
    b"[]",
    b"null",
    b"1",
)


def _patch(chance: Random, family: Family) -> Step:
    name = _name(chance, family)
    path = f"{family.collection}/{name}"
    is_of_status = "status" in family.parts and chance.random() < 0.3
    path += "/status" * is_of_status + chance.choice(("", "", "", "?dryRun=All", "?fieldValidation=Strict"))
    content_type = chance.choice((MERGE, STRATEGIC, JSON_PATCH))
    if content_type == JSON_PATCH:
        return Step("PATCH", path, chance.choice(_OPERATIONS), content_type)
    return Step("PATCH", path, chance.choice((*family.changes, *family.changes, *_ODD_PATCHES)), content_type)


def _op(name: str, path: str, **more: Any) -> Json:
    return {"op": name, "path": path, **more}


_OPERATIONS: tuple[Any, ...] = (
    [_op("add", "/metadata/labels", value={"app": "y"})],
    [_op("add", "/metadata/labels/tier", value="t")],
    [_op("remove", "/metadata/labels/tier")],
    [_op("remove", "/metadata/labels")],
    [_op("replace", "/metadata/labels/app", value="z")],
    [_op("test", "/metadata/name", value="a"), _op("add", "/metadata/annotations", value={"t": "ok"})],
    [_op("test", "/metadata/name", value="no")],
    [_op("copy", "/metadata/annotations/copied", **{"from": "/metadata/name"})],
    [_op("move", "/metadata/labels/moved", **{"from": "/metadata/labels/app"})],
    [_op("add", "/metadata/finalizers/-", value="example.com/late")],
    [_op("replace", "/metadata/finalizers", value=[])],
    [_op("nope", "/metadata")],
    [{"path": "/metadata"}],
    [_op("add", "metadata", value=1)],
    [_op("add", "/metadata/labels", value=5)],
    [],
    {},
    b"x",
)


def _delete(chance: Random, family: Family) -> Step:
    name = _name(chance, family)
    path, of = f"{family.collection}/{name}", f"{family.plural}/{name}"
    body: Any = chance.choice(
        (
            None,
            None,
            {},
            {"gracePeriodSeconds": 0},
            {"gracePeriodSeconds": 7},
            {"gracePeriodSeconds": -1},
            {"propagationPolicy": "Background"},
            # Who acts upon these works beside Muster, and beside this Kubernetes nobody does: they are only tried.
            {"propagationPolicy": "Foreground", "dryRun": ["All"]},
            {"propagationPolicy": "Orphan", "dryRun": ["All"]},
            {"propagationPolicy": "Nope"},
            {"orphanDependents": True, "dryRun": ["All"]},
            {"orphanDependents": False, "propagationPolicy": "Orphan"},
            {"preconditions": {"uid": "x"}},
            {"preconditions": {"uid": f"<uid of {of}>"}},
            {"preconditions": {"resourceVersion": f"<revision of {of}>"}},
            {"preconditions": {"resourceVersion": f"<first revision of {of}>"}},
            {"dryRun": ["All"]},
            {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 1},
            {"gracePeriodSeconds": "x"},
            b"{",
        )
    )
    query = ""
    if family.plural == "jobs" and not isinstance(body, bytes):
        body = {"propagationPolicy": "Background", **(body or {})}  # otherwise their pods are orphaned, see above
    if body is None:
        query = chance.choice(
            ("", "?gracePeriodSeconds=0", "?propagationPolicy=Foreground&dryRun=All", "?orphanDependents=1&dryRun=All")
        )
    if chance.random() < 0.15 and family.is_namespaced:
        path, query = family.collection, f"?labelSelector={quote(chance.choice(_LABELS))}"
        if isinstance(body, dict):
            body.pop("preconditions", None)  # of a collection the real server deletes what it gets to first
    return Step("DELETE", path + query, body)


def _list(chance: Random, family: Family) -> Step:
    query = []
    if chance.random() < 0.5 or not family.is_namespaced:
        query.append(f"labelSelector={quote(chance.choice(_LABELS if family.is_namespaced else _LABELS[4:5]))}")
    if chance.random() < 0.3:
        query.append(f"fieldSelector={quote(chance.choice((*_FIELDS, *family.selectors)), safe='{}')}")
    if chance.random() < 0.3 and family.is_namespaced:
        query.append(f"limit={chance.choice(('1', '2', '0', '-1', 'x', ''))}")
        if chance.random() < 0.5:
            query.append(f"continue=<continue of {family.plural}>")
    if chance.random() < 0.2:
        query.append(f"resourceVersion={chance.choice(('0', f'<revision of list {family.plural}>'))}")
        if chance.random() < 0.5 and not any(one.startswith("continue") for one in query):
            query.append(f"resourceVersionMatch={chance.choice(('Exact', 'NotOlderThan', 'Nope'))}")
    accept = chance.choice(("", "", TABLE, METADATA_LIST))
    return Step("GET", family.collection + (f"?{'&'.join(query)}" if query else ""), accept=accept)


def _get(chance: Random, family: Family) -> Step:
    part = chance.choice(("", "", "/status", "/scale", "/nope"))
    return Step(
        "GET", f"{family.collection}/{_name(chance, family)}{part}", accept=chance.choice(("", TABLE, METADATA))
    )


def _part(chance: Random, family: Family) -> Step:
    name = _name(chance, family)
    path = f"{family.collection}/{name}"
    if "scale" in family.parts:
        body = {"spec": {"replicas": chance.choice((0, 5, -1))}}
        if chance.random() < 0.5:
            return Step("PATCH", f"{path}/scale", body, MERGE)
        return Step("PUT", f"{path}/scale", {"metadata": {"name": name}, **body})
    if "binding" in family.parts:
        if chance.random() < 0.5:
            target = {"kind": "Node", "name": chance.choice(("n1", "n2"))}
            return Step("POST", f"{path}/binding", {"metadata": {"name": name}, "target": target})
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        return Step("POST", f"{path}/eviction", eviction)
    return _create(chance, family)


_KINDS_OF_STEPS: tuple[Callable[[Random, Family], Step], ...] = (
    _create,
    _create,
    _create,
    _update,
    _update,
    _patch,
    _patch,
    _patch,
    _delete,
    _list,
    _get,
    _part,
)
