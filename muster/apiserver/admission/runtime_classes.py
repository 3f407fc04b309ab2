"""What pods get from their runtime class: its overhead, and where it runs. Pure; called by the chain.

Kubernetes' RuntimeClass plugin. The overhead counts wherever a pod's requests do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.apiserver.kinds.checks import quantity
from muster.apiserver.kinds.pods import tolerate_failing_nodes
from muster.store.errors import Forbidden
from muster.store.records import Key

Object = dict[str, Any]


def with_runtime(key: Key, pod: Object, find: Callable[[str], Object | None]) -> Object:
    """A new pod as its runtime class wants it; raises Forbidden where both want something else."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName") or ""
    runtime = find(name) if name else None
    if name and runtime is None:
        raise Forbidden(key, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = ((runtime or {}).get("overhead") or {}).get("podFixed") or {}
    given = spec.get("overhead") or {}
    if given and not overhead:
        raise Forbidden(key, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if given and not _is_same(given, overhead):
        raise Forbidden(key, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if runtime is None:
        return pod
    new = {**spec, **({"overhead": overhead} if overhead else {})}
    return {**pod, "spec": _scheduled(key, new, runtime.get("scheduling") or {})}


def _is_same(given: Object, wanted: Object) -> bool:
    if given.keys() != wanted.keys():
        return False
    return all(quantity(given[name]) == quantity(wanted[name]) for name in given)


def _scheduled(key: Key, spec: Object, scheduling: Object) -> Object:
    selector = dict(spec.get("nodeSelector") or {})
    for name, value in sorted((scheduling.get("nodeSelector") or {}).items()):
        if selector.get(name, value) != value:
            wanted = f"runtimeClass.scheduling.nodeSelector[{name}] = {value}"
            raise Forbidden(key, f"conflict: {wanted}; pod.spec.nodeSelector[{name}] = {selector[name]}")
        selector[name] = value
    if selector:
        spec["nodeSelector"] = selector
    if added := scheduling.get("tolerations"):
        tolerate_failing_nodes(spec)  # which come first, as in Kubernetes
        known = spec.get("tolerations") or []
        spec["tolerations"] = known + [one for one in added if one not in known]
    return spec
