"""The rules for what every object has in `metadata`. Pure; called by `rules` for each write."""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.errors import InvalidObject, quoted
from muster.model.fields import Fields, shown
from muster.model.labels import dns1123_label_problem, label_key_problem, label_value_problem
from muster.store.identities import SUFFIX_LENGTH
from muster.store.kinds import KindRules, Object

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"  # the finalizers that stand for a propagation
GENERATED_MOST = 63 - SUFFIX_LENGTH
ANNOTATIONS_BYTES = 256 * 1024
# What the store alone decides; a writer's own values are not looked at.
KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
)
NEVER = ("selfLink",)


def metadata_of(given: Object) -> Object:
    """The metadata of an object, which has to be there."""
    metadata = given.get("metadata")
    if not isinstance(metadata, dict):
        problem = "is missing" if metadata is None else f"is {shown(metadata)}"
        raise InvalidObject("metadata", problem, "give an object with a name")
    return metadata


def owners_of(given: Object) -> tuple[str, ...]:
    """The uids of the owners that an object names."""
    return tuple(one["uid"] for one in given["metadata"].get("ownerReferences") or ())


def finalizers_of(given: Object) -> list[str]:
    """The finalizers of a stored object."""
    return list(given["metadata"].get("finalizers") or ())


def is_deleting(given: Object) -> bool:
    """Whether an object is on its way out."""
    return given["metadata"].get("deletionTimestamp") is not None


def generated_name(prefix: str, suffix: str) -> str:
    """A name made of the prefix that a writer gave and five characters of chance."""
    return prefix[:GENERATED_MOST] + suffix


def metadata_problems(given: Object, rules: KindRules, before: Object | None) -> tuple[InvalidObject, ...]:
    """All that is wrong with an object's metadata."""
    fields = Fields.of(given["metadata"], "metadata")
    return (
        *_name_problems(fields, rules),
        *_namespace_problems(fields, rules),
        *_label_problems(fields),
        *_finalizer_problems(fields, before),
        *_owner_problems(fields),
    )


def _name_problems(fields: Fields, rules: KindRules) -> Iterator[InvalidObject]:
    name, prefix = fields.text("name"), fields.text("generateName")
    if prefix and (problem := rules.name_problem(prefix[:-1] + "a" if prefix.endswith("-") else prefix)):
        yield _invalid(fields, "generateName", prefix, problem)
    if not name:
        yield fields.error("name", "Required value: name or generateName is required")
    elif problem := rules.name_problem(name):
        yield _invalid(fields, "name", name, problem)


def _namespace_problems(fields: Fields, rules: KindRules) -> Iterator[InvalidObject]:
    namespace = fields.text("namespace")
    if not rules.is_namespaced:
        if namespace:
            yield fields.error("namespace", f"Forbidden: not allowed on a {rules.kind}, which is in no namespace")
    elif not namespace:
        yield fields.error("namespace", "Required value")
    elif problem := dns1123_label_problem(namespace):
        yield _invalid(fields, "namespace", namespace, problem)


def _label_problems(fields: Fields) -> Iterator[InvalidObject]:
    for key, value in fields.text_map("labels").items():
        if problem := label_key_problem(key):
            yield _invalid(fields, "labels", key, problem)
        if problem := label_value_problem(value):
            yield _invalid(fields, "labels", value, problem)
    annotations = fields.text_map("annotations")
    for key in annotations:
        if problem := label_key_problem(key.lower()):
            yield _invalid(fields, "annotations", key, problem)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_BYTES:
        yield fields.error("annotations", f"Too long: may not be more than {ANNOTATIONS_BYTES} bytes")


def _finalizer_problems(fields: Fields, before: Object | None) -> Iterator[InvalidObject]:
    finalizers = fields.texts("finalizers")
    for one in finalizers:
        if problem := label_key_problem(one):
            yield _invalid(fields, "finalizers", one, problem)
    if {ORPHAN, FOREGROUND} <= set(finalizers):
        why = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        yield _invalid(fields, "finalizers", list(finalizers), why)
    if before is not None and is_deleting(before):
        added = sorted(set(finalizers) - set(finalizers_of(before)))
        if added:
            why = f"only taking finalizers off is possible while the object is deleted, and {', '.join(added)} is new"
            yield fields.error("finalizers", f"Forbidden: {why}")


def _owner_problems(fields: Fields) -> Iterator[InvalidObject]:
    controllers = []
    for owner in fields.children("ownerReferences"):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.text(name):
                yield _invalid(fields, f"ownerReferences.{name}", "", "must not be empty")
        controllers += [owner.text("name")] * owner.flag("controller")
        owner.flag("blockOwnerDeletion")
    if len(controllers) > 1:
        why = f"only one reference can be the controller, not {', '.join(controllers[:10])}"
        yield fields.error("ownerReferences", f"Invalid value: {why}")


def _invalid(fields: Fields, name: str, value: object, problem: str) -> InvalidObject:
    return fields.error(name, f"Invalid value: {quoted(value)}: {problem}")
