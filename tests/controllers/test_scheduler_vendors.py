"""Cards of vendors beside NVIDIA on a living cluster: pods get them, and what is written on them keeps them taken."""

from __future__ import annotations

import json

from tests.controllers.cluster import Cluster, node, pod
from tests.controllers.test_scheduler import story

CHIP = "huawei.com/Ascend910B4"
ASCEND = {
    "hami.io/node-register-Ascend910B4": json.dumps(
        [{"id": "npu", "count": 4, "devmem": 32768, "devcore": 20, "type": "Ascend910B4", "health": True}]
    )
}


def amounts(obj: dict[str, object], **more: str) -> dict[str, object]:
    """A node with more of everything."""
    status = obj["status"]
    return {**obj, "status": {**status, "allocatable": {**status["allocatable"], **more}}}


@story
async def test_a_template_of_a_chip_is_given_and_written(cluster: Cluster):
    await cluster.set_up(nodes=[amounts(node("n", annotations=ASCEND), **{CHIP: "4"})])
    await cluster.start()
    for name in ("a", "b", "c"):
        await cluster.add("pods", pod(name, **{CHIP: "1", f"{CHIP}-memory": "10000"}))
        await cluster.settle()
    # Templates of 16,384 MiB: two of them are the whole chip.
    assert cluster.nodes_of_pods() == {"a": "n", "b": "n", "c": ""}
    written = cluster.get("pods", "a")["metadata"]["annotations"]
    assert written["hami.io/Ascend910B4-devices-allocated"] == "npu,Ascend910B4,16384,0:;"
    assert json.loads(written[CHIP]) == [{"UUID": "npu", "temp": "vir10_3c_16g", "memory": 16384}]
    await cluster.remove("pods", "a")
    await cluster.settle()
    assert cluster.nodes_of_pods()["c"] == "n"


@story
async def test_what_pods_hold_outlives_a_restart(cluster: Cluster):
    chips = {"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2"}
    made = amounts(node("n"), **chips)
    await cluster.set_up(nodes=[{**made, "status": {**made["status"], "capacity": made["status"]["allocatable"]}}])
    await cluster.start()
    await cluster.add("pods", pod("first", **{"aws.amazon.com/neuroncore": "1"}))
    await cluster.settle()
    await cluster.stop()
    await cluster.start()
    for name in ("second", "third"):
        await cluster.add("pods", pod(name, **{"aws.amazon.com/neuroncore": "1"}))
        await cluster.settle()
    assert cluster.nodes_of_pods() == {"first": "n", "second": "n", "third": ""}
    ids = [cluster.get("pods", name)["metadata"]["annotations"]["AWS_NEURON_IDS"] for name in ("first", "second")]
    assert sorted(ids) == ["0", "1"]
