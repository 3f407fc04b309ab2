"""What a lease says of a leader, as client-go's leader election writes and reads it. Used by `leadership`.

The times in it are for people. Nobody decides by them: they are another machine's.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from muster.model.times import micro_time
from muster.store.kinds import Object

RELEASED_S = 1  # the duration that client-go writes when it lets go
_LONGEST_S = 3600.0  # whatever a lease says: a mistyped one must not lock everybody out for ever


class LeaseRecord(NamedTuple):
    """Who leads, for how long without being heard of, and how often that has changed."""

    holder: str
    lease_s: float  # 0: it does not say
    transitions: int


def record_of(lease: Object) -> LeaseRecord:
    """What a lease says, of which anybody may have written anything."""
    spec = lease.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        lease_s=min(float(seconds), _LONGEST_S) if isinstance(seconds, int) and seconds > 0 else 0.0,
        transitions=transitions if isinstance(transitions, int) and transitions > 0 else 0,
    )


def new_lease(name: str, namespace: str) -> Object:
    """A lease that nobody holds yet."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
    }


def held(lease: Object, holder: str, *, lease_s: float, now_s: float) -> Object:
    """The lease as somebody takes or renews it; fields that are not the election's own stay as they are."""
    spec = lease.get("spec") or {}
    now = micro_time(now_s)
    own = {"holderIdentity": holder, "leaseDurationSeconds": ceil(lease_s), "renewTime": now}
    if spec.get("holderIdentity") != holder:
        own["acquireTime"] = now
        is_new = "resourceVersion" not in lease["metadata"]  # whoever takes it first is no successor
        own["leaseTransitions"] = 0 if is_new else record_of(lease).transitions + 1
    return {**lease, "spec": {**spec, **own}}


def released(lease: Object, now_s: float) -> Object:
    """The lease as its holder lets go of it."""
    now = micro_time(now_s)
    own = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_S, "renewTime": now, "acquireTime": now}
    return {**lease, "spec": {**(lease.get("spec") or {}), **own}}
