"""The controllers that a cluster is expected to have; `app` runs them.

`CONTROLLERS` are all of them, `INDEXES` what their view has to find objects by, and `RESOURCES` what it has to follow.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.controllers.builtin.workloads import WORKLOAD_CONTROLLERS, WORKLOAD_INDEXES, WORKLOAD_RESOURCES
from muster.controllers.loop import Controller
from muster.controllers.view import Terms

CONTROLLERS: tuple[Controller, ...] = (*(make() for make in WORKLOAD_CONTROLLERS),)
INDEXES: Mapping[tuple[str, str], Terms] = {**WORKLOAD_INDEXES}
RESOURCES: frozenset[str] = WORKLOAD_RESOURCES
