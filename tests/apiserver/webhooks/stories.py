"""Stories of webhooks: configurations, requests, and in `told.json` what a real API server said and asked.

tests/kubernetes/test_admission.py writes that file with MUSTER_RECORD=1, and compares both servers otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.apiserver.webhooks.hooks import Hooks
from tests.kubernetes.client import Answer

Json = dict[str, Any]
TOLD = Path(__file__).parent / "told.json"
GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIGS, PODS = "/api/v1/namespaces/{ns}/configmaps", "/api/v1/namespaces/{ns}/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
_VARYING = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\bg-[a-z0-9]{5}\b"), "g-NAME"),
    (re.compile(r'(json parse error|doc is missing path: "[^"]*"|Invalid value: "[^"]*"): .*'), r"\1: WORDS"),
    (re.compile(r' in scheme "[^"]*"'), ""),
)
_DROPPED = ("managedFields", "resourceVersion", "userInfo", "selfLink")


@dataclass(frozen=True, kw_only=True)
class Story:
    """What there is, and what is asked."""

    mutating: tuple[Json, ...] = ()
    validating: tuple[Json, ...] = ()
    requests: tuple[tuple[Any, ...], ...]  # method, path, body, perhaps the content type


def hook(path: str, *operations: str, resources: tuple[str, ...] = ("configmaps",), **more: Any) -> Json:
    rule = {
        "operations": list(operations) or ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": [*resources],
    }
    return {"path": path, "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"], **more}


def config(name: str, **more: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}}


def pod(name: str) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def deployment(name: str) -> Json:
    labels = {"app": name}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


MERGE = "application/merge-patch+json"
NEW = ("POST", CONFIGS, config("a"))
LIFE = (
    NEW,
    ("PUT", f"{CONFIGS}/a", config("a", labels={"x": "y"})),
    ("PATCH", f"{CONFIGS}/a", {"data": {"k": "v"}}, MERGE),
    ("GET", f"{CONFIGS}/a", None),
    ("DELETE", f"{CONFIGS}/a", None),
)


def failing(path: str, **more: Any) -> Story:
    return Story(validating=(hook(path, **more),), requests=(NEW,))


STORIES: dict[str, Story] = {
    "all operations": Story(mutating=(hook("/allow/m"),), validating=(hook("/allow/v"),), requests=LIFE),
    "a label is added": Story(mutating=(hook("/label/a/b"),), validating=(hook("/allow/v"),), requests=LIFE[:4]),
    "denied": failing("/deny"),
    "denied without a word": failing("/deny-bare"),
    "denied with a reason": failing("/deny-reason"),
    "denied with success": failing("/deny-success"),
    "denied with details": failing("/deny-details"),
    "denied while changing": Story(mutating=(hook("/deny"),), validating=(hook("/allow"),), requests=(NEW,)),
    "denied deletion": Story(
        validating=(hook("/deny", "DELETE"),),
        requests=(NEW, ("DELETE", f"{CONFIGS}/a", None), ("DELETE", CONFIGS, None), ("GET", f"{CONFIGS}/a", None)),
    ),
    "warnings": Story(mutating=(hook("/warn"),), requests=(NEW,)),
    "an error": failing("/status/500"),
    "not found": failing("/status/404"),
    "an error that is ignored": failing("/status/500", failurePolicy="Ignore"),
    "garbage": failing("/garbage"),
    "no response": failing("/no-response"),
    "another kind": failing("/other-kind"),
    "another uid": failing("/wrong-uid"),
    "a validating one that patches": failing("/label/a/b"),
    "a patch without its type": Story(mutating=(hook("/no-type"),), requests=(NEW,)),
    "a patch of another type": Story(mutating=(hook("/odd-type"),), requests=(NEW,)),
    "a patch that does not fit": Story(mutating=(hook("/bad-patch"),), requests=(NEW,)),
    "a patch that makes it invalid": Story(mutating=(hook("/bad-name"),), requests=(NEW,)),
    "too slow": failing("/slow", timeoutSeconds=1),
    "too slow and ignored": failing("/slow", timeoutSeconds=1, failurePolicy="Ignore"),
    "nobody there": failing("nobody"),
    "the older review": failing("/allow", admissionReviewVersions=["v1beta1"]),
    "an unknown review first": failing("/allow", admissionReviewVersions=["v9", "v1"]),
    "dry run": Story(
        validating=(hook("/allow"),), requests=(("POST", f"{CONFIGS}?dryRun=All", config("a")), (*NEW,)),
    ),
    "asked again": Story(
        mutating=(
            hook("/label/first/1/second", reinvocationPolicy="IfNeeded"),
            hook("/label/second/1"),
            hook("/label/third/1/first", reinvocationPolicy="IfNeeded"),
        ),
        requests=(NEW,),
    ),
    "never asked again": Story(
        mutating=(hook("/label/first/1/second"), hook("/label/second/1")), requests=(NEW,)
    ),
    "conditions": Story(
        validating=(
            hook("/deny", matchConditions=[{"name": "named", "expression": "object.metadata.name == 'b'"}]),
        ),
        requests=(NEW, ("POST", CONFIGS, config("b"))),
    ),
    "a condition about the request": Story(
        validating=(
            hook(
                "/deny",
                matchConditions=[
                    {"name": "c", "expression": "request.operation == 'UPDATE' && has(oldObject.metadata.name)"}
                ],
            ),
        ),
        requests=LIFE[:2],
    ),
    "a condition without an answer": Story(
        validating=(hook("/allow", matchConditions=[{"name": "c", "expression": "object.none.more == 1"}]),),
        requests=(NEW,),
    ),
    "objects that are selected": Story(
        validating=(hook("/deny", objectSelector={"matchLabels": {"guarded": "yes"}}),),
        requests=(NEW, ("POST", CONFIGS, config("b", labels={"guarded": "yes"}))),
    ),
    "a pod with its defaults": Story(
        mutating=(hook("/image/other:1", "CREATE", resources=("pods",)),),
        validating=(hook("/allow", "CREATE", resources=("pods",)),),
        requests=(("POST", PODS, pod("p")),),
    ),
    "parts of pods": Story(
        validating=(hook("/allow", resources=("pods/*",)),),
        requests=(
            ("POST", PODS, pod("p")),
            ("PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, MERGE),
            (
                "POST",
                f"{PODS}/p/binding",
                {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}},
            ),
            (
                "POST",
                f"{PODS}/p/eviction",
                {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}},
            ),
        ),
    ),
    "the scale": Story(
        mutating=(hook("/replicas/7", "UPDATE", resources=("deployments/scale",)),),
        validating=(hook("/allow", "UPDATE", resources=("*/scale",)),),
        requests=(
            ("POST", DEPLOYMENTS, deployment("d")),
            ("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, MERGE),
        ),
    ),
    "a new name": Story(
        mutating=(hook("/allow/m"),),
        validating=(hook("/allow/v"),),
        requests=(("POST", CONFIGS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}),),
    ),
    "made twice": Story(
        mutating=(hook("/data/a/b"),),
        requests=(("POST", CONFIGS, config("a")), ("POST", CONFIGS, config("a"))),
    ),
}  # fmt: skip


def configurations(story: Story, name: str, hooks: Hooks) -> list[tuple[str, Json]]:
    """What to post where for a story, for its own namespace alone; each has a hook that tells when it is heard."""
    made = []
    for kind, given in (("Mutating", story.mutating), ("Validating", story.validating)):
        probe = hook(f"/allow/probe/{kind}", resources=("secrets",), objectSelector={"matchLabels": {"probe": name}})
        webhooks = []
        for index, one in enumerate((*given, probe)):
            path = one["path"]
            webhook = {key: value for key, value in one.items() if key != "path"}
            webhook["name"] = f"h{index}.story.example.com"
            webhook["clientConfig"] = {"url": "https://127.0.0.1:1/"} if path == "nobody" else hooks.client_config(path)
            webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": name}}
            webhooks.append(webhook)
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": webhooks,
        }
        made.append((f"{GROUP}/{kind.lower()}webhookconfigurations", body))
    return made


def told(answer: Answer) -> Json:
    """An answer, less what each server makes up."""
    body = answer.json
    if body.get("kind") == "Status":
        body = {name: body.get(name) for name in ("code", "reason", "message", "details")}
    return {"status": answer.status, "body": cleaned(body), "warnings": sorted(answer.warnings)}


def asked(requests: list[tuple[str, Json]]) -> list[Json]:
    """What webhooks were asked, less what each server makes up."""
    return [{"path": path, "request": cleaned(request)} for path, request in requests if "/probe/" not in path]


def cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: cleaned(one) for name, one in value.items() if name not in _DROPPED}
        return {name: one for name, one in kept.items() if one not in (None, {}, [])}
    if isinstance(value, list):
        return [cleaned(one) for one in value]
    if isinstance(value, str):
        for pattern, name in _VARYING:
            value = pattern.sub(name, value)
        return value
    return value
