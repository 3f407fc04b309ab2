"""Moments and durations to the nanosecond, read and written as Kubernetes does. Used by the values of expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from muster.apiserver.cel.problems import EvaluationProblem

SECOND = 1_000_000_000
INT64_MOST = 2**63 - 1
TEXT_MOST = 64  # no moment and no duration that means anything is longer
_LEAST = -62135596800 * SECOND  # the year 1
_MOST = 253402300800 * SECOND - 1  # the end of 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_DURATION_PART = re.compile(r"([0-9]*)\.?([0-9]*)(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9})[0-9]*)?(Z|z|[+-][0-9]{2}:[0-9]{2})"
)
_OFFSET = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{2})")


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time."""

    nanoseconds: int

    def __str__(self) -> str:
        """As seconds, with as many decimals as there are."""
        sign = "-" if self.nanoseconds < 0 else ""
        whole, rest = divmod(abs(self.nanoseconds), SECOND)
        decimals = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{sign}{whole}{decimals}s"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A moment, as nanoseconds since 1970; it remembers the zone that it was written in."""

    nanoseconds: int
    offset_s: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """As RFC 3339 with as many decimals as there are."""
        zone = timezone(timedelta(seconds=self.offset_s))
        moment = self.at(zone)
        rest = self.nanoseconds % SECOND
        decimals = f".{rest:09d}".rstrip("0") if rest else ""
        ending = moment.isoformat()[-6:] if self.offset_s else "Z"
        return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{decimals}{ending}"

    def at(self, zone: tzinfo) -> datetime:
        """The date and time in a zone, to the second."""
        try:
            return (_EPOCH + timedelta(seconds=self.nanoseconds // SECOND)).astimezone(zone)
        except OverflowError:
            raise EvaluationProblem("timestamp overflow") from None


def duration(nanoseconds: int) -> Duration:
    """A duration that fits into 64 bits."""
    if abs(nanoseconds) > INT64_MOST:
        raise EvaluationProblem("integer overflow")
    return Duration(nanoseconds)


def timestamp(nanoseconds: int, offset_s: int = 0) -> Timestamp:
    """A moment from the year 1 to 9999."""
    if not _LEAST <= nanoseconds <= _MOST:
        raise EvaluationProblem("timestamp overflow")
    return Timestamp(nanoseconds, offset_s)


def parse_duration(text: str, problem: str = "time: invalid duration") -> Duration:
    """Reads a duration such as 1h30m or 1.5s."""
    if len(text) > TEXT_MOST or not _DURATION.fullmatch(text):
        raise EvaluationProblem(f'{problem} "{text[:TEXT_MOST]}"')
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(text):
        size = _UNITS[unit]
        total += int(whole or "0") * size + int(fraction or "0") * size // 10 ** len(fraction)
    if total > INT64_MOST:
        raise EvaluationProblem(f'{problem} "{text}"')
    return Duration(-total if text.startswith("-") else total)


def parse_timestamp(text: str, problem: str = "cannot parse") -> Timestamp:
    """Reads a moment such as 2026-01-01T12:00:00.5Z."""
    parts = _TIMESTAMP.fullmatch(text) if len(text) <= TEXT_MOST else None
    if parts is None:
        raise EvaluationProblem(f'{problem} "{text[:TEXT_MOST]}" as a timestamp')
    zone = "+00:00" if parts[4] in "Zz" else parts[4]
    try:
        moment = datetime.fromisoformat(f"{parts[1]}T{parts[2]}{zone}")
    except ValueError:
        raise EvaluationProblem(f'{problem} "{text}" as a timestamp') from None
    since = moment - _EPOCH
    decimals = int((parts[3] or "0").ljust(9, "0"))
    offset = moment.utcoffset() or timedelta()
    return timestamp((since.days * 86400 + since.seconds) * SECOND + decimals, int(offset.total_seconds()))


def parse_date(text: str) -> Timestamp:
    """Reads a day such as 2026-01-01, as its first moment."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text[:TEXT_MOST]):
        raise EvaluationProblem(f"Invalid date formatted string {text[:TEXT_MOST]}")
    return parse_timestamp(f"{text}T00:00:00Z", "Invalid date formatted string")


@lru_cache(maxsize=256)
def zone_named(name: str) -> tzinfo:
    """A time zone by its name or as an offset such as -08:00."""
    if name in ("", "UTC"):
        return UTC
    if offset := _OFFSET.fullmatch(name):
        minutes = int(offset[2]) * 60 + int(offset[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationProblem(f"unknown time zone {name[:TEXT_MOST]}") from None
