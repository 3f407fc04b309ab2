"""The types of expressions, and how a type fits another. Built by `schemas`, compared by the checker.

An object type is the same as another only if it is that very one: give `self` and `oldSelf` one type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type, with what reading a JSON value of it needs to know."""

    kind: str
    parameters: tuple[Type, ...] = ()
    fields: Mapping[str, Type] = field(default_factory=dict)  # of an object, by the name in expressions
    raw_names: Mapping[str, str] = field(default_factory=dict)  # from that to the name in JSON
    raw_types: Mapping[str, Type] = field(default_factory=dict)  # of the fields by their name in JSON
    list_keys: tuple[str, ...] = ()  # of a list that is a map by these
    is_set: bool = False  # a list whose order means nothing
    is_plain: bool = True  # JSON values of it are values of expressions as they are

    @property
    def element(self) -> Type:
        return self.parameters[-1]

    def __str__(self) -> str:
        if self.kind == "variable":
            return "dyn"
        inner = ", ".join(map(str, self.parameters))
        return f"{self.kind}({inner})" if inner else self.kind


DYN = Type("dyn")
BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double", is_plain=False)
STRING = Type("string")
BYTES = Type("bytes", is_plain=False)
NULL = Type("null")
TIMESTAMP = Type("timestamp", is_plain=False)
DATE = Type("timestamp", is_plain=False)  # the same for expressions; read from a day
DURATION = Type("duration", is_plain=False)
TYPE = Type("type", (DYN,))
ERROR = Type("!error!")  # of an expression that was refused already: fits everything, so that it is told once

SIMPLE = {one.kind: one for one in (DYN, BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION)}
OPAQUE = {
    name: Type(name)
    for name in (
        "kubernetes.Quantity",
        "kubernetes.URL",
        "net.IP",
        "net.CIDR",
        "kubernetes.NamedFormat",
        "kubernetes.Semver",
        "kubernetes.authorization.Authorizer",
        "kubernetes.authorization.PathCheck",
        "kubernetes.authorization.GroupCheck",
        "kubernetes.authorization.ResourceCheck",
        "kubernetes.authorization.Decision",
    )
}
AUTHORIZER = OPAQUE["kubernetes.authorization.Authorizer"]
# Names that stand for a type in an expression, as in type(self) == string.
TYPE_NAMES = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "uint": UINT,
    "string": STRING,
    "null_type": NULL,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "list": Type("list", (DYN,)),
    "map": Type("map", (DYN, DYN)),
    "type": TYPE,
    "optional_type": Type("optional_type", (DYN,)),
} | OPAQUE

_TAKES_NULL = {"object", "timestamp", "duration", "null", "optional_type"} | set(OPAQUE)


def list_of(element: Type, *, list_keys: tuple[str, ...] = (), is_set: bool = False) -> Type:
    """A list; keys or a set say how two of them are compared."""
    is_plain = element.is_plain and not list_keys and not is_set
    return Type("list", (element,), list_keys=list_keys, is_set=is_set, is_plain=is_plain)


def map_of(key: Type, value: Type) -> Type:
    """A map from keys to values."""
    return Type("map", (key, value), is_plain=value.is_plain)


def optional_of(value: Type) -> Type:
    """A value that may be absent."""
    return Type("optional_type", (value,), is_plain=False)


def type_of_type(value: Type) -> Type:
    """The type that type() answers with."""
    return Type("type", (value,))


class Substitution:
    """What the type variables of one expression stand for, with a trail so that a failed try leaves no trace."""

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._trail)

    def undo(self, mark: int) -> None:
        """Forget what was found out since the mark."""
        while len(self._trail) > mark:
            variable, before = self._trail.pop()
            if before is None:
                del self._bound[variable]
            else:
                self._bound[variable] = before

    def found(self, one: Type) -> Type:
        """The type itself, or what the variable stands for so far."""
        while one.kind == "variable" and one in self._bound:
            one = self._bound[one]
        return one

    def resolved(self, one: Type) -> Type:
        """The type with all variables replaced; those that stand for nothing are dyn."""
        one = self.found(one)
        if one.kind == "variable":
            return DYN
        if not one.parameters or one.kind == "object":
            return one
        inner = tuple(self.resolved(parameter) for parameter in one.parameters)
        if all(new is old for new, old in zip(inner, one.parameters, strict=True)):
            return one
        return Type(one.kind, inner)

    def _bind(self, variable: Type, to: Type) -> bool:
        if variable is to:
            return True
        if self._occurs(variable, to):
            return False
        self._trail.append((variable, self._bound.get(variable)))
        self._bound[variable] = to
        return True

    def _occurs(self, variable: Type, inside: Type) -> bool:
        inside = self.found(inside)
        return inside is variable or any(self._occurs(variable, one) for one in inside.parameters)

    def fits(self, wanted: Type, given: Type) -> bool:
        """Whether a value of the given type may stand where the other is wanted; variables get bound."""
        wanted, given = self.found(wanted), self.found(given)
        if wanted is given:
            return True
        if given.kind == "variable":  # the newer to the older, so that many in a row make no chain
            return self._bind(given, wanted)
        if wanted.kind == "variable":
            return self._bind(wanted, given)
        if "dyn" in (wanted.kind, given.kind) or ERROR in (wanted, given):
            return True
        if given.kind == "null" and wanted.kind in _TAKES_NULL:
            return True
        if wanted.kind == "null" and given.kind in _TAKES_NULL:
            return True
        if wanted.kind != given.kind or wanted.kind == "object":
            return False
        pairs = zip(wanted.parameters, given.parameters, strict=True)
        return wanted.kind == "type" or all(self.fits(one, other) for one, other in pairs)
