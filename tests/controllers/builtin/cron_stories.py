"""Stories of cron jobs, told to the controllers of Muster and to Kubernetes' own.

Nobody can wait for a schedule: a story says when the last start was, years ago, and the one that was missed since is
made up for at once. All moments are so far back that it does not matter when the story is told.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

Json = dict[str, Any]
_MADE_UP = ("batch.kubernetes.io/controller-uid", "controller-uid")


class Step(NamedTuple):
    """One thing that is done."""

    verb: str
    given: Any = None


class Side(Protocol):
    """A cluster that a story is told to."""

    def do(self, verb: str, given: Any) -> None: ...

    def cron_job(self) -> Json: ...

    def jobs(self) -> list[Json]: ...


def begin(**spec: Any) -> list[Step]:
    """A cron job whose last start is long ago, and that may start now."""
    return [Step("cron job", {"suspend": True, **spec}), Step("last", "2020-06-01T00:00:00Z"), wake()]


def wake(**spec: Any) -> Step:
    return Step("change", {"suspend": False, **spec})


END, FAIL = Step("end", 0), Step("end", 1)
JANUARY, FEBRUARY, MARCH = "0 0 1 1 *", "0 0 1 2 *", "0 0 1 3 *"
STORIES: dict[str, list[Step]] = {
    "a start is made up for": [*begin(schedule=JANUARY), END],
    "in a zone": begin(schedule=JANUARY, timeZone="Asia/Kathmandu"),
    "in a zone that is at Greenwich then": begin(schedule=JANUARY, timeZone="Europe/London"),
    "too late": begin(schedule=JANUARY, startingDeadlineSeconds=100),
    "side by side": [*begin(schedule=JANUARY), wake(schedule=FEBRUARY), END],
    "one after the other": [*begin(schedule=JANUARY, concurrencyPolicy="Forbid"), wake(schedule=FEBRUARY), END],
    "instead of the other": [*begin(schedule=JANUARY, concurrencyPolicy="Replace"), wake(schedule=FEBRUARY), END],
    "short memory": [
        *begin(schedule=JANUARY, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0),
        END,
        wake(schedule=FEBRUARY),
        END,
        wake(schedule=MARCH),
        FAIL,
    ],
    "its active job is deleted": [*begin(schedule=JANUARY), Step("delete jobs")],
    "what the template says": begin(
        schedule=JANUARY, labels={"app": "a"}, annotations={"note": "yes"}, job={"parallelism": 2}
    ),
    "suspended": [Step("cron job", {"suspend": True, "schedule": JANUARY}), Step("last", "2020-06-01T00:00:00Z")],
    "deleted": [*begin(schedule=JANUARY), Step("delete")],
}


def state(side: Side) -> Json:
    """The cron job's status and its jobs, less what each cluster makes up."""
    status = dict(side.cron_job().get("status") or {})
    status["active"] = sorted(
        sorted((name, one[name]) for name in ("apiVersion", "kind", "name")) for one in status.get("active") or ()
    )
    if "lastSuccessfulTime" in status:
        status["lastSuccessfulTime"] = "TIME"
    return {"status": status, "jobs": sorted((_job(one) for one in side.jobs()), key=repr)}


def _job(given: Json) -> Json:
    metadata = given["metadata"]
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name not in _MADE_UP}
    conditions = (given.get("status") or {}).get("conditions") or ()
    return {
        "name": metadata["name"],
        "labels": dict(sorted(labels.items())),
        "annotations": dict(sorted((metadata.get("annotations") or {}).items())),
        "owners": [{**one, "uid": "UID"} for one in metadata.get("ownerReferences") or ()],
        "parallelism": given["spec"]["parallelism"],
        "conditions": sorted(one["type"] for one in conditions),
    }
