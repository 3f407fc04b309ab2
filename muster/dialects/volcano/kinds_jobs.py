"""Volcano's kinds that hold a job: Job, CronJob, JobTemplate and JobFlow. `definitions` puts names to the shapes."""

from __future__ import annotations

from muster.dialects.volcano.kinds import (
    COUNT,
    NAME,
    NETWORK_TOPOLOGY,
    OBJECT_REFERENCES,
    PLAIN_TEXTS,
    SHORT_TEXT,
    TEXT,
)
from muster.model.definitions import root
from muster.model.shapes import Flag, ListOf, MapOf, Moment, Struct, Text, Whole
from muster.model.shapes_notation import fields
from muster.model.shapes_pod import CLAIM_SPEC, METADATA, POD_TEMPLATE
from muster.model.texts import DNS_LABEL, Form

_EVENT = Text(
    choices=(
        "*",
        "PodPending",
        "PodRunning",
        "PodFailed",
        "PodEvicted",
        "Unknown",
        "TaskCompleted",
        "OutOfSync",
        "CommandIssued",
        "JobUpdated",
        "TaskFailed",
    )
)
_POLICIES = ListOf(
    item=Struct(
        fields={
            "action": TEXT,
            "condition": Struct(fields={"taskName": TEXT}),  # ours: with it tasks wait for another one's end
            "event": _EVENT,
            "events": ListOf(item=_EVENT),
            "exitCode": Whole(),
            "timeout": TEXT,
        }
    )
)
_PARTITIONS = Struct(
    fields={
        "minPartitions": COUNT,
        "networkTopology": NETWORK_TOPOLOGY,
        "partitionSize": Whole(least=1),
        "totalPartitions": Whole(least=1),
    },
    required=("partitionSize", "totalPartitions"),
    defaults={"minPartitions": 0},
)
_TASK = Struct(
    fields={
        "dependsOn": Struct(fields={"iteration": TEXT, "name": PLAIN_TEXTS}),
        "maxRetry": COUNT,
        "minAvailable": COUNT,
        "name": Text(most=63, form=DNS_LABEL),
        "partitionPolicy": _PARTITIONS,
        "policies": _POLICIES,
        "replicas": COUNT,
        "template": POD_TEMPLATE,
        "topologyPolicy": Text(choices=("none", "best-effort", "restricted", "single-numa-node")),
    }
)
_WITHOUT_COLON = Form(lambda text: bool(text) and ":" not in text, "a path without a colon", "^[^:]+$")
_VOLUME = Struct(
    fields={
        "mountPath": Text(least=1, form=_WITHOUT_COLON),
        "volumeClaim": CLAIM_SPEC,
        "volumeClaimName": SHORT_TEXT,
    },
    required=("mountPath",),
)
JOB_SPEC = Struct(
    fields={
        "maxRetry": COUNT,
        "minAvailable": COUNT,
        "minSuccess": Whole(least=1),
        "networkTopology": NETWORK_TOPOLOGY,
        "plugins": MapOf(item=PLAIN_TEXTS),
        "policies": _POLICIES,
        "priorityClassName": NAME,
        "queue": NAME,
        "runningEstimate": TEXT,
        "schedulerName": Text(most=63),
        "tasks": ListOf(item=_TASK, least=1),
        "ttlSecondsAfterFinished": COUNT,
        "volumes": ListOf(item=_VOLUME),
    },
    defaults={"maxRetry": 3, "queue": "default"},
)
_PHASES = (
    "Pending",
    "Aborting",
    "Aborted",
    "Running",
    "Restarting",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)
_PODS_BY_PHASE = MapOf(item=Struct(fields={"phase": MapOf(item=Whole())}))
_JOB_COUNTS = (
    "failed",
    "minAvailable",
    "pending",
    "retryCount",
    "running",
    "succeeded",
    "terminating",
    "unknown",
    "version",
)
_JOB_CONDITION = Struct(fields={"lastTransitionTime": Moment(), "status": TEXT}, required=("status",))
_JOB_STATUS = Struct(
    fields={
        **dict.fromkeys(_JOB_COUNTS, COUNT),
        "conditions": ListOf(
            item=Struct(fields={"lastTransitionTime": Moment(), "status": TEXT}, required=("status",))
        ),
        "controlledResources": MapOf(item=TEXT),
        "runningDuration": TEXT,
        "state": fields("message reason", lastTransitionTime=Moment(), phase=Text(choices=_PHASES)),
        "taskStatusCount": _PODS_BY_PHASE,
    }
)
JOB = root(spec=JOB_SPEC, status=_JOB_STATUS)

CRON_JOB = root(
    spec=Struct(
        fields={
            "concurrencyPolicy": Text(choices=("Allow", "Forbid", "Replace")),
            "failedJobsHistoryLimit": COUNT,
            "jobTemplate": Struct(fields={"metadata": METADATA, "spec": JOB_SPEC}),
            "schedule": TEXT,
            "startingDeadlineSeconds": Whole(least=0, is_long=True),
            "successfulJobsHistoryLimit": COUNT,
            "suspend": Flag(),
            "timeZone": TEXT,
        },
        required=("jobTemplate", "schedule"),
        defaults={
            "concurrencyPolicy": "Allow",
            "failedJobsHistoryLimit": 1,
            "successfulJobsHistoryLimit": 3,
            "suspend": False,
        },
    ),
    status=fields("", active=OBJECT_REFERENCES, lastScheduleTime=Moment(), lastSuccessfulTime=Moment()),
)
JOB_TEMPLATE = root(spec=JOB_SPEC, status=Struct(fields={"jobDependsOnList": PLAIN_TEXTS}))

# Flows ------------------------------------------------------------------------------------------------------------

_PORT = Whole(least=0, most=65535, is_unsized=True)
_PROBE = fields(
    "",
    httpGetList=ListOf(item=fields("path", httpHeader=fields("name! value!"), port=_PORT, taskName=SHORT_TEXT)),
    taskStatusList=ListOf(item=Struct(fields={"phase": Text(most=63), "taskName": SHORT_TEXT})),
    tcpSocketList=ListOf(item=Struct(fields={"port": _PORT, "taskName": SHORT_TEXT}, required=("port",))),
)
_FLOW = Struct(
    fields={
        "dependsOn": Struct(fields={"probe": _PROBE, "targets": PLAIN_TEXTS}),
        "name": Text(least=1),
        "patch": Struct(fields={"jobSpec": JOB_SPEC}),
    },
    required=("name",),
)
_RUN = fields("state", endTimestamp=Moment(), startTimestamp=Moment())
_JOB_OF_FLOW = fields(
    "name state",
    endTimestamp=Moment(),
    restartCount=COUNT,
    runningHistories=ListOf(item=_RUN),
    startTimestamp=Moment(),
)
_FLOW_LISTS = ("completedJobs", "failedJobs", "pendingJobs", "runningJobs", "terminatedJobs", "unKnowJobs")
JOB_FLOW = root(
    spec=Struct(fields={"flows": ListOf(item=_FLOW), "jobRetainPolicy": Text(choices=("retain", "delete"))}),
    status=Struct(
        fields={
            **dict.fromkeys(_FLOW_LISTS, PLAIN_TEXTS),
            "conditions": MapOf(
                item=fields("phase runningDuration", createTime=Moment(), taskStatusCount=_PODS_BY_PHASE)
            ),
            "jobStatusList": ListOf(item=_JOB_OF_FLOW),
            "state": Struct(fields={"phase": Text(choices=("Succeed", "Terminating", "Failed", "Running", "Pending"))}),
        }
    ),
)
