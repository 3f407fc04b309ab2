"""What Kueue refuses or passes over although its meaning is plain: read as meant, with a warning.

`forgive` is called before defaulting and validation, unless `strictValidation` is on. It never fails: parts of the
wrong type are left for validation to name. Limits without a cohort and resources that a flavor leaves out stay as
they are written: the reader understands them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.dialects.kueue.names import GROUP, QUEUE_NAME
from muster.dialects.kueue.warning import ObjectWarning
from muster.model.fields import Fields
from muster.model.plain import copied

Warnings = tuple[ObjectWarning, ...]


def forgive(obj: Mapping[str, Any]) -> tuple[dict[str, Any], Warnings]:
    """The object as it is read, and what its author should know; it may share its parts with the argument."""
    kind = obj.get("kind")
    if kind == "Workload":
        has_replicas = any("replicas" in one for _, one in _objects(_at(obj, "spec", "podSets"), ""))
        return _with_counts(copied(obj)) if has_replicas else (dict(obj), ())
    result = dict(obj)
    if kind == "ClusterQueue":
        parent = "cohort" if obj.get("apiVersion") == f"{GROUP}/v1beta1" else "cohortName"
        return result, (*_limit_warnings(result, parent), *left_out_warnings(result), *_selector_warnings(result))
    if kind == "Cohort":
        return result, (*_limit_warnings(result, "parentName"), *left_out_warnings(result))
    return result, ()


def queue_name_of_job(job: Mapping[str, Any], *, strict: bool = False) -> tuple[str, Warnings]:
    """The queue a job asks for: its label, or the annotation that was the way before; empty when it names none."""
    metadata = Fields.of(job).child("metadata")
    label = metadata.text_map("labels").get(QUEUE_NAME, "")
    annotation = metadata.text_map("annotations").get(QUEUE_NAME, "")
    if label or not annotation:
        return label, ()
    path = f"metadata.annotations[{QUEUE_NAME}]"
    hint = f"give the label {QUEUE_NAME} instead"
    if strict:
        return "", (ObjectWarning(path, "is not read: the queue is named by a label", hint),)
    return annotation, (ObjectWarning(path, "names the queue the old way", hint),)


# Workload ---------------------------------------------------------------------------------------------------------


def _with_counts(workload: dict[str, Any]) -> tuple[dict[str, Any], Warnings]:
    """Pod sets that say `replicas` where the field is `count`."""
    warnings = []
    for path, pod_set in _objects(_at(workload, "spec", "podSets"), "spec.podSets"):
        replicas = pod_set.pop("replicas", None)
        if replicas is None:
            continue
        if pod_set.get("count") is None:
            pod_set["count"] = replicas
            warnings.append(ObjectWarning(f"{path}.replicas", "is read as count", "write count"))
        else:
            warnings.append(ObjectWarning(f"{path}.replicas", "has no effect beside count", "take it out"))
    return workload, tuple(warnings)


# Queues -----------------------------------------------------------------------------------------------------------


def _limit_warnings(queue: Mapping[str, Any], parent: str) -> Iterator[ObjectWarning]:
    if _at(queue, "spec", parent):
        return
    for _, flavor_path, flavor in _flavors(queue):
        for path, resource in _objects(flavor.get("resources"), f"{flavor_path}.resources"):
            for name in ("borrowingLimit", "lendingLimit"):
                if resource.get(name) is not None:
                    problem = f"has no effect as long as spec.{parent} is empty"
                    yield ObjectWarning(f"{path}.{name}", problem, f"give spec.{parent}, or take the limit out")


def left_out_warnings(queue: Mapping[str, Any]) -> Iterator[ObjectWarning]:
    """Covered resources that a flavor says nothing of."""
    for covered, path, flavor in _flavors(queue):
        left_out = left_out_resources(covered, flavor)
        for name in left_out:
            problem = f"says nothing of {name}, which is covered: it is unlimited in this flavor"
            yield ObjectWarning(f"{path}.resources", problem, f"add {name} with a nominalQuota")


def left_out_resources(covered: list[str], flavor: Mapping[str, Any]) -> list[str]:
    """The covered resources that a flavor leaves out; none if what it has is not in the order of the covered ones."""
    names: list[Any] = [resource.get("name") for _, resource in _objects(flavor.get("resources"), "")]
    rest: Iterator[Any] = iter(covered)
    if not names or not all(name in rest for name in names):
        return []
    return [name for name in covered if name not in names]


def _selector_warnings(queue: Mapping[str, Any]) -> Iterator[ObjectWarning]:
    if _at(queue, "spec", "namespaceSelector") is None:
        problem = "is missing: the queue admits nobody"
        yield ObjectWarning("spec.namespaceSelector", problem, "write {} to let every namespace in")


def _flavors(queue: Mapping[str, Any]) -> Iterator[tuple[list[str], str, Mapping[str, Any]]]:
    """Every flavor with its path and the resources its group covers."""
    for group_path, group in _objects(_at(queue, "spec", "resourceGroups"), "spec.resourceGroups"):
        covered = group.get("coveredResources")
        names = [name for name in covered if isinstance(name, str)] if isinstance(covered, list) else []
        for path, flavor in _objects(group.get("flavors"), f"{group_path}.flavors"):
            yield names, path, flavor


def _at(value: Any, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _objects(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a list with their paths; whatever else is there is passed over."""
    for index, item in enumerate(value if isinstance(value, list) else []):
        if isinstance(item, dict):
            yield f"{path}[{index}]", item
