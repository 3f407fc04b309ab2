"""Rules of definitions are refused, held and broken as on a real API server.

Many rules go into one definition, each on a field of its own: the answer names the fields whose rules do not hold.
What the real server refuses for its estimated cost is left out, since the cost is only counted while it runs here.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random
from string import ascii_lowercase

import pytest
import yaml

from muster.apiserver.cel import OBJECT_STEPS, Budget, CelProblem, compile_expression, type_of_schema
from tests.apiserver.cel.random_rules import SCHEMA, random_object, random_rule
from tests.support import ROOT, proof_count

GROUP = "cel.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
IN_ONE = 60  # rules in one definition
RANDOM_RULES = 1000
TRIES = 200  # until a new definition is served
_FIELD = re.compile(r"\bc([0-9]+)\b")


def known():
    return yaml.safe_load((ROOT / Path("tests/apiserver/cel/rules.yaml")).read_text())


def definition(plural, schema, rules):
    fields = {f"c{at}": {**schema, "x-kubernetes-validations": [{"rule": rule}]} for at, rule in enumerate(rules)}
    spec = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": spec}}
    names = {"plural": plural, "kind": plural.capitalize()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def causes(answer):
    """What the server says about each field, by its number."""
    found = {}
    if answer.status >= 300:
        assert answer.status == 422, answer.body
        for cause in answer.json["details"]["causes"]:
            if field := _FIELD.search(cause["field"]):
                found[int(field[1])] = cause["message"]
    return found


def refused_by_the_real(client, schema, rules):
    """Each rule with why it is refused, or nothing."""
    found = {}
    for start in range(0, len(rules), IN_ONE):
        part = rules[start : start + IN_ONE]
        problems = causes(client.request("POST", f"{DEFINITIONS}?dryRun=All", definition("tried", schema, part)))
        found |= {rule: problems.get(at, "") for at, rule in enumerate(part)}
    return found


def broken_on_the_real(client, plural, schema, pairs):
    """Whether each rule, for its value, holds (""), fails ("fails") or comes to no value."""
    rules = [rule for rule, _ in pairs]
    answer = client.request("POST", DEFINITIONS, definition(plural, schema, rules))
    assert answer.status == 201, answer.body
    spec = {f"c{at}": value for at, (_, value) in enumerate(pairs)}
    item = {"apiVersion": f"{GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": "x"}, "spec": spec}
    for _ in range(TRIES):
        answer = client.request("POST", f"/apis/{GROUP}/v1/namespaces/default/{plural}?dryRun=All", item)
        if answer.status != 404:
            break
    problems = causes(answer)
    client.request("DELETE", f"{DEFINITIONS}/{plural}.{GROUP}")
    return [_verdict(problems.get(at, "")) for at in range(len(pairs))]


def _verdict(message):
    if not message:
        return "holds"
    return "fails" if "failed rule" in message else "has_no_value"


@cache
def typed(is_random):
    return type_of_schema(SCHEMA if is_random else known()["schema"])


def ours(rule, value, seen):
    try:
        program = compile_expression(rule, {"self": seen})
    except CelProblem:
        return "refused"
    try:
        return "holds" if program.evaluate({"self": value}, Budget(OBJECT_STEPS)) else "fails"
    except CelProblem:
        return "has_no_value"


def compare(client, schema, pairs, seen):
    """All rules that come to something else than on the real server."""
    refused = refused_by_the_real(client, schema, list(dict.fromkeys(rule for rule, _ in pairs)))
    differing = []
    kept = []
    for rule, value in pairs:
        if "estimated rule cost" in refused[rule] or "entire OpenAPIv3 schema" in refused[rule]:
            continue
        if refused[rule]:
            if ours(rule, value, seen) != "refused":
                differing.append(f"{rule}: should be refused: {refused[rule]}")
        else:
            kept.append((rule, value))
    for start in range(0, len(kept), IN_ONE):
        part = kept[start : start + IN_ONE]
        plural = "rules" + "".join(ascii_lowercase[int(digit)] for digit in str(start))
        for (rule, value), want in zip(part, broken_on_the_real(client, plural, schema, part), strict=True):
            if (got := ours(rule, value, seen)) != want:
                differing.append(f"{rule} of {value}: {got} instead of {want}")
    assert len(kept) > len(pairs) / 2, "too few rules were compared"
    return differing


def test_known_rules_come_to_the_same(plane):
    table = known()
    pairs = [(rule, table["value"]) for rules in table["rules"].values() for rule in rules]
    assert not (found := compare(plane.client, table["schema"], pairs, typed(False))), "\n".join(found)


@pytest.mark.prove
def test_random_rules_come_to_the_same(plane):
    chances = [Random(seed) for seed in range(proof_count(RANDOM_RULES))]
    pairs = [(random_rule(chance), random_object(chance)) for chance in chances]
    assert not (found := compare(plane.client, SCHEMA, pairs, typed(True))), "\n".join(found)
