"""Pod templates of jobs that start and stop: what a start adds to them, and taking it away again. Used by `jobs`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from muster.engine.contracts import PodSetStart
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

# What a start may change of a template; all of it goes back when the job is stopped.
METADATA_FIELDS = ("labels", "annotations")
SPEC_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")


def started(template: Fields, start: PodSetStart) -> dict[str, Any]:
    """The template with what its pods get; raises where it says otherwise already. Twice is the same as once."""
    metadata, spec = template.child("metadata"), template.child("spec")
    changes = {
        "labels": _joined(metadata, "labels", start.labels),
        "annotations": _joined(metadata, "annotations", start.annotations),
    }
    gates = [{"name": name} for name in start.gates]
    spec_changes = {
        "nodeSelector": _joined(spec, "nodeSelector", start.node_labels),
        "tolerations": _with_new(spec.items("tolerations"), start.tolerations),
        "schedulingGates": _with_new(spec.items("schedulingGates"), gates),
    }
    return _changed(
        template.values,
        {"metadata": _changed(metadata.values, changes), "spec": _changed(spec.values, spec_changes)},
    )


def restored(template: Fields, original: Mapping[str, Any], kept_labels: Collection[str] = ()) -> dict[str, Any]:
    """The template with what a start may change as the original has it; labels of the job's controller stay."""
    before = Fields.of(original)
    metadata, spec = template.child("metadata"), template.child("spec")
    had = metadata.text_map("labels")
    own = {key: value for key, value in had.items() if key in kept_labels}
    changes = {name: before.child("metadata").values.get(name) for name in METADATA_FIELDS}
    changes["labels"] = {**(changes["labels"] or {}), **own}
    spec_changes = {name: before.child("spec").values.get(name) for name in SPEC_FIELDS}
    return _changed(
        template.values,
        {"metadata": _changed(metadata.values, changes), "spec": _changed(spec.values, spec_changes)},
    )


def labelled(template: Fields, labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
    """The template with labels and annotations in place of those it may have had. Twice is the same as once."""
    metadata = template.child("metadata")
    changes = {
        "labels": {**metadata.text_map("labels"), **labels},
        "annotations": {**metadata.text_map("annotations"), **annotations},
    }
    return {**template.values, "metadata": _changed(metadata.values, changes)}


def _joined(parent: Fields, name: str, added: Mapping[str, str]) -> dict[str, str]:
    had = parent.text_map(name)
    for key, value in added.items():
        if had.get(key, value) != value:
            problem = f"is {shown(had[key])}, and the place that was assigned needs {shown(value)}"
            raise InvalidObject(f"{parent.at(name)}[{key}]", problem, "take it out")
    return {**had, **added}


def _with_new(had: list[Any], added: Iterable[Mapping[str, Any]]) -> list[Any]:
    result = list(had)
    result += [dict(one) for one in added if one not in had]
    return result


def _changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the changes; what has become empty is left out."""
    result = {**values, **changes}
    return {name: value for name, value in result.items() if name not in changes or value}
