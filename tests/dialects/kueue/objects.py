"""Objects of Kueue's kinds for tests: builders with good defaults, and random or complete objects made from a shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from muster.dialects.kueue.kinds import HUB, KINDS
from muster.model.shapes import (
    Amount,
    Anything,
    Duration,
    Flag,
    IntOrText,
    ListOf,
    MapOf,
    Moment,
    Number,
    Schema,
    Struct,
    Text,
    Whole,
)

Object = dict[str, Any]
GROUP = "kueue.x-k8s.io"
NOW = "2030-01-31T12:00:00Z"


# Builders ---------------------------------------------------------------------------------------------------------


def obj(kind: str, spec: Any = None, *, version: str = HUB, metadata: Any = None, **more: Any) -> Object:
    """An object of a kind, named "x" unless its metadata say otherwise."""
    made: Object = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "x"} | (metadata or {})}
    if KINDS[kind].is_namespaced:
        made["metadata"] = {"namespace": "team"} | made["metadata"]
    if spec is not None:
        made["spec"] = spec
    return made | more


def quota(name: str = "cpu", nominal: Any = 10, **limits: Any) -> Object:
    return {"name": name, "nominalQuota": nominal} | limits


def flavor(*quotas: Object, name: str = "standard") -> Object:
    return {"name": name, "resources": list(quotas) or [quota()]}


def group(*flavors: Object, covered: tuple[str, ...] = ("cpu",)) -> Object:
    return {"coveredResources": list(covered), "flavors": list(flavors) or [flavor()]}


def cluster_queue(*groups: Object, version: str = HUB, **spec: Any) -> Object:
    """A queue that admits everybody, in the cohort "all", with one group unless others are given."""
    cohort = "cohortName" if version == HUB else "cohort"
    filled = {"namespaceSelector": {}, cohort: "all", "resourceGroups": list(groups) or [group()]} | spec
    return obj("ClusterQueue", {key: value for key, value in filled.items() if value is not None}, version=version)


def pod_set(name: str = "main", *, requests: Any = None, pod: Any = None, **more: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {"cpu": "1"}}}
    return {"name": name, "count": 2, "template": {"spec": {"containers": [container]} | (pod or {})}} | more


def workload(
    *pod_sets: Object,
    version: str = HUB,
    annotations: Mapping[str, str] | None = None,
    status: Any = None,
    **spec: Any,
) -> Object:
    metadata = {"annotations": dict(annotations)} if annotations else None
    more = {"status": status} if status is not None else {}
    body = {"queueName": "q", "podSets": list(pod_sets) or [pod_set()]} | spec
    return obj("Workload", body, version=version, metadata=metadata, **more)


def condition(name: str, status: str = "True") -> Object:
    return {"type": name, "status": status, "reason": "Test", "message": "", "lastTransitionTime": NOW}


def reserved(*assignments: Object, more: tuple[Object, ...] = (), **status: Any) -> Object:
    """The status of a workload that holds quota."""
    given = list(assignments) or [{"name": "main", "count": 2, "flavors": {"cpu": "standard"}}]
    admission = {"clusterQueue": "cq", "podSetAssignments": given}
    return {"conditions": [condition("QuotaReserved"), *more], "admission": admission} | status


# Objects made from a shape ----------------------------------------------------------------------------------------


def complete(schema: Schema) -> Any:
    """A value in which every field of the shape is there once."""
    match schema:
        case Struct():
            return {name: complete(part) for name, part in schema.fields.items()}
        case ListOf():
            return [complete(schema.item)]
        case MapOf():
            return {"a": complete(schema.item)}
        case Text():
            return schema.choices[0] if schema.choices else "a"
        case Whole():
            return max(1, schema.least or 0)
        case Flag():
            return True
        case Amount() | Number():
            return 1
        case Moment():
            return NOW
        case Duration():
            return "1m"
        case IntOrText():
            return 80
        case _:
            return {}


def complete_object(kind: str, version: str, *, whole_pod: bool = False) -> Object:
    """An object with every field its version has, rules between fields aside; pods are small unless asked for whole."""
    made: Object = complete(KINDS[kind].shapes[version])
    if kind == "Workload":
        seed_topology(version)
        made["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = SEEDED[1]
        pod = made["spec"]["podSets"][0]["template"]["spec"]
        if not whole_pod:
            container = {"name": "c", "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 1}}}
            small = {"containers": [container], "initContainers": [container], "tolerations": pod["tolerations"]}
            made["spec"]["podSets"][0]["template"]["spec"] = small
    return made | {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": complete_metadata(kind)}


def complete_metadata(kind: str) -> Object:
    metadata: Object = {"name": "x", "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a/b"]}
    owner = {"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "u"}
    return metadata | {"ownerReferences": [owner]} | ({"namespace": "team"} if KINDS[kind].is_namespaced else {})


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield (*path, step)
        yield from paths(item, (*path, step))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at a place."""
    if not path:
        return new
    if isinstance(value, dict):
        return value | {path[0]: replaced(value[path[0]], path[1:], new)}
    return [replaced(item, path[1:], new) if index == path[0] else item for index, item in enumerate(value)]


