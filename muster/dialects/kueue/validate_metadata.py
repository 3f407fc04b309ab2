"""Checks of the metadata that every object has: its name, its labels, and how much it carries along."""

from __future__ import annotations

from muster.dialects.kueue.kinds import Kind
from muster.dialects.kueue.kinds_common import LABELS, PLAIN_TEXT
from muster.dialects.kueue.rules import Problems, annotation_problems, label_problems
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.labels import dns1123_label_problem, dns1123_subdomain_problem, label_key_problem
from muster.model.shapes import Anything, ListOf, Moment, Whole, shape_problems
from muster.model.shapes_notation import fields, listed

METADATA = fields(
    "name generateName namespace selfLink uid resourceVersion",
    generation=Whole(is_long=True),
    creationTimestamp=Moment(),
    deletionTimestamp=Moment(),
    deletionGracePeriodSeconds=Whole(is_long=True),
    labels=LABELS,
    annotations=LABELS,
    ownerReferences=listed(
        fields("apiVersion! kind! name! uid! controller:bool blockOwnerDeletion:bool"),
    ),
    finalizers=ListOf(item=PLAIN_TEXT),
    managedFields=ListOf(item=Anything()),
)
_NAME_HINT = "give at most 253 small letters, digits, '-' and '.', a letter or digit at both ends"


def metadata_problems(obj: Fields, kind: Kind) -> Problems:
    """Everything that is wrong with an object's metadata."""
    value = obj.raw("metadata")
    problems = list(shape_problems(METADATA, value, "metadata")) if value is not None else []
    if problems:
        yield from problems
        return
    metadata = obj.child("metadata")
    yield from _name_problems(metadata)
    namespace = metadata.text("namespace") if kind.is_namespaced else ""
    if namespace and (problem := dns1123_label_problem(namespace)):
        yield metadata.error("namespace", problem, "give the name of a namespace")
    yield from label_problems(metadata.text_map("labels"), "metadata.labels")
    yield from annotation_problems(metadata.text_map("annotations"), "metadata.annotations")
    for index, finalizer in enumerate(metadata.texts("finalizers")):
        if problem := label_key_problem(finalizer):
            yield metadata.error(f"finalizers[{index}]", problem, "give a name such as example.com/in-use")


def _name_problems(metadata: Fields) -> Problems:
    name, prefix = metadata.text("name"), metadata.text("generateName")
    if not name and not prefix:
        yield InvalidObject("metadata.name", "is missing", "name the object")
    if name and (problem := dns1123_subdomain_problem(name)):
        yield metadata.error("name", f"is {shown(name)}, which {problem}", _NAME_HINT)
    # Kubernetes adds letters after the prefix, so that a dash at its end is fine.
    if prefix and not name and (problem := dns1123_subdomain_problem(prefix.removesuffix("-") or "-")):
        yield metadata.error("generateName", f"is {shown(prefix)}, which {problem}", _NAME_HINT)
