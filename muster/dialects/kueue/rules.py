"""What the rules of validation share: the object under judgement, and checks of labels, taints and selectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from muster.dialects.kueue.gates import FeatureGates
from muster.dialects.kueue.kinds import HUB
from muster.dialects.kueue.names import GROUP
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.labels import EFFECTS, label_key_problem, label_value_problem, read_selector

ELASTIC_JOB = f"{GROUP}/elastic-job"
ANNOTATIONS_MOST_BYTES = 256 * 1024

Problems = Iterator[InvalidObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object whose shape is right and whose defaults are filled in, with what it replaces in the same version."""

    obj: Fields
    old: Fields | None
    version: str
    gates: FeatureGates
    is_strict: bool

    @property
    def spec(self) -> Fields:
        return self.obj.child("spec")

    @property
    def status(self) -> Fields:
        return self.obj.child("status")

    @property
    def is_hub(self) -> bool:
        return self.version == HUB


Rule = Callable[[Subject], Problems]


def annotations_of(obj: Fields) -> dict[str, str]:
    return obj.child("metadata").text_map("annotations")


def is_elastic(obj: Fields, gates: FeatureGates) -> bool:
    """Whether a workload grows and shrinks by replacing itself."""
    return gates.is_on("ElasticJobsViaWorkloadSlices") and annotations_of(obj).get(ELASTIC_JOB) == "true"


def label_problems(labels: Mapping[str, str], path: str) -> Problems:
    """Keys and values that no label may have."""
    for key, value in labels.items():
        if problem := label_key_problem(key):
            yield InvalidObject(path, f"has the key {shown(key)}, which {problem}", "give the key of a label")
        if problem := label_value_problem(value):
            hint = "give at most 63 letters, digits, '-', '_' and '.'"
            yield InvalidObject(f"{path}[{shown_key(key)}]", f"is {shown(value)}, which {problem}", hint)


def annotation_problems(annotations: Mapping[str, str], path: str) -> Problems:
    """Keys that no annotation may have, and more text than all of them may hold together."""
    size = sum(len((key + value).encode("utf-8", "replace")) for key, value in annotations.items())
    if size > ANNOTATIONS_MOST_BYTES:
        yield InvalidObject(path, f"holds {size} bytes", f"give at most {ANNOTATIONS_MOST_BYTES}")
        return
    for key in annotations:
        # Kubernetes: annotation keys may have capitals where label keys may not.
        if problem := label_key_problem(key.lower()):
            yield InvalidObject(path, f"has the key {shown(key)}, which {problem}", "give a key like a label's")


def shown_key(key: str) -> str:
    return key if len(key) <= 80 else key[:80] + "…"


def selector_problems(parent: Fields, name: str) -> Problems:
    """What is wrong with a label selector; an absent one is fine."""
    try:
        selector = read_selector(parent, name)
    except InvalidObject as unreadable:
        yield unreadable
        return
    if selector is None:
        return
    fields = parent.child(name)
    yield from label_problems(fields.text_map("matchLabels"), fields.at("matchLabels"))
    for expression in fields.children("matchExpressions"):
        if problem := label_key_problem(expression.text("key")):
            yield expression.error("key", problem, "give the key of a label")
        for index, value in enumerate(expression.texts("values")):
            if problem := label_value_problem(value):
                yield expression.error(f"values[{index}]", problem, "give the value of a label")


def taint_problems(parent: Fields, name: str) -> Problems:
    """Taints: valid keys and values, a known effect, and each key with an effect once."""
    seen: set[tuple[str, str]] = set()
    for taint in parent.children(name):
        key, effect = taint.text("key"), taint.text("effect")
        if problem := label_key_problem(key):
            yield taint.error("key", problem, "give the key of a taint")
        if problem := label_value_problem(taint.text("value")):
            yield taint.error("value", problem, "give the value of a taint")
        yield from _effect_problems(taint)
        if (key, effect) in seen:
            yield InvalidObject(taint.path, f"repeats {shown(key)} with {effect}", "give each key and effect once")
        seen.add((key, effect))


def _effect_problems(fields: Fields) -> Problems:
    if fields.has("effect") and fields.text("effect") not in EFFECTS:
        yield fields.error("effect", f"is {shown(fields.raw('effect'))}", "give one of " + ", ".join(EFFECTS))


def toleration_problems(parent: Fields, name: str) -> Problems:
    """Tolerations as Kueue's kinds take them: fewer operators than pods have."""
    for toleration in parent.children(name):
        operator = toleration.text("operator")
        if toleration.has("operator") and operator not in ("Equal", "Exists"):
            yield toleration.error("operator", f"is {shown(operator)}", "give Equal or Exists")
        if not toleration.has("key") and operator != "Exists":
            yield toleration.error("key", "is missing", "give it, or the operator Exists for every taint")
        if toleration.text("key") and (problem := label_key_problem(toleration.text("key"))):
            yield toleration.error("key", problem, "give the key of a taint")
        if operator == "Exists" and toleration.has("value"):
            yield toleration.error("value", "is given with the operator Exists", "take it out")
        if toleration.has("tolerationSeconds") and toleration.text("effect") != "NoExecute":
            yield toleration.error("effect", "is not NoExecute although tolerationSeconds is set", "give NoExecute")
        yield from _effect_problems(toleration)
