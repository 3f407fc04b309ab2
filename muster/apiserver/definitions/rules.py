"""The rules in CEL that a schema carries, compiled once for each version of a definition. Called by `kinds`.

`compile_rules` gives a tree with only those fields below which there are rules; `rule_problems` says what is wrong with
the rules of a schema that is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.apiserver.cel import (
    BOOL,
    OBJECT_STEPS,
    STRING,
    Budget,
    CelProblem,
    CostExceeded,
    Program,
    Type,
    compile_expression,
    optional_of,
    type_of_schema,
)
from muster.apiserver.definitions.schemas import Schema
from muster.apiserver.definitions.validation import ABSENT, NOWHERE, Earlier, is_unchanged
from muster.apiserver.kinds.problems import Problems, invalid, not_supported, required
from muster.model.errors import InvalidObject, quoted

Json = dict[str, Any]
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LONGEST_MESSAGE = 5 * 1024
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['([^']+)'\]")
_UNCHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
# With one of these the values have not the types that the rules were compiled for.
_BLOCKING = ("Unsupported value", "Required value", "Too long", "Too many")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule, ready to run."""

    text: str
    program: Program
    message: str
    message_program: Program | None
    reason: str
    below: str  # the field that it is about, seen from its own place
    needs_earlier: bool  # it speaks of what was before, and is not for what is new

    @property
    def is_about_change(self) -> bool:
        return "oldSelf" in self.program.names


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules at one place of a schema and below it."""

    schema: Schema
    own: tuple[Rule, ...] = ()
    fields: Mapping[str, Rules]
    items: Rules | None = None
    additional: Rules | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.own or self.fields or self.items is not None or self.additional is not None)

    def problems(self, new: Json, before: Json | None, found: list[InvalidObject]) -> list[InvalidObject]:
        """What the rules say of an object; `found` is what is wrong with it already."""
        if self.is_empty:
            return []
        if any(one.cause == "FieldValueTypeInvalid" or one.problem.startswith(_BLOCKING) for one in found):
            return [InvalidObject(NOWHERE, _UNCHECKED)]
        told: list[InvalidObject] = []
        try:
            for one in _told(self, new, ABSENT if before is None else before, _Place("", Budget(OBJECT_STEPS))):
                told.append(one)
        except CostExceeded as problem:
            told.append(invalid(NOWHERE, "object", problem.message))
        return told


# Running -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in an object rules are run, and what they may still cost."""

    path: str
    budget: Budget

    def below(self, name: str) -> _Place:
        return _Place(f"{self.path}.{name}" if self.path else name, self.budget)

    def inside(self, key: str) -> _Place:
        return _Place(f"{self.path}[{key}]", self.budget)


def _told(rules: Rules, value: Any, before: Any, place: _Place) -> Problems:
    if value is None:
        return
    is_old = before is not ABSENT and is_unchanged(value, before, rules.schema)
    for rule in rules.own:
        if rule.is_about_change or not is_old:
            yield from _run(rule, value, before, place)
    if isinstance(value, dict):
        had = before if isinstance(before, dict) else {}
        for name, inner in rules.fields.items():
            if name in value:
                yield from _told(inner, value[name], had.get(name, ABSENT), place.below(name))
        if rules.additional is not None:
            for name, one in value.items():
                yield from _told(rules.additional, one, had.get(name, ABSENT), place.inside(name))
    elif isinstance(value, list) and rules.items is not None:
        earlier = Earlier(rules.schema, before)
        for index, one in enumerate(value):
            yield from _told(rules.items, one, earlier.of(one), place.inside(str(index)))


def _run(rule: Rule, value: Any, before: Any, place: _Place) -> Problems:
    if rule.needs_earlier and before is ABSENT:
        return
    variables = {"self": value, "oldSelf": None if before is ABSENT else before}
    try:
        if rule.program.evaluate(variables, place.budget) is True:
            return
    except CostExceeded as problem:
        if problem.is_budget_spent:
            raise
        yield invalid(place.path or NOWHERE, _type_named(value), f"{problem.message} evaluating rule: {rule.text}")
        return
    except CelProblem as problem:
        shown = rule.message or rule.text
        yield invalid(place.path or NOWHERE, _type_named(value), f"{problem.message} evaluating rule: {shown}")
        return
    message = _message(rule, variables, place.budget)
    yield _refusal(rule, value, (place.path + rule.below).lstrip(".") or NOWHERE, message)


def _message(rule: Rule, variables: Json, budget: Budget) -> str:
    plain = rule.message or f"failed rule: {rule.text}"
    if rule.message_program is None:
        return plain
    try:
        made = rule.message_program.evaluate(variables, budget)
    except CelProblem:
        return plain
    is_usable = isinstance(made, str) and made.strip() and "\n" not in made and len(made) <= _LONGEST_MESSAGE
    return made.strip() if is_usable else plain


def _refusal(rule: Rule, value: Any, path: str, message: str) -> InvalidObject:
    shown = "" if isinstance(value, (dict, list)) or rule.below else f": {quoted(value)}"
    match rule.reason:
        case "FieldValueForbidden":
            return InvalidObject(path, f"Forbidden: {message}")
        case "FieldValueRequired":
            return InvalidObject(path, f"Required value: {message}")
        case "FieldValueDuplicate":
            return InvalidObject(path, f"Duplicate value{shown}")
    return InvalidObject(path, f"Invalid value{shown}: {message}")


