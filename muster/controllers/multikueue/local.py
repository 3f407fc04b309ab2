"""What the parts of `multikueue` know of their own cluster: its workloads, jobs, checks and the clusters of each check.

Shared by them; it holds nothing of its own but what wakes the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from muster.controllers.multikueue.clusters import CLUSTERS
from muster.controllers.view import View
from muster.dialects.kueue.job_steps import WORKLOADS
from muster.dialects.kueue.multikueue import SendingRules
from muster.dialects.kueue.names import GROUP, MULTIKUEUE
from muster.engine.contracts import Integration
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.store.records import Key

CHECKS, CONFIGS = f"admissionchecks.{GROUP}", f"multikueueconfigs.{GROUP}"
RESOURCES = frozenset((WORKLOADS, CHECKS, CONFIGS, CLUSTERS))


@dataclass(slots=True)
class Local:
    """The own cluster, as it is known now."""

    view: View
    rules: SendingRules
    copy_changed: Callable[[Key], None] = lambda _workload: None  # somewhere else
    _by_kind: dict[tuple[str, str], Integration] = field(init=False)

    def __post_init__(self) -> None:
        self._by_kind = {(kind.gvk.group, kind.gvk.kind): kind for kind in self.rules.kinds}

    def check_of(self, workload: Object) -> str:
        """The check that sends a workload elsewhere; empty where it stays."""
        for check in (workload.get("status") or {}).get("admissionChecks") or ():
            if self.is_ours(self.view.get(Key(CHECKS, "", check["name"]))):
                return str(check["name"])
        return ""

    def is_ours(self, check: Object | None) -> bool:
        return check is not None and (check.get("spec") or {}).get("controllerName") == MULTIKUEUE

    def config_of(self, check: str) -> Object | None:
        """The list of clusters that a check names."""
        found = Fields(self.view.get(Key(CHECKS, "", check)) or {}).child("spec").child("parameters")
        if found.text("kind") != "MultiKueueConfig":
            return None
        return self.view.get(Key(CONFIGS, "", found.text("name")))

    def clusters_of(self, check: str) -> tuple[str, ...]:
        """The clusters that a check may send workloads to, in order."""
        return Fields(self.config_of(check) or {}).child("spec").texts("clusters")

    def job_of(self, workload: Object | None) -> tuple[Integration | None, Object | None]:
        """The job that a workload stands for, where it is one that can be sent."""
        for owner in ((workload or {}).get("metadata") or {}).get("ownerReferences") or ():
            kind = self._by_kind.get((owner["apiVersion"].rpartition("/")[0], owner["kind"]))
            if workload is None or kind is None or not owner.get("controller"):
                continue
            found = self.view.get(Key(kind.resource, workload["metadata"]["namespace"], owner["name"]))
            is_same = found is not None and found["metadata"].get("uid") == owner["uid"]
            return kind, found if is_same else None
        return None, None

    def sent(self) -> Iterator[Key]:
        """The workloads that are, or may be, sent elsewhere."""
        for workload in self.view.all(WORKLOADS):
            if self.check_of(workload):
                metadata = workload["metadata"]
                yield Key(WORKLOADS, metadata["namespace"], metadata["name"])
