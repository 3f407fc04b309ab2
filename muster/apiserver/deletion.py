"""What a request to delete asks for, out of its parameters or its body. Used by everything that deletes."""

from __future__ import annotations

from muster.apiserver.field_checks import Mismatch, read
from muster.apiserver.requests import Request, read_object
from muster.apiserver.statuses import bad_request, invalid_options
from muster.model.fields import INT64_MAX, Fields
from muster.store.kinds import Object, Propagation
from muster.store.objects import By
from muster.store.rules import Deletion

_KIND = "DeleteOptions"
_TYPE = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


async def deletion_of(request: Request) -> tuple[Deletion, By]:
    """How to delete, and who does; a body counts, and parameters where there is none."""
    body = await request.body()
    if not body:
        return deletion_in(Fields.of(_from_parameters(request))), request.writer(_KIND)
    given = _read_options(read_object(request, body, _KIND))
    request.query["dryRun"] = given.get("dryRun") or []
    return deletion_in(Fields.of(given)), request.writer(_KIND)


def _read_options(given: Object) -> Object:
    if given.get("kind") not in (None, _KIND):
        raise bad_request(f"the body is a {str(given['kind'])[:100]}, not {_KIND}")
    try:
        return read(given, _TYPE).value
    except Mismatch as problem:
        raise bad_request(str(problem)) from None


def _from_parameters(request: Request) -> dict[str, object]:
    given: dict[str, object] = {}
    if "gracePeriodSeconds" in request.query:
        given["gracePeriodSeconds"] = request.number("gracePeriodSeconds")
    if policy := request.option("propagationPolicy"):
        given["propagationPolicy"] = policy
    if "orphanDependents" in request.query:
        given["orphanDependents"] = request.flag("orphanDependents")
    return given


def deletion_in(given: Fields) -> Deletion:
    """How DeleteOptions say to delete."""
    preconditions = given.child("preconditions")
    has_grace = given.has("gracePeriodSeconds")
    return Deletion(
        grace_s=given.integer("gracePeriodSeconds", least=-INT64_MAX, most=INT64_MAX) if has_grace else None,
        propagation=_propagation(given),
        uid=preconditions.text("uid") if preconditions.has("uid") else None,
        revision=preconditions.text("resourceVersion") if preconditions.has("resourceVersion") else None,
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
