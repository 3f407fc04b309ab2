"""Gangs on a real API server: how fast `muster manage` binds whole gangs, and how fast the server takes bindings alone.

`python -m bench gangs-on-kubernetes [--pods 10000] [--gang 500] [--nodes 1000]`. The pods are there before their gangs
may start, so that nothing but binding is measured; the bindings alone are made before and after, by as many writers as
Muster has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from bench.apiserver import cpu_of
from bench.kubernetes import managed_plane
from bench.kueue_shapes import GROUP
from bench.wire import Connection, connect
from tests.kubernetes.plane import Plane

WRITERS = 24  # as many requests as Muster has under way
NAMESPACE = "gangs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_MERGE = "application/merge-patch+json"
_WATCH_S = 3_600
_CPUS_OF_A_NODE = 32
Json = dict[str, Any]
Request = tuple[str, str, bytes, str]


class _Metadata(msgspec.Struct):
    labels: dict[str, str] = {}
    resourceVersion: str = ""  # noqa: N815


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Heard(msgspec.Struct):
    type: str
    object: _Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What binding gangs has shown."""

    pods: int
    took_s: float  # from the moment that the gangs might start to the last binding
    alone_per_s: float  # bindings that the server takes from writers who do nothing else
    partial: int  # gangs of which some pods were bound and others not, at the end
    muster_cpu_s: float
    load_average: float

    @property
    def per_s(self) -> float:
        return self.pods / self.took_s

    @property
    def share(self) -> float:
        return self.per_s / self.alone_per_s


def bind_gangs(pods: int = 10_000, gang: int = 500, nodes: int = 1_000) -> Bound:
    """Bind so many pods in gangs on so many nodes of a real API server."""
    before = os.getloadavg()[0]
    with managed_plane("muster") as (plane, pids):
        began_cpu_s = cpu_of(pids["muster"])
        bound = asyncio.run(_bind_gangs(plane, pods, gang, nodes))
        cpu_s = cpu_of(pids["muster"]) - began_cpu_s
    took_s, alone_per_s, partial = bound
    return Bound(
        pods=pods, took_s=took_s, alone_per_s=alone_per_s, partial=partial, muster_cpu_s=cpu_s, load_average=before
    )


@cache
def bound_gangs() -> Bound:
    """The same for several figures; raises NoControlPlane where there is no real API server."""
    return bind_gangs()


