"""From a path to what it names, and from a method to a verb. Called by `asgi` for every request about objects."""

from __future__ import annotations

from muster.apiserver.requests import Target
from muster.apiserver.served import Catalog
from muster.apiserver.statuses import method_not_allowed, no_such_route

_OF_COLLECTIONS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_OF_OBJECTS = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}


def find_target(path: str, catalog: Catalog) -> Target | None:
    """What a path below /api or /apis names; `None` where it names no resource."""
    parts = path.rstrip("/").split("/")
    if parts[1] == "api" and len(parts) > 3:
        group, version, rest = "", parts[2], parts[3:]
    elif parts[1] == "apis" and len(parts) > 4:
        group, version, rest = parts[2], parts[3], parts[4:]
    else:
        return None
    if "" in rest:
        return None
    namespace = ""
    is_own_part = not group and len(rest) == 3 and rest[2] in ("status", "finalize")
    if rest[0] == "namespaces" and len(rest) > 2 and not is_own_part:
        namespace, rest = rest[1], rest[2:]
    served = catalog.find(group, version, rest[0])
    if served is None or len(rest) > 3:
        return None
    target = Target(served, namespace, *rest[1:])
    return target if _is_in_scope(target) else None


def _is_in_scope(target: Target) -> bool:
    if target.subresource and target.subresource not in target.served.subresources:
        return False
    if not target.served.kind.is_namespaced:
        return not target.namespace
    return bool(target.namespace) or not target.name


def verb_of(method: str, target: Target) -> str:
    """What the method asks for; refused where the target does not allow it."""
    verb = (_OF_OBJECTS if target.name else _OF_COLLECTIONS).get(method)
    kind = target.served.kind
    if target.subresource:
        allowed = target.served.subresources[target.subresource].verbs
    elif target.name:
        allowed = tuple(one for one in kind.verbs if one != "create")
    elif kind.is_namespaced and not target.namespace:
        allowed = ("list",)  # across namespaces one can only look
    else:
        allowed = kind.verbs
    if verb is None or verb not in allowed:
        raise method_not_allowed()
    return verb


def target_or_refuse(path: str, catalog: Catalog) -> Target:
    """What a path names, or 404."""
    target = find_target(path, catalog)
    if target is None:
        raise no_such_route()
    return target
