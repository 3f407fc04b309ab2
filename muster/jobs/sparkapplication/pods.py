"""What the driver and the executors of a SparkApplication ask for, as Spark works it out when it makes their pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.model.fields import Fields, shown

CONTAINERS = {"driver": "spark-kubernetes-driver", "executor": "spark-kubernetes-executor"}
MEMORY = "1g"
UNITS_MIB = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024, "p": 1024**3}
NUMBER_LENGTH = 12
OVERHEAD_LEAST_MIB = 384
OVERHEAD_FACTOR, OVERHEAD_FACTOR_OUTSIDE_JAVA = 0.1, 0.4
POD_FIELDS = ("affinity", "nodeSelector", "tolerations", "priorityClassName", "initContainers", "hostNetwork")


def template_of(spec: Fields, name: str) -> dict[str, Any]:
    """The pod of one part, with the amounts that its only or first container asks for."""
    part = spec.child(name)
    base = part.child("template")
    pod = base.child("spec")
    first = next(pod.children("containers"), Fields({}))
    container = {
        **first.values,
        "name": CONTAINERS[name],
        "image": part.text("image") or spec.text("image") or first.text("image"),
        "resources": _resources(spec, part, first.child("resources")),
    }
    others = [*pod.items("containers")[1:], *part.items("sidecars")]
    given = {field: part.values[field] for field in POD_FIELDS if part.has(field)}
    if spec.has("nodeSelector") and not part.has("nodeSelector"):
        given["nodeSelector"] = spec.text_map("nodeSelector")
    metadata = base.child("metadata")
    labels = {**metadata.text_map("labels"), **part.text_map("labels")}
    annotations = {**metadata.text_map("annotations"), **part.text_map("annotations")}
    kept = {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}
    return {"metadata": kept, "spec": {**pod.values, **given, "containers": [container, *others]}}


def _resources(spec: Fields, part: Fields, given: Fields) -> dict[str, Mapping[str, Any]]:
    memory = f"{_memory_mib(spec, part)}Mi"
    cpu = part.text("coreRequest") or str(part.integer("cores", 1, least=1))
    cards = {}
    if part.has("gpu"):
        gpu = part.child("gpu")
        cards = {gpu.text("name"): str(gpu.integer("quantity", 0, least=0))}
    limits = {**given.child("limits").values, "memory": memory, **cards}
    if part.has("coreLimit"):
        limits["cpu"] = part.text("coreLimit")
    return {"requests": {**given.child("requests").values, "cpu": cpu, "memory": memory, **cards}, "limits": limits}


def _memory_mib(spec: Fields, part: Fields) -> int:
    """The memory of the process and what its pod gets beside it."""
    own = _mib(part, "memory", MEMORY)
    if part.has("memoryOverhead"):
        return own + _mib(part, "memoryOverhead", "")
    is_java = spec.text("type") in ("Java", "Scala", "")
    factor = OVERHEAD_FACTOR if is_java else OVERHEAD_FACTOR_OUTSIDE_JAVA
    if text := spec.text("memoryOverheadFactor"):
        try:
            factor = float(text[:NUMBER_LENGTH])
        except ValueError:
            factor = -1.0
        if not 0 <= factor <= 100:
            raise spec.error("memoryOverheadFactor", f"is {shown(text)}", 'give a share such as "0.1"')
    return own + max(OVERHEAD_LEAST_MIB, int(own * factor))


def _mib(part: Fields, name: str, default: str) -> int:
    """An amount of memory as Java writes it: 512m, 2g; without a unit it is MiB."""
    text = part.text(name, default)
    digits = text.lower().removesuffix("b").removesuffix("i")
    unit = digits[-1:] if digits[-1:] in UNITS_MIB else ""
    number = digits.removesuffix(unit)
    if not (number.isascii() and number.isdigit() and len(number) <= NUMBER_LENGTH):
        raise part.error(name, f"is {shown(text)}", "give an amount such as 512m or 2g")
    return int(int(number) * UNITS_MIB[unit or "m"])
