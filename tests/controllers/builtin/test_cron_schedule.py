"""When schedules come: fields, words, zones, and the nights on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from muster.controllers.builtin.cron_schedule import Cron, parse_schedule
from muster.model.errors import InvalidObject
from tests.stopwatch import is_done_within
from tests.support import assert_sound, proof_count


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def following(schedule: str, after: str, *, zone: str = "", count: int = 1) -> list[str]:
    parsed = parse_schedule(schedule, zone)
    at_s, found = seconds(after), []
    for _ in range(count):
        at_s = parsed.next_s(at_s) or 0.0
        local = datetime.fromtimestamp(at_s, ZoneInfo(zone) if zone else UTC)
        found.append(local.isoformat(timespec="minutes"))
    return found


@pytest.mark.parametrize(
    ("schedule", "after", "wanted"),
    [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01+00:00"),
        ("* * * * *", "2026-01-01T00:00:59Z", "2026-01-01T00:01+00:00"),
        ("*/15 * * * *", "2026-01-01T00:46:00Z", "2026-01-01T01:00+00:00"),
        ("5/20 * * * *", "2026-01-01T00:06:00Z", "2026-01-01T00:25+00:00"),
        ("0 9-17/4 * * *", "2026-01-01T13:00:00Z", "2026-01-01T17:00+00:00"),
        ("30 6 * * mon-FRI", "2026-01-02T07:00:00Z", "2026-01-05T06:30+00:00"),
        ("0 0 31 * *", "2026-02-01T00:00:00Z", "2026-03-31T00:00+00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00+00:00"),
        pytest.param("0 0 13 * 5", "2026-01-03T00:00:00Z", "2026-01-09T00:00+00:00", id="either day is enough"),
        pytest.param("0 0 */2 * 5", "2026-01-03T00:00:00Z", "2026-01-05T00:00+00:00", id="a step is not any day"),
        pytest.param("0 0 ? * 5", "2026-01-03T00:00:00Z", "2026-01-09T00:00+00:00", id="any day of the month"),
        ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00+00:00"),
        ("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00+00:00"),
        ("@midnight", "2026-01-01T00:00:00Z", "2026-01-02T00:00+00:00"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00+00:00"),
        ("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00+00:00"),
        ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00+00:00"),
        ("@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00+00:00"),
        ("@every 1h30m", "2026-01-01T00:00:00Z", "2026-01-01T01:30+00:00"),
        ("0 12 1 jan,JUL *", "2026-01-02T00:00:00Z", "2026-07-01T12:00+00:00"),
    ],
)
def test_what_comes_next(schedule, after, wanted):
    assert following(schedule, after) == [wanted]


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "wanted"),
    [
        pytest.param(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T02:00:00Z",
            ["2026-03-30T02:30+02:00"],
            id="a time that is left out does not come",
        ),
        pytest.param(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            ["2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00", "2026-10-26T02:30+01:00"],
            id="a time that is repeated comes twice",
        ),
        pytest.param(
            "0 0 * * *",
            "America/Sao_Paulo",
            "2018-11-03T12:00:00Z",
            ["2018-11-05T00:00-02:00"],
            id="midnight itself is left out",
        ),
        pytest.param(
            "0 0 1 * *",
            "Pacific/Auckland",
            "2026-03-20T12:00:00Z",
            ["2026-04-01T00:00+13:00", "2026-05-01T00:00+12:00"],
            id="far from Greenwich",
        ),
        pytest.param(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T00:00:00Z",
            ["2026-10-05T02:15+11:00"],
            id="clocks that change by half an hour",
        ),
    ],
)
def test_nights_on_which_clocks_change(schedule, zone, after, wanted):
    assert following(schedule, after, zone=zone, count=len(wanted)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7"),
        *("5-1 * * * *", "*/0 * * * *", "a * * * *", "1,, * * * *"),
        *("@sometimes", "@every", "@every soon", "@every 1d", "* " * 600),
    ],
)
def test_what_is_no_schedule(text):
    with pytest.raises(InvalidObject, match="schedule"):
        parse_schedule(text)


def test_what_is_no_zone():
    with pytest.raises(InvalidObject, match="timeZone"):
        parse_schedule("@daily", "Mars/Olympus")


def test_a_day_that_never_comes_is_given_up_on():
    schedule = parse_schedule("0 0 31 2 *", "Europe/Berlin")
    assert schedule.next_s(seconds("2026-01-01T00:00:00Z")) is None
    assert is_done_within(2.0, lambda: schedule.next_s(seconds("2026-01-01T00:00:00Z")))


ZONES = ("", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Santiago")


def check_against_every_minute(chance: Random) -> None:
    def part(least: int, most: int, likely: float) -> str:
        if chance.random() < likely:
            return "*"
        return ",".join(str(chance.randint(least, most)) for _ in range(chance.randint(1, 3)))

    fields = [part(0, 59, 0.2), part(0, 23, 0.4), part(1, 31, 0.6), "*", part(0, 6, 0.6)]
    zone = chance.choice(ZONES)
    parsed = parse_schedule(" ".join(fields), zone)
    assert isinstance(parsed, Cron)
    start = datetime(2026, chance.choice((3, 4, 9, 10, 11)), chance.randint(1, 28), chance.randrange(24), tzinfo=UTC)
    minutes = [start + timedelta(minutes=number) for number in range(3 * 24 * 60)]
    wanted = [one.timestamp() for one in minutes if matches(parsed, one.astimezone(parsed.zone))]
    end_s, found, at_s = minutes[-1].timestamp(), [], start.timestamp() - 60
    while (at_s := parsed.next_s(at_s)) is not None and at_s <= end_s:
        found.append(at_s)
    assert found == wanted, f"{fields} {zone} {start}"
    last_s = parsed.last_s(start.timestamp(), end_s)
    assert last_s == (wanted[-1] if wanted else None), f"{fields} {zone} {start}"


def matches(cron: Cron, local: datetime) -> bool:
    is_day, is_weekday = local.day in cron.days, local.isoweekday() % 7 in cron.weekdays
    is_right_day = (is_day or is_weekday) if cron.is_either_day else (is_day and is_weekday)
    return local.minute in cron.minutes and local.hour in cron.hours and is_right_day and local.month in cron.months


@pytest.mark.prove
def test_no_minute_is_missed_and_none_is_made_up():
    assert_sound(check_against_every_minute, range(proof_count(1_000)))