def _type_named(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names[type(value)]


# Compiling -----------------------------------------------------------------------------------------------------------


def compile_rules(schema: Schema, open_api: Json, *, is_root: bool = True) -> Rules:
    """The rules of a schema that is in order."""
    own: tuple[Rule, ...] = ()
    if schema.rules:
        kind = _self_type(open_api, is_root=is_root)
        own = tuple(_rule(one, kind) for one in schema.rules)
    fields = {}
    for name, one in schema.properties.items():
        inner = compile_rules(one, open_api["properties"][name], is_root=False)
        if not inner.is_empty:
            fields[name] = inner
    return Rules(
        schema=schema,
        own=own,
        fields=fields,
        items=_inner_rules(schema.items, open_api.get("items")),
        additional=_inner_rules(schema.additional, open_api.get("additionalProperties")),
    )


def _inner_rules(schema: Schema | None, open_api: Any) -> Rules | None:
    if schema is None:
        return None
    found = compile_rules(schema, open_api, is_root=False)
    return None if found.is_empty else found


def _self_type(open_api: Json, *, is_root: bool) -> Type:
    has_kind = is_root or bool(open_api.get("x-kubernetes-embedded-resource"))
    return type_of_schema(open_api, is_resource_root=has_kind)


def _rule(given: Json, kind: Type) -> Rule:
    is_optional = bool(given.get("optionalOldSelf"))
    variables = {"self": kind, "oldSelf": optional_of(kind) if is_optional else kind}
    program = compile_expression(given["rule"], variables, BOOL)
    expression = given.get("messageExpression") or ""
    return Rule(
        text=given["rule"].strip(),
        program=program,
        message=(given.get("message") or "").strip(),
        message_program=compile_expression(expression, variables, STRING) if expression else None,
        reason=given.get("reason") or "FieldValueInvalid",
        below=given.get("fieldPath") or "",
        needs_earlier="oldSelf" in program.names and not is_optional,
    )


# Checking ------------------------------------------------------------------------------------------------------------


def rule_problems(open_api: Json, path: str, *, is_root: bool = True, apart: str = "") -> Problems:
    """What is wrong with the rules of a schema; `apart` is the list within which items have no earlier selves."""
    given = open_api.get("x-kubernetes-validations") or ()
    if given:
        try:
            kind = _self_type(open_api, is_root=is_root)
        except CelProblem as problem:
            yield invalid(f"{path}.x-kubernetes-validations", "", problem.message)
            return
        for index, one in enumerate(given):
            where = f"{path}.x-kubernetes-validations[{index}]"
            yield from _one_problems(one, kind, open_api, where)
            if apart and re.search(r"\boldSelf\b", one.get("rule") or ""):
                why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {apart}"
                yield invalid(f"{where}.rule", one["rule"], why)
    for where, one, is_list in _below(open_api, path):
        is_keyed = open_api.get("x-kubernetes-list-type") == "map"
        inside = apart or (path if is_list and not is_keyed else "")
        yield from rule_problems(one, where, is_root=False, apart=inside)


def _below(open_api: Json, path: str) -> Iterator[tuple[str, Json, bool]]:
    for name, one in (open_api.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", one, False
    for word in ("items", "additionalProperties"):
        if isinstance(open_api.get(word), dict):
            yield f"{path}.{word}", open_api[word], word == "items"


def _one_problems(given: Json, kind: Type, open_api: Json, path: str) -> Problems:
    text, message = given.get("rule") or "", given.get("message") or ""
    expression = given.get("messageExpression") or ""
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message:
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
        return
    if expression and not expression.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
        return
    if given.get("reason") not in (None, *_REASONS):
        yield not_supported(f"{path}.reason", given["reason"], _REASONS)
    if (below := given.get("fieldPath")) and not _is_below(below, open_api):
        yield invalid(f"{path}.fieldPath", below, "must be a valid path")
    yield from _compile_problems(given, kind, path)


def _compile_problems(given: Json, kind: Type, path: str) -> Problems:
    is_optional = bool(given.get("optionalOldSelf"))
    variables = {"self": kind, "oldSelf": optional_of(kind) if is_optional else kind}
    try:
        program = compile_expression(given["rule"], variables, BOOL)
    except CelProblem as problem:
        yield invalid(f"{path}.rule", given["rule"], _compilation(problem.message, ""))
        return
    if given.get("optionalOldSelf") is not None and "oldSelf" not in program.names:
        yield invalid(f"{path}.optionalOldSelf", is_optional, "may not be set if oldSelf is not used in rule")
    if expression := given.get("messageExpression"):
        try:
            compile_expression(expression, variables, STRING)
        except CelProblem as problem:
            yield invalid(f"{path}.messageExpression", expression, _compilation(problem.message, "messageExpression "))


def _compilation(message: str, start: str) -> str:
    if "must evaluate to" in message:
        return "messageExpression must evaluate to a string" if start else message
    return f"{start}compilation failed: {message}"


def _is_below(path: str, open_api: Json) -> bool:
    """Whether a path leads to a field that the schema describes."""
    place, here = 0, open_api
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            return False
        name = found[1] or found[2]
        fields, others = here.get("properties") or {}, here.get("additionalProperties")
        if name in fields:
            here = fields[name]
        elif isinstance(others, dict):
            here = others
        else:
            return False
        place = found.end()
    return True
