"""The functions of the language as tables of signatures and what computes them. Filled by the library files.

A signature reads `string.charAt(int) -> string` for a method, `size(list(A)) -> int` for a function and
`sets:contains(list(A), list(A)) -> bool` for one that is called sets.contains; single capital letters stand for any
type, the same letter for the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.apiserver.cel.types import DYN, OPAQUE, SIMPLE, Type, list_of, map_of, optional_of, type_of_type

Cost = Callable[..., int]  # of the arguments: the steps beyond the one that every call takes

_SHORT = {
    "quantity": OPAQUE["kubernetes.Quantity"],
    "url": OPAQUE["kubernetes.URL"],
    "ip": OPAQUE["net.IP"],
    "cidr": OPAQUE["net.CIDR"],
    "format": OPAQUE["kubernetes.NamedFormat"],
    "semver": OPAQUE["kubernetes.Semver"],
    **{
        name.lower(): OPAQUE[f"kubernetes.authorization.{name}"]
        for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    },
}
_COMPOSED: dict[str, Callable[..., Type]] = {
    "list": list_of,
    "map": map_of,
    "optional": optional_of,
    "type": type_of_type,
}
_WORD = re.compile(r"[A-Za-z0-9]+|[(),]")
_VARIABLES = {letter: Type("variable") for letter in "ABKV"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """One meaning of a function: for which types, with which result, and how it is computed."""

    function: str
    is_method: bool
    parameters: tuple[Type, ...]
    result: Type
    compute: Callable[..., Any]
    cost: Cost | None = None
    needs_budget: bool = False  # `compute` takes the budget first and charges it itself
    is_generic: bool = False  # has types that any may stand for


def _has_variable(one: Type) -> bool:
    return one.kind == "variable" or any(map(_has_variable, one.parameters))


def overload(signature: str, compute: Callable[..., Any], cost: Cost | None = None) -> Overload:
    """A row of a library's table."""
    return _read(signature, compute, cost=cost, needs_budget=False)


def charging(signature: str, compute: Callable[..., Any]) -> Overload:
    """A row whose function gets the budget first, since only it knows what it will take."""
    return _read(signature, compute, cost=None, needs_budget=True)


def _read(signature: str, compute: Callable[..., Any], *, cost: Cost | None, needs_budget: bool) -> Overload:
    left, result = signature.split(" -> ")
    head, arguments = left[: _opening(left)], left[_opening(left) + 1 : -1]
    parameters = _types(arguments)
    target, _, name = head.rpartition(".")
    types = (*_types(target), *parameters, *_types(result))
    return Overload(
        function=name.replace(":", "."),
        is_method=bool(target),
        parameters=types[:-1],
        result=types[-1],
        is_generic=any(map(_has_variable, types)),
        compute=compute,
        cost=cost,
        needs_budget=needs_budget,
    )


def _opening(left: str) -> int:
    """Where the arguments begin: the opening bracket that the last closing one belongs to."""
    depth = 0
    for index in range(len(left) - 1, -1, -1):
        depth += (left[index] == ")") - (left[index] == "(")
        if depth == 0:
            return index
    raise AssertionError(f"{left} has no arguments")


def _types(text: str) -> tuple[Type, ...]:
    """The types of a list of them, as in `map(string, A), int`."""
    words = _WORD.findall(text)
    found, rest = _read_types(words)
    assert not rest, f"{text} does not end where it should"
    return tuple(found)


def _read_types(words: list[str]) -> tuple[list[Type], list[str]]:
    found: list[Type] = []
    while words and words[0] != ")":
        word, *words = words
        if word == ",":
            continue
        if words and words[0] == "(":
            inner, words = _read_types(words[1:])
            words = words[1:]
            found.append(_COMPOSED[word](*inner))
        else:
            found.append(_VARIABLES.get(word) or SIMPLE.get(word) or _SHORT.get(word) or _COMPOSED[word](DYN))
    return found, words


def table(overloads: Iterable[Overload]) -> Mapping[str, tuple[Overload, ...]]:
    """The overloads by the name of their function."""
    found: dict[str, tuple[Overload, ...]] = {}
    for one in overloads:
        found[one.function] = (*found.get(one.function, ()), one)
    return found
