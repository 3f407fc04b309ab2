"""How long simulated pods take, and how they end: read from annotations and from a pool's settings.

    sim.muster.dev/start-time: 2s                     until the containers run
    sim.muster.dev/run-time: uniform(10s,1m)          or 30s, exponential(1m), lognormal(1m,0.5)
    sim.muster.dev/stop-time: 5s                      from being asked to stop until the end
    sim.muster.dev/exit-code: "1"                     how every run ends
    sim.muster.dev/failing-runs: "2"                  only so many runs end like that, those after them well
    sim.muster.dev/fail: "137"                        end now, with this code

Chance is drawn from the pod's uid: the same pod always takes the same time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from muster.model.durations import NANOSECONDS, duration_ns
from muster.model.errors import InvalidObject
from muster.model.fields import shown
from muster.store.kinds import Object

PREFIX = "sim.muster.dev/"
START, RUN, STOP = PREFIX + "start-time", PREFIX + "run-time", PREFIX + "stop-time"
EXIT_CODE, FAILING_RUNS, FAIL = PREFIX + "exit-code", PREFIX + "failing-runs", PREFIX + "fail"
FOREVER_S = math.inf
_MOST_S = 100 * 365 * 86_400.0
_DRAWN = re.compile(r"(uniform|exponential|lognormal)\(([^(),]{1,40})(?:,\s*([^(),]{1,40}))?\)")
_HINT = "give 30s, uniform(10s,1m), exponential(1m) or lognormal(1m,0.5)"


@dataclass(frozen=True, slots=True)
class Length:
    """A length of time, fixed or by chance."""

    kind: str = "fixed"
    first_s: float = 0.0  # the length itself, the least one, the mean or the median
    second: float = 0.0  # the most, or the spread

    def draw(self, chance: Random) -> float:
        """One such length, never below zero and never endless."""
        match self.kind:
            case "uniform":
                drawn = chance.uniform(self.first_s, self.second)
            case "exponential":
                drawn = chance.expovariate(1.0) * self.first_s
            case "lognormal":
                drawn = self.first_s * math.exp(min(chance.gauss(0.0, self.second), 50.0))
            case _:
                return self.first_s
        return min(max(drawn, 0.0), _MOST_S)


def read_length(text: str, path: str) -> Length:
    """A length of time as annotations and files write it."""
    found = _DRAWN.fullmatch(text.strip()) if len(text) <= 100 else None
    if found is None:
        return Length("fixed", _seconds(text, path))
    kind, first, second = found.groups()
    first_s = _seconds(first, path)
    if (second is None) != (kind == "exponential"):
        raise InvalidObject(path, f"is {shown(text)}", _HINT)
    if kind == "uniform":
        most_s = _seconds(second, path)
        if most_s < first_s:
            raise InvalidObject(path, f"is {shown(text)}", "give the shorter time first")
        return Length(kind, first_s, most_s)
    return Length(kind, first_s, _spread(second, path) if second else 0.0)


def _seconds(text: str, path: str) -> float:
    seconds = duration_ns(text.strip(), path) / NANOSECONDS
    if not 0 <= seconds <= _MOST_S:
        raise InvalidObject(path, f"is {shown(text)}", "give from 0s up to 100 years")
    return seconds


def _spread(text: str, path: str) -> float:
    try:
        spread = float(text)
    except ValueError:
        spread = -1.0
    if not 0 <= spread <= 10:
        raise InvalidObject(path, f"has the spread {shown(text)}", "give a number from 0 to 10")
    return spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How pods behave that say nothing about it themselves."""

    start: Length = Length()
    run: Length | None = None  # None: as long as the restart policy suggests
    stop: Length = Length()


DEFAULT_RUN_S = 10.0  # of pods that are meant to end


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How one pod behaves."""

    uid: str
    start_s: float
    run: Length | None  # None: until it is stopped
    stop_s: float
    exit_code: int
    failing_runs: int | None  # None: all
    fail_code: int | None  # None: it is not told to fail now

    def run_s(self, container: str, number: int) -> float:
        """How long a run of a container takes, in whole seconds: a status has no others."""
        if self.run is None:
            return FOREVER_S
        return float(math.ceil(self.run.draw(Random(f"{self.uid}/{container}/{number}"))))

    def code(self, number: int) -> int:
        """How a run ends by itself."""
        is_failing = self.failing_runs is None or number < self.failing_runs
        return self.exit_code if is_failing else 0


def behaviour_of(pod: Object, habits: Habits) -> Behaviour:
    """How a pod behaves; mistakes in its annotations raise `InvalidObject`."""
    metadata = pod["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    uid = metadata.get("uid") or ""
    is_endless = (pod["spec"].get("restartPolicy") or "Always") == "Always"
    run = habits.run or (None if is_endless else Length("fixed", DEFAULT_RUN_S))
    failing_runs = _number(annotations, FAILING_RUNS)
    usual_code = 0 if failing_runs is None else 1
    exit_code = _number(annotations, EXIT_CODE, most=255)
    return Behaviour(
        uid=uid,
        start_s=_length(annotations, START, habits.start).draw(Random(f"{uid}/start")),
        run=read_length(annotations[RUN], f"metadata.annotations[{RUN}]") if RUN in annotations else run,
        stop_s=_length(annotations, STOP, habits.stop).draw(Random(f"{uid}/stop")),
        exit_code=usual_code if exit_code is None else exit_code,
        failing_runs=failing_runs,
        fail_code=_number(annotations, FAIL, most=255),
    )


def _length(annotations: Mapping[str, str], name: str, usual: Length) -> Length:
    text = annotations.get(name)
    if text is None:
        return usual
    return read_length(text, f"metadata.annotations[{name}]")


def _number(annotations: Mapping[str, str], name: str, *, most: int = 1_000_000) -> int | None:
    text = annotations.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > most:
        raise InvalidObject(f"metadata.annotations[{name}]", f"is {shown(text)}", f"give a number from 0 to {most}")
    return int(text)
