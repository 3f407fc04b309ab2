"""The controllers that every Kubernetes cluster has, for the embedded server. `app` runs one of each.

To add one: a file with a class that is a `Controller`, and a line in each of the tables that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.controllers.builtin.workloads import WORKLOAD_CONTROLLERS, WORKLOAD_INDEXES, WORKLOAD_RESOURCES
from muster.controllers.loop import Controller
from muster.controllers.view import Terms

CONTROLLERS: tuple[Callable[[], Controller], ...] = (*WORKLOAD_CONTROLLERS,)

FOLLOWED: frozenset[str] = WORKLOAD_RESOURCES  # the resources that their view has to know

INDEXES: Mapping[tuple[str, str], Terms] = {**WORKLOAD_INDEXES}
