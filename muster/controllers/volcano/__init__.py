"""The controllers of Volcano's kinds on the embedded server. `app` runs one of each on the view of Kubernetes' own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.controllers.loop import Controller
from muster.controllers.view import Terms
from muster.controllers.volcano.cron_jobs import CRON_JOBS, VolcanoCronJobs
from muster.controllers.volcano.flows import (
    FLOWS,
    MADE_FROM,
    NAMED,
    TEMPLATES,
    Ask,
    JobFlows,
    JobTemplates,
    made_from_terms,
    named_terms,
)
from muster.controllers.volcano.jobs import FOLLOWED as JOBS_FOLLOWED
from muster.controllers.volcano.jobs import TARGETS, MakeKeys, VolcanoJobs, target_terms
from muster.dialects.volcano.job.words import COMMANDS, JOBS

INDEXES: Mapping[tuple[str, str], Terms] = {
    (COMMANDS, TARGETS): target_terms,
    (JOBS, MADE_FROM): made_from_terms,
    (FLOWS, NAMED): named_terms,
}
FOLLOWED: frozenset[str] = JOBS_FOLLOWED | {CRON_JOBS, FLOWS, TEMPLATES}


@dataclass(frozen=True, slots=True)
class Outside:
    """What the controllers need of the world besides the store."""

    make_keys: MakeKeys  # for pods that log in to each other
    ask: Ask  # whether a pod answers


def controllers(outside: Outside) -> tuple[Controller, ...]:
    """One of each."""
    return (VolcanoJobs(outside.make_keys), VolcanoCronJobs(), JobFlows(outside.ask), JobTemplates())
