"""Objects in many states and what tables show of them. Read by the tests of tables, with and without a real server."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent
NOW = "2026-01-01T12:00:00Z"
CREATED = "2025-12-29T08:30:00Z"
MAIN = {"name": "main", "image": "registry.example/main"}


@dataclass(frozen=True, slots=True)
class Story:
    """An object, whether its deletion was asked for, and its cells without name and age."""

    object: dict[str, Any]
    is_deleted: bool
    cells: list[Any]

    @property
    def kind(self) -> tuple[str, str, str]:
        group, slash, version = self.object["apiVersion"].partition("/")
        return (group, version, self.object["kind"]) if slash else ("", group, self.object["kind"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def stored(self) -> dict[str, Any]:
        """The object as a server would have it, a little after its creation."""
        stored = deepcopy(self.object)
        stored["metadata"]["creationTimestamp"] = CREATED
        if self.is_deleted:
            stored["metadata"]["deletionTimestamp"] = NOW
        return stored


def stories() -> Iterator[Story]:
    """The stories about built-in kinds."""
    for number, row in enumerate(yaml.safe_load((FOLDER / "table_pods.yaml").read_text())):
        metadata = {"name": f"pod-{number:02}", "annotations": {"story": row["story"]}}
        if row.get("is_deleted"):
            metadata["finalizers"] = ["example.com/hold"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        pod["spec"] = {"containers": [MAIN], **row.get("spec", {})}
        pod["status"] = {"phase": "Pending", **row.get("status", {})}
        for status in (*pod["status"].get("containerStatuses", ()), *pod["status"].get("initContainerStatuses", ())):
            status |= {"image": "", "imageID": "", "ready": False, "restartCount": 0} | status
        yield Story(pod, row.get("is_deleted", False), row.get("cells", []))
    yield from _written("table_objects.yaml")


def kueue_stories() -> Iterator[Story]:
    """The stories about Kueue's kinds, which a server has to be taught first."""
    yield from _written("table_kueue.yaml")


def _written(file: str) -> Iterator[Story]:
    for row in yaml.safe_load((FOLDER / file).read_text()):
        is_deleted, cells = row.pop("is_deleted", False), row.pop("cells", [])
        yield Story(row, is_deleted, cells)
