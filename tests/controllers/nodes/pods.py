"""Short ways to make pods for the tests of nodes."""

from __future__ import annotations

from typing import Any

from muster.controllers.nodes.containers import Container, Run
from muster.store.kinds import Object
from tests.store.kinds import START_S


def pod(*containers: str, **more: Any) -> Object:
    """A pod on the node n; `init` names init containers, a name with a + stays beside the others."""
    init = [_container(one) for one in more.pop("init", ())]
    metadata = {"name": "p", "namespace": "x", "uid": "u", **more.pop("metadata", {})}
    spec = {"nodeName": "n", "containers": [_container(one) for one in containers or ("c",)], **more}
    if init:
        spec["initContainers"] = init
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(name: str) -> Object:
    beside = {"restartPolicy": "Always"} if name.endswith("+") else {}
    return {"name": name.rstrip("+"), "image": "i", **beside}


def runs(*, is_ready: bool = True, is_started: bool = True, restarts: int = 0) -> Container:
    return Container(run=Run(started_s=START_S), is_ready=is_ready, is_started=is_started, restarts=restarts)


def ended(code: int = 0, *, ago_s: float = 0.0, ends: int = 1, restarts: int = 0) -> Container:
    run = Run(started_s=START_S - ago_s - 1, ended_s=START_S - ago_s, exit_code=code)
    return Container(run=run, ends=ends, restarts=restarts)