_NAMES = st.sampled_from(["a", "b", "gpu-1", "zone.x", "c2"])


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Random values of a shape; fields come and go."""
    match schema:
        case Struct():
            parts = {name: values(part) for name, part in schema.fields.items()}
            required = {name: parts.pop(name) for name in schema.required}
            return st.fixed_dictionaries(required, optional=parts)
        case ListOf():
            key = (lambda item: tuple(str(item.get(name)) for name in schema.keys)) if schema.keys else None
            unique = key or (repr if schema.is_set else None)
            return st.lists(values(schema.item), min_size=schema.least, max_size=2, unique_by=unique)
        case MapOf():
            return st.dictionaries(_NAMES, values(schema.item), max_size=2)
        case Text():
            return st.sampled_from(schema.choices) if schema.choices else _text(schema)
        case Whole():
            return st.integers(schema.least if schema.least is not None else 0, 5)
        case Flag():
            return st.booleans()
        case Amount() | Number():
            return st.sampled_from([0, 1, "500m", "2Gi", 7])
        case Moment():
            return st.just(NOW)
        case Anything():
            return st.just({})
        case _:
            return st.just(80)


def _text(schema: Text) -> st.SearchStrategy[str]:
    if schema.form is None:
        return st.one_of(_NAMES, st.just("")) if not schema.least else _NAMES
    return st.sampled_from(["a", "b", "c"])


def objects(kind: str, version: str) -> st.SearchStrategy[Object]:
    """Random objects of a kind whose shape is right."""
    shape = KINDS[kind].shapes[version]
    parts = {name: _part(part) for name, part in shape.fields.items() if name not in ("apiVersion", "kind", "metadata")}
    annotations: st.SearchStrategy[Any] = st.one_of(st.none(), st.just({}), st.just({"a": "b"}))
    required = {"value": parts.pop("value")} if "value" in parts else {}
    body = st.fixed_dictionaries(required, optional=parts)
    return st.builds(lambda more, notes: obj(kind, version=version, metadata=_notes(notes)) | more, body, annotations)


def _notes(annotations: Object | None) -> Object:
    return {} if annotations is None else {"annotations": dict(annotations)}


def _part(schema: Schema) -> st.SearchStrategy[Any]:
    """Values of a shape in which pod templates are small and topology assignments consistent."""
    return values(_simplified(schema)).map(_with_sound_topology)


def _simplified(schema: Schema) -> Schema:
    match schema:
        case Struct() if "containers" in schema.fields:
            return Anything()
        case Struct():
            kept = {name: _simplified(part) for name, part in schema.fields.items()}
            if "topologyAssignment" in kept:
                kept["topologyAssignment"] = Whole(least=1)  # a seed, see _with_sound_topology
            return Struct(fields=kept, required=schema.required)
        case ListOf():
            return ListOf(item=_simplified(schema.item), least=schema.least, keys=schema.keys, is_set=schema.is_set)
        case _:
            return schema


def _with_sound_topology(value: Any) -> Any:
    """Topology assignments made from their seeds."""
    if isinstance(value, list):
        return [_with_sound_topology(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: SEEDED[item % len(SEEDED)] if key == "topologyAssignment" else _with_sound_topology(item)
        for key, item in value.items()
    }


SEEDED: list[Object] = []


def seed_topology(version: str) -> None:
    """Chooses the form that random topology assignments have."""
    SEEDED[:] = _SLICED if version == HUB else _LISTED


_LISTED: list[Object] = [
    {"levels": ["host"], "domains": [{"values": ["n1"], "count": 1}]},
    {"levels": ["rack", "host"], "domains": [{"values": ["r", f"n-{i}.x"], "count": i + 1} for i in range(3)]},
    {"levels": ["host"], "domains": []},
]
_SLICED: list[Object] = [
    {
        "levels": ["host"],
        "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 1}}],
    },
    {
        "levels": ["rack", "host"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"universal": "r"}, {"individual": {"roots": ["n1", "n2"]}}],
                "podCounts": {"individual": [1, 1]},
            },
            {
                "domainCount": 1,
                "valuesPerLevel": [{"universal": "s"}, {"individual": {"roots": ["3"], "prefix": "n"}}],
                "podCounts": {"universal": 2},
            },
        ],
    },
    {"levels": ["host"], "slices": []},
]
