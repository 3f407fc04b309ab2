"""What is wrong with a job, or with a change of one, as Volcano's webhook sees it. Used by admission.

What its shape already rules out is not looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from muster.dialects.volcano.job.plugins import PLUGINS, read_flags
from muster.dialects.volcano.job.pods import pod_name
from muster.dialects.volcano.job.spec import Task, events_of, read_job
from muster.dialects.volcano.job.words import ENQUEUE, POLICY_ACTIONS, POLICY_EVENTS, Event
from muster.dialects.volcano.names import ROOT_QUEUE
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.quantity import Quantity
from muster.model.texts import is_dns_subdomain, is_qualified_name, nearest

Problems = Iterator[InvalidObject]
_MAY_CHANGE = ("minAvailable", "priorityClassName", "tasks")
_LABEL_MOST = 63
_TASK_MAY_CHANGE = ("replicas", "minAvailable")


def problems_of(job: Fields) -> Problems:
    """What is wrong with a new job by itself."""
    spec = job.child("spec")
    try:
        tasks = read_job(job).tasks
    except InvalidObject as problem:
        yield problem
        return
    if not tasks:
        yield spec.error("tasks", "is empty", "give at least one task")
        return
    name = job.child("metadata").text("name")
    if not _is_label(name):
        yield job.child("metadata").error("name", f"is {shown(name)}", "give a name that labels can have as value")
    yield from _topology(spec)
    yield from _policies(spec)
    yield from _tasks(spec, tasks, name)
    replicas, least = sum(task.replicas for task in tasks), spec.integer("minAvailable")
    if least > replicas:
        yield spec.error("minAvailable", f"is {least} of {replicas} replicas", "give at most so many")
    yield from _plugins(spec, tasks)
    yield from _volumes(spec)
    yield from _dependencies(spec, tasks)


def queue_problem(job: Fields, queue: Mapping[str, Any] | None, *, has_children: bool) -> InvalidObject | None:
    """What is wrong with the queue that a job names. One that is not there may come: the job waits for it."""
    spec = job.child("spec")
    name = spec.text("queue")
    if name == ROOT_QUEUE:
        return spec.error("queue", "is the root of all queues", "name a queue below it")
    if queue is None:
        return None
    state = Fields(queue).child("status").text("state") or "Open"
    if state != "Open":
        return spec.error("queue", f"is {name}, which is {state}", "name a queue that is open")
    if has_children:
        return spec.error("queue", f"is {name}, which has queues below it", "name one of those")
    return None


def _is_label(name: str) -> bool:
    """Whether labels can have a name as their value: pods are found by it."""
    return len(name) <= _LABEL_MOST and "/" not in name and is_qualified_name(name)


# Parts ----------------------------------------------------------------------------------------------------------------


def _tasks(spec: Fields, tasks: Sequence[Task], job: str) -> Problems:
    known: set[str] = set()
    for given, task in zip(spec.children("tasks"), tasks, strict=True):
        if task.name in known:
            yield given.error("name", f"is {shown(task.name)} again", "name each task once")
        known.add(task.name)
        if task.least > task.replicas:
            yield given.error("minAvailable", f"is {task.least} of {task.replicas} replicas", "give at most so many")
        longest = pod_name(job, task.name, max(0, task.replicas - 1))
        if not _is_label(longest):
            yield given.error("name", f"makes pods named {shown(longest)}", "give a shorter name of plain letters")
        yield from _policies(given)
        yield from _partition(given, task)
        if task.numa_policy not in ("", "none"):
            yield from _whole_cpus(given)


def _policies(owner: Fields) -> Problems:
    """The policies of a job or a task: each has events or an exit code, and none comes twice."""
    events: set[str] = set()
    codes: set[int] = set()
    for policy in owner.children("policies"):
        named, has_code = list(events_of(policy)), policy.has("exitCode")
        if bool(named) == has_code:
            yield policy.error("event", "has both or neither of events and exitCode", "give one of them")
        action, condition = policy.text("action"), policy.child("condition").text("taskName")
        if (action == ENQUEUE) != bool(condition):
            yield policy.error("condition", f"goes with the action {ENQUEUE} and no other", "give both, or neither")
        elif action == ENQUEUE and named != [Event.TASK_COMPLETED]:
            yield policy.error("event", f"of the action {ENQUEUE} is another", f"give {Event.TASK_COMPLETED}")
        elif action != ENQUEUE and action not in POLICY_ACTIONS:
            yield policy.error("action", f"is {shown(action)}", f"give one of {', '.join(sorted(POLICY_ACTIONS))}")
        for event in named:
            if event not in POLICY_EVENTS:
                yield policy.error("event", f"is {shown(event)}", f"give one of {', '.join(sorted(POLICY_EVENTS))}")
            elif event in events and action != ENQUEUE:
                yield policy.error("event", f"is {event} again", "give one action for each event")
            if action != ENQUEUE:
                events.add(event)
        if has_code:
            code = policy.integer("exitCode")
            if code == 0:
                yield policy.error("exitCode", "is 0", "give the code of a failure")
            elif code in codes:
                yield policy.error("exitCode", f"is {code} again", "give one action for each code")
            codes.add(code)
    if Event.ANY in events and len(events) > 1:
        yield owner.error("policies", "have * beside other events", "give * alone, or each event by name")


def _partition(given: Fields, task: Task) -> Problems:
    part, fields = task.partition, given.child("partitionPolicy")
    if part is None:
        return
    for name, value in (("totalPartitions", part.total), ("partitionSize", part.size)):
        if value <= 0:
            yield fields.error(name, f"is {value}", "give 1 or more")
    if part.total > 0 and part.size > 0 and task.replicas != part.total * part.size:
        problem = f"is {task.replicas}, not {part.total} times {part.size}"
        yield given.error("replicas", problem, "give as many as all partitions hold")
    if part.least > 0 and task.least != part.least * part.size:
        problem = f"is {task.least}, not {part.least} times {part.size}"
        yield given.error("minAvailable", problem, "give as many as the least partitions hold")
    yield from _topology(fields)


def _topology(owner: Fields) -> Problems:
    topology = owner.child("networkTopology")
    if topology.has("highestTierAllowed") and topology.text("highestTierName"):
        yield owner.error("networkTopology", "has both highestTierAllowed and highestTierName", "give one of them")


def _whole_cpus(task: Fields) -> Problems:
    for container in task.child("template").child("spec").children("containers"):
        resources = container.child("resources")
        asked = resources.quantities("requests").get("cpu") or resources.quantities("limits").get("cpu")
        if asked is not None and not _is_whole(asked):
            path = resources.child("requests")
            yield path.error("cpu", f"is {asked}", "give whole CPUs: the task has a topologyPolicy")


def _is_whole(amount: Quantity) -> bool:
    return amount.scaled(3, 2**63) % 1000 == 0


def _plugins(spec: Fields, tasks: Sequence[Task]) -> Problems:
    given = spec.child("plugins")
    for name in given.values:
        if name not in PLUGINS:
            close = nearest(name, sorted(PLUGINS))
            hint = f"did you mean {close}?" if close else f"known are {', '.join(sorted(PLUGINS))}"
            yield given.error(name, "is no plugin", hint)
    if given.has("mpi"):
        master = read_flags(PLUGINS["mpi"], given.texts("mpi"))[0]["master"]
        if all(task.name != master for task in tasks):
            yield given.error("mpi", f"needs a task named {master}", "name a task so, or say --master")


def _volumes(spec: Fields) -> Problems:
    paths: set[str] = set()
    for volume in spec.children("volumes"):
        path, name = volume.text("mountPath"), volume.text("volumeClaimName")
        if not path:
            yield volume.error("mountPath", "is missing", "say where containers find it")
        elif path in paths:
            yield volume.error("mountPath", f"is {shown(path)} again", "give each volume a path of its own")
        paths.add(path)
        if bool(name) == volume.has("volumeClaim"):
            yield volume.error("volumeClaim", "is given beside volumeClaimName, or neither is", "give one of them")
        elif name and not is_dns_subdomain(name):
            yield volume.error("volumeClaimName", f"is {shown(name)}", "give the name of a claim")


def _dependencies(spec: Fields, tasks: Sequence[Task]) -> Problems:
    known = {task.name for task in tasks}
    for policy in spec.children("policies"):
        first = policy.child("condition").text("taskName")
        if first and first not in known:
            yield policy.child("condition").error("taskName", f"is {shown(first)}, and no task is", "name another task")
            return
    for given, task in zip(spec.children("tasks"), tasks, strict=True):
        for index, name in enumerate(task.depends_on):
            if name not in known:
                depends = given.child("dependsOn")
                yield depends.error(f"name[{index}]", f"is {shown(name)}, and no task is", "name another task")
                return
    try:
        TopologicalSorter({task.name: (*task.depends_on, *task.after) for task in tasks}).prepare()
    except CycleError as found:
        circle = " and ".join(sorted(set(found.args[1])))
        yield spec.error("tasks", f"wait for each other: {circle}", "let one of them depend on none")


# Changes --------------------------------------------------------------------------------------------------------------


def change_problems(new: Fields, before: Fields) -> Problems:
    """What is wrong with a change of a job: few fields may change, and only to what makes sense."""
    spec, had = new.child("spec"), before.child("spec")
    for name in sorted({*spec.values, *had.values} - set(_MAY_CHANGE)):
        if spec.raw(name) != had.raw(name):
            yield spec.error(name, "has changed", f"only {', '.join(_MAY_CHANGE)} of a job may change")
    tasks, had_tasks = list(spec.children("tasks")), list(had.children("tasks"))
    if len(tasks) != len(had_tasks):
        yield spec.error("tasks", f"are {len(tasks)}, and were {len(had_tasks)}", "make another job")
        return
    try:
        meaning = read_job(new)
    except InvalidObject as problem:
        yield problem
        return
    for task, had_task, meant in zip(tasks, had_tasks, meaning.tasks, strict=True):
        for name in sorted({*task.values, *had_task.values} - set(_TASK_MAY_CHANGE)):
            if task.raw(name) != had_task.raw(name):
                yield task.error(name, "has changed", f"only {' and '.join(_TASK_MAY_CHANGE)} of a task may change")
        if meant.least > meant.replicas:
            yield task.error("minAvailable", f"is {meant.least} of {meant.replicas} replicas", "give at most so many")
    if meaning.least > meaning.replicas:
        yield spec.error("minAvailable", f"is {meaning.least} of {meaning.replicas} replicas", "give at most so many")
