"""Pods get from their service account what a real API server gives them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from muster.apiserver.admission.accounts import with_account
from muster.store.records import Key

PODS, ACCOUNTS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/serviceaccounts"
MADE = {
    "quiet": {"automountServiceAccountToken": False},
    "pulls": {"imagePullSecrets": [{"name": "registry"}]},
}
OWN = {"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
CONTAINER = {"name": "c", "image": "i"}
SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "first": {"initContainers": [{"name": "i", "image": "i"}]},
    "own": {"containers": [{**CONTAINER, "volumeMounts": [OWN]}], "volumes": [{"name": "own", "emptyDir": {}}]},
    "half": {
        "containers": [{**CONTAINER, "volumeMounts": [OWN]}, {"name": "d", "image": "i"}],
        "volumes": [{"name": "own", "emptyDir": {}}],
    },
    "none": {"automountServiceAccountToken": False},
    "quiet": {"serviceAccountName": "quiet"},
    "loud": {"serviceAccountName": "quiet", "automountServiceAccountToken": True},
    "older": {"serviceAccount": "pulls"},
    "pulls": {"serviceAccountName": "pulls"},
    "pulls-itself": {"serviceAccountName": "pulls", "imagePullSecrets": [{"name": "mine"}]},
}


@pytest.fixture(scope="module")
def client(plane_with_controllers):
    """A cluster with some accounts."""
    for name, given in MADE.items():
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}, **given}
        assert plane_with_controllers.client.request("POST", ACCOUNTS, body).status == 201
    return plane_with_controllers.client


@pytest.mark.parametrize("name", SPECS)
def test_a_new_pod(client, name):
    spec = {"containers": [CONTAINER], **SPECS[name]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"account-{name}", "namespace": "default"},
        "spec": spec,
    }
    answer = client.request("POST", PODS, pod)
    assert answer.status == 201, answer.body
    ours = with_account(Key("pods", "default", name), pod, lambda account: MADE.get(account, {}), lambda: "abcde")
    assert _given(ours["spec"]) == _given(answer.json["spec"])


def test_an_account_that_is_not_there(client):
    spec = {"containers": [CONTAINER], "serviceAccountName": "nobody"}
    answer = client.request("POST", PODS, {"metadata": {"name": "lost"}, "spec": spec})
    why = 'error looking up service account default/nobody: serviceaccount "nobody" not found'
    assert (answer.status, answer.json["message"]) == (403, f'pods "lost" is forbidden: {why}')


def _given(spec: dict[str, Any]) -> Any:
    """What of a pod comes from its account, with the ends of names that chance gives left out."""
    parts: dict[str, Any] = {name: spec.get(name) for name in ("serviceAccountName", "imagePullSecrets")}
    parts["volumes"] = [(_plain(one["name"]), one.get("projected")) for one in spec.get("volumes") or ()]
    for kind in ("initContainers", "containers"):
        mounts = [one.get("volumeMounts") or [] for one in spec.get(kind) or ()]
        parts[kind] = [[{**mount, "name": _plain(mount["name"])} for mount in each] for each in mounts]
    return parts


def _plain(name: str) -> str:
    return re.sub("^(kube-api-access-).*", r"\1", name)
