"""Bodies of the greatest size cost a bounded time, whatever they hold: nothing grows with the square of a list."""

from __future__ import annotations

import json
import time

import pytest

from muster.apiserver.facts import KINDS
from muster.apiserver.merge_strategic import merged
from muster.apiserver.patches import STRATEGIC_PATCH, apply_patch
from muster.apiserver.statuses import Problem
from tests.kubernetes.comparison import Ours

MANY = 20_000
BOUND_S = 5.0  # of this thread's own time; what is quadratic takes minutes
SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{}], **spec}}


def container(**fields):
    return pod(containers=[{"name": "a", "image": "a", **fields}])


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(
            pod(topologySpreadConstraints=[{**SPREAD, "topologyKey": f"k{n}"} for n in range(MANY)]), id="spread"
        ),
        pytest.param(pod(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(MANY)]), id="tolerations"),
        pytest.param(pod(volumes=[{"name": f"v{n}"} for n in range(MANY)]), id="volumes"),
        pytest.param(pod(containers=[{"name": f"c{n}"} for n in range(MANY)]), id="containers"),
        pytest.param(container(env=[{"name": f"E{n}"} for n in range(MANY)]), id="variables"),
        pytest.param(container(ports=[{"containerPort": n + 1, "hostPort": n + 1} for n in range(MANY)]), id="ports"),
        pytest.param(
            container(
                volumeMounts=[{"name": f"v{n}", "mountPath": f"/{n}"} for n in range(MANY)],
                volumeDevices=[{"name": f"d{n}", "devicePath": f"/d{n}"} for n in range(MANY)],
            ),
            id="mounts",
        ),
    ],
)
def test_long_lists(item):
    begin = time.thread_time()
    assert Ours().create(item).code in (201, 422)
    assert time.thread_time() - begin < BOUND_S


def test_long_lists_in_patches():
    names = [{"name": f"c{n}", "image": "a"} for n in range(MANY)]
    deleted = [{"name": f"c{n}", "$patch": "delete"} for n in range(0, MANY, 2)]
    order = [{"name": f"c{n}"} for n in reversed(range(MANY))]
    begin = time.thread_time()
    patch = {"containers": deleted, "$setElementOrder/containers": order}
    after = merged({"containers": names}, patch, "io.k8s.api.core.v1.PodSpec")
    assert [one["name"] for one in after["containers"][:2]] == [f"c{MANY - 1}", f"c{MANY - 3}"]
    assert time.thread_time() - begin < BOUND_S


def test_deep_patches_are_refused_before_they_are_read():
    body = b'{"a":' * 101 + b"1" + b"}" * 101
    with pytest.raises(Problem, match="deeper than 100"):
        apply_patch(STRATEGIC_PATCH, {}, body, KINDS["", "v1", "Pod"])
    shallow = json.dumps({"metadata": {"labels": {"a": "b"}}}).encode()
    assert apply_patch(STRATEGIC_PATCH, {}, shallow, KINDS["", "v1", "Pod"]) == {"metadata": {"labels": {"a": "b"}}}
