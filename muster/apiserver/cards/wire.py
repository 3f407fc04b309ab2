"""What a kube-scheduler sends to an extender, and what it wants to hear. Pure; used by `asgi`.

Go writes the fields of these structs by their Go names and reads them in any case; both are done here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.dialects.hami.filter import FilterAnswer
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object

MOST_NODES = 20_000  # of one question


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterArgs:
    """Which of some nodes could take a pod."""

    pod: Object
    names: tuple[str, ...]
    nodes: tuple[Object, ...] | None = None  # whole objects, where the scheduler keeps no cache or only wants to know


@dataclass(frozen=True, slots=True, kw_only=True)
class BindArgs:
    """Which pod goes to which node."""

    namespace: str
    name: str
    uid: str
    node: str


def _lowered(given: object) -> Fields:
    fields = Fields.of(given)
    return Fields({str(name).lower(): value for name, value in fields.values.items()}, "")


def read_filter(given: Object) -> FilterArgs:
    """ExtenderArgs; raises `InvalidObject`."""
    fields = _lowered(given)
    pod = dict(fields.child("pod").values)
    metadata = fields.child("pod").child("metadata")
    metadata.text_map("annotations")
    if fields.has("nodes") and fields.raw("nodes") is not None:
        items = fields.child("nodes").items("items")
        nodes = tuple(dict(Fields.of(one, f"nodes.items[{number}]").values) for number, one in enumerate(items))
        names = tuple(Fields.of(one).child("metadata").text("name") for one in nodes)
        return FilterArgs(pod=pod, names=_few(names), nodes=nodes)
    return FilterArgs(pod=pod, names=_few(fields.texts("nodenames")))


def _few(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MOST_NODES:
        raise InvalidObject("NodeNames", f"names {len(names)} nodes", f"ask about at most {MOST_NODES}")
    return names


def read_bind(given: Object) -> BindArgs:
    """ExtenderBindingArgs; raises `InvalidObject`."""
    fields = _lowered(given)
    read = {name: fields.text(name) for name in ("podname", "podnamespace", "poduid", "node")}
    for name, value in read.items():
        if not value:
            raise InvalidObject(name, "is missing", "send the pod's name, namespace and uid, and the node")
    return BindArgs(namespace=read["podnamespace"], name=read["podname"], uid=read["poduid"], node=read["node"])


def filter_result(args: FilterArgs, answer: FilterAnswer) -> Object:
    """ExtenderFilterResult."""
    nodes: Any = None
    if args.nodes is not None:
        fitting = frozenset(answer.nodes)
        items = [one for one, name in zip(args.nodes, args.names, strict=True) if name in fitting]
        nodes = {"metadata": {}, "items": items}
    return _result(nodes=nodes, names=None if args.nodes is not None else list(answer.nodes), failed=answer.refused)


def filter_error(problem: str) -> Object:
    """ExtenderFilterResult of a pod that cannot be placed by anybody."""
    return {**_result(nodes=None, names=None, failed={}), "Error": problem}


def _result(*, nodes: Any, names: list[str] | None, failed: Mapping[str, str]) -> Object:
    return {
        "Nodes": nodes,
        "NodeNames": names,
        "FailedNodes": dict(failed),
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def bind_result(problem: str = "") -> Object:
    """ExtenderBindingResult; an empty text: the pod is bound."""
    return {"Error": problem}
