"""Gives each node its type and its functions, or says what does not fit. Called by `compile_expression`.

All mistakes of an expression are found at once: a part that is refused has a type that fits everything after it.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.apiserver.cel.functions import FUNCTIONS
from muster.apiserver.cel.literals import literal_problem
from muster.apiserver.cel.problems import SourceProblem
from muster.apiserver.cel.signatures import Overload
from muster.apiserver.cel.syntax import Call, ListOf, Literal, Loop, MapOf, Name, Node, Select, dotted
from muster.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TYPE_NAMES,
    UINT,
    Substitution,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of_type,
)
from muster.apiserver.cel.values import kind_of

_LITERALS = {"bool": BOOL, "int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES, "null": NULL}
_SORTABLE = frozenset({"int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes", "dyn"})


def check(node: Node, variables: Mapping[str, Type]) -> list[SourceProblem]:
    """Fill in the types and functions of all nodes; the mistakes found, none if it is sound."""
    checker = _Checker(variables)
    checker.type_of(node)
    checker.settle()
    return sorted(checker.problems, key=lambda problem: problem.position)


class _Checker:
    def __init__(self, variables: Mapping[str, Type]) -> None:
        self.problems: list[SourceProblem] = []
        self._scopes: list[Mapping[str, Type]] = [variables]
        self._types = Substitution()
        self._checked: list[Node] = []
        self._formats = 0  # the calls of format() around: only there may the elements of a list differ

    def settle(self) -> None:
        """Replace type variables by what they turned out to be; then what is written down can be judged."""
        for one in self._checked:
            one.type = self._types.resolved(one.type)
        for one in self._checked:
            if isinstance(one, Call) and one.overloads and (problem := literal_problem(one)):
                self.problems.append(problem)

    def _refuse(self, node: Node, message: str) -> Type:
        self.problems.append(SourceProblem(node.position, message))
        return ERROR

    def _shown(self, one: Type) -> str:
        return str(self._types.resolved(one))

    def type_of(self, node: Node) -> Type:
        """The type of a node, kept on it."""
        match node:
            case Literal():
                found = _LITERALS[kind_of(node.value)]
            case Name():
                found = self._name(node, node.name)
            case Select():
                found = self._select(node)
            case Call():
                found = self._call(node)
            case ListOf():
                found = list_of(self._common([(one, at in node.optional) for at, one in enumerate(node.elements)]))
            case MapOf():
                found = self._map(node)
            case Loop():
                found = self._loop(node)
            case _:
                raise AssertionError(f"{node} is no expression")
        node.type = found
        self._checked.append(node)
        return found

    # Names and fields ---------------------------------------------------------------------------------------------

    def _variable(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _name(self, node: Node, name: str) -> Type:
        found = self._variable(name)
        if found is not None:
            return found
        if name in TYPE_NAMES:
            return type_of_type(TYPE_NAMES[name])
        return self._refuse(node, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Select) -> Type:
        written = dotted(node)
        if written in TYPE_NAMES and self._variable(written.partition(".")[0]) is None:
            return type_of_type(TYPE_NAMES[written])
        operand = self._types.found(self.type_of(node.operand))
        is_optional = node.is_optional
        if operand.kind == "optional_type":
            operand, is_optional = self._types.found(operand.element), True
        found = self._field(node, operand)
        if node.is_test:
            return ERROR if found is ERROR else BOOL
        return optional_of(found) if is_optional and found is not ERROR else found

    def _field(self, node: Select, operand: Type) -> Type:
        match operand.kind:
            case "object":
                found = operand.fields.get(node.field)
                return found if found is not None else self._refuse(node, f"undefined field '{node.field}'")
            case "map":
                return operand.element
            case "dyn" | "variable" | "!error!":
                return DYN
        return self._refuse(node, f"type '{self._shown(operand)}' does not support field selection")

    # Aggregates ---------------------------------------------------------------------------------------------------

    def _common(self, elements: list[tuple[Node, bool]]) -> Type:
        """The one type of all elements; each may be optional."""
        common: Type | None = None
        for node, is_optional in elements:
            found = self._types.found(self.type_of(node))
            if is_optional:
                found = self._inside_optional(node, found)
            if common is None or common.kind == "dyn":
                common = found if common is None else common
            elif found.kind == "dyn":
                common = DYN
            elif not self._types.fits(common, found):
                if self._formats:
                    common = DYN
                    continue
                self._refuse(node, f"expected type '{self._shown(common)}' but found '{self._shown(found)}'")
        return common if common is not None else Type("variable")

    def _inside_optional(self, node: Node, found: Type) -> Type:
        if found.kind == "optional_type":
            return found.element
        if found.kind not in ("dyn", "variable"):
            self._refuse(node, f"expected type 'optional_type({self._shown(found)})' but found '{self._shown(found)}'")
        return found if found.kind == "variable" else DYN

    def _map(self, node: MapOf) -> Type:
        key = self._common([(key, False) for key, _ in node.entries])
        value = self._common([(value, at in node.optional) for at, (_, value) in enumerate(node.entries)])
        return map_of(key, value)

    # Calls --------------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Type:
        if node.is_method and (written := dotted(node.arguments[0])) is not None:
            qualified = f"{written}.{node.function}"
            if qualified in FUNCTIONS:
                node.function, node.arguments, node.is_method = qualified, node.arguments[1:], False
        self._formats += node.function == "format"
        arguments = [self.type_of(one) for one in node.arguments]
        self._formats -= node.function == "format"
        if node.function in ("_&&_", "_||_"):
            return self._logical(node, arguments)
        if node.function == "_?_:_":
            return self._conditional(node, arguments)
        if any(self._types.found(one) is ERROR for one in arguments):
            return ERROR
        known = FUNCTIONS.get(node.function)
        if known is None:
            return self._refuse(node, f"undeclared reference to '{node.function}' (in container '')")
        found = self._resolved(node, known, arguments)
        if not node.overloads:
            return self._no_overload(node, arguments)
        return found

    def _no_overload(self, node: Call, arguments: list[Type]) -> Type:
        shown = [self._shown(one) for one in arguments]
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if node.is_method else f"({', '.join(shown)})"
        return self._refuse(node, f"found no matching overload for '{node.function}' applied to '{applied}'")

    def _resolved(self, node: Call, known: tuple[Overload, ...], arguments: list[Type]) -> Type:
        """Find the overloads that may be meant; the result is dyn where they do not agree on it."""
        matching: list[Overload] = []
        result: Type | None = None
        for one in known:
            if one.is_method != node.is_method or len(one.parameters) != len(arguments):
                continue
            fresh = _fresh(one)
            mark = self._types.mark()
            if not all(self._types.fits(*pair) for pair in zip(fresh[:-1], arguments, strict=True)):
                self._types.undo(mark)
                continue
            matching.append(one)
            found = self._types.resolved(fresh[-1]) if matching[1:] else fresh[-1]
            if result is None:
                result = found
            elif str(self._types.resolved(result)) != str(found):
                result = DYN
        node.overloads = tuple(matching)
        return result if result is not None else ERROR

    def _logical(self, node: Call, arguments: list[Type]) -> Type:
        for argument, found in zip(node.arguments, arguments, strict=True):
            if not self._types.fits(BOOL, found):
                self._refuse(argument, f"expected type 'bool' but found '{self._shown(found)}'")
        return BOOL

    def _conditional(self, node: Call, arguments: list[Type]) -> Type:
        condition, first, second = arguments
        if not self._types.fits(BOOL, condition) or not self._types.fits(first, second):
            return self._no_overload(node, arguments)
        return DYN if self._types.found(second).kind == "dyn" else first

    # Macros -------------------------------------------------------------------------------------------------------

    def _loop(self, node: Loop) -> Type:
        source = self._types.found(self.type_of(node.source))
        if node.kind in ("optMap", "optFlatMap"):
            return self._optional_loop(node, source)
        self._scopes.append(self._loop_variables(node, source))
        if node.condition is not None:
            self._want_bool(node.condition)
        if node.kind in ("all", "exists", "exists_one", "filter"):
            self._want_bool(node.body)
            body = BOOL
        else:
            body = self.type_of(node.body)
        self._scopes.pop()
        return self._loop_result(node, source, body)

    def _loop_result(self, node: Loop, source: Type, body: Type) -> Type:
        match node.kind:
            case "all" | "exists" | "exists_one":
                return BOOL
            case "filter":
                return source if source.kind == "list" else list_of(source.parameters[0] if source.parameters else DYN)
            case "map" | "transformList":
                return list_of(body)
            case "transformMap":
                return map_of(source.parameters[0] if source.kind == "map" else INT, body)
            case "transformMapEntry":
                if not self._types.fits(map_of(DYN, DYN), body):
                    return self._no_overload(Call(node.position, "cel.@mapInsert", []), [map_of(DYN, DYN), body])
                return self._types.found(body)
        if self._types.found(body).kind not in _SORTABLE:  # sortBy
            return self._no_overload(Call(node.position, "@sortByAssociatedKeys", [], is_method=True), [source, body])
        return source

    def _want_bool(self, node: Node) -> None:
        found = self.type_of(node)
        if not self._types.fits(BOOL, found):
            self._refuse(node, f"expected type 'bool' but found '{self._shown(found)}'")

    def _loop_variables(self, node: Loop, source: Type) -> dict[str, Type]:
        if source.kind in ("dyn", "variable", "!error!"):
            return dict.fromkeys(node.names, DYN)
        if source.kind not in ("list", "map"):
            shown = self._shown(source)
            message = f"expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self._refuse(node.source, message)
            return dict.fromkeys(node.names, ERROR)
        if len(node.names) == 1:
            return {node.names[0]: source.parameters[0]}
        return {node.names[0]: source.parameters[0] if source.kind == "map" else INT, node.names[1]: source.element}

    def _optional_loop(self, node: Loop, source: Type) -> Type:
        if source.kind == "optional_type":
            inside = source.element
        elif source.kind in ("dyn", "variable", "!error!"):
            inside = DYN
        else:
            return self._no_overload(Call(node.position, node.kind, [], is_method=True), [source])
        self._scopes.append({node.names[0]: inside})
        body = self.type_of(node.body)
        self._scopes.pop()
        if node.kind == "optMap":
            return optional_of(body)
        if not self._types.fits(optional_of(DYN), body):
            return self._no_overload(Call(node.position, node.kind, [], is_method=True), [source, body])
        return body


def _fresh(one: Overload) -> list[Type]:
    """The parameters and the result, with variables of this call's own."""
    signature = [*one.parameters, one.result]
    if not one.is_generic:
        return signature
    own: dict[Type, Type] = {}
    return [_renamed(part, own) for part in signature]


def _renamed(one: Type, own: dict[Type, Type]) -> Type:
    if one.kind == "variable":
        return own.setdefault(one, Type("variable"))
    if not one.parameters:
        return one
    return Type(one.kind, tuple(_renamed(part, own) for part in one.parameters))
