"""Kinds whose pods or jobs wait in their stead: what these are told, and what may not change."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.contracts import Carried
from muster.engine.job_forms import Steps, fields_at
from muster.engine.pod_groups import FAST_ADMISSION, GROUP_NAME, PARTS, ROLE, SERVING, TOTAL_COUNT
from muster.jobs import cronjob, deployment, leaderworkerset, replicaset, statefulset, volcanojob
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

QUEUE = "kueue.x-k8s.io/queue-name"
CARRIED = Carried(labels={QUEUE: "main"}, group="set-a-12345")
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}
GROUPED = {GROUP_NAME: "set-a-12345", TOTAL_COUNT: "3"}
LWS = {"leaderWorkerTemplate": {"size": 3, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}}
TASKS = {"tasks": [{"name": "ps", "replicas": 1, "template": TEMPLATE}, {"replicas": 2, "template": TEMPLATE}]}


def an_object(spec: Any, status: Any = None) -> Fields:
    return Fields({"metadata": {"name": "a"}, "spec": spec, "status": status or {}})


@pytest.mark.parametrize(
    ("kind", "spec", "at", "annotations"),
    [
        (deployment, {"template": TEMPLATE}, ("spec", "template"), {}),
        (replicaset, {"template": TEMPLATE}, ("spec", "template"), {}),
        (cronjob, {"jobTemplate": TEMPLATE}, ("spec", "jobTemplate"), {}),
        (
            statefulset,
            {"replicas": 3, "template": TEMPLATE},
            ("spec", "template"),
            {**GROUPED, FAST_ADMISSION: "true", SERVING: "true"},
        ),
        (
            leaderworkerset,
            LWS,
            ("spec", "leaderWorkerTemplate", "leaderTemplate"),
            {**GROUPED, ROLE: "leader", SERVING: "true", PARTS: leaderworkerset.NUMBERS},
        ),
        (volcanojob, TASKS, ("spec", "tasks", 0, "template"), {**GROUPED, ROLE: "ps"}),
        (volcanojob, TASKS, ("spec", "tasks", 1, "template"), {**GROUPED, ROLE: "task-1"}),
    ],
    ids=["Deployment", "ReplicaSet", "CronJob", "StatefulSet", "LeaderWorkerSet", "a task", "a task without a name"],
)
def test_what_they_make_waits_in_their_queue(kind, spec, at: Steps, annotations):
    made = Fields(kind.INTEGRATION.carry(an_object(spec), CARRIED))
    metadata = fields_at(made, at).child("metadata")
    assert metadata.values["labels"] == {"app": "a", QUEUE: "main"}
    assert metadata.text_map("annotations") == annotations
    assert kind.INTEGRATION.carry(made, CARRIED) == made.values


def test_workers_without_a_leader_of_their_own_are_all_alike():
    made = leaderworkerset.INTEGRATION.carry(an_object({"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}}), CARRIED)
    inner = made["spec"]["leaderWorkerTemplate"]
    assert inner["workerTemplate"]["metadata"]["annotations"][ROLE] == "main" and "leaderTemplate" not in inner


def test_a_group_needs_a_name():
    with pytest.raises(InvalidObject, match=r"metadata\.name"):
        statefulset.INTEGRATION.carry(an_object({"template": TEMPLATE}), Carried(labels={}, group=""))


@pytest.mark.parametrize(
    ("before", "now", "is_refused"), [(3, 0, False), (0, 3, False), (3, 3, False), (3, 4, True), (4, 3, True)]
)
def test_a_stateful_set_is_scaled_to_nothing_and_back_alone(before, now, is_refused):
    found = list(statefulset.INTEGRATION.changes(an_object({"replicas": now}), an_object({"replicas": before})))
    assert [one.path for one in found] == (["spec.replicas"] if is_refused else [])


def test_the_size_of_a_replica_stays():
    other = {"leaderWorkerTemplate": {**LWS["leaderWorkerTemplate"], "size": 4}}
    found = leaderworkerset.INTEGRATION.changes(an_object(other), an_object(LWS))
    assert [one.path for one in found] == ["spec.leaderWorkerTemplate.size"]


@pytest.mark.parametrize("kind", [deployment, replicaset, statefulset, leaderworkerset])
def test_what_serves_is_active_while_some_of_it_is_ready(kind):
    assert kind.INTEGRATION.is_active(an_object({}, {"readyReplicas": 1}))
    assert not kind.INTEGRATION.is_active(an_object({}))
