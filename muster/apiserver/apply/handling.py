"""What requests to apply are made of: who applies what, and why not. Called by `writes` and `subresources`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from muster.apiserver.api import Api
from muster.apiserver.apply.compare import Unnameable
from muster.apiserver.apply.fieldsets import Path, path_text
from muster.apiserver.apply.managers import Manager
from muster.apiserver.apply.ownership import Misfit
from muster.apiserver.apply.updater import Conflicting
from muster.apiserver.requests import Request, Target
from muster.apiserver.statuses import MODIFIED, Problem, bad_request, conflict, invalid, invalid_options
from muster.model.documents import parse_value
from muster.model.errors import InvalidObject, InvalidObjects
from muster.store.kinds import Object
from muster.store.objects import By, Write

APPLY_PATCH = "application/apply-patch+yaml"
Applied = Callable[[Object | None, float], Object]  # an object, if there is one, with what is applied; at a time


def applier(request: Request, target: Target) -> By:
    """Who applies; it has to have a name."""
    if not request.option("fieldManager"):
        raise invalid_options("PatchOptions", "fieldManager", "Required value: is required for apply patch")
    return request.writer("PatchOptions", target)._replace(is_applied=True)


def read_config(body: bytes) -> Object:
    """What a client applies."""
    try:
        found = parse_value(body, "the body")
    except InvalidObject as problem:
        raise bad_request(f"error decoding YAML: {problem}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        what = {list: "array", str: "string", bool: "bool"}.get(type(found), "number")
        told = f"json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {told}")
    return found


def check_config(config: Object, api_version: str, kind: str) -> None:
    """Refuse what is of another kind, or speaks of what is the server's alone."""
    if (config.get("apiVersion"), config.get("kind")) != (api_version, kind):
        group, _, version = str(config.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={config.get('kind') or ''}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def applied_by(api: Api, request: Request, target: Target, config: Object, by: By) -> Applied:
    """What applying does to an object, refused in Kubernetes' words; it comes back with its managers."""
    served = target.served
    check_config(config, served.api_version, served.kind.kind)
    is_forced = request.flag("force")

    def applied(live: Object | None, now_s: float) -> Object:
        write = Write(config, served.kept, by, now_s)
        try:
            after = api.ownership.apply(live, config, write, is_forced=is_forced)
        except (Misfit, Unnameable) as problem:
            raise _misfit(config, str(problem)) from None
        except Conflicting as problem:
            raise conflicting(_as_seen(problem.conflicts, target)) from None
        _check_identity(config, live, target)
        if live is None:
            after["metadata"].pop("resourceVersion", None)
        return after

    return applied


def _as_seen(conflicts: Iterable[tuple[Manager, Path]], target: Target) -> Iterable[tuple[Manager, Path]]:
    """Conflicts with managers as one sees them who looks at a part of the object: all use the version of that part."""
    kind = target.served.kind
    part = kind.subresources.get(target.subresource)
    version = f"{part.group}/{part.version}" if part is not None and part.kind != kind.kind else ""
    for manager, path in conflicts:
        yield manager._replace(api_version=version) if manager.api_version and version else manager, path


def _misfit(config: Object, problem: str) -> Problem:
    """Not the client's fault by its code, but so it is in Kubernetes."""
    metadata = config.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    group, _, version = config["apiVersion"].rpartition("/")
    what = f"{known.get('namespace') or ''}/{known.get('name') or ''}; {group}/{version}, Kind={config['kind']}"
    return Problem(500, "", f"failed to create typed patch object ({what}): {problem}")


def _check_identity(config: Object, live: Object | None, target: Target) -> None:
    """What is applied may say which object it is for, and in which state."""
    metadata = config.get("metadata") or {}
    has = live["metadata"] if live is not None else {}
    revision, uid, name = (metadata.get(one) for one in ("resourceVersion", "uid", "name"))
    if not name and live is None:
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if revision and live is not None and revision != has["resourceVersion"]:
        raise conflict(target.key, MODIFIED)
    if uid and live is None:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(target.key, why)
    if uid and uid != has["uid"]:
        kind = target.served.kind
        told = InvalidObject("metadata.uid", f'Invalid value: "{uid}": field is immutable')
        problem = invalid(kind.kind, kind.group, target.name, InvalidObjects((told, told)))
        problem.message = invalid(kind.kind, kind.group, target.name, told).message
        raise problem


def conflicting(conflicts: Iterable[tuple[Manager, Path]]) -> Problem:
    """The refusal of an apply that would take fields away from others."""
    found = sorted((manager.told(), path_text(path)) for manager, path in conflicts)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": where} for who, where in found
    ]
    if len(found) == 1:
        who, where = found[0]
        message = f"Apply failed with 1 conflict: conflict with {who}: {where}"
    else:
        lines: list[str] = []
        for who in dict.fromkeys(who for who, _ in found):
            lines.append(f"conflicts with {who}:")
            lines += [f"- {where}" for other, where in found if other == who]
        message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return Problem(409, "Conflict", message, details={"causes": causes})
