"""Schedules of cron jobs: five fields or a word, in a time zone; what comes next and what came last.

Pure, used by the CronJob controller. A minute that a change of the clocks leaves out does not come, one that it
repeats comes twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from muster.model.errors import InvalidObject
from muster.model.fields import shown

_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|ms|us|ns|m|s)")
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_YEARS = 5  # a schedule that does not come for so long never comes
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_TEXT_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Every:
    """Again and again after a fixed time."""

    period_s: int

    def next_s(self, after_s: float) -> float | None:
        """The next time after a moment."""
        return float(int(after_s) + self.period_s)

    def last_s(self, first_s: float, until_s: float) -> float | None:
        """The last time up to a moment, counted from a first one."""
        return None if first_s > until_s else first_s + (until_s - first_s) // self.period_s * self.period_s


@dataclass(frozen=True, slots=True)
class Cron:
    """Minutes that match five fields."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    is_either_day: bool  # where both kinds of days are given, one that matches is enough
    zone: tzinfo

    def next_s(self, after_s: float) -> float | None:
        """The next time after a moment; `None` when there is none for years."""
        moment = datetime.fromtimestamp(int(after_s) // 60 * 60, UTC) + _MINUTE
        return self._found(moment, forward=True)

    def last_s(self, first_s: float, until_s: float) -> float | None:
        """The last time up to a moment and not before a first one."""
        found = self._found(datetime.fromtimestamp(int(until_s) // 60 * 60, UTC), forward=False)
        return found if found is not None and found >= first_s else None

    def _found(self, moment: datetime, *, forward: bool) -> float | None:
        """The first minute that matches, from a moment on or back; what cannot match is skipped in long steps."""
        sign = 1 if forward else -1
        year = moment.year
        while abs(moment.year - year) <= _YEARS:
            local = moment.astimezone(self.zone)
            if local.month not in self.months:
                moment += sign * _to_other_month(local, forward=forward)
            elif not self._is_day(local):
                moment += sign * _to_other_day(local, forward=forward)
            elif local.hour not in self.hours:
                moment += sign * _MINUTE * (60 - local.minute if forward else local.minute + 1)
            elif local.minute not in self.minutes:
                moment += sign * _MINUTE
            else:
                return moment.timestamp()
        return None

    def _is_day(self, local: datetime) -> bool:
        is_of_month = local.day in self.days
        is_of_week = local.isoweekday() % 7 in self.weekdays
        return is_of_month or is_of_week if self.is_either_day else is_of_month and is_of_week


Schedule = Cron | Every


def _to_other_month(local: datetime, *, forward: bool) -> timedelta:
    """A step that does not leave the month unless its end is near: the clocks may change on the way."""
    far = 28 - local.day if forward else local.day
    return _DAY * (far - 2) if far > 3 else _to_other_day(local, forward=forward)


def _to_other_day(local: datetime, *, forward: bool) -> timedelta:
    """A step that leaves the day by at most the hour it ends in, or stays within it."""
    hours = 23 - local.hour if forward else local.hour
    if hours > 3:
        return _HOUR * (hours - 2)
    return _MINUTE * (60 - local.minute if forward else local.minute + 1)


# Reading -------------------------------------------------------------------------------------------------------------


def parse_schedule(text: str, zone_name: str = "") -> Schedule:
    """The schedule that a cron job gives."""
    zone = _zone(zone_name)
    if len(text) > _TEXT_MOST:
        raise _wrong(text)
    if text.startswith("@every "):
        return Every(_period_s(text))
    parts = _WORDS.get(text, text).split()
    if len(parts) != len(_FIELDS):
        raise _wrong(text)
    sets = [_numbers(part, field, text) for part, field in zip(parts, _FIELDS, strict=True)]
    (minutes, _), (hours, _), (days, is_any_day), (months, _), (weekdays, is_any_weekday) = sets
    return Cron(minutes, hours, days, months, weekdays, not is_any_day and not is_any_weekday, zone)


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidObject("spec.timeZone", f"is {shown(name)}", "give a name such as Europe/Berlin") from None


def _period_s(text: str) -> int:
    rest = text.removeprefix("@every ")
    found = _DURATION.findall(rest)
    if not found or "".join(number + unit for number, unit in found) != rest:
        raise _wrong(text)
    return max(1, int(sum(float(number) * _UNITS_S[unit] for number, unit in found)))


def _numbers(part: str, field: tuple[int, int, tuple[str, ...]], text: str) -> tuple[frozenset[int], bool]:
    """The numbers that a field names, and whether it is open to all."""
    numbers: set[int] = set()
    is_any = False
    for one in part.split(","):
        span, step = _span(one, field, text)
        numbers.update(span)
        is_any = is_any or (one.partition("/")[0] in ("*", "?") and step == 1)
    return frozenset(numbers), is_any


def _span(one: str, field: tuple[int, int, tuple[str, ...]], text: str) -> tuple[range, int]:
    least, most, names = field
    span, slash, step_text = one.partition("/")
    step = _number(step_text, (), 0) if slash else 1
    if span in ("*", "?"):
        first, last = least, most
    else:
        first_text, dash, last_text = span.partition("-")
        first = _number(first_text, names, least)
        # A number with a step goes on to the end.
        last = _number(last_text, names, least) if dash else (most if slash else first)
    if step < 1 or first < least or last > most or first > last:
        raise _wrong(text)
    return range(first, last + 1, step), step


def _number(text: str, names: tuple[str, ...], least: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + least
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1


def _wrong(text: str) -> InvalidObject:
    hint = "give five fields such as */5 * * * *, or a word such as @daily"
    return InvalidObject("spec.schedule", f"is {shown(text)}", hint)
