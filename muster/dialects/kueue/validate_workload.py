"""The rules of a Workload by itself; `validate_updates` has those that compare it with what it replaces."""

from __future__ import annotations

from collections.abc import Iterator

from muster.dialects.kueue.names import ADMISSION_GATED_BY, PRIORITY_BOOST
from muster.dialects.kueue.rules import (
    Problems,
    Rule,
    Subject,
    annotation_problems,
    annotations_of,
    is_elastic,
    label_problems,
    toleration_problems,
)
from muster.model.errors import InvalidObject
from muster.model.fields import INT32_MAX, Fields, shown
from muster.model.quantity import ZERO
from muster.model.resources import PODS, amount_of
from muster.model.texts import is_domain_prefixed_path

GATE_LENGTH = 63
_KIND_OF_GROUP = {"kueue.x-k8s.io": "WorkloadPriorityClass", "scheduling.k8s.io": "PriorityClass"}


def has_condition(workload: Fields, name: str) -> bool:
    """Whether a condition of the status is true."""
    return any(
        condition.text("type") == name and condition.text("status") == "True"
        for condition in workload.child("status").children("conditions")
    )


def has_quota(workload: Fields) -> bool:
    return has_condition(workload, "QuotaReserved")


def pod_counts(workload: Fields) -> dict[str, int]:
    """How many pods each pod set has."""
    return {pod_set.text("name"): pod_set.integer("count", 1) for pod_set in workload.child("spec").children("podSets")}


def assignments_of(workload: Fields) -> Iterator[Fields]:
    return workload.child("status").child("admission").children("podSetAssignments")


# Pod sets ---------------------------------------------------------------------------------------------------------


def _templates(subject: Subject) -> Problems:
    for pod_set in subject.spec.children("podSets"):
        template = pod_set.child("template")
        if subject.gates.is_on("WorkloadValidationForPodSetMetadata"):
            metadata = template.child("metadata")
            yield from label_problems(metadata.text_map("labels"), metadata.at("labels"))
            yield from annotation_problems(metadata.text_map("annotations"), metadata.at("annotations"))
        pod = template.child("spec")
        for owner in (*pod.children("initContainers"), *pod.children("containers"), pod):
            yield from _requests(owner.child("resources"), subject)


def _requests(resources: Fields, subject: Subject) -> Problems:
    for part in ("requests", "limits"):
        for name, quantity in resources.quantities(part).items():
            if name == PODS:
                yield resources.error(f"{part}[{PODS}]", "is counted by itself", "take it out")
            elif quantity < ZERO and subject.gates.is_on("WorkloadValidateResourcesAreNonNegative"):
                at = f"{part}[{name}]"
                yield resources.error(at, f"is {shown(resources.child(part).raw(name))}", "give 0 or more")


def _slices(subject: Subject) -> Problems:
    if not subject.gates.is_on("TASValidateWorkloadSliceSize"):
        return
    for pod_set in subject.spec.children("podSets"):
        request = pod_set.child("topologyRequest")
        names = ("podSetSliceRequiredTopology", "podSetSliceSize")
        missing = [name for name in names if not request.raw(name)]
        if len(missing) == 1:
            other = next(name for name in names if name not in missing)
            yield request.error(missing[0], f"is missing although {other} is set", "give both or neither")


def _min_counts(subject: Subject) -> Problems:
    partial = [pod_set for pod_set in subject.spec.children("podSets") if pod_set.has("minCount")]
    for pod_set in partial:
        if pod_set.integer("minCount") > pod_set.integer("count", 1):
            problem = f"is {pod_set.integer('minCount')}, more than count"
            yield pod_set.error("minCount", problem, f"give 1 to {pod_set.integer('count', 1)}")
    for pod_set in partial[1:]:
        yield pod_set.error("minCount", "is set on a second pod set", "set it on one")
    if partial and is_elastic(subject.obj, subject.gates):
        yield partial[0].error("minCount", "is set on an elastic workload", "take it out")


# Priority and annotations -----------------------------------------------------------------------------------------


def _priority(subject: Subject) -> Problems:
    spec = subject.spec
    name = "priorityClassRef" if subject.is_hub else "priorityClassName"
    if spec.has(name) and not spec.has("priority"):
        yield spec.error("priority", f"is missing although {name} is set", "give the value of the class")
    reference = spec.child("priorityClassRef")
    wanted = _KIND_OF_GROUP.get(reference.text("group"), "")
    if subject.is_hub and wanted and reference.text("kind") != wanted:
        yield reference.error("kind", f"is {shown(reference.text('kind'))}", f"give {wanted} for this group")


def admission_gates(value: str) -> list[str]:
    """The gates of the annotation that holds a workload back."""
    return value.split(",") if value else []


def admission_gate_problems(value: str) -> Problems:
    """What is wrong with that annotation; jobs have the same one."""
    path = f"metadata.annotations[{ADMISSION_GATED_BY}]"
    seen: set[str] = set()
    for gate in admission_gates(value):
        if not gate:
            yield InvalidObject(path, "names an empty gate", "separate names by single commas")
        elif gate in seen:
            yield InvalidObject(path, f"repeats {shown(gate)}", "name each gate once")
        elif len(gate) > GATE_LENGTH:
            yield InvalidObject(path, f"has a gate of {len(gate)} characters", f"give at most {GATE_LENGTH}")
        elif not is_domain_prefixed_path(gate):
            yield InvalidObject(path, f"names the gate {shown(gate)}", "give names such as example.com/gate")
        seen.add(gate)


