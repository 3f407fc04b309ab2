"""Which jobs are managed, and what happens to one when it is made and changed: it is held back until it is admitted.

Called by the API server for every new or changed job, and by the job controller to know which jobs are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.dialects.kueue import names
from muster.dialects.kueue.forgiving import queue_name_of_job
from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.job_workloads import (
    DEFAULT_NAME,
    MAX_EXEC_TIME,
    label_problems,
    namespace_of,
    prebuilt_name,
    workload_name,
)
from muster.engine.contracts import Carried, Carrier, Find, Integration, JobKind
from muster.engine.job_forms import named_at, with_value
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown
from muster.model.labels import Selector

_NOBODY = ("", "default-scheduler")
_CARRIED = (names.PRIORITY_CLASS, MAX_EXEC_TIME)  # labels that go along with the queue
_WHILE_RUNNING = "it can change only while the job is suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRules:
    """What the configuration says of jobs."""

    manages_without_queue: bool = False
    namespaces: Selector = field(default_factory=Selector)  # those whose jobs are managed
    labels_to_copy: tuple[str, ...] = ()
    gates: FeatureGates = DEFAULT_GATES
    is_strict: bool = False
    has_readiness: bool = True  # whether workloads tell that their pods are ready
    scheduler: str = ""  # who finds nodes for the pods of managed jobs; empty: whom they name


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a new job meets in its namespace."""

    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    has_managed_owner: bool = False  # it is counted through that
    has_default_queue: bool = False
    has_default_class: bool = False
    is_placed_elsewhere: bool = False  # its queue leaves the choice of nodes to another scheduler
    is_sent_elsewhere: bool = False  # its queue sends it to other clusters
    find: Find = lambda _resource, _namespace, _name: None  # other objects that it needs


def is_managed(job: Fields, rules: JobRules, namespace_labels: Mapping[str, str]) -> bool:
    """Whether a job of its own waits in a queue before it runs."""
    queue, _ = queue_name_of_job(job.values, strict=rules.is_strict)
    if not queue and not rules.manages_without_queue:
        return False
    return rules.namespaces.matches({names.NAMESPACE_NAME_LABEL: namespace_of(job), **namespace_labels})


def admitted(job: Fields, kind: JobKind, rules: JobRules, around: Around) -> dict[str, Any]:
    """A new job as it is stored: with the defaults of its namespace, and held back if it is managed.

    One whose pods or jobs wait in its stead is taken so again whenever it changes.
    """
    if around.has_managed_owner or job.child("metadata").has("deletionTimestamp"):
        return dict(job.values)
    settled = Fields(_with_defaults(job, rules, around))
    if not is_managed(settled, rules, around.namespace_labels):
        return dict(job.values)
    problems = tuple(label_problems(settled))
    if problems:
        raise InvalidObjects(problems)
    if isinstance(kind, Carrier):
        return _carrying(settled, kind, rules)
    assert isinstance(kind, Integration), "a kind of job waits itself, or what it makes does"
    whole = Fields(kind.settle(settled, around.find))
    if around.is_sent_elsewhere:
        whole = Fields(_left_alone(whole, kind))
    pod_sets = kind.pod_sets(whole)  # what no workload could be made of is refused
    held = kind.hold(whole)
    if not rules.scheduler or around.is_placed_elsewhere:
        return held
    for pod_set in pod_sets:
        held = _scheduled_by(held, pod_set.template_path, rules.scheduler)
    return held


def is_sent_elsewhere(cluster_queue: Fields, find: Find) -> bool:
    """Whether a queue has a check that sends its workloads to other clusters."""
    rules = cluster_queue.child("spec").child("admissionChecksStrategy").children("admissionChecks")
    checks = (find(f"admissionchecks.{names.GROUP}", "", rule.text("name")) for rule in rules)
    return any(Fields(one or {}).child("spec").text("controllerName") == names.MULTIKUEUE for one in checks)


def _left_alone(job: Fields, kind: Integration) -> dict[str, Any]:
    """The job that its own controller here does not touch, where its kind can say so."""
    if not kind.managed_by or named_at(job, kind.managed_by) not in ("", kind.own_controller):
        return dict(job.values)
    return with_value(job, kind.managed_by, names.MULTIKUEUE)


def is_placed_elsewhere(local_queue: Fields, cluster_queue: Fields) -> bool:
    """Whether a queue leaves the choice of nodes to kube-scheduler; the nearer one has the say."""
    said = (one.child("metadata").text_map("annotations").get(names.PLACEMENT) for one in (local_queue, cluster_queue))
    return next((one for one in said if one), "") == names.KUBE_SCHEDULER


def _scheduled_by(job: dict[str, Any], template_path: str, scheduler: str) -> dict[str, Any]:
    """The job whose pods wait for a scheduler, unless they name one of their own."""
    name, _, rest = template_path.partition(".")
    if name:
        return {**job, name: _scheduled_by(job[name], rest, scheduler)}
    spec = job["spec"]
    # Kubernetes' own defaults come first: whoever names nobody has its default scheduler by now.
    return (
        job if spec.get("schedulerName", "") not in _NOBODY else {**job, "spec": {**spec, "schedulerName": scheduler}}
    )


