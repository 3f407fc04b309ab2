"""Which documents of a plan are for a session of groups, and which for everybody else. Called by `muster plan`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.dialects.volcano.names import CONFIGURATION_KEY, GROUP_NAMES, SCHEDULER
from muster.model.documents import Document

SHARED = frozenset(("Node", "PriorityClass", "Namespace", "PersistentVolumeClaim", "PersistentVolume"))
ALSO_READ = SHARED | {"ResourceQuota", "PodDisruptionBudget"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsInput:
    """What of some documents a session decides on."""

    documents: tuple[Document, ...]
    configurations: tuple[Document, ...] = ()
    bound: frozenset[str] = frozenset()  # pods that run already, as remarks call them

    @property
    def is_any(self) -> bool:
        return any(_kind(document) not in ALSO_READ for document in self.documents)


def split_groups(documents: Iterable[Document]) -> tuple[list[Document], GroupsInput]:
    """The documents that others decide on, and those of groups; nodes and the like are for both."""
    rest: list[Document] = []
    groups: list[Document] = []
    configurations: list[Document] = []
    bound: set[str] = set()
    for document in documents:
        kind = _kind(document)
        if _is_configuration(document):
            configurations.append(document)
        elif _is_own(document):
            groups.append(document)
            if kind == "Pod" and _text(document, "spec", "nodeName"):
                rest.append(document)  # what it holds counts for everybody
                place = _text(document, "metadata", "namespace") or "default"
                bound.add(f"Pod {place}/{_text(document, 'metadata', 'name')}")
        else:
            rest.append(document)
            if kind in ALSO_READ:
                groups.append(document)
    found = GroupsInput(documents=tuple(groups), configurations=tuple(configurations), bound=frozenset(bound))
    return rest, found


def _kind(document: Document) -> str:
    kind = document.value.get("kind")
    return kind if isinstance(kind, str) else ""


def _is_own(document: Document) -> bool:
    version = document.value.get("apiVersion")
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    if group in ("scheduling.volcano.sh", "topology.volcano.sh", "batch.volcano.sh"):
        return True
    if _kind(document) != "Pod" or group:
        return False
    metadata = document.value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    names_group = isinstance(annotations, dict) and any(annotations.get(name) for name in GROUP_NAMES)
    return names_group or _text(document, "spec", "schedulerName") == SCHEDULER


def _is_configuration(document: Document) -> bool:
    data = document.value.get("data")
    return _kind(document) == "ConfigMap" and isinstance(data, dict) and CONFIGURATION_KEY in data


def _text(document: Document, part: str, name: str) -> str:
    inner = document.value.get(part)
    value = inner.get(name) if isinstance(inner, dict) else None
    return value if isinstance(value, str) else ""
