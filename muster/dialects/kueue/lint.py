"""Contradictions between the objects of a set of manifests. Called by `muster lint`, and by whoever accepts manifests.

Each object may be valid by itself and the set still not do what its author wants: a limit on borrowing from nobody, a
queue that does not admit the namespace it was made for. Every rule is a function of the whole set; a finding names the
file, the object, the field and what to write. Objects of the wrong shape are validation's part and are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from muster.dialects.kueue import lint_jobs, lint_queues
from muster.dialects.kueue.lint_view import Finding, ObjectSet, Severity, Sourced

__all__ = ["RULES", "Finding", "Severity", "lint"]

Rule = Callable[[ObjectSet], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    lint_queues.limits_without_cohort,
    lint_queues.preemption_without_cohort,
    lint_queues.incomplete_flavors,
    lint_queues.contradicting_quotas,
    lint_queues.absent_selectors,
    lint_queues.shut_out_namespaces,
    lint_queues.missing_queues,
    lint_queues.missing_flavors_and_checks,
    lint_queues.unused_flavors,
    lint_queues.shared_queues,
    lint_queues.cohort_cycles,
    lint_queues.repeated_objects,
    lint_jobs.queue_in_annotation,
    lint_jobs.missing_local_queues,
    lint_jobs.uncovered_resources,
    lint_jobs.priority_in_annotation,
    lint_jobs.wrong_priority_classes,
    lint_jobs.capped_completions,
    lint_jobs.missing_claims,
    lint_jobs.requests_without_limits,
    lint_jobs.restart_policies,
)


def lint(objects: Iterable[Sourced]) -> list[Finding]:
    """What contradicts itself in a set of objects, each given with its file; in the order of the files."""
    known = ObjectSet(objects)
    place = {source: number for number, source in reversed(list(enumerate(item.source for item in known.items)))}
    found = [finding for rule in RULES for finding in rule(known)]
    return sorted(found, key=lambda one: (place[one.source], one.reference, one.path, one.code))
