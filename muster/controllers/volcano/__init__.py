"""The controllers of Volcano's kinds on the embedded server. `app` runs one of each on the view of Kubernetes' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.controllers.loop import Controller
from muster.controllers.view import Terms
from muster.controllers.volcano.jobs import FOLLOWED as JOBS_FOLLOWED
from muster.controllers.volcano.jobs import TARGETS, MakeKeys, VolcanoJobs, target_terms
from muster.dialects.volcano.job.words import COMMANDS

CONTROLLERS: tuple[Callable[[MakeKeys], Controller], ...] = (VolcanoJobs,)
INDEXES: Mapping[tuple[str, str], Terms] = {(COMMANDS, TARGETS): target_terms}
FOLLOWED: frozenset[str] = JOBS_FOLLOWED