async def _bind_gangs(plane: Plane, pods: int, gang: int, nodes: int) -> tuple[float, float, int]:
    writers = [await connect(plane.url, plane.token, plane.ca_file) for _ in range(WRITERS)]
    watching: Connection | None = None
    try:
        alone = max(pods // 10, WRITERS)
        await _send_all(writers, (_node(f"node-{number}") for number in range(nodes)))
        # A server taints what has only just come.
        paths = (f"/api/v1/nodes/node-{number}" for number in range(nodes))
        await _send_all(writers, (("PATCH", path, b'{"spec":{"taints":null}}', _MERGE) for path in paths))
        await _send_all(writers[:1], _queue(pods))
        gangs = [f"gang-{number}" for number in range(pods // gang)]
        await _send_all(
            writers, (_post(f"{GROUP}/namespaces/{NAMESPACE}/workloads", _gang(one, gang)) for one in gangs)
        )
        members = (_pod(f"{one}-{number}", one) for one in gangs for number in range(gang))
        await _send_all(writers, (_post(PODS, one) for one in members))
        await _send_all(writers, (_post(PODS, _pod(f"alone-{number}", "")) for number in range(2 * alone)))
        first_per_s = await _bind_alone(writers, range(alone), nodes)
        # Not before: the server hangs up on whoever says nothing for long.
        watching = await connect(plane.url, plane.token, plane.ca_file)
        _, answer = await watching.request("GET", f"{PODS}?limit=1")
        revision = json.loads(answer)["metadata"]["resourceVersion"]
        began_s = time.monotonic()
        start = ("PATCH", f"{GROUP}/clusterqueues/gangs", b'{"spec":{"stopPolicy":"None"}}', _MERGE)
        await _send_all(writers[:1], [start])
        bound = await _all_bound(watching, revision, pods)
        took_s = time.monotonic() - began_s
        second_per_s = await _bind_alone(writers, range(alone, 2 * alone), nodes)
        return took_s, (first_per_s + second_per_s) / 2, sum(bound[one] != gang for one in gangs)
    finally:
        for one in writers if watching is None else (watching, *writers):
            one.close()


async def _all_bound(connection: Connection, revision: str, pods: int) -> Counter[str]:
    """Wait until so many pods of gangs are bound; how many of each are."""
    bound: Counter[str] = Counter()
    decoder = msgspec.json.Decoder(_Heard)
    options = f"watch=true&labelSelector=gang&resourceVersion={revision}&timeoutSeconds={_WATCH_S}"
    async for line in connection.lines(f"{PODS}?{options}"):
        heard = decoder.decode(line)
        # Nobody runs them, so being bound is the only thing that happens to them.
        if heard.object.spec.nodeName:
            bound[heard.object.metadata.labels["gang"]] += 1
        if bound.total() >= pods:
            break
    return bound


async def _bind_alone(writers: list[Connection], numbers: range, nodes: int) -> float:
    """How many bindings per second the server takes."""
    began_s = time.monotonic()
    await _send_all(writers, (_binding(f"alone-{number}", f"node-{number % nodes}") for number in numbers))
    return len(numbers) / (time.monotonic() - began_s)


async def _send_all(writers: list[Connection], requests: Iterable[Request]) -> None:
    left = iter(requests)

    async def write(connection: Connection) -> None:
        for method, path, body, kind in left:
            status, answer = await connection.request(method, path, body, kind)
            assert status < 300, f"{method} {path}: {answer[:500]!r}"

    await asyncio.gather(*(write(one) for one in writers))


def _post(path: str, obj: Json) -> Request:
    return "POST", path, json.dumps(obj).encode(), "application/json"


def _node(name: str) -> Request:
    room = {"cpu": str(_CPUS_OF_A_NODE), "memory": "256Gi", "pods": "250"}
    ready = {"type": "Ready", "status": "True", "reason": "Load", "message": "made by the driver"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    status = {"allocatable": room, "capacity": room, "conditions": [ready]}
    return _post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})


def _queue(pods: int) -> Iterable[Request]:
    """A queue that has room for all and does not let anybody start yet."""
    quota = [{"name": "cpu", "nominalQuota": str(pods)}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "all", "resources": quota}]}
    spec = {"namespaceSelector": {}, "stopPolicy": "Hold", "resourceGroups": [group]}
    yield _post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield _post(f"{GROUP}/resourceflavors", _kueue("ResourceFlavor", "all", {}))
    yield _post(f"{GROUP}/clusterqueues", _kueue("ClusterQueue", "gangs", spec))
    yield _post(f"{GROUP}/namespaces/{NAMESPACE}/localqueues", _kueue("LocalQueue", "gangs", {"clusterQueue": "gangs"}))


def _kueue(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _pod_spec() -> Json:
    container = {"name": "main", "image": "example.com/load:1", "resources": {"requests": {"cpu": "1"}}}
    return {"restartPolicy": "Never", "containers": [container]}


def _gang(name: str, pods: int) -> Json:
    pod_set = {"name": "main", "count": pods, "template": {"spec": _pod_spec()}}
    return _kueue("Workload", name, {"queueName": "gangs", "podSets": [pod_set]})


def _pod(name: str, gang: str) -> Json:
    """A pod of a gang, or one that nobody but the driver binds."""
    metadata: Json = {"name": name}
    if gang:
        metadata |= {"labels": {"gang": gang}, "annotations": {"kueue.x-k8s.io/workload": gang}}
    scheduler = "muster" if gang else "nobody"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**_pod_spec(), "schedulerName": scheduler},
    }


def _binding(pod: str, node: str) -> Request:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return _post(
        f"{PODS}/{pod}/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    )


def main(arguments: list[str]) -> int:
    """Bind gangs once and print what has come of it."""
    parser = argparse.ArgumentParser(prog="python -m bench gangs-on-kubernetes", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--gang", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=1_000)
    given = parser.parse_args(arguments)
    done = bind_gangs(given.pods, given.gang, given.nodes)
    print(f"{done.pods:,} pods bound in {done.took_s:.1f} s: {done.per_s:,.0f}/s, load average {done.load_average:.1f}")
    print(f"the server alone takes {done.alone_per_s:,.0f}/s: {done.share:.2f} of that; {done.partial} partial gangs")
    print(f"muster, CPU: {done.muster_cpu_s:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
