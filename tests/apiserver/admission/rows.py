"""Requests about limits, quotas and classes; in `told.json` what a real API server answered to each.

tests/kubernetes/test_admission.py writes that file with MUSTER_RECORD=1, and compares both servers otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

Json = dict[str, Any]
TOLD = Path(__file__).parent / "told.json"
PODS, CLAIMS = "/api/v1/namespaces/{ns}/pods", "/api/v1/namespaces/{ns}/persistentvolumeclaims"
SECRETS, SERVICES = "/api/v1/namespaces/{ns}/secrets", "/api/v1/namespaces/{ns}/services"
RANGE = {
    "metadata": {"name": "range"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "default": {"cpu": "500m", "memory": "1Gi"},
                "defaultRequest": {"cpu": "100m"},
                "min": {"cpu": "50m"},
                "max": {"cpu": "1"},
                "maxLimitRequestRatio": {"cpu": "5"},
            },
            {"type": "Pod", "max": {"cpu": "2"}, "min": {"memory": "100Mi"}},
            {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}},
        ]
    },
}
HARD = {
    "pods": "3",
    "cpu": "1",
    "limits.memory": "1Gi",
    "count/secrets": "1",
    "requests.example.com/gpu": "2",
    "services.nodeports": "1",
    "requests.storage": "3Gi",
    "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
}
RUNTIME = {
    "metadata": {"name": "runtime"},
    "handler": "h",
    "overhead": {"podFixed": {"cpu": "10m"}},
    "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
}


def pod(name: str, requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {"requests": requests or {}, "limits": limits or {}}
    init = {"initContainers": [{"name": "i", "image": "i", "resources": spec.pop("init")}]} if "init" in spec else {}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **init, **spec}}


def claim(name: str, size: str, **spec: Any) -> Json:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"metadata": {"name": name}, "spec": wanted}


LIMITED: tuple[tuple[Any, ...], ...] = (
    ("POST", PODS, pod("default")),
    ("POST", PODS, pod("some", limits={"cpu": "400m"}, init={"requests": {"memory": "10Mi"}})),
    ("POST", PODS, pod("small", {"cpu": "10m"}, {"cpu": "50m"})),
    ("POST", PODS, pod("ratio", {"cpu": "100m"}, {"cpu": "1"})),
    ("POST", PODS, pod("large", {"cpu": "1"}, {"cpu": "3"})),
    ("POST", PODS, pod("memory", {"memory": "1Mi"}, {"memory": "50Mi"})),
    ("POST", CLAIMS, claim("small", "1Mi")),
    ("POST", CLAIMS, claim("large", "10Gi")),
    ("POST", CLAIMS, claim("fits", "5Gi")),
)
COUNTED: tuple[tuple[Any, ...], ...] = (
    ("POST", PODS, pod("nothing")),
    ("POST", PODS, pod("half", {"cpu": "1"}, init={"requests": {"cpu": "1"}})),
    ("POST", PODS, pod("much", {"cpu": "3"}, {"memory": "3Gi", "cpu": "4"})),
    ("POST", PODS, pod("fits", {"cpu": "300m"}, {"memory": "300Mi", "cpu": "4", "example.com/gpu": "2"})),
    ("POST", PODS, pod("more", {"cpu": "800m"}, {"memory": "800M", "cpu": "4", "example.com/gpu": "2"})),
    ("GET", "/api/v1/namespaces/{ns}/resourcequotas/quota", None),
    ("POST", SECRETS, {"metadata": {"name": "one"}}),
    ("POST", SECRETS, {"metadata": {"name": "two"}}),
    (
        "POST",
        SERVICES,
        {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2, "name": "b"}]}},
    ),
    ("POST", CLAIMS, claim("a", "2Gi", storageClassName="fast")),
    ("POST", CLAIMS, claim("b", "1Gi", storageClassName="fast")),
    ("POST", CLAIMS, claim("c", "2Gi", storageClassName="slow")),
    ("PUT", "/api/v1/namespaces/{ns}/resourcequotas/none", {"metadata": {"name": "none"}}),
)
CLASSES: tuple[tuple[Any, ...], ...] = (
    ("POST", PODS, pod("runs", runtimeClassName="runtime")),
    ("POST", PODS, pod("tolerant", runtimeClassName="runtime", tolerations=[{"key": "k", "operator": "Exists"}])),
    ("POST", PODS, pod("none", runtimeClassName="none")),
    ("POST", PODS, pod("elsewhere", runtimeClassName="runtime", nodeSelector={"a": "c"})),
    ("POST", PODS, pod("heavy", runtimeClassName="runtime", overhead={"cpu": "1"})),
    ("POST", PODS, pod("same", runtimeClassName="runtime", overhead={"cpu": "0.01"})),
    ("POST", PODS, pod("lonely", overhead={"cpu": "1"})),
    ("POST", CLAIMS, claim("plain", "1Gi")),
    ("POST", CLAIMS, claim("none", "1Gi", storageClassName="")),
)
DEFAULT_CLASS = {
    "metadata": {"name": "usual", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "example.com/disks",
}


def secured(name: str, *contexts: Json, **spec: Any) -> Json:
    containers = [{"name": f"c{number}", "image": "i", "securityContext": one} for number, one in enumerate(contexts)]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def probed(name: str, *more: Json) -> Json:
    containers = [{"name": f"c{number}", "image": "i", **one} for number, one in enumerate(more)]
    return {"metadata": {"name": name}, "spec": {"containers": containers}}


GOOD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
HOST_PATH = {"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "hostPath": {"path": "/x"}}]}
SECURED: tuple[tuple[Any, ...], ...] = tuple(
    ("POST", PODS, body)
    for body in (
        secured("plain", {}),
        secured("good", GOOD, GOOD),
        secured("added", {"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "BPF"]}}, {}),
        secured("spaces", {}, hostNetwork=True, hostPID=True, hostIPC=True),
        secured("paths", {}, **HOST_PATH),
        secured("mount", {"procMount": "Unmasked"}, hostUsers=False),
        secured("unconfined", {"seccompProfile": {"type": "Unconfined"}}, {}),
        secured("pod-unconfined", {}, securityContext={"seccompProfile": {"type": "Unconfined"}}),
        secured("selinux", {"seLinuxOptions": {"type": "spc_t", "user": "u"}}, {}),
        secured("sysctl", {}, securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
        secured("armor", {"appArmorProfile": {"type": "Unconfined"}}, {"appArmorProfile": {"type": "RuntimeDefault"}}),
        secured("pod-armor", {}, {}, securityContext={"appArmorProfile": {"type": "Unconfined"}}),
        probed("probe", {"livenessProbe": {"httpGet": {"port": 1, "host": "example.com"}}}),
        probed("local-probe", {"livenessProbe": {"httpGet": {"port": 1, "host": "127.0.0.1"}}}),
        probed("hook", {"lifecycle": {"preStop": {"httpGet": {"port": 1, "host": "example.com"}}}}, {}),
        probed(
            "socket",
            {"readinessProbe": {"tcpSocket": {"port": 1, "host": "a"}}},
            {"startupProbe": {"tcpSocket": {"port": 1, "host": "b"}}},
        ),
        secured("root", {**GOOD, "runAsUser": 0}, GOOD),
        secured("may-be-root", {**GOOD, "runAsNonRoot": False}, GOOD),
        secured("escalates", {**GOOD, "allowPrivilegeEscalation": True}, {}),
        secured("volumes", GOOD, volumes=[{"name": "n", "nfs": {"server": "s", "path": "/"}}, {"name": "e"}]),
        secured(
            "pod-good",
            {k: GOOD[k] for k in ("allowPrivilegeEscalation", "capabilities")},
            securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        ),
        {
            "metadata": {"name": "port"},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 2}],
                    }
                ]
            },
        },
    )
)
SETS = {"limited": LIMITED, "counted": COUNTED, "classes": CLASSES, "baseline": SECURED, "restricted": SECURED}


def preparations(namespace: str) -> list[tuple[str, str, Json]]:
    """What there has to be before the requests of a set."""
    place = f"/api/v1/namespaces/{namespace}"
    # No controller counts for a real server that runs alone.
    status = {"hard": HARD, "used": dict.fromkeys(HARD, "0")}
    made: dict[str, list[tuple[str, str, Json]]] = {
        "limited": [("POST", f"{place}/limitranges", RANGE)],
        "classes": [
            ("POST", "/apis/node.k8s.io/v1/runtimeclasses", RUNTIME),
            ("POST", "/apis/storage.k8s.io/v1/storageclasses", DEFAULT_CLASS),
        ],
        "counted": [
            ("POST", f"{place}/resourcequotas", {"metadata": {"name": "quota"}, "spec": {"hard": HARD}}),
            ("PUT", f"{place}/resourcequotas/quota/status", {"metadata": {"name": "quota"}, "status": status}),
        ],
    }
    labels = {"pod-security.kubernetes.io/enforce": namespace} if namespace in ("baseline", "restricted") else {}
    metadata = {"name": namespace, "labels": labels}
    return [("POST", "/api/v1/namespaces", {"metadata": metadata}), *made.get(namespace, [])]


def sorted_words(said: Json) -> Json:
    """What is wrong comes in no order from a real server."""
    message = said["body"].get("message")
    start, mark, rest = (message or "").partition("forbidden: [")
    if mark:
        said["body"]["message"] = start + " ".join(sorted(rest.rstrip("]").split(", ")))
    return said
