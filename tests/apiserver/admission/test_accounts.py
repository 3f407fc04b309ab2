"""Pods get the name, the token and the image secrets of their service account, as from a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from muster.apiserver.admission.accounts import MOUNT_PATH, with_account
from muster.store.errors import Forbidden
from muster.store.records import Key

Json = dict[str, Any]
KEY = Key("pods", "team", "p")
MOUNT = {"mountPath": MOUNT_PATH, "name": "kube-api-access-abcde", "readOnly": True}
# As Kubernetes 1.36 writes it.
VOLUME = {
    "name": "kube-api-access-abcde",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {
                "downwardAPI": {
                    "items": [
                        {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
                    ]
                }
            },
        ],
    },
}
PLAIN = {"containers": [{"name": "c"}]}
OTHER = {"name": "own", "emptyDir": {}}
OWN_MOUNT = {"mountPath": MOUNT_PATH, "name": "own"}


def completed(spec: Json, account: Json | None = None, **metadata: Any) -> Json:
    pod = {"metadata": {"name": "p", "namespace": "team", **metadata}, "spec": spec}
    found: Json = with_account(KEY, pod, lambda name: account if name == "robot" else None, lambda: "abcde")["spec"]
    return found


def mounted(spec: Json, name: str = "default", **more: Any) -> Json:
    """A spec with the volume, and the mount in all containers."""
    containers = {
        kind: [{**one, "volumeMounts": [MOUNT]} for one in spec[kind]] for kind in spec if "ontainers" in kind
    }
    return {**spec, **containers, "volumes": [VOLUME], "serviceAccountName": name, **more}


@pytest.mark.parametrize(
    ("spec", "account", "want"),
    [
        pytest.param(PLAIN, None, mounted(PLAIN), id="the default account, even before it is there"),
        pytest.param(
            {**PLAIN, "initContainers": [{"name": "i"}]},
            None,
            mounted({**PLAIN, "initContainers": [{"name": "i"}]}),
            id="containers that come first",
        ),
        pytest.param(
            {**PLAIN, "serviceAccountName": "robot"}, {}, mounted(PLAIN, "robot"), id="an account that is named"
        ),
        pytest.param(
            {**PLAIN, "serviceAccountName": "robot"},
            {"automountServiceAccountToken": False},
            {**PLAIN, "serviceAccountName": "robot"},
            id="an account that wants no token",
        ),
        pytest.param(
            {**PLAIN, "serviceAccountName": "robot", "automountServiceAccountToken": True},
            {"automountServiceAccountToken": False},
            mounted(PLAIN, "robot", automountServiceAccountToken=True),
            id="the pod knows better",
        ),
        pytest.param(
            {**PLAIN, "automountServiceAccountToken": False},
            None,
            {**PLAIN, "automountServiceAccountToken": False, "serviceAccountName": "default"},
            id="a pod that wants no token",
        ),
        pytest.param(
            {**PLAIN, "serviceAccountName": "robot"},
            {"imagePullSecrets": [{"name": "s"}]},
            mounted(PLAIN, "robot", imagePullSecrets=[{"name": "s"}]),
            id="secrets for images",
        ),
        pytest.param(
            {"containers": [{"name": "c", "volumeMounts": [OWN_MOUNT]}], "volumes": [OTHER]},
            None,
            {
                "containers": [{"name": "c", "volumeMounts": [OWN_MOUNT]}],
                "volumes": [OTHER],
                "serviceAccountName": "default",
            },
            id="a container that mounts its own",
        ),
        pytest.param(
            {**PLAIN, "volumes": [{**VOLUME, "name": "kube-api-access-mine"}]},
            None,
            {
                "containers": [{"name": "c", "volumeMounts": [{**MOUNT, "name": "kube-api-access-mine"}]}],
                "volumes": [{**VOLUME, "name": "kube-api-access-mine"}],
                "serviceAccountName": "default",
            },
            id="a volume that is there",
        ),
        pytest.param(
            {"containers": "none"}, None, {"containers": "none", "serviceAccountName": "default"}, id="no containers"
        ),
        pytest.param(
            {"containers": [{"volumeMounts": "none"}], "volumes": [OTHER]},
            None,
            {"containers": [{"volumeMounts": "none"}], "volumes": [OTHER], "serviceAccountName": "default"},
            id="no mounts",
        ),
    ],
)
def test_a_new_pod(spec: Json, account: Json | None, want: Json) -> None:
    assert completed(spec, account) == want


def test_a_mirror_of_a_node_s_own_pod_is_left_alone() -> None:
    assert completed(PLAIN, annotations={"kubernetes.io/config.mirror": "x"}) == PLAIN


def test_an_account_that_is_not_there() -> None:
    with pytest.raises(Forbidden) as caught:
        completed({**PLAIN, "serviceAccountName": "nobody"})
    assert str(caught.value).endswith('error looking up service account team/nobody: serviceaccount "nobody" not found')
