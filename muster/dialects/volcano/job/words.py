"""The words of Volcano's jobs: phases, actions, events, and what their pods are labelled with."""

from __future__ import annotations

from enum import StrEnum

BATCH = "batch.volcano.sh/v1alpha1"
JOBS = "jobs.batch.volcano.sh"
COMMANDS = "commands.bus.volcano.sh"
GROUPS = "podgroups.scheduling.volcano.sh"
QUEUES = "queues.scheduling.volcano.sh"

# On pods, as annotations and mostly as labels too.
TASK_INDEX = "volcano.sh/task-index"
TASK_SPEC = "volcano.sh/task-spec"
JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
QUEUE_NAME = "volcano.sh/queue-name"
JOB_VERSION = "volcano.sh/job-version"
TEMPLATE_UID = "volcano.sh/template-uid"
JOB_RETRIES = "volcano.sh/job-retry-count"
PARTITION = "volcano.sh/partition-id"
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"  # the controller deletes the pod: nothing follows from that
NUMA_POLICY = "volcano.sh/numa-topology-policy"

ENQUEUE = "Enqueue"  # an action that is none of Volcano's: when a task is complete, the others may begin
MAX_RETRY = 3  # where a job or a task says nothing


class Phase(StrEnum):
    """How far a job is."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


FINISHED = frozenset((Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED))


class Action(StrEnum):
    """What may be done to a job."""

    SYNC = "SyncJob"
    ABORT = "AbortJob"
    RESTART = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE = "TerminateJob"
    COMPLETE = "CompleteJob"
    RESUME = "ResumeJob"


PARTIAL = frozenset((Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION))
POLICY_ACTIONS = frozenset(Action) - {Action.SYNC}


class Event(StrEnum):
    """What may happen to a job."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    JOB_UPDATED = "JobUpdated"
    COMMAND = "CommandIssued"


POLICY_EVENTS = frozenset(Event) - {Event.COMMAND}
