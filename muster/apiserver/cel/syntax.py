"""The nodes of an expression. Made by the parser, given types and functions by the checker, run by the evaluator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from muster.apiserver.cel.types import DYN, Type

if TYPE_CHECKING:
    from muster.apiserver.cel.signatures import Overload


@dataclass(slots=True, eq=False)
class Node:
    """A part of an expression: where it stands, and its type once that is known."""

    position: int
    type: Type = field(default=DYN, init=False)
    depth: int = field(default=1, init=False)


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A value written down."""

    value: Any


@dataclass(slots=True, eq=False)
class Name(Node):
    """A variable, or the name of a type."""

    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.field`; with `has()` around it a test; with `.?` it may be absent."""

    operand: Node
    field: str
    is_test: bool = False
    is_optional: bool = False


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function or an operator (named as in _+_) of arguments; a method has its target first among them."""

    function: str
    arguments: list[Node]
    is_method: bool = False
    overloads: tuple[Overload, ...] = ()  # those that may be meant, from the checker


@dataclass(slots=True, eq=False)
class ListOf(Node):
    """`[a, ?b]`; the places of elements that may be absent are in `optional`."""

    elements: list[Node]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class MapOf(Node):
    """`{k: v, ?k: v}`, as keys and values in turn."""

    entries: list[tuple[Node, Node]]
    optional: frozenset[int]


@dataclass(slots=True, eq=False)
class Loop(Node):
    """A macro over the elements of its source: `source.kind(name, [name,] [condition,] body)`."""

    kind: str
    source: Node
    names: tuple[str, ...]
    condition: Node | None
    body: Node


def children(node: Node) -> list[Node]:
    """The nodes right below this one."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.arguments
        case ListOf():
            return node.elements
        case MapOf():
            return [one for entry in node.entries for one in entry]
        case Loop():
            return [node.source, *([node.condition] if node.condition else []), node.body]
    return []


def dotted(node: Node) -> str | None:
    """The name written as `a.b.c`, if the node is nothing but that."""
    parts: list[str] = []
    while isinstance(node, Select) and not (node.is_test or node.is_optional):
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Name) else None
