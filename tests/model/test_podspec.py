"""A pod asks for what the scheduler would set aside for it, and runs where its spec lets it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.labels import Toleration, matches, preference
from muster.model.podspec import (
    AboveLimits,
    LimitRangeItem,
    PodShape,
    RangeProblem,
    limit_range_violations,
    pod_shape,
    read_limit_range,
    requests_above_limits,
)
from muster.model.quantity import parse_quantity
from muster.model.resources import AMOUNT_MAX

GI = 2**30
ALWAYS = {"restartPolicy": "Always"}


def asks(limits: dict[str, Any] | None = None, /, **requests: Any) -> dict[str, Any]:
    """A container that asks for so much."""
    return {"resources": {"requests": requests, "limits": limits or {}}}


def requests_of(spec: dict[str, Any], *, limits_as_requests: bool = True) -> dict[str, int]:
    return dict(pod_shape(Fields(spec, "spec"), limits_as_requests=limits_as_requests).requests)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {}, id="no containers ask for nothing"),
        pytest.param({"containers": [asks(cpu="500m", memory="1Gi")]}, {"cpu": 500, "memory": GI}, id="one container"),
        pytest.param({"containers": [asks(cpu=1), asks(cpu=0.5)]}, {"cpu": 1500}, id="containers add up"),
        pytest.param({"containers": [asks(cpu=0), None, {}]}, {"cpu": 0}, id="a zero is kept, an empty one is nothing"),
        pytest.param(
            {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=3), asks(cpu=2)]},
            {"cpu": 3000},
            id="the largest init container, when larger",
        ),
        pytest.param(
            {"containers": [asks(cpu=4)], "initContainers": [asks(cpu=3, memory=5)]},
            {"cpu": 4000, "memory": 5},
            id="each resource for itself",
        ),
        pytest.param(
            {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=2) | ALWAYS]},
            {"cpu": 3000},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=2) | ALWAYS, asks(cpu=5)]},
            {"cpu": 7000},
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            {"containers": [asks(cpu=1)], "initContainers": [asks(cpu=5), asks(cpu=2) | ALWAYS]},
            {"cpu": 5000},
            id="a sidecar does not run beside earlier init containers",
        ),
        pytest.param(
            {"containers": [asks(cpu=1) | ALWAYS, asks(cpu=1)]},
            {"cpu": 2000},
            id="the restart policy of a container that is no init container means nothing",
        ),
        pytest.param(
            {"containers": [asks(cpu=1)], "overhead": {"cpu": "250m", "memory": "1Ki"}},
            {"cpu": 1250, "memory": 1024},
            id="overhead comes on top",
        ),
        pytest.param(
            {"containers": [asks(cpu=1, gpu=1)], "resources": {"requests": {"cpu": 3, "gpu": 9}}},
            {"cpu": 3000, "gpu": 1},
            id="the pod's own request replaces the sum, of cpu, memory and huge pages only",
        ),
        pytest.param(
            {"containers": [asks(cpu=4)], "resources": {"requests": {"cpu": 3}}, "overhead": {"cpu": 1}},
            {"cpu": 4000},
            id="the pod's own request may be smaller, and overhead comes on top of it",
        ),
        pytest.param(
            {"containers": [asks(**{"hugepages-2Mi": "2Mi"})], "resources": {"requests": {"hugepages-2Mi": "8Mi"}}},
            {"hugepages-2Mi": 8 * 2**20},
            id="the pod's own huge pages",
        ),
    ],
)
def test_requests(spec: dict[str, Any], want: dict[str, int]) -> None:
    assert requests_of(spec) == want


@pytest.mark.parametrize(
    ("spec", "want", "want_without"),
    [
        pytest.param({"containers": [asks({"cpu": 2})]}, {"cpu": 2000}, {}, id="a limit alone"),
        pytest.param({"containers": [asks({"cpu": 2}, cpu=1)]}, {"cpu": 1000}, {"cpu": 1000}, id="a request wins"),
        pytest.param({"initContainers": [asks({"cpu": 2}) | ALWAYS]}, {"cpu": 2000}, {}, id="a sidecar's limit"),
        pytest.param(
            {"containers": [asks(cpu=1)], "resources": {"limits": {"cpu": 5, "memory": 7, "gpu": 1}}},
            {"cpu": 1000, "memory": 7},
            {"cpu": 1000},
            id="the pod's limit, where no container asks",
        ),
        pytest.param(
            {"containers": [asks(**{"hugepages-2Mi": 1})], "resources": {"limits": {"hugepages-2Mi": 5}}},
            {"hugepages-2Mi": 5},
            {"hugepages-2Mi": 1},
            id="the pod's limit of huge pages, whoever asks",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": 5}}},
            {"cpu": 1000},
            {"cpu": 1000},
            id="the pod's request wins",
        ),
    ],
)
def test_limits_stand_in_for_requests(spec: dict[str, Any], want: dict[str, int], want_without: dict[str, int]) -> None:
    assert requests_of(spec) == want
    assert requests_of(spec, limits_as_requests=False) == want_without


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [asks(cpu="0.1m")]}, {"cpu": 1}, id="less than a millicore is one"),
        pytest.param({"containers": [asks(memory="1n")]}, {"memory": 1}, id="less than a byte is one"),
        pytest.param({"containers": [asks(cpu="0.5m")] * 2}, {"cpu": 1}, id="added first, rounded then"),
        pytest.param({"containers": [asks(cpu="-1")]}, {"cpu": 0}, id="a negative request is nothing"),
        pytest.param({"containers": [asks(cpu=2), asks(cpu="-1E30")]}, {"cpu": 2000}, id="and takes nothing away"),
        pytest.param({"containers": [asks(cpu=2)], "overhead": {"cpu": -1}}, {"cpu": 2000}, id="nor does overhead"),
        pytest.param(
            {"containers": [asks(cpu=2)], "resources": {"requests": {"cpu": -1, "memory": -1}}},
            {"cpu": 2000, "memory": 0},
            id="nor does the pod's own request",
        ),
        pytest.param({"containers": [asks(gpu="1e999999999")]}, {"gpu": AMOUNT_MAX}, id="the most there is"),
        pytest.param({"containers": [asks(cpu="1e999999999")] * 2}, {"cpu": AMOUNT_MAX}, id="and no sum is more"),
        pytest.param({"containers": [asks(cpu="1e30")]}, {"cpu": 10**33}, id="far above int64, exact"),
    ],
)
def test_odd_quantities(spec: dict[str, Any], want: dict[str, int]) -> None:
    assert requests_of(spec) == want


@given(st.lists(st.integers(0, 5000), max_size=4), st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=5))
def test_requests_are_the_hungriest_moment(containers: list[int], inits: list[tuple[int, bool]]) -> None:
    """Plays the start of the pod step by step and compares the peak."""
    spec = {
        "containers": [asks(cpu=f"{amount}m") for amount in containers],
        "initContainers": [asks(cpu=f"{amount}m") | (ALWAYS if stays else {}) for amount, stays in inits],
    }
    peak = running = 0
    for amount, stays in inits:
        peak = max(peak, running + amount)
        running += amount if stays else 0
    peak = max(peak, running + sum(containers))
    assert requests_of(spec).get("cpu", 0) == peak


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"containers": [{}, asks(cpu="1 Gi")]}, "containers[1].resources.requests[cpu]", id="a request"),
        pytest.param({"initContainers": [asks({"a/b": "x"})]}, "initContainers[0].resources.limits[a/b]", id="a limit"),
        pytest.param({"overhead": {"cpu": []}}, "overhead[cpu]", id="overhead"),
        pytest.param({"resources": {"requests": {"cpu": True}}}, "resources.requests[cpu]", id="the pod's request"),
        pytest.param({"containers": {}}, "containers", id="containers that are no list"),
        pytest.param({"containers": [5]}, "containers[0]", id="a container that is a number"),
        pytest.param({"nodeSelector": {"a": 1}}, "nodeSelector[a]", id="a node selector of numbers"),
        pytest.param({"priorityClassName": 5}, "priorityClassName", id="a class that is a number"),
    ],
)
def test_mistakes_are_named_by_their_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidObject) as refusal:
        pod_shape(Fields(spec, "spec.template.spec"))
    assert refusal.value.path == f"spec.template.spec.{path}"


def test_where_a_pod_may_run() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}
    shape = pod_shape(
        Fields(
            {
                "nodeSelector": {"disk": "ssd"},
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone]},
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": zone}],
                    }
                },
                "tolerations": [{"key": "spot", "operator": "Exists"}],
                "priorityClassName": "high",
                "runtimeClassName": "kata",
                "schedulerName": "muster",
            }
        )
    )
    assert shape.node_selector == {"disk": "ssd"}
    assert [matches(shape.affinity, {"zone": zone}) for zone in ("west", "east")] == [True, False]
    assert preference(shape.preferred, {"zone": "west"}) == 3
    assert shape.tolerations == (Toleration("spot", "Exists"),)
    assert (shape.priority_class, shape.runtime_class, shape.scheduler) == ("high", "kata", "muster")


def test_an_empty_spec_is_the_default_shape() -> None:
    assert pod_shape(Fields({})) == PodShape()


# Requests above limits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [asks({"cpu": 1}, cpu=1)]}, {}, id="equal is fine"),
        pytest.param({"containers": [asks({}, cpu=1), asks({"cpu": 1})]}, {}, id="one of them alone is fine"),
        pytest.param(
            {"containers": [asks({"cpu": 1, "memory": 1, "gpu": 5}, memory=2, cpu=2, gpu=1)]},
            {"spec.containers[0]": ("cpu", "memory")},
            id="resources are sorted",
        ),
        pytest.param(
            {"containers": [asks({"cpu": 1}, cpu=2)], "initContainers": [asks(), asks({"cpu": 1}, cpu=2)]},
            {"spec.initContainers[1]": ("cpu",), "spec.containers[0]": ("cpu",)},
            id="init containers first",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}},
            {"spec.resources": ("cpu",)},
            id="the pod as a whole",
        ),
        pytest.param(
            {"containers": [asks({"cpu": "1e99"}, cpu="1e999999999")]}, {}, id="both above what is counted are equal"
        ),
    ],
)
def test_requests_above_limits(spec: dict[str, Any], want: dict[str, tuple[str, ...]]) -> None:
    found = requests_above_limits(Fields(spec, "spec"))
    assert found == tuple(AboveLimits(path, resources) for path, resources in want.items())


# Limit ranges -----------------------------------------------------------------------------------------------------


def bounds(kind: str, **texts: dict[str, str]) -> LimitRangeItem:
    parsed = {name: {key: parse_quantity(text) for key, text in given.items()} for name, given in texts.items()}
    return LimitRangeItem(kind=kind, **parsed)


ABOVE, BELOW, RATIO = RangeProblem.ABOVE_MAX, RangeProblem.BELOW_MIN, RangeProblem.ABOVE_RATIO


@pytest.mark.parametrize(
    ("spec", "item", "want"),
    [
        pytest.param(
            {"containers": [asks(cpu=2), asks(cpu=3)]},
            bounds("Container", most={"cpu": "2"}),
            [("spec.containers[1]", "cpu", ABOVE, "3", "2")],
            id="a request above",
        ),
        pytest.param(
            {"containers": [asks({"cpu": 5}, cpu=1)]},
            bounds("Container", most={"cpu": "2"}),
            [("spec.containers[0]", "cpu", ABOVE, "5", "2")],
            id="a limit above",
        ),
        pytest.param(
            {"containers": [asks({"cpu": 5}, cpu="100m")]},
            bounds("Container", least={"cpu": "200m"}),
            [("spec.containers[0]", "cpu", BELOW, "100m", "200m")],
            id="a request below",
        ),
        pytest.param(
            {"containers": [asks(memory="1Gi")]},
            bounds("Container", least={"cpu": "1"}, most={"gpu": "1"}, ratio_most={"memory": "2"}),
            [],
            id="what is left open is not judged",
        ),
        pytest.param(
            {"initContainers": [asks(cpu=3, memory="3Gi")], "containers": [asks(cpu=3)]},
            bounds("Container", most={"memory": "1Gi", "cpu": "1"}),
            [
                ("spec.initContainers[0]", "cpu", ABOVE, "3", "1"),
                ("spec.initContainers[0]", "memory", ABOVE, "3Gi", "1Gi"),
                ("spec.containers[0]", "cpu", ABOVE, "3", "1"),
            ],
            id="init containers first, resources sorted",
        ),
        pytest.param(
            {"containers": [asks(cpu=1), asks({"cpu": 1})], "overhead": {"cpu": 1}},
            bounds("Pod", most={"cpu": "2500m"}),
            [("spec", "cpu", ABOVE, "3", "2500m")],
            id="the pod's sum above, limits and overhead included",
        ),
        pytest.param(
            {"containers": [asks(cpu=1), asks(cpu=1)]},
            bounds("Pod", least={"cpu": "3"}),
            [("spec", "cpu", BELOW, "2", "3")],
            id="the pod's sum below",
        ),
        pytest.param(
            {"containers": [asks({"cpu": 3}, cpu=2), asks({"cpu": 4}, cpu=2)]},
            bounds("Container", ratio_most={"cpu": "1.5"}),
            [("spec.containers[1]", "cpu", RATIO, "4 to 2", "1500m")],
            id="too large a limit for the request",
        ),
        pytest.param(
            {"containers": [asks({"cpu": 1}, cpu=0)]},
            bounds("Container", ratio_most={"cpu": "1000"}),
            [("spec.containers[0]", "cpu", RATIO, "1 to 0", "1k")],
            id="any limit is too large for no request",
        ),
        pytest.param(
            {"containers": [asks({"cpu": 3}, cpu=2), asks({"cpu": 5}, cpu=2)]},
            bounds("Pod", ratio_most={"cpu": "1.5"}),
            [("spec", "cpu", RATIO, "8 to 4", "1500m")],
            id="too large a sum of limits",
        ),
        pytest.param(
            {"containers": [asks(cpu=99)]},
            bounds("PersistentVolumeClaim", most={"cpu": "1"}),
            [],
            id="bounds of other kinds are not for pods",
        ),
    ],
)
def test_limit_range(spec: dict[str, Any], item: LimitRangeItem, want: list[tuple[Any, ...]]) -> None:
    found = limit_range_violations(Fields(spec, "spec"), [item])
    assert [(one.path, one.resource, one.problem, one.found, one.allowed) for one in found] == want


def test_of_several_limit_ranges_the_strictest_counts_once() -> None:
    items = [bounds("Container", most={"cpu": text}, least={"gpu": text}) for text in ("3", "1", "2")]
    found = limit_range_violations(Fields({"containers": [asks(cpu=4, gpu=0)]}), items)
    assert [(one.problem, one.allowed) for one in found] == [(ABOVE, "1"), (BELOW, "3")]


def test_a_limit_range_is_read() -> None:
    limits = [
        {"type": "Container", "max": {"cpu": 2}, "min": {"cpu": "100m"}},
        {"type": "Pod", "maxLimitRequestRatio": {"memory": "2"}},
    ]
    assert read_limit_range(Fields({"spec": {"limits": limits}})) == (
        bounds("Container", most={"cpu": "2"}, least={"cpu": "0.1"}),
        bounds("Pod", ratio_most={"memory": "2"}),
    )
    with pytest.raises(InvalidObject) as refusal:
        read_limit_range(Fields({"spec": {"limits": [{"max": {"cpu": "much"}}]}}))
    assert refusal.value.path == "spec.limits[0].max[cpu]"
