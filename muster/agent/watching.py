"""Compares what processes really use of cards with what their pods were given. Pure; called by the agent.

A process whose library was taken away, or that came by a way around it, still shows in the driver's own list. Which pod
it belongs to says the kernel: the cgroup of a process names its pod's uid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.agent.plugin.grants import Grant

OVER_PERCENT, OVER_S = 110, 10.0
_POD = re.compile(r"pod([0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12})")
_MOST_TEXT = 65_536


@dataclass(frozen=True, slots=True)
class Use:
    """Memory of one card that one process has."""

    card: str
    process: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Line:
    """What a pod has of a card, and what it was given."""

    pod: str  # namespace/name; empty: nobody here was given cards under this uid
    uid: str
    card: str
    used_mib: int
    given_mib: int

    @property
    def is_over(self) -> bool:
        return self.used_mib * 100 > self.given_mib * OVER_PERCENT


def pod_of(cgroup: str) -> str:
    """The uid of the pod that a process belongs to, by the text of its cgroups; empty: to none."""
    found = _POD.search(cgroup[:_MOST_TEXT])
    return found[1].replace("_", "-").lower() if found else ""


def compared(uses: Iterable[Use], pods: Mapping[int, str], grants: Iterable[Grant]) -> list[Line]:
    """What each pod uses of each card beside what it was given, in order; `pods` are uids by process."""
    used: dict[tuple[str, str], int] = {}
    for use in uses:
        if uid := pods.get(use.process, ""):
            used[uid, use.card] = used.get((uid, use.card), 0) + use.memory_mib
    given: dict[tuple[str, str], int] = {}
    names: dict[str, str] = {}
    for grant in grants:
        names[grant.whose.uid] = grant.pod
        for share in grant.shares:
            place = grant.whose.uid, share.uuid
            given[place] = given.get(place, 0) + share.memory_mib
    return [
        Line(names.get(uid, ""), uid, card, used.get((uid, card), 0), given.get((uid, card), 0))
        for uid, card in sorted(used.keys() | given.keys())
    ]


class Overuse:
    """Who has used too much, and for how long."""

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, str], float] = {}

    def lasting(self, lines: Iterable[Line], now_s: float) -> list[Line]:
        """Those who have been over what they were given for long enough to be told, or to leave."""
        over = [line for line in lines if line.is_over]
        self._since_s = {(one.uid, one.card): self._since_s.get((one.uid, one.card), now_s) for one in over}
        return [one for one in over if now_s - self._since_s[one.uid, one.card] >= OVER_S]
