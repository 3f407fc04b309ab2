"""What may change of a pod that runs, through subresources of its own: debuggers join it, its resources are resized.

Called by `pod_parts`. Whatever else a client sends along is left as it was, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.apiserver.kinds.pods import quality_of
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, not_found, raise_all, required
from muster.model.labels import dns1123_label_problem
from muster.store.kinds import Object

_EPHEMERAL = "spec.ephemeralContainers"
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
)
_RESIZED = ("cpu", "memory")
_KINDS = ("containers", "initContainers")


def with_debuggers(before: Object, given: Object) -> Object:
    """The pod with the ephemeral containers that were added."""
    new = _containers(given["spec"], "ephemeralContainers")
    raise_all(tuple(_debugger_problems(before["spec"], new)))
    return {**before, "spec": {**before["spec"], "ephemeralContainers": new}} if new else before


def _debugger_problems(spec: Object, new: list[Object]) -> Problems:
    own = {one["name"] for one in spec["containers"]}
    taken = own | {one["name"] for one in _containers(spec, "initContainers")}
    for index, one in enumerate(new):
        where, name = f"{_EPHEMERAL}[{index}]", one.get("name") or ""
        if problem := dns1123_label_problem(name):
            yield required(f"{where}.name") if not name else invalid(f"{where}.name", name, problem)
        elif name in taken:
            yield duplicate(f"{where}.name", name)
        taken.add(name)
        if not one.get("image"):
            yield required(f"{where}.image")
        for field in _NOT_EPHEMERAL:
            if one.get(field) not in (None, []) and not (field == "resources" and not one[field]):
                yield forbidden(f"{where}.{field}", "cannot be set for an Ephemeral Container")
        target = one.get("targetContainerName")
        if target and target not in own:
            yield not_found(f"{where}.targetContainerName", target)
    later = {one.get("name"): one for one in new}
    for old in _containers(spec, "ephemeralContainers"):
        if old["name"] not in later:
            yield forbidden(_EPHEMERAL, f'existing ephemeral containers "{old["name"]}" may not be removed\n')
        elif later[old["name"]] != old:
            yield forbidden(_EPHEMERAL, f'existing ephemeral containers "{old["name"]}" may not be changed\n')


def resized(before: Object, given: Object) -> Object:
    """The pod with the resources that its containers have been given."""
    old = before["spec"]
    spec = {**old}
    problems = []
    for kind in _KINDS:
        wanted = {one["name"]: one for one in _containers(given["spec"], kind)}
        if _containers(old, kind):
            spec[kind] = [_resized(one, wanted.get(one["name"], one)) for one in old[kind]]
            problems += list(_resize_problems(old[kind], spec[kind], f"spec.{kind}", wanted))
    quality = quality_of(old)
    if not problems and quality_of(spec) != quality:
        problems.append(invalid("spec", quality, "Pod QOS Class may not change as a result of resizing"))
    raise_all(tuple(problems))
    return {**before, "spec": spec}


def _resized(old: Object, wanted: Object) -> Object:
    return {**old, "resources": wanted.get("resources") or {}}


def _resize_problems(old: list[Object], new: list[Object], path: str, wanted: Mapping[str, Object]) -> Problems:
    for index, (before, after) in enumerate(zip(old, new, strict=True)):
        where = f"{path}[{index}].resources"
        had, has = before.get("resources") or {}, after["resources"]
        asked = wanted.get(before["name"], before)
        if _fixed(had) != _fixed(has) or asked.get("resizePolicy") != before.get("resizePolicy"):
            yield forbidden("spec", "only cpu and memory resources are mutable")
            return
        for kind in ("requests", "limits"):
            if set(had.get(kind) or ()) - set(has.get(kind) or ()):
                yield forbidden(f"{where}.{kind}", f"resource {kind} cannot be removed")


def _fixed(resources: Object) -> Object:
    """What of a container's resources stays as it is while it runs."""
    fixed = {name: value for name, value in resources.items() if name not in ("requests", "limits")}
    for kind in ("requests", "limits"):
        fixed[kind] = {name: value for name, value in (resources.get(kind) or {}).items() if name not in _RESIZED}
    return fixed


def _containers(spec: Object, kind: str) -> list[Object]:
    found: list[Object] = spec.get(kind) or []
    return found
