"""Rules about one object come to what a real API server makes of them; tests/kubernetes/test_cel.py asks one."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import pytest
import yaml

from muster.apiserver.cel import Budget, CelProblem, compile_expression, type_of_schema
from tests.apiserver.cel.random_rules import SCHEMA, random_object, random_rule
from tests.support import assert_sound, proof_count

STEPS = 1_000_000


@cache
def known():
    return yaml.safe_load(Path(__file__).with_name("rules.yaml").read_text())


@cache
def known_type():
    return type_of_schema(known()["schema"])


def rules(verdict):
    return known()["rules"][verdict]


def value_of(rule):
    program = compile_expression(rule, {"self": known_type()})
    return program.evaluate({"self": known()["value"]}, Budget(STEPS))


@pytest.mark.parametrize("rule", rules("holds"))
def test_holds(rule):
    assert value_of(rule) is True


@pytest.mark.parametrize("rule", rules("fails"))
def test_fails(rule):
    assert value_of(rule) is False


@pytest.mark.parametrize("rule", rules("has_no_value"))
def test_has_no_value(rule):
    program = compile_expression(rule, {"self": known_type()})
    with pytest.raises(CelProblem):
        program.evaluate({"self": known()["value"]}, Budget(STEPS))


@pytest.mark.parametrize("rule", rules("refused"))
def test_is_refused_when_it_is_defined(rule):
    with pytest.raises(CelProblem):
        compile_expression(rule, {"self": known_type()})


@pytest.mark.prove
def test_any_rule_is_decided_or_told_to_be_wrong():
    seen = type_of_schema(SCHEMA)

    def check(chance: Random) -> None:
        rule, given = random_rule(chance), random_object(chance)
        try:
            program = compile_expression(rule, {"self": seen})
            first = program.evaluate({"self": given}, Budget(STEPS))
        except CelProblem:
            return
        assert isinstance(first, bool), rule
        assert program.evaluate({"self": given}, Budget(STEPS)) is first, rule

    assert_sound(check, range(proof_count(20_000)))


@pytest.mark.prove
def test_no_text_breaks_the_compiler():
    pieces = [
        *"()[]{}.,?:!-+*/%<>=&|'\"\\ \n",
        "self",
        "&&",
        "||",
        "in",
        "1",
        "0x",
        "1e",
        "'a'",
        "b'\\x",
        "r'",
        "has",
        "all",
    ]

    def check(chance: Random) -> None:
        text = "".join(chance.choice(pieces) for _ in range(chance.randint(1, 12)))
        with suppress(CelProblem):
            compile_expression(text, {"self": known_type()})

    assert_sound(check, range(proof_count(50_000)))
