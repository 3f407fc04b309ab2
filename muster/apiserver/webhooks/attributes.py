"""A write as admission is told of it. Made by the handlers of writes, read by matching and by reviews."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from muster.apiserver.requests import User
from muster.apiserver.served import Served
from muster.store.kinds import Object


class Operation(Enum):
    """What a request does, in the words of rules."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Sort(NamedTuple):
    """A kind or a resource by its group and version."""

    group: str
    version: str
    name: str

    def told(self, called: str) -> dict[str, str]:
        """As a review has it; `called` says what the name is."""
        return {"group": self.group, "version": self.version, called: self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What is asked about one write."""

    served: Served  # the resource, in the version of the request
    operation: Operation
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    kind: Sort | None = None  # of what was sent, where that is not the resource's own kind
    object: Object | None = None
    before: Object | None = None
    user: User = field(default_factory=lambda: User(""))
    is_dry_run: bool = False
    options: Object = field(default_factory=dict)

    @property
    def sent_kind(self) -> Sort:
        kind = self.served.kind
        return self.kind or Sort(kind.group, kind.version, kind.kind)

    @property
    def resource(self) -> Sort:
        kind = self.served.kind
        return Sort(kind.group, kind.version, kind.plural)

    @property
    def is_namespace(self) -> bool:
        return self.served.resource == "namespaces"

    def about(self, given: Object | None) -> Attributes:
        """The same write with another object."""
        return replace(self, object=given)


def labels_of(given: Any) -> dict[str, str]:
    """The labels of an object that may be none."""
    return ((given or {}).get("metadata") or {}).get("labels") or {}
