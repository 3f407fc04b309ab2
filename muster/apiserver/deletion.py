"""What a request to delete asks for, out of its parameters or its body. Used by everything that deletes."""

from __future__ import annotations

from muster.apiserver.requests import Request, read_object
from muster.apiserver.statuses import invalid_options
from muster.model.fields import INT64_MAX, Fields
from muster.store.kinds import Propagation
from muster.store.objects import By
from muster.store.rules import Deletion

_KIND = "DeleteOptions"


async def deletion_of(request: Request) -> tuple[Deletion, By]:
    """How to delete, and who does; a body counts, and parameters where there is none."""
    body = await request.body()
    by = request.writer(_KIND)
    if not body:
        return deletion_in(Fields.of(_from_parameters(request))), by
    given = Fields.of(read_object(request, body, _KIND))
    if given.texts("dryRun"):
        request.query["dryRun"] = list(given.texts("dryRun"))
        by = request.writer(_KIND)
    return deletion_in(given), by


def _from_parameters(request: Request) -> dict[str, object]:
    given: dict[str, object] = {}
    if request.option("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = request.number("gracePeriodSeconds")
    if policy := request.option("propagationPolicy"):
        given["propagationPolicy"] = policy
    if request.option("orphanDependents"):
        given["orphanDependents"] = request.flag("orphanDependents")
    return given


def deletion_in(given: Fields) -> Deletion:
    """How DeleteOptions say to delete."""
    preconditions = given.child("preconditions")
    has_grace = given.has("gracePeriodSeconds")
    return Deletion(
        grace_s=given.integer("gracePeriodSeconds", least=-INT64_MAX, most=INT64_MAX) if has_grace else None,
        propagation=_propagation(given),
        uid=preconditions.text("uid"),
        revision=preconditions.text("resourceVersion"),
    )


def _propagation(given: Fields) -> Propagation | None:
    policy = given.text("propagationPolicy")
    if given.has("orphanDependents"):
        if policy:
            why = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
            raise invalid_options(_KIND, "propagationPolicy", why)
        return Propagation.ORPHAN if given.flag("orphanDependents") else Propagation.BACKGROUND
    if not policy:
        return None
    try:
        return Propagation(policy)
    except ValueError:
        known = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        raise invalid_options(_KIND, "propagationPolicy", f'Unsupported value: "{policy[:100]}": {known}') from None