def _annotations(subject: Subject) -> Problems:
    annotations = annotations_of(subject.obj)
    if subject.gates.is_on("AdmissionGatedBy"):
        yield from admission_gate_problems(annotations.get(ADMISSION_GATED_BY, ""))
    boost = annotations.get(PRIORITY_BOOST)
    if boost is not None and subject.gates.is_on("PriorityBoost") and not _is_int32(boost):
        path = f"metadata.annotations[{PRIORITY_BOOST}]"
        yield InvalidObject(path, f"is {shown(boost)}", 'give a whole number as text, such as "10" or "-5"')


def _is_int32(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits.lstrip("0")) > 10:
        return False
    number = int(digits)
    return number <= INT32_MAX + text.startswith("-")


# Status -----------------------------------------------------------------------------------------------------------


def _admission(subject: Subject) -> Problems:
    """A workload with quota says where it got it from, and how much."""
    if not has_quota(subject.obj):
        return
    status = subject.status
    if not status.has("admission"):
        was_missing = (
            subject.old is not None and has_quota(subject.old) and not subject.old.child("status").has("admission")
        )
        if not was_missing:
            yield status.error("admission", "is missing although quota is reserved", "say what was assigned")
        return
    counts = pod_counts(subject.obj)
    assignments = list(assignments_of(subject.obj))
    if len(assignments) != len(counts):
        problem = f"has {len(assignments)} items for {len(counts)} pod sets"
        yield status.error("admission.podSetAssignments", problem, "give one for each pod set")
    for assignment in assignments:
        if assignment.text("name") not in counts:
            yield assignment.error("name", f"is {shown(assignment.text('name'))}", _one_of(counts))
        yield from _usage(assignment)


def _usage(assignment: Fields) -> Problems:
    count = assignment.integer("count")
    if count <= 0:
        return
    for name, quantity in assignment.quantities("resourceUsage").items():
        if amount_of(name, quantity) % count:
            problem = f"is {shown(assignment.child('resourceUsage').raw(name))}, which {count} pods cannot share evenly"
            yield assignment.error(f"resourceUsage[{name}]", problem, f"give a multiple of {count}")


def _one_of(names: dict[str, int]) -> str:
    return "give one of " + ", ".join(map(shown, names))


def _topology(subject: Subject) -> Problems:
    for assignment in assignments_of(subject.obj):
        topology = assignment.child("topologyAssignment")
        levels = len(topology.texts("levels"))
        for domain in topology.children("domains"):
            if len(domain.items("values")) != levels:
                problem = f"has {len(domain.items('values'))} items for {levels} levels"
                yield domain.error("values", problem, "give one for each level")
        for piece in topology.children("slices"):
            yield from _topology_slice(piece, levels)


def _topology_slice(piece: Fields, levels: int) -> Problems:
    count = piece.integer("domainCount")
    values = list(piece.children("valuesPerLevel"))
    if len(values) != levels:
        yield piece.error("valuesPerLevel", f"has {len(values)} items for {levels} levels", "give one for each level")
    for part in (*values, piece.child("podCounts")):
        if part.has("universal") == part.has("individual"):
            yield InvalidObject(part.path, "has both or neither of universal and individual", "give one of them")
    for level in values:
        roots = level.child("individual").items("roots")
        if level.has("individual") and len(roots) != count:
            yield level.error("individual.roots", f"has {len(roots)} items", f"give {count}, one for each domain")
    counts = piece.child("podCounts")
    if counts.has("individual") and len(counts.items("individual")) != count:
        problem = f"has {len(counts.items('individual'))} items"
        yield counts.error("individual", problem, f"give {count}, one for each domain")


def _reclaimable(subject: Subject) -> Problems:
    counts = pod_counts(subject.obj)
    before = reclaimable_counts(subject.old) if subject.old is not None else {}
    # Kueue: when an elastic workload shrinks, a count from before may stand until it is brought up to date.
    may_be_stale = is_elastic(subject.obj, subject.gates)
    for entry in subject.status.children("reclaimablePods"):
        name, count = entry.text("name"), entry.integer("count")
        if name not in counts:
            yield entry.error("name", f"is {shown(name)}", _one_of(counts))
        elif count > counts[name] and not (may_be_stale and before.get(name) == count):
            yield entry.error("count", f"is {count}", f"give at most {counts[name]}")


def reclaimable_counts(workload: Fields) -> dict[str, int]:
    """How many pods of each pod set are done with their share."""
    entries = workload.child("status").children("reclaimablePods")
    return {entry.text("name"): entry.integer("count") for entry in entries}


def _check_updates(subject: Subject) -> Problems:
    counts = pod_counts(subject.obj)
    for check in subject.status.children("admissionChecks"):
        for update in check.children("podSetUpdates"):
            if update.text("name") not in counts:
                yield update.error("name", f"is {shown(update.text('name'))}", _one_of(counts))
            yield from toleration_problems(update, "tolerations")
            yield from annotation_problems(update.text_map("annotations"), update.at("annotations"))
            for part in ("nodeSelector", "labels"):
                yield from label_problems(update.text_map(part), update.at(part))


def _clusters(subject: Subject) -> Problems:
    if subject.status.has("clusterName") and subject.status.items("nominatedClusterNames"):
        yield subject.status.error("clusterName", "is set beside nominatedClusterNames", "keep one of them")


WORKLOAD_RULES: tuple[Rule, ...] = (
    _templates,
    _slices,
    _min_counts,
    _priority,
    _annotations,
    _admission,
    _topology,
    _reclaimable,
    _check_updates,
    _clusters,
)
