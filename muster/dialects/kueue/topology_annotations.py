"""How near to each other the pods of a job must be, as annotations on its pod template say. Used by `job_workloads`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from muster.dialects.kueue import names
from muster.engine.contracts import JobPodSet
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown
from muster.model.json_text import begins_as_json
from muster.model.labels import label_key_problem

REQUIRED = f"{names.GROUP}/podset-required-topology"
PREFERRED = f"{names.GROUP}/podset-preferred-topology"
UNCONSTRAINED = f"{names.GROUP}/podset-unconstrained-topology"
SLICE_LEVEL = f"{names.GROUP}/podset-slice-required-topology"
SLICE_SIZE = f"{names.GROUP}/podset-slice-size"
LAYERS = f"{names.GROUP}/podset-slice-required-topology-constraints"
GROUP_NAME = f"{names.GROUP}/podset-group-name"
WAYS = (REQUIRED, PREFERRED, UNCONSTRAINED)
LAYERS_MOST = 3
LAYERS_DEPTH = 4
TEXT_MOST = 4096


def topology_request(pod_set: JobPodSet) -> dict[str, Any]:
    """The request that the template's annotations amount to; empty when they ask for nothing."""
    metadata = Fields.of(pod_set.template, pod_set.template_path).child("metadata")
    annotations = metadata.text_map("annotations")
    path = metadata.at("annotations")
    problems = tuple(_problems(annotations, pod_set.count, path))
    if problems:
        raise InvalidObjects(problems)
    request: dict[str, Any] = {}
    for key, field in ((REQUIRED, "required"), (PREFERRED, "preferred"), (GROUP_NAME, "podSetGroupName")):
        if key in annotations:
            request[field] = annotations[key]
    if UNCONSTRAINED in annotations:
        request["unconstrained"] = annotations[UNCONSTRAINED] == "true"
    if SLICE_LEVEL in annotations:
        request["podSetSliceRequiredTopology"] = annotations[SLICE_LEVEL]
        request["podSetSliceSize"] = int(annotations[SLICE_SIZE])
    if LAYERS in annotations:
        request["podsetSliceRequiredTopologyConstraints"] = _layers(annotations[LAYERS], f"{path}[{LAYERS}]")
    if request and pod_set.index_label:
        request["podIndexLabel"] = pod_set.index_label
    if request and pod_set.group_label:
        request |= {"subGroupIndexLabel": pod_set.group_label, "subGroupCount": pod_set.group_count}
    return request


def _problems(annotations: Mapping[str, str], count: int, path: str) -> Iterator[InvalidObject]:
    given = [key for key in WAYS if key in annotations]
    if len(given) > 1:
        yield InvalidObject(path, f"asks for {' and '.join(given)}", "give only one of them")
    for key in (REQUIRED, PREFERRED, SLICE_LEVEL):
        if key in annotations and (problem := label_key_problem(annotations[key])):
            hint = "give the node label of a topology level"
            yield InvalidObject(f"{path}[{key}]", f"is {shown(annotations[key])}, which {problem}", hint)
    if annotations.get(UNCONSTRAINED, "true") not in ("true", "false"):
        yield InvalidObject(f"{path}[{UNCONSTRAINED}]", f"is {shown(annotations[UNCONSTRAINED])}", 'give "true"')
    if (SLICE_LEVEL in annotations) != (SLICE_SIZE in annotations):
        yield InvalidObject(path, f"has one of {SLICE_LEVEL} and {SLICE_SIZE}", "give both or neither")
    size = annotations.get(SLICE_SIZE)
    if size is not None and not (size.isascii() and size.isdigit() and len(size) <= 10 and 1 <= int(size) <= count):
        yield InvalidObject(f"{path}[{SLICE_SIZE}]", f"is {shown(size)}", f"give a whole number from 1 to {count}")
    if LAYERS in annotations:
        if SLICE_LEVEL in annotations or GROUP_NAME in annotations:
            yield InvalidObject(f"{path}[{LAYERS}]", "stands beside a slice or a group", "give only one of them")
        yield from _layer_problems(annotations[LAYERS], count, f"{path}[{LAYERS}]")


def _layers(text: str, path: str) -> list[dict[str, Any]]:
    """The layers that a JSON text lists; raises for anything else."""
    problem = InvalidObject(path, f"is {shown(text)}", 'give a list such as [{"topology":"rack","size":8}]')
    if len(text) > TEXT_MOST or not begins_as_json(text, LAYERS_DEPTH):
        raise problem
    try:
        layers = json.loads(text)
    except ValueError:
        raise problem from None
    if not isinstance(layers, list) or not 1 <= len(layers) <= LAYERS_MOST:
        raise problem
    fields = [Fields.of(layer, f"{path}[{index}]") for index, layer in enumerate(layers)]
    for layer in fields:
        if not layer.has("size"):
            raise layer.error("size", "is missing", "give the number of pods in a layer")
    return [{"topology": layer.text("topology"), "size": layer.integer("size", least=1)} for layer in fields]


def _layer_problems(text: str, count: int, path: str) -> Iterator[InvalidObject]:
    try:
        layers = _layers(text, path)
    except InvalidObject as problem:
        yield problem
        return
    if len({layer["topology"] for layer in layers}) < len(layers):
        yield InvalidObject(path, "names a level twice", "name each once")
    outer = count
    for number, layer in enumerate(layers):
        if problem_text := label_key_problem(layer["topology"]):
            yield InvalidObject(path, f"names {shown(layer['topology'])}, which {problem_text}", "name a node label")
        is_too_large = layer["size"] > outer if number == 0 else outer % layer["size"] != 0
        if is_too_large:
            yield InvalidObject(path, f"has a layer of {layer['size']} in {outer}", "give sizes that divide each other")
        outer = layer["size"]
