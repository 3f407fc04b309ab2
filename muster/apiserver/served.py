"""Which kinds are served, under which paths, and with which rules. Made by `app`; asked for every request.

What definitions add to it changes while the server runs; the catalog is then filled anew, and its epoch goes up.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from muster.apiserver.facts import KINDS, Kind, Subresource
from muster.store.kinds import KindRules

if TYPE_CHECKING:
    from muster.apiserver.definitions.kinds import CustomKind

# What the server knows how to answer.
_SUBRESOURCES = frozenset(
    {
        "approval",
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "finalize",
        "log",
        "pendingworkloads",
        "portforward",
        "resize",
        "scale",
        "status",
        "token",
    }
)
_EVENTS = ("events.k8s.io", "v1", "Event")  # a view of the core kind
_SENT_ONLY = frozenset(
    {
        "Binding",
        "LocalSubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectReview",
        "SelfSubjectRulesReview",
        "SubjectAccessReview",
        "TokenReview",
    }
)
# What every answer about an old version says.
_DEPRECATED = {("", "v1", "Endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}
_DEPRECATED_VERSIONS = {
    ("kueue.x-k8s.io", "v1beta1"): "This version is deprecated. Use v1beta2 instead.",
}


# Groups whose objects a Kubernetes server acts upon and this one does not: whoever writes one is told.
_WITHOUT_EFFECT = frozenset(
    {
        "apiregistration.k8s.io",
        "certificates.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    }
)


def resource_of(group: str, plural: str) -> str:
    """What keys call a resource; both kinds of event are one resource."""
    if plural == "events" and group == _EVENTS[0]:
        return plural
    return f"{plural}.{group}" if group else plural


@dataclass(frozen=True, slots=True)
class Served:
    """A kind in one version."""

    kind: Kind
    rules: KindRules | None  # None: it is only ever sent, and never kept
    custom: CustomKind | None = None  # of a kind that a definition describes
    resource: str = field(init=False)
    api_version: str = field(init=False)
    is_stored_version: bool = field(init=False)  # its objects are sent as they are stored

    def __post_init__(self) -> None:
        kind = self.kind
        object.__setattr__(self, "resource", resource_of(kind.group, kind.plural))
        object.__setattr__(self, "api_version", f"{kind.group}/{kind.version}" if kind.group else kind.version)
        is_stored = self.rules is not None and self.rules.api_version == self.api_version
        object.__setattr__(self, "is_stored_version", is_stored)

    @property
    def deprecation(self) -> tuple[str, ...]:
        """What is to be said to those who still use this version."""
        if self.custom is not None:
            return (self.custom.warning,) if self.custom.warning else ()
        kind = self.kind
        said = _DEPRECATED.get((kind.group, kind.version, kind.kind))
        said = said or _DEPRECATED_VERSIONS.get((kind.group, kind.version))
        return (said,) if said else ()

    @property
    def without_effect(self) -> tuple[str, ...]:
        """What is to be said to those who write an object that is kept and nothing more."""
        kind = self.kind
        is_mutation = kind.group == "admissionregistration.k8s.io" and "MutatingAdmissionPolicy" in kind.kind
        has_none = is_mutation or kind.group in _WITHOUT_EFFECT
        return (f"{kind.kind} objects are kept, but have no effect here",) if has_none else ()

    @property
    def kept(self) -> KindRules:
        """The rules of a kind that is kept."""
        assert self.rules is not None, f"{self.kind.kind} is not kept"
        return self.rules

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        """The parts of it that can be asked for by themselves."""
        return {name: one for name, one in self.kind.subresources.items() if name in _SUBRESOURCES}


class LiveRules(Mapping[str, KindRules]):
    """The rules of all kinds by resource. They are replaced as a whole, so that any thread may go through them."""

    def __init__(self) -> None:
        self._now: Mapping[str, KindRules] = {}

    def __getitem__(self, resource: str) -> KindRules:
        return self._now[resource]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def items(self) -> ItemsView[str, KindRules]:
        return self._now.items()

    def replace(self, rules: Mapping[str, KindRules]) -> None:
        """Have other rules from now on."""
        self._now = rules


class Catalog:
    """All served kinds, in the order of discovery."""

    def __init__(self, served: Iterable[Served]) -> None:
        self._own = tuple(served)  # they are always there
        self.rules = LiveRules()
        self.epoch = 0
        self.listeners: set[Callable[[], None]] = set()  # told when something else is served
        self.serve(())

    def serve(self, custom: Iterable[Served]) -> None:
        """Serve the kinds of definitions beside the own ones, which they cannot replace."""
        taken = {(one.kind.group, one.kind.plural) for one in self._own}
        others = [one for one in custom if (one.kind.group, one.kind.plural) not in taken]
        self.all = (*self._own, *others)
        self._by_path = {(one.kind.group, one.kind.version, one.kind.plural): one for one in self.all}
        versions: dict[str, dict[str, list[Served]]] = {}
        for one in self.all:
            versions.setdefault(one.kind.group, {}).setdefault(one.kind.version, []).append(one)
        self.groups = MappingProxyType(versions)  # group -> version -> kinds; the first version is the preferred one
        self.rules.replace({one.rules.resource: one.rules for one in self.all if one.rules is not None})
        self.epoch += 1
        for listener in tuple(self.listeners):
            listener()

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The kind under a path."""
        return self._by_path.get((group, version, plural))

    def is_own(self, group: str, plural: str) -> bool:
        """Whether the server has a kind by itself, and no definition can change it."""
        return any((one.kind.group, one.kind.plural) == (group, plural) for one in self._own)

    def is_served(self, served: Served) -> bool:
        """Whether a kind is still served just as it was."""
        kind = served.kind
        return self._by_path.get((kind.group, kind.version, kind.plural)) is served


def builtin(rules: Mapping[str, KindRules]) -> list[Served]:
    """Kubernetes' own kinds of those that rules are given for, and those that are only sent."""
    found = []
    for kind in KINDS.values():
        its_rules = rules.get(resource_of(kind.group, kind.plural))
        if its_rules is not None or kind.kind in _SENT_ONLY:
            found.append(Served(kind, its_rules))
    return found
