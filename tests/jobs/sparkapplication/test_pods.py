"""What the pods of a SparkApplication ask for, as Spark works it out."""

from __future__ import annotations

from typing import Any

import pytest

from muster.jobs.sparkapplication import INTEGRATION
from muster.model.errors import InvalidObject
from muster.model.fields import Fields


def application(driver: Any = None, executor: Any = None, **spec: Any) -> Fields:
    given = {
        "type": "Scala",
        "image": "example.com/spark:1",
        "driver": driver or {},
        "executor": executor or {},
        **spec,
    }
    return Fields({"metadata": {"name": "count"}, "spec": given})


def asked(value: Fields, part: int = 0) -> dict[str, Any]:
    return INTEGRATION.pod_sets(value)[part].template["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize(
    ("driver", "spec", "want"),
    [
        pytest.param({}, {}, {"cpu": "1", "memory": "1408Mi"}, id="nothing said: a core, 1g, and 384 MiB beside it"),
        pytest.param({"cores": 2, "memory": "8g"}, {}, {"cpu": "2", "memory": "9011Mi"}, id="a tenth beside it"),
        pytest.param({"memory": "8g"}, {"type": "Python"}, {"cpu": "1", "memory": "11468Mi"}, id="more outside Java"),
        pytest.param(
            {"memory": "1g"}, {"memoryOverheadFactor": "0.5"}, {"cpu": "1", "memory": "1536Mi"}, id="a share of its own"
        ),
        pytest.param({"memoryOverhead": "100m"}, {}, {"cpu": "1", "memory": "1124Mi"}, id="an amount of its own"),
        pytest.param({"coreRequest": "250m", "memory": "512"}, {}, {"cpu": "250m", "memory": "896Mi"}, id="plain MiB"),
        pytest.param(
            {"gpu": {"name": "nvidia.com/gpu", "quantity": 2}},
            {},
            {"cpu": "1", "memory": "1408Mi", "nvidia.com/gpu": "2"},
            id="cards",
        ),
    ],
)
def test_amounts(driver, spec, want):
    assert asked(application(driver, **spec))["requests"] == want


def test_limits_and_executors():
    value = application({"coreLimit": "1500m"}, {"instances": 5, "cores": 4})
    assert asked(value)["limits"] == {"cpu": "1500m", "memory": "1408Mi"}
    executors = INTEGRATION.pod_sets(value)[1]
    assert (executors.count, asked(value, 1)["requests"]["cpu"]) == (5, "4")


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(application({"memory": "lots"}), r"spec\.driver\.memory", id="no amount"),
        pytest.param(application(memoryOverheadFactor="x"), r"spec\.memoryOverheadFactor", id="no share"),
        pytest.param(application(mode="client"), r"spec\.mode", id="a driver outside"),
        pytest.param(
            application(dynamicAllocation={"enabled": True}), r"spec\.dynamicAllocation\.enabled", id="one that grows"
        ),
        pytest.param(application(executor={"instances": -1}), r"spec\.executor\.instances", id="fewer than none"),
    ],
)
def test_mistakes(value, want):
    with pytest.raises(InvalidObject, match=want):
        INTEGRATION.pod_sets(value)


def test_labels_of_a_part_stay_its_own():
    driver = {"labels": {"app": "count"}, "template": {"metadata": {"labels": {"team": "a"}}}}
    value = application(driver, suspend=True)
    (labels, _) = (one.template["metadata"].get("labels") for one in INTEGRATION.pod_sets(value))
    assert labels == {"team": "a", "app": "count"}
    assert INTEGRATION.restore(value, INTEGRATION.pod_sets(value)) == value.values
