"""metrics.k8s.io: what nodes and pods use, for `kubectl top` and whoever asks. Called by `asgi`; nothing is kept."""

from __future__ import annotations

from types import MappingProxyType

from muster.apiserver.answers import Answer, json_answer
from muster.apiserver.api import Api
from muster.apiserver.facts import Kind
from muster.apiserver.lists import find, read_wanted
from muster.apiserver.requests import Request, Target
from muster.apiserver.selectors import read_selection
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem, method_not_allowed
from muster.model.times import moment_text
from muster.model.usage import Measure, Usage
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.records import Key, Scope

GROUP, VERSION = "metrics.k8s.io", "v1beta1"


def _kind(name: str, plural: str, *, is_namespaced: bool) -> Served:
    kind = Kind(
        group=GROUP,
        version=VERSION,
        kind=name,
        type_name="",
        plural=plural,
        singular="",
        is_namespaced=is_namespaced,
        verbs=("get", "list"),
        subresources=MappingProxyType({}),
    )
    return Served(kind, None)


KINDS = (_kind("NodeMetrics", "nodes", is_namespaced=False), _kind("PodMetrics", "pods", is_namespaced=True))


async def metrics(api: Api, request: Request, target: Target) -> Answer:
    """What a node or pod uses, or all of them."""
    if request.flag("watch"):
        raise method_not_allowed()
    if target.name:
        return json_answer(_one(api, target))
    plural = target.served.kind.plural
    core = api.catalog.find("", "v1", plural)
    assert core is not None, "nodes and pods are always served"
    selection = read_selection(request.option("labelSelector"), request.option("fieldSelector"), core)
    store = api.store.store
    listed = await find(store, Scope(plural, target.namespace), read_wanted(request, store.revision), selection)
    found = (_shown(api, target, decode(record)) for record in listed.records)
    return json_answer(
        {
            "kind": f"{target.served.kind.kind}List",
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": listed.metadata(),
            "items": [one for one in found if one is not None],
        }
    )


def _one(api: Api, target: Target) -> Object:
    key = Key(target.served.kind.plural, target.namespace, target.name)
    try:
        found = _shown(api, target, decode(api.store.store.get(key)))
    except NotFound:
        found = None
    if found is None:
        name = f"{target.namespace}/{target.name}" if target.namespace else target.name
        kind = target.served.kind.kind.lower()
        details = {"name": name, "group": GROUP, "kind": kind}
        raise Problem(404, "NotFound", f'{kind}.{GROUP} "{name}" not found', details=details)
    return found


def _shown(api: Api, target: Target, given: Object) -> Object | None:
    is_node = target.served.kind.plural == "nodes"
    measure = api.usages.of_node(given) if is_node else api.usages.of_pod(given)
    if measure is None:
        return None
    names = ("name", "namespace", "labels", "creationTimestamp")
    metadata = {name: given["metadata"][name] for name in names if name in given["metadata"]}
    shown: Object = {
        "kind": target.served.kind.kind,
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": metadata,
        "timestamp": moment_text(measure.at_s),
        "window": f"{measure.window_s:.3f}s",
    }
    return {**shown, **_usage(measure, is_node=is_node)}


def _usage(measure: Measure, *, is_node: bool) -> Object:
    if is_node:
        return {"usage": _amounts(measure.total)}
    return {"containers": [{"name": name, "usage": _amounts(one)} for name, one in measure.parts.items()]}


def _amounts(usage: Usage) -> Object:
    return {"cpu": f"{usage.cpu_nanos}n", "memory": f"{usage.memory_bytes // 1024}Ki"}
