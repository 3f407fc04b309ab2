"""Programs: what callers see of them. Variables, results, budgets and the texts of problems."""

from __future__ import annotations

import pytest

from muster.apiserver.cel import (
    BOOL,
    DYN,
    STRING,
    Budget,
    CelProblem,
    CostExceeded,
    compile_expression,
    escaped,
    optional_of,
    type_of_schema,
)

PAIR = type_of_schema({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})


def evaluated(text, given, types=None, result=None):
    types = types or dict.fromkeys(given, DYN)
    return compile_expression(text, types, result).evaluate(given, Budget(10_000))


def test_a_program_is_compiled_once():
    assert compile_expression("self.a < self.b", {"self": PAIR}) is compile_expression(
        "self.a < self.b", {"self": PAIR}
    )


def test_a_program_knows_what_it_reads():
    program = compile_expression("self.a >= oldSelf.a", {"self": PAIR, "oldSelf": PAIR, "other": DYN})
    assert program.names == {"self", "oldSelf"}


@pytest.mark.parametrize(
    ("text", "given", "want"),
    [
        ("object.metadata.name", {"object": {"metadata": {"name": "x"}}}, "x"),
        ("request.userInfo.groups.exists(g, g == 'admins')", {"request": {"userInfo": {"groups": ["admins"]}}}, True),
        ("object.spec", {"object": {"spec": {"a": [1]}}}, {"a": [1]}),
        ("has(object.spec.a) ? object.spec.a : 'none'", {"object": {"spec": {}}}, "none"),
        ("object == null", {"object": None}, True),
    ],
)
def test_values_without_a_schema(text, given, want):
    assert evaluated(text, given) == want


@pytest.mark.parametrize(("old", "want"), [(None, True), ({"a": 1}, True), ({"a": 5}, False)])
def test_an_old_value_may_be_optional(old, want):
    types = {"self": PAIR, "oldSelf": optional_of(PAIR)}
    rule = "!oldSelf.hasValue() || oldSelf.value().a <= self.a"
    assert evaluated(rule, {"self": {"a": 2}, "oldSelf": old}, types, BOOL) is want


def test_a_view_gives_the_json_it_looks_at():
    kind = type_of_schema({"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"})
    assert evaluated("self", {"self": [1, 2]}, {"self": kind}) == [1, 2]


@pytest.mark.parametrize(
    ("text", "result", "message"),
    [
        ("self.a", BOOL, "cel expression must evaluate to a bool"),
        ("self.a", STRING, "must evaluate to a string"),
        (
            "self.a == 1 &&\n self.c > 'x'",
            BOOL,
            "compilation failed: ERROR: <input>:2:6: undefined field 'c'\n |  self.c > 'x'\n | .....^",
        ),
        (
            "self.a + 'x' == 1 || nobody",
            BOOL,
            (
                "compilation failed: "
                "ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(int, string)'\n"
                " | self.a + 'x' == 1 || nobody\n | .......^\n"
                "ERROR: <input>:1:22: undeclared reference to 'nobody' (in container '')\n"
                " | self.a + 'x' == 1 || nobody\n | .....................^"
            ),
        ),
        ("int('x') == 1", BOOL, "program instantiation failed: type conversion error from 'string' to 'int'"),
    ],
)
def test_problems_are_told_as_kubernetes_tells_them(text, result, message):
    with pytest.raises(CelProblem) as refused:
        compile_expression(text, {"self": PAIR}, result)
    assert refused.value.message == message


def test_a_variable_that_is_not_given_is_a_problem():
    with pytest.raises(CelProblem, match="no such attribute"):
        evaluated("self.a == 1", {}, {"self": PAIR})


def test_rules_share_the_budget_of_their_object():
    program = compile_expression("[1, 2, 3].all(x, x > 0)", {})
    budget = Budget(60, rule_steps=50)
    assert program.evaluate({}, budget) is True
    assert 0 < budget.steps_left < 60
    program.evaluate({}, budget)
    with pytest.raises(CostExceeded, match="running out of cost budget") as spent:
        program.evaluate({}, Budget(budget.steps_left % 10))
    assert spent.value.is_budget_spent


def test_a_rule_gets_no_more_than_its_share():
    program = compile_expression("lists.range(100).size() == 100", {})
    budget = Budget(1000, rule_steps=50)
    with pytest.raises(CostExceeded, match="operation cancelled: actual cost limit exceeded") as spent:
        program.evaluate({}, budget)
    assert not spent.value.is_budget_spent
    assert budget.steps_left == 950


def test_running_out_is_no_problem_that_a_rule_may_ignore():
    program = compile_expression("lists.range(100).size() == 100 || true", {})
    with pytest.raises(CostExceeded):
        program.evaluate({}, Budget(50))


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("plain", "plain"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("1a", None),
        ("a b", None),
        ("", None),
    ],
)
def test_names_of_properties(name, want):
    assert escaped(name) == want


@pytest.mark.parametrize(
    "schema",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
    ],
)
def test_what_the_schema_does_not_describe_has_no_type(schema):
    with pytest.raises(CelProblem):
        type_of_schema(schema)
    whole = type_of_schema({"type": "object", "properties": {"x": schema, "y": {"type": "string"}}})
    assert set(whole.fields) == {"y"}


def test_a_resource_has_its_names():
    root = type_of_schema({"type": "object", "properties": {}}, is_resource_root=True)
    given = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {}}}
    assert evaluated("self.kind == 'Pod' && self.metadata.name == 'x'", {"self": given}, {"self": root}) is True
    with pytest.raises(CelProblem, match="undefined field 'labels'"):
        compile_expression("has(self.metadata.labels)", {"self": root})
