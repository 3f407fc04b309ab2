"""Usage history: what each submit queue has used of late, so that the queues of one team take turns.

Past use fades by half in every half-life. A workload that is given quota counts at once with a penalty, the use of
one sampling step, so that a submit queue cannot win twice before its use is sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from muster.model.queue import SubmitQueue
from muster.model.resources import CPU
from muster.model.settings import UsageFairness
from muster.model.workload import Workload

Use = dict[str, float]


def in_base_units(amounts: Mapping[str, int]) -> Use:
    """Amounts as floats; cpu in cores."""
    return {name: amount / 1000 if name == CPU else float(amount) for name, amount in amounts.items()}


def asked_by(workload: Workload) -> Use:
    """All that a workload asks for."""
    total: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for name, amount in pod_set.requests.items():
            total[name] = total.get(name, 0) + amount * pod_set.count_left
    return in_base_units(total)


@dataclass(slots=True)
class _Record:
    """The history of one submit queue."""

    weight: float = 1.0
    consumed: Use = field(default_factory=dict)
    at: float | None = None  # up to when past use has faded
    sampled_at: float | None = None
    penalties: dict[str, Use] = field(default_factory=dict)  # by workload


class UsageHistory:
    """The use of all submit queues."""

    def __init__(self, settings: UsageFairness, submit_queues: Iterable[SubmitQueue]) -> None:
        self.settings = settings
        self._records: dict[str, _Record] = {}
        self._sampled_at: float | None = None
        for submit in submit_queues:
            at = submit.consumed_at
            self._records[submit.key] = _Record(submit.weight, dict(submit.consumed), at, at)

    def used_by(self, submit_queue: str) -> float:
        """The weighted use of a submit queue, penalties included; one without weight comes last."""
        record = self._records.get(submit_queue)
        if record is None:
            return 0.0
        if record.weight <= 0:
            return inf
        total = self._weighted(record.consumed) + sum(self._weighted(use) for use in record.penalties.values())
        return total / record.weight

    def penalise(self, workload: Workload) -> None:
        """Count a workload that was just given quota; once, however often it is confirmed."""
        record = self._records.setdefault(workload.submit_queue, _Record())
        share = self._fading(self.settings.sampling_s)
        penalty = {name: share * amount for name, amount in asked_by(workload).items()}
        record.penalties.setdefault(workload.key, penalty)

    def settle(self, workload: Workload, in_use: Use, now: float) -> None:
        """A workload was seen admitted: its penalty becomes past use."""
        record = self._records.get(workload.submit_queue)
        penalty = record.penalties.pop(workload.key, None) if record is not None else None
        if record is not None and penalty is not None:
            self._fade(record, now, in_use)
            for name, amount in penalty.items():
                record.consumed[name] = record.consumed.get(name, 0.0) + amount

    def forgive(self, submit_queue: str, workload: str) -> None:
        """A workload did not start after all."""
        record = self._records.get(submit_queue)
        if record is not None:
            record.penalties.pop(workload, None)

    def is_due(self, now: float) -> bool:
        """Whether a sampling interval has passed; between two, nothing has to be looked at."""
        if self._sampled_at is not None and now - self._sampled_at < self.settings.sampling_s:
            return False
        self._sampled_at = now
        return True

    def sample(self, submit_queue: str, in_use: Use, now: float) -> None:
        """Take the present use into account, once in every sampling interval."""
        record = self._records.setdefault(submit_queue, _Record())
        if record.sampled_at is not None and now - record.sampled_at < self.settings.sampling_s:
            return
        record.sampled_at = now
        if self.settings.half_life_s == 0:
            record.consumed, record.at = {}, now
        else:
            self._fade(record, now, in_use)

    def follow(self, submit_queue: str, in_use: Use, now: float) -> None:
        """What a submit queue uses is about to change: count what it has used until now."""
        record = self._records.setdefault(submit_queue, _Record())
        if record.at is not None and now > record.at:
            self._fade(record, now, in_use)

    def consumed(self, submit_queue: str) -> Mapping[str, float]:
        record = self._records.get(submit_queue)
        return record.consumed if record is not None else {}

    def submit_queues(self) -> Iterable[str]:
        return self._records

    def _fade(self, record: _Record, now: float, in_use: Use) -> None:
        elapsed = now - record.at if record.at is not None else 0.0
        share = self._fading(elapsed)
        names = record.consumed.keys() | in_use.keys()
        record.consumed = {
            name: (1 - share) * record.consumed.get(name, 0.0) + share * in_use.get(name, 0.0) for name in sorted(names)
        }
        record.at = now

    def _fading(self, elapsed_s: float) -> float:
        """Which part of past use is forgotten in that time."""
        if self.settings.half_life_s == 0:
            return 0.0
        return float(1 - 0.5 ** (elapsed_s / self.settings.half_life_s))

    def _weighted(self, use: Use) -> float:
        weights = self.settings.resource_weights
        return sum(weights.get(name, 1.0) * amount for name, amount in use.items())
