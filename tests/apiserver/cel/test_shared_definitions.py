"""The rules of real definitions compile against their schemas, and decide about objects as their authors meant."""

from __future__ import annotations

from functools import cache

import pytest
import yaml

from muster.apiserver.cel import OBJECT_STEPS, Budget, compile_expression, type_of_schema
from tests.support import shared


def rules_in(schema, *, is_root=False):
    """Every schema that has rules, with each of them."""
    if schema.get("x-kubernetes-validations"):
        is_root = is_root or schema.get("x-kubernetes-embedded-resource", False)
        seen = type_of_schema(schema, is_resource_root=is_root)
        for rule in schema["x-kubernetes-validations"]:
            yield seen, rule
    for inner in (schema.get("properties") or {}).values():
        yield from rules_in(inner)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from rules_in(schema[name])


@cache
def rules_of(file):
    definition = yaml.load(shared(f"crds/{file}.yaml").read_text(), Loader=yaml.CSafeLoader)
    versions = definition["spec"]["versions"]
    return [one for version in versions for one in rules_in(version["schema"]["openAPIV3Schema"], is_root=True)]


def test_all_rules_compile():
    files = sorted(path.stem for path in shared("crds").glob("*.yaml"))
    compiled = 0
    for file in files:
        for seen, rule in rules_of(file):
            compile_expression(rule["rule"], {"self": seen, "oldSelf": seen})
            compiled += 1
    assert compiled > 100


CLUSTER_QUEUE, WORKLOAD = "clusterqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io"
RESERVED = {"conditions": [{"type": "QuotaReserved", "status": "True"}]}
BORROWS = {"resourceGroups": [{"flavors": [{"resources": [{"name": "cpu", "borrowingLimit": "1"}]}]}]}


@pytest.mark.parametrize(
    ("file", "part", "given", "old", "want"),
    [
        (CLUSTER_QUEUE, "borrowWithinCohort.policy !=", {"reclaimWithinCohort": "Never"}, None, True),
        (
            CLUSTER_QUEUE,
            "borrowWithinCohort.policy !=",
            {"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}},
            None,
            False,
        ),
        (CLUSTER_QUEUE, "!has(self.cohortName)", BORROWS, None, False),
        (CLUSTER_QUEUE, "!has(self.cohortName)", BORROWS | {"cohortName": "all"}, None, True),
        (WORKLOAD, "has(self.minCount)", {"minCount": 2, "count": 1}, None, False),
        (WORKLOAD, "has(self.minCount)", {"minCount": 2, "count": 2}, None, True),
        (
            WORKLOAD,
            "oldSelf.spec.queueName == self.spec.queueName",
            {"spec": {"queueName": "b"}, "status": RESERVED},
            {"spec": {"queueName": "a"}, "status": RESERVED},
            False,
        ),
        (
            WORKLOAD,
            "oldSelf.spec.queueName == self.spec.queueName",
            {"spec": {"queueName": "b"}},
            {"spec": {"queueName": "a"}, "status": RESERVED},
            True,
        ),
    ],
)
def test_rules_decide_as_meant(file, part, given, old, want):
    seen, rule = next((seen, rule["rule"]) for seen, rule in rules_of(file) if part in rule["rule"])
    program = compile_expression(rule, {"self": seen, "oldSelf": seen})
    assert program.evaluate({"self": given, "oldSelf": old}, Budget(OBJECT_STEPS)) is want
