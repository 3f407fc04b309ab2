"""The controllers that a cluster is expected to have; `app` runs them.

`CONTROLLERS` are all of them, `INDEXES` what their view has to find objects by, and `RESOURCES` what it has to follow.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.controllers.builtin.jobs import JOB_CONTROLLERS, JOB_INDEXES, JOB_RESOURCES
from muster.controllers.loop import Controller
from muster.controllers.view import Terms

CONTROLLERS: tuple[Controller, ...] = (*(make() for make in JOB_CONTROLLERS),)
INDEXES: Mapping[tuple[str, str], Terms] = {**JOB_INDEXES}
RESOURCES: frozenset[str] = JOB_RESOURCES
