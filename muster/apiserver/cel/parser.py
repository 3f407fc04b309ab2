"""From tokens to the nodes of an expression. Called by `compile_expression`.

Operators are read with a stack instead of a function for each level, so that brackets within brackets cost three
calls a level and the limit on depth keeps hostile sources well within Python's own.
"""

from __future__ import annotations

from muster.apiserver.cel.macros import expanded
from muster.apiserver.cel.problems import SourceProblem
from muster.apiserver.cel.schemas import RESERVED
from muster.apiserver.cel.syntax import Call, ListOf, Literal, MapOf, Name, Node, Select, children
from muster.apiserver.cel.tokens import INT64_MOST, Token, tokens_of

SOURCE_MOST = 100_000  # characters
DEPTH_MOST = 150  # of brackets, and of nodes

_LEVELS = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), 3),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys("*/%", 5),
}
_FUNCTIONS = {sign: f"_{sign}_" for sign in _LEVELS} | {"in": "@in"}
_ASSOCIATIVE = ("_||_", "_&&_")
SHOWN_CHARACTERS = 40  # of a token in a message
_STARTS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_WORDS = {"true": True, "false": False, "null": None}


def parse(source: str) -> Node:
    """The expression that the source writes."""
    if len(source) > SOURCE_MOST:
        raise SourceProblem(0, f"expression code point size exceeds limit: size: {len(source)}, limit {SOURCE_MOST}")
    reader = _Parser(tokens_of(source))
    node = reader.expression()
    reader.take("end")
    return node


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _taken(self) -> Token:
        token = self._tokens[self._index]
        self._index += 1
        return token

    def take(self, kind: str) -> Token:
        """The next token, which has to be of that kind."""
        if self._next.kind == kind:
            return self._taken()
        if kind == "end":
            raise self._refused(f"extraneous input '{self._shown}' expecting <EOF>")
        if kind == "name":
            raise self._refused(f"mismatched input '{self._shown}' expecting IDENTIFIER")
        raise self._refused(f"missing '{kind}' at '{self._shown}'")

    def _has_taken(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self._index += 1
        return True

    @property
    def _shown(self) -> str:
        return self._next.text[:SHOWN_CHARACTERS]

    def _refused(self, message: str) -> SourceProblem:
        return SourceProblem(self._next.position, f"Syntax error: {message}")

    def _unexpected(self) -> SourceProblem:
        return self._refused(f"mismatched input '{self._shown}' expecting {_STARTS}")

    def _built(self, node: Node) -> Node:
        """The node, unless it is nested too deep."""
        node.depth = 1 + max((one.depth for one in children(node)), default=0)
        if node.depth > DEPTH_MOST:
            raise SourceProblem(node.position, f"expression recursion limit exceeded: {DEPTH_MOST}")
        return node

    # Operators ----------------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        """`a ? b : c`, or the operators below that; b and c are read by the same loop as far as they can be."""
        self._depth += 1
        if self._depth > DEPTH_MOST:
            raise SourceProblem(self._next.position, f"expression recursion limit exceeded: {DEPTH_MOST}")
        condition = self._operators()
        if self._next.kind == "?":
            position = self._taken().position
            first = self._operators()
            self.take(":")
            second = self.expression()
            condition = self._built(Call(position, "_?_:_", [condition, first, second]))
        self._depth -= 1
        return condition

    def _operators(self) -> Node:
        operands = [self._operand()]
        waiting: list[Token] = []
        while (level := _LEVELS.get(self._next.kind, 0)) > 0:
            while waiting and _LEVELS[waiting[-1].kind] >= level:
                self._join(operands, waiting.pop())
            waiting.append(self._taken())
            operands.append(self._operand())
        while waiting:
            self._join(operands, waiting.pop())
        return operands[0]

    def _join(self, operands: list[Node], sign: Token) -> None:
        right, left = operands.pop(), operands.pop()
        function = _FUNCTIONS[sign.kind]
        if function in _ASSOCIATIVE and isinstance(left, Call) and left.function == function:
            left.arguments.append(right)  # a long chain is one wide node, not a deep one
            left.depth = max(left.depth, right.depth + 1)
            operands.append(left)
        else:
            operands.append(self._built(Call(sign.position, function, [left, right])))

    def _operand(self) -> Node:
        """A primary with the signs before it and the selections after it."""
        signs: list[Token] = []
        while self._next.kind in ("!", "-"):
            if self._next.kind == "-" and self._tokens[self._index + 1].kind in ("int", "literal"):
                break
            if signs and signs[-1].kind != self._next.kind:
                raise self._unexpected()
            signs.append(self._taken())
        node = self._selections(self._primary())
        for sign in reversed(signs if len(signs) % 2 else []):  # an even number of them says nothing
            return self._built(Call(sign.position, "!_" if sign.kind == "!" else "-_", [node]))
        return node

    def _selections(self, node: Node) -> Node:
        while True:
            if self._next.kind == ".":
                node = self._member(node)
            elif self._next.kind == "[":
                position = self._taken().position
                function = "_[?_]" if self._has_taken("?") else "_[_]"
                index = self.expression()
                self.take("]")
                node = self._built(Call(position, function, [node, index]))
            elif self._next.kind == "{" and isinstance(node, Name | Select):
                raise SourceProblem(self._next.position, f"undeclared reference to '{_shown(node)}' (in container '')")
            else:
                return node

    def _member(self, node: Node) -> Node:
        position = self._taken().position
        is_optional = self._has_taken("?")
        name = self.take("name")
        if self._next.kind == "(" and not is_optional:
            opening = self._taken().position
            arguments = self._arguments(")")
            macro = expanded(name.text, node, arguments, opening)
            return self._built(macro or Call(opening, name.text, [node, *arguments], is_method=True))
        return self._built(Select(position, node, name.text, is_optional=is_optional))

    # Primaries ----------------------------------------------------------------------------------------------------

    def _primary(self) -> Node:
        token = self._next
        if token.kind in ("int", "-", "literal"):
            return self._number()
        if token.kind in _WORDS:
            return Literal(self._taken().position, _WORDS[token.kind])
        if token.kind in ("name", "."):
            return self._name()
        if token.kind == "(":
            self._taken()
            node = self.expression()
            self.take(")")
            return node
        if token.kind == "[":
            return self._list()
        if token.kind == "{":
            return self._map()
        raise self._unexpected()

    def _number(self) -> Node:
        is_negative = self._has_taken("-")
        token = self._taken()
        if not is_negative:
            if token.kind == "int" and token.value > INT64_MOST:
                raise SourceProblem(token.position, "invalid int literal")
            return Literal(token.position, token.value)
        if token.kind == "int" and token.value > INT64_MOST + 1:
            raise SourceProblem(token.position, "invalid int literal")
        if token.kind == "int" or type(token.value) is float:
            return Literal(token.position, -token.value)
        return self._built(Call(token.position - 1, "-_", [Literal(token.position, token.value)]))

    def _name(self) -> Node:
        self._has_taken(".")
        token = self.take("name")
        if token.text in RESERVED:
            raise SourceProblem(token.position, f"reserved identifier: {token.text}")
        if self._next.kind != "(":
            return Name(token.position, token.text)
        opening = self._taken().position
        arguments = self._arguments(")")
        macro = expanded(token.text, None, arguments, opening)
        return self._built(macro or Call(opening, token.text, arguments))

    def _arguments(self, closing: str) -> list[Node]:
        found: list[Node] = []
        while not self._has_taken(closing):
            if found:
                self.take(",")
            found.append(self.expression())
        return found

    def _list(self) -> Node:
        position = self._taken().position
        elements: list[Node] = []
        optional = set()
        while not self._has_taken("]"):
            if self._has_taken("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            if self._next.kind != "]":
                self.take(",")
        return self._built(ListOf(position, elements, frozenset(optional)))

    def _map(self) -> Node:
        position = self._taken().position
        entries: list[tuple[Node, Node]] = []
        optional = set()
        while not self._has_taken("}"):
            if self._has_taken("?"):
                optional.add(len(entries))
            key = self.expression()
            self.take(":")
            entries.append((key, self.expression()))
            if self._next.kind != "}":
                self.take(",")
        return self._built(MapOf(position, entries, frozenset(optional)))


def _shown(node: Node) -> str:
    return node.name if isinstance(node, Name) else getattr(node, "field", "")
