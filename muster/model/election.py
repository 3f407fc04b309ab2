"""When a leader counts as alive, and how long it may act: the settings of an election. Read by `app`, used by electors.

Three durations are given, with Kueue's names and defaults. What keeps two leaders from acting at once follows:

    renewed          stops by itself        given up by others          successor acts
       |--- renew_deadline_s ---|-------- margin_s --------|-- settle_s --|
       |----------------- lease_s -------------------------|
                                |-- request_s --|  the last write has arrived, or never does
"""

from __future__ import annotations

from dataclasses import dataclass

KUEUE_LEASE = "c1f6bfd2.kueue.x-k8s.io"
_SHARE_OF_REQUESTS = 0.6  # of the margin; the rest is for clocks that do not go alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """How the one that acts is chosen among several processes."""

    is_on: bool = True
    lease_s: float = 15.0  # others give a leader up that they have not heard of for so long
    renew_deadline_s: float = 10.0  # a leader stops that could not renew its lease for so long
    retry_s: float = 2.0  # between two tries
    name: str = KUEUE_LEASE  # so that Kueue and Muster in one namespace do not act at the same time either
    namespace: str = ""  # empty: the one that the process runs in

    def __post_init__(self) -> None:
        assert 0 < self.retry_s < self.renew_deadline_s < self.lease_s, "a lease outlasts the deadline of its renewal"

    @property
    def margin_s(self) -> float:
        """Between the moment when a leader stops by itself and the one when others give it up."""
        return self.lease_s - self.renew_deadline_s

    @property
    def request_s(self) -> float:
        """How long a write of a leader may be under way: when others begin, all have arrived."""
        return _SHARE_OF_REQUESTS * self.margin_s

    @property
    def settle_s(self) -> float:
        """How long a successor waits once more before it reads anything: clocks differ."""
        return self.margin_s - self.request_s

    @property
    def look_s(self) -> float:
        """How often a candidate looks: what it sees late it takes over late."""
        return self.retry_s / 4
