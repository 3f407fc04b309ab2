"""Volcano's jobs on their way in: completed and checked as its webhooks do. Used by the chain."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from muster.apiserver.kinds.pod_defaults import fill_template
from muster.apiserver.kinds.pod_specs import template
from muster.apiserver.kinds.problems import raise_all
from muster.dialects.volcano.job.cards import card_remarks
from muster.dialects.volcano.job.checks import change_problems, problems_of, queue_problem
from muster.dialects.volcano.job.defaults import completed
from muster.dialects.volcano.job.spec import read_tasks
from muster.dialects.volcano.job.words import JOBS, QUEUES
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Transaction
from muster.store.records import Key, Record, Scope

RESOURCE = JOBS


def complete_job(job: Object) -> Object:
    """A new job with its defaults."""
    try:
        return completed(Fields(job))
    except InvalidObject:
        return job  # its shape is checked after this, and says what is wrong


def remarks(resource: str, given: Object) -> Iterator[str]:
    """What is told to whoever makes an object."""
    if resource == RESOURCE:
        yield from card_remarks(Fields(given))


def check_job(write: Transaction, job: Object, before: Record | None) -> None:
    """Raise what is wrong with a job that is new or has changed."""
    fields = Fields(job)
    if before is None:
        raise_all(_new_problems(write, fields))
        return
    had = decode(before)
    if had.get("spec") != job.get("spec"):
        raise_all(change_problems(fields, Fields(had)))


def _new_problems(write: Transaction, job: Fields) -> Iterator[InvalidObject]:
    found = list(problems_of(job))
    yield from found
    for task in read_tasks(job.child("spec")) if not found else ():
        given = deepcopy(dict(task.template))
        fill_template(given)  # pods get these when they are made
        yield from template(given, f"{task.path}.template")
    name = job.child("spec").text("queue")
    record = write.get(Key(QUEUES, "", name)) if name else None
    queue = None if record is None else decode(record)
    problem = queue_problem(job, queue, has_children=queue is not None and _has_children(write, name))
    if problem is not None:
        yield problem


def _has_children(write: Transaction, name: str) -> bool:
    asked = f'"{name}"'.encode()  # reading a queue costs more than looking for the name in its text
    queues = (record for record in write.page(Scope(QUEUES), 0) if asked in record.value and record.key.name != name)
    return any((decode(one).get("spec") or {}).get("parent") == name for one in queues)
