"""deploy/cards.yaml on a real API server: rights that are enough and no more, and tenants who write only their own."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.agent.registering import node_annotations, node_labels
from muster.agent.settings import NodeSettings
from muster.app.agent import NodeApi
from muster.app.card_extender import KubeCards
from muster.dialects.hami.node_lock import BINDERS, FENCE
from muster.store.binding import Binding
from muster.store.clock import RealClock
from muster.store.errors import Conflict, Forbidden
from muster.store.kube import Kube
from muster.store.kube_config import read_kubeconfig
from muster.store.records import Key
from muster.vendors.nvidia import ALLOCATED
from tests.kubernetes.plane import POLL_S, Plane, started
from tests.support import ROOT

SYSTEM = "muster-system"
HEARD_S = 120.0
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def deployed(real_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The file's objects on a server of their own, and a tenant who may change pods."""
    with started(tmp_path_factory.mktemp("cards")) as plane:
        deploy(plane)
        yield plane


def deploy(plane: Plane) -> None:
    objects = [one for one in yaml.safe_load_all((ROOT / "deploy" / "cards.yaml").read_text()) if one]
    plane.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "tenant"}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create", "patch"]}
    subject = {"kind": "User", "name": "tenant", "apiGroup": group}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "tenant"}
    tenant = [
        {**head, "kind": "ClusterRole", "rules": [rule]},
        {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    ]
    plane.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": tenant}))
    first = made_pod(plane)
    until(lambda: patch_as(plane, "tenant", first, ALLOCATED, is_rehearsed=True) == 422)


def until(is_done: Any) -> None:
    deadline = time.monotonic() + HEARD_S
    while not is_done():
        assert time.monotonic() < deadline, "the API server has not heard of it"
        time.sleep(POLL_S * 10)


def made_pod(plane: Plane, **annotations: str) -> str:
    name = f"pod-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "annotations": annotations}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    answer = plane.client.request(
        "POST",
        "/api/v1/namespaces/default/pods",
        {"metadata": metadata, "spec": spec, "kind": "Pod", "apiVersion": "v1"},
    )
    assert answer.status == 201, answer.body
    return name


def patch_as(plane: Plane, user: str, name: str, annotation: str, *, is_rehearsed: bool = False) -> int:
    as_tenant = replace(plane.client, headers=(("Impersonate-User", user),))
    body = {"metadata": {"annotations": {annotation: "x"}}}
    path = f"/api/v1/namespaces/default/pods/{name}{'?dryRun=All' if is_rehearsed else ''}"
    return as_tenant.request("PATCH", path, body, content_type=MERGE).status


@pytest.mark.parametrize("name", [ALLOCATED, FENCE, "hami.io/bind-phase", "hami.io/vgpu-node"])
def test_a_tenant_may_not_write_what_schedulers_write(deployed: Plane, name: str):
    pod = made_pod(deployed)
    assert patch_as(deployed, "tenant", pod, name) == 422
    assert patch_as(deployed, "tenant", pod, "example.com/own") == 200
    assert patch_as(deployed, f"system:serviceaccount:{SYSTEM}:muster-agent", pod, name) == 200


def connected(plane: Plane, account: str, folder: Path) -> Kube:
    """A connection as one of the file's accounts."""
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = plane.client.request("POST", path, asked)
    assert answer.status == 201, answer.body
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer.json["status"]["token"]}
    (folder / account).write_text(json.dumps(config))
    return Kube(read_kubeconfig(folder / account), RealClock())


def test_the_rights_of_the_agent_and_of_the_extender_are_enough_and_no_more(deployed: Plane, tmp_path: Path):
    name = f"node-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    assert deployed.client.request("POST", "/api/v1/nodes", body).status == 201
    pod = made_pod(deployed)
    key = Key("pods", "default", pod)

    async def story() -> None:
        async with connected(deployed, "muster-agent", tmp_path) as kube:
            api = NodeApi(kube, name)
            annotations = node_annotations(NodeSettings().given_out(()), mode="cdi", now_s=0)
            found = await api.object()
            await api.write(found, annotations=annotations, labels=node_labels(()))
            with pytest.raises(Conflict):
                await api.write(found, annotations={"a": "b"})
            assert (await api.node(())).pods == []
            answer = await kube.ask("GET", "/api/v1/secrets")
            assert answer.status == 403
            assert (await kube.ask("DELETE", f"/api/v1/nodes/{name}")).status == 403
        async with connected(deployed, "muster-extender", tmp_path) as kube:
            cards = KubeCards(kube, None)  # type: ignore[arg-type]
            found = await cards.node(name)
            assert found is not None
            await cards.annotate_node(name, found["metadata"]["resourceVersion"], {BINDERS: "{}"})
            before = await cards.pod(key)
            assert before is not None
            uid = before["metadata"]["uid"]
            with pytest.raises(Conflict):
                await cards.annotate_pod(key, str(uuid.uuid4()), {FENCE: "1"})
            await cards.annotate_pod(key, uid, {FENCE: "1"})
            await cards.bind(Binding(key=key, node=name, uid=uid))
            assert [one["metadata"]["name"] for one in await cards.pods_on(name)] == [pod]
            assert (await kube.ask("GET", "/api/v1/secrets")).status == 403
            with pytest.raises(Forbidden):
                await cards._client.create("pods", {"metadata": {"name": "x", "namespace": "default"}, "spec": {}})

    asyncio.run(story())