def check_change(new: Fields, before: Fields, kind: JobKind, *, has_default_queue: bool = False) -> None:
    """Refuse what must not change of a managed job; raises `InvalidObjects` with all of it."""
    changed = (*_change_problems(new, before, kind, has_default_queue), *kind.changes(new, before))
    problems = changed or tuple(_new_problems(new, before, kind))
    if problems:
        raise InvalidObjects(problems)


def _carrying(job: Fields, kind: Carrier, rules: JobRules) -> dict[str, Any]:
    """An object whose pods or jobs wait in its queue, and together under a name of their own where they are a group."""
    queue, _ = queue_name_of_job(job.values, strict=rules.is_strict)
    labels = {name: value for name, value in _labels(job).items() if name in _CARRIED and value}
    name = job.child("metadata").text("name")
    group = workload_name(kind.gvk, name, "") if name else ""
    # Without a queue what it makes is managed as the configuration says, each in its own right.
    return (
        kind.carry(job, Carried(labels={**labels, names.QUEUE_NAME: queue}, group=group)) if queue else dict(job.values)
    )


def _with_defaults(job: Fields, rules: JobRules, around: Around) -> dict[str, Any]:
    labels = job.child("metadata").text_map("labels")
    added = {}
    queue, _ = queue_name_of_job(job.values, strict=rules.is_strict)
    if not queue and around.has_default_queue:
        added[names.QUEUE_NAME] = DEFAULT_NAME
    is_defaulted = rules.gates.is_on("WorkloadPriorityClassDefaulting") and around.has_default_class
    if is_defaulted and (queue or added) and not labels.get(names.PRIORITY_CLASS):
        added[names.PRIORITY_CLASS] = DEFAULT_NAME
    if not added:
        return dict(job.values)
    return {**job.values, "metadata": {**job.child("metadata").values, "labels": {**labels, **added}}}


def _change_problems(new: Fields, before: Fields, kind: JobKind, has_default_queue: bool) -> Iterator[InvalidObject]:
    now, old = _labels(new), _labels(before)
    is_suspended = _is_waiting(new, kind)
    queue, queue_before = queue_name_of_job(new.values)[0], queue_name_of_job(before.values)[0]
    if not is_suspended and queue != queue_before:
        yield _problem(names.QUEUE_NAME, f"is {shown(queue)} and was {shown(queue_before)}", _WHILE_RUNNING)
    elif queue_before and not queue and has_default_queue:
        yield _problem(names.QUEUE_NAME, "was taken out", "name a queue: the namespace has one for jobs without")
    elif queue_before and not queue and isinstance(kind, Carrier):
        yield _problem(names.QUEUE_NAME, "was taken out", "make it anew: its pods would go on waiting")
    if not is_suspended and prebuilt_name(new) != prebuilt_name(before):
        yield InvalidObject("metadata", "names another prebuilt workload", _WHILE_RUNNING)
    is_waiting = is_suspended and _is_waiting(before, kind)
    if not is_waiting and now.get(MAX_EXEC_TIME) != old.get(MAX_EXEC_TIME):
        yield _problem(MAX_EXEC_TIME, "was changed", _WHILE_RUNNING)
    had_class, has_class = old.get(names.PRIORITY_CLASS), now.get(names.PRIORITY_CLASS)
    if had_class and not has_class:
        yield _problem(names.PRIORITY_CLASS, "was taken out", "name another class instead")
    elif has_class and not had_class and not is_suspended:
        yield _problem(names.PRIORITY_CLASS, "was added", _WHILE_RUNNING)
    yield from label_problems(new)


def _new_problems(new: Fields, before: Fields, kind: JobKind) -> Iterator[InvalidObject]:
    """What a user's change would make of a job that no workload can be made of; such a one could not be stopped."""
    if not isinstance(kind, Integration) or new.raw("spec") == before.raw("spec"):
        return
    if kind.is_suspended(new) is not kind.is_suspended(before):
        return  # it is started or stopped, perhaps with fewer pods than it asks for
    if found := tuple(_pod_problems(new, kind)):
        yield from found if not any(_pod_problems(before, kind)) else ()


def _pod_problems(job: Fields, kind: Integration) -> Iterator[InvalidObject]:
    try:
        kind.pod_sets(job)
    except InvalidObjects as problems:
        yield from problems.problems
    except InvalidObject as problem:
        yield problem


def _is_waiting(job: Fields, kind: JobKind) -> bool:
    """Whether nothing of a job runs."""
    if isinstance(kind, Carrier):
        return not kind.is_active(job)
    assert isinstance(kind, Integration), "a kind of job waits itself, or what it makes does"
    return kind.is_suspended(job)


def _labels(job: Fields) -> dict[str, str]:
    return job.child("metadata").text_map("labels")


def _problem(label: str, problem: str, hint: str) -> InvalidObject:
    return InvalidObject(f"metadata.labels[{label}]", problem, hint)
