"""The controllers that every Kubernetes cluster has, for the embedded server. `app` runs one of each.

To add one: a file with a class that is a `Controller`, and a line in each of the tables that it needs. Their view finds
objects by `INDEXES` and has to know the resources in `FOLLOWED`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.controllers.builtin.jobs import JOB_CONTROLLERS, JOB_INDEXES, JOB_RESOURCES
from muster.controllers.builtin.workloads import WORKLOAD_CONTROLLERS, WORKLOAD_INDEXES, WORKLOAD_RESOURCES
from muster.controllers.loop import Controller
from muster.controllers.view import Terms

CONTROLLERS: tuple[Callable[[], Controller], ...] = (*JOB_CONTROLLERS, *WORKLOAD_CONTROLLERS)
INDEXES: Mapping[tuple[str, str], Terms] = {**JOB_INDEXES, **WORKLOAD_INDEXES}
FOLLOWED: frozenset[str] = JOB_RESOURCES | WORKLOAD_RESOURCES
