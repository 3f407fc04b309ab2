"""What Volcano makes of jobs and single pods: a group, and pods that name it. Called where there is no controller.

A Job becomes a PodGroup of its name and one pod for every replica of every task; a pod of this scheduler that names no
group gets one of its own.
"""

from __future__ import annotations

from typing import Any

from muster.dialects.volcano.names import DEFAULT_QUEUE, GROUP_NAMES, SCHEDULING, TASK_SPEC
from muster.model.fields import INT32_MAX, Fields
from muster.model.podspec import total_requests
from muster.model.quantity import Quantity, sum_of

Object = dict[str, Any]

PODS_MOST = 5000
TASKS_MOST = 1000
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
MINIMUM = "scheduling.volcano.sh/group-min-member"


def expand_job(job: Fields) -> list[Object]:
    """The PodGroup of a batch.volcano.sh Job, and its pods."""
    metadata, spec = job.child("metadata"), job.child("spec")
    name, namespace = metadata.text("name"), metadata.text("namespace") or "default"
    tasks = list(spec.children("tasks"))
    if not tasks or len(tasks) > TASKS_MOST:
        raise spec.error("tasks", f"holds {len(tasks)} entries", f"give 1 to {TASKS_MOST}")
    pods: list[Object] = []
    least: dict[str, int] = {}
    needed: list[Fields] = []
    for index, task in enumerate(tasks):
        replicas = task.integer("replicas", 1, least=0, most=INT32_MAX)
        role = task.text("name") or f"default{index}"
        if role in least:
            raise task.error("name", f"is {role} again", "name each task once")
        least[role] = task.integer("minAvailable", replicas, least=0)
        if least[role] > replicas:
            raise task.error("minAvailable", f"is {least[role]} of {replicas} replicas", "give at most so many")
        if len(pods) + replicas > PODS_MOST:
            raise task.error("replicas", f"is {replicas}", f"a job has at most {PODS_MOST} pods here")
        needed.extend([task.child("template").child("spec")] * least[role])
        pods.extend(_pod(job, task, role=role, number=number) for number in range(replicas))
    minimum = spec.integer("minAvailable", 0, least=0) or sum(least.values())
    if minimum > len(pods):
        raise spec.error("minAvailable", f"is {minimum}", f"the tasks have {len(pods)} pods")
    wanted = {
        "minMember": minimum,
        "minTaskMember": least,
        "queue": spec.text("queue") or DEFAULT_QUEUE,
        "minResources": _sum_requests(needed[:minimum]),
        "priorityClassName": spec.text("priorityClassName"),
        **({"networkTopology": spec.raw("networkTopology")} if spec.has("networkTopology") else {}),
    }
    return [_group(namespace, name, job, wanted), *pods]


def _pod(job: Fields, task: Fields, *, role: str, number: int) -> Object:
    metadata, template = job.child("metadata"), task.child("template")
    own = template.child("metadata")
    labels, annotations = own.text_map("labels"), own.text_map("annotations")
    name = metadata.text("name")
    joined = {**annotations, GROUP_NAMES[0]: name, TASK_SPEC: role}
    for key in ("volcano.sh/preemptable", "volcano.sh/revocable-zone"):
        inherited = metadata.text_map("annotations").get(key)
        if inherited is not None:
            joined.setdefault(key, inherited)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{role}-{number}",
            "namespace": metadata.text("namespace") or "default",
            "uid": f"{name}-{role}-{number}",
            "labels": {**labels, TASK_SPEC: role},
            "annotations": joined,
            **_created(metadata),
        },
        "spec": dict(template.child("spec").values),
        "status": {"phase": "Pending"},
    }


def expand_pod(pod: Fields) -> list[Object]:
    """A pod that names no group, with a group of its own."""
    metadata, spec = pod.child("metadata"), pod.child("spec")
    annotations = metadata.text_map("annotations")
    name, namespace = f"podgroup-{metadata.text('name')}", metadata.text("namespace") or "default"
    wanted = {
        "minMember": 1,
        "queue": annotations.get(QUEUE_NAME) or DEFAULT_QUEUE,
        "minResources": _sum_requests([spec]),
        "priorityClassName": spec.text("priorityClassName"),
    }
    named = {**metadata.values, "namespace": namespace, "annotations": {**annotations, GROUP_NAMES[0]: name}}
    return [_group(namespace, name, pod, wanted), {**pod.values, "metadata": named}]


def group_of_pod(pod: Fields) -> Object:
    """The group that a pod of a living cluster gets which names none: one for all pods of its controller."""
    metadata, spec = pod.child("metadata"), pod.child("spec")
    owner = next((one for one in metadata.children("ownerReferences") if one.flag("controller")), None)
    annotations = metadata.text_map("annotations")
    text = annotations.get(MINIMUM, "")
    least = int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 10 else 1
    own = {"apiVersion": "v1", "kind": "Pod", "name": metadata.text("name"), "uid": metadata.text("uid")}
    reference = {**own, "controller": True} if owner is None else dict(owner.values)
    wanted = {
        "minMember": least,
        "queue": annotations.get(QUEUE_NAME) or DEFAULT_QUEUE,
        "minResources": _sum_requests([spec] * min(least, PODS_MOST)),
        "priorityClassName": spec.text("priorityClassName"),
    }
    group = _group(metadata.text("namespace"), f"podgroup-{reference['uid']}", pod, wanted)
    kept = {name: value for name, value in annotations.items() if name.split("/")[0].endswith("volcano.sh")}
    place = {name: group["metadata"][name] for name in ("name", "namespace")}
    return {**group, "metadata": {**place, "annotations": kept, "ownerReferences": [reference]}}


def _group(namespace: str, name: str, owner: Fields, spec: Object) -> Object:
    metadata = owner.child("metadata")
    return {
        "apiVersion": SCHEDULING,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": metadata.text("uid") or name,
            "annotations": metadata.text_map("annotations"),
            **_created(metadata),
        },
        "spec": spec,
    }


def _created(metadata: Fields) -> Object:
    created = metadata.text("creationTimestamp")
    return {"creationTimestamp": created} if created else {}


def _sum_requests(specs: list[Fields]) -> dict[str, str]:
    """What the pods of some specs ask for together."""
    total: dict[str, Quantity] = {}
    known: dict[int, dict[str, Quantity]] = {}
    for spec in specs:
        requests = known.get(id(spec.values))
        if requests is None:
            requests = known[id(spec.values)] = total_requests(spec)
        for name, amount in requests.items():
            total[name] = sum_of(total[name], amount) if name in total else amount
    return {name: str(amount) for name, amount in total.items()}
