"""The rules for what every object has in `metadata`. Pure; called by `rules` for each write."""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown
from muster.model.labels import dns1123_label_problem, label_key_problem, label_value_problem
from muster.store.identities import SUFFIX_LENGTH
from muster.store.kinds import KindRules, Object

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"  # the finalizers that stand for a propagation
GENERATED_MOST = 63 - SUFFIX_LENGTH
ANNOTATIONS_BYTES = 256 * 1024
# What the store alone decides; a writer's own values are not looked at.
KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
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


def check_metadata(given: Object, rules: KindRules, before: Object | None) -> None:
    """Raise all that is wrong with an object's metadata."""
    fields = Fields.of(given["metadata"], "metadata")
    problems = [
        *_name_problems(fields, rules),
        *_namespace_problems(fields, rules),
        *_label_problems(fields),
        *_finalizer_problems(fields, before),
        *_owner_problems(fields),
    ]
    if problems:
        raise problems[0] if len(problems) == 1 else InvalidObjects(tuple(problems))


def _name_problems(fields: Fields, rules: KindRules) -> Iterator[InvalidObject]:
    name = fields.text("name")
    if not name:
        yield fields.error("name", "is missing", "give a name, or a generateName")
    elif problem := rules.name_problem(name):
        yield fields.error("name", f"{shown(name)} {problem}", "give a name that obeys the rule")


def _namespace_problems(fields: Fields, rules: KindRules) -> Iterator[InvalidObject]:
    namespace = fields.text("namespace")
    if not rules.is_namespaced:
        if namespace:
            yield fields.error("namespace", f"is {shown(namespace)}, but a {rules.kind} has none", "leave it out")
    elif not namespace:
        yield fields.error("namespace", "is missing", "give a namespace")
    elif problem := dns1123_label_problem(namespace):
        yield fields.error("namespace", f"{shown(namespace)} {problem}", "give the name of a namespace")


def _label_problems(fields: Fields) -> Iterator[InvalidObject]:
    for key, value in fields.text_map("labels").items():
        if problem := label_key_problem(key):
            yield fields.error("labels", f"the key {shown(key)} {problem}", "give a key such as example.com/name")
        if problem := label_value_problem(value):
            yield fields.error("labels", f"the value {shown(value)} {problem}", "give a value that obeys the rule")
    annotations = fields.text_map("annotations")
    for key in annotations:
        if problem := label_key_problem(key.lower()):
            yield fields.error("annotations", f"the key {shown(key)} {problem}", "give a key such as example.com/name")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_BYTES:
        yield fields.error("annotations", f"are {size} bytes long", f"give at most {ANNOTATIONS_BYTES}")


def _finalizer_problems(fields: Fields, before: Object | None) -> Iterator[InvalidObject]:
    finalizers = fields.texts("finalizers")
    for one in finalizers:
        if problem := label_key_problem(one):
            yield fields.error("finalizers", f"{shown(one)} {problem}", "give a name such as example.com/cleanup")
    if {ORPHAN, FOREGROUND} <= set(finalizers):
        yield fields.error("finalizers", f"has both {ORPHAN} and {FOREGROUND}", "give one of them")
    if before is not None and is_deleting(before):
        added = sorted(set(finalizers) - set(finalizers_of(before)))
        if added:
            problem = f"gets {', '.join(added)} while the object is being deleted"
            yield fields.error("finalizers", problem, "finalizers can only be taken off now")


def _owner_problems(fields: Fields) -> Iterator[InvalidObject]:
    controllers = 0
    for owner in fields.children("ownerReferences"):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.text(name):
                yield owner.error(name, "is missing", "say exactly which object is the owner")
        controllers += owner.flag("controller")
        owner.flag("blockOwnerDeletion")
    if controllers > 1:
        yield fields.error("ownerReferences", "names more than one controller", "let one owner be the controller")
