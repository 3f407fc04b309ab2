"""Rules and values made to take long or to break something: each ends soon, with a problem that says why."""

from __future__ import annotations

from functools import cache

import pytest

from muster.apiserver.cel import OBJECT_STEPS, Budget, CelProblem, CostExceeded, compile_expression, type_of_schema
from tests.stopwatch import is_done_within

LIMIT_S = 1.0
NUMBERS = {"type": "array", "items": {"type": "integer"}}
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
}


@cache
def seen():
    return type_of_schema(
        {"type": "object", "properties": {"l": NUMBERS, "s": {"type": "string"}, "keyed": KEYED, "i": NUMBERS["items"]}}
    )


@cache
def huge():
    keyed = [{"k": str(number), "v": number} for number in range(20_000)]
    return {"l": list(range(100_000)), "s": "a" * 1_000_000, "keyed": keyed, "i": 2**63 - 1}


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))",
        "self.l.map(a, self.l.map(b, b)).size() > 0",
        "self.l.transformMap(i, v, self.l.transformMap(j, w, w)).size() > 0",
        "self.l.exists_one(x, self.l.exists_one(y, y == x))",
        "self.l.all(x, self == self)",
        "self.l.all(x, self.keyed == self.keyed)",
        "self.l.all(x, x in self.l)",
        "self.l.distinct().size() > 0",
        "self.l.all(x, self.l.sort().size() > 0)",
        "self.l.map(x, self.l).flatten().size() > 0",
        "self.l.map(x, self.l + self.l).size() > 0",
        "sets.contains(self.l, self.l)",
        "lists.range(9223372036854775807).size() == 0",
        "self.l.map(x, self.s).join(self.s) == ''",
        "lists.range(40).map(x, self.s + self.s + self.s + self.s).size() == 0",
        "self.s.replace('a', self.s) == ''",
        "self.l.all(x, self.s.split('').size() > 0)",
        "self.l.all(x, '%s'.format([self.l]) != '')",
        "self.l.all(x, strings.quote(self.s) != '')",
        "self.l.all(x, self.s == self.s)",
        "self.l.all(x, self.s.matches('(a+)+$'))",
        "self.s.matches('(a?){500}(a){500}b')",
        "self.s.matches(self.s)",
        "self.s.findAll('a').size() > 0",
    ],
)
def test_the_steps_run_out(rule):
    program = compile_expression(rule, {"self": seen()})

    def run() -> None:
        with pytest.raises(CostExceeded, match="actual cost limit exceeded"):
            program.evaluate({"self": huge()}, Budget(OBJECT_STEPS))

    assert is_done_within(LIMIT_S, run)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("self.i + 1 > 0", "integer overflow"),
        ("self.i * self.i > 0", "integer overflow"),
        ("int(self.s) > 0", "type conversion error from 'string' to 'int'"),
        ("quantity('1e999999999').add(quantity('1')).isInteger()", "more than 1000 digits"),
        ("'%.999999999f'.format([1.0]) == ''", "precision"),
        ("timestamp(self.i) == timestamp(0)", "timestamp overflow"),
        ("self.l[100000] == 0", "index out of bounds: 100000"),
        ("self.s.matches('(' + 'a')", "error parsing regexp"),
    ],
)
def test_values_that_do_not_fit(rule, problem):
    program = compile_expression(rule, {"self": seen()})
    with pytest.raises(CelProblem, match=problem):
        program.evaluate({"self": huge()}, Budget(OBJECT_STEPS))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("(" * 100_000, id="open brackets"),
        pytest.param("(" * 5000 + "true" + ")" * 5000, id="brackets"),
        pytest.param("[" * 40_000 + "]" * 40_000, id="lists in lists"),
        pytest.param("1" + "+1" * 40_000 + " == 1", id="a long sum"),
        pytest.param("self" + ".l" * 40_000, id="a long path"),
        pytest.param("self" + "[0]" * 20_000, id="many indexes"),
        pytest.param("true ? true : " * 6000 + "true", id="many questions"),
        pytest.param("[1].all(x, " * 5000 + "true" + ")" * 5000, id="macros in macros"),
        pytest.param("9" * 90_000 + " == 1", id="a long number"),
        pytest.param(" && ".join(["x"] * 16_000), id="many mistakes"),
        pytest.param("a" * 100_001, id="too long"),
        pytest.param("'" + "\\\\" * 40_000, id="an open text"),
        pytest.param("'" * 99_999, id="quotes"),
        pytest.param("'a'.matches('" + "(a{1,1000}){1,1000}" * 1000 + "')", id="a large pattern"),
    ],
)
def test_hostile_sources_are_refused_soon(source):
    def refuse() -> None:
        with pytest.raises(CelProblem) as refused:
            compile_expression(source, {"self": seen()})
        assert len(refused.value.message) < 30_000

    assert is_done_within(LIMIT_S, refuse)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("true" + " && true" * 10_000, id="a long conjunction"),
        pytest.param("!" * 90_000 + "true", id="many negations"),
        pytest.param("[" + ",".join(["[]"] * 15_000) + "] != []", id="many empty lists"),
        pytest.param("(" * 140 + "true" + ")" * 140, id="brackets"),
        pytest.param("[1].all(x, " * 140 + "true" + ")" * 140, id="macros in macros"),
    ],
)
def test_large_sources_that_are_sound(source):
    def run() -> None:
        assert compile_expression(source, {"self": seen()}).evaluate({"self": {}}, Budget(OBJECT_STEPS)) is True

    assert is_done_within(LIMIT_S, run)


def test_values_nested_without_end_are_a_problem():
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    program = compile_expression("object == oldObject", {"object": seen(), "oldObject": seen()})
    with pytest.raises(CelProblem):
        program.evaluate({"object": {"x": deep}, "oldObject": {"x": [deep[0]]}}, Budget(OBJECT_STEPS))
