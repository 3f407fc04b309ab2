"""The rules for names and amounts of resources, in containers, quotas and nodes. Used by the rules of those kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.apiserver.kinds.checks import amount, dns_label, qualified_name, quantity
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, not_found, not_supported, required
from muster.model.fields import INT64_MAX
from muster.model.labels import label_key_problem
from muster.model.quantity import quantity_text

Object = dict[str, Any]
Amounts = Mapping[str, str]

HUGE_PAGES = "hugepages-"
OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
OF_PODS = frozenset({"cpu", "memory"})
COUNTED = frozenset(
    {
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
ASKED = frozenset(f"{kind}.{name}" for kind in ("requests", "limits") for name in OF_CONTAINERS)
STANDARD = OF_CONTAINERS | COUNTED | ASKED | {"storage"}
STANDARD_OF_QUOTAS = STANDARD | {"requests.storage", "limits.storage"}
_MILLI = -3


def is_native(name: str) -> bool:
    """Whether a resource is one of Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is somebody else's, such as a vendor's cards."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not label_key_problem(f"requests.{name}")


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def resource_name(name: str, path: str) -> Problems:
    """The name of any resource."""
    yield from qualified_name(name, path)
    if "/" not in name and name not in STANDARD and not is_huge_pages(name):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(name: str, path: str) -> Problems:
    """The name of a resource that a container asks for."""
    if name in OF_CONTAINERS:
        return  # almost always
    yield from resource_name(name, path)
    if "/" not in name:
        if name not in OF_CONTAINERS and not is_huge_pages(name):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "does not follow the rule for names of extended resources")


def resource_amount(name: str, value: str, path: str) -> Problems:
    """The amount of one resource: not negative, and whole where it is counted."""
    yield from amount(value, path)
    if (name in COUNTED or is_extended(name)) and quantity(value).exponent < 0:
        yield invalid(path, value, "must be an integer")


def requirements(claims: frozenset[str]) -> Any:
    """The check of what a container asks for, given the names of the pod's resource claims."""

    def check(value: Object, path: str) -> Problems:
        limits: Amounts = value.get("limits") or {}
        requests: Amounts = value.get("requests") or {}
        for kind, amounts in (("limits", limits), ("requests", requests)):
            for name, one in amounts.items():
                where = f"{path}.{kind}[{name}]"
                yield from container_resource_name(name, where)
                yield from resource_amount(name, one, where)
        for name, one in requests.items():
            yield from _within_limit(name, one, limits, path)
        names = {*limits, *requests}
        if any(map(is_huge_pages, names)) and not names & {"cpu", "memory"}:
            yield forbidden(path, "huge pages need cpu or memory too")
        if value.get("claims"):
            yield from _claims(value["claims"], claims, f"{path}.claims")

    return check


def pod_requirements(value: Object, path: str) -> Problems:
    """The check of what a pod asks for as a whole, which is only what containers share."""
    if value.get("claims"):
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    for kind in ("limits", "requests"):
        for name, one in (value.get(kind) or {}).items():
            where = f"{path}.{kind}[{name}]"
            if name not in OF_PODS and not is_huge_pages(name):
                yield from resource_name(name, where)
                if "/" in name or name in STANDARD:
                    yield not_supported(where, name, OF_PODS)
            yield from resource_amount(name, one, where)
    yield from requirements(frozenset())({**value, "limits": {}, "requests": {}}, path)


def _within_limit(name: str, request: str, limits: Amounts, path: str) -> Problems:
    can_overcommit = is_native(name) and not is_huge_pages(name)
    if name not in limits:
        if not can_overcommit:
            yield required(f"{path}.limits", "a limit must be set for resources that cannot be overcommitted")
        return
    asked, limit = quantity(request), quantity(limits[name])
    if asked > limit or (asked != limit and not can_overcommit):
        yield invalid(f"{path}.requests", request, f"must not be above the {name} limit of {limits[name]}")


def _claims(claims: list[Object], known: frozenset[str], path: str) -> Problems:
    seen = set()
    for index, claim in enumerate(claims):
        name = claim.get("name") or ""
        where = f"{path}[{index}]"
        if not name:
            yield required(where)
        elif (name, claim.get("request")) in seen:
            yield duplicate(where, name)
        elif name not in known:
            yield not_found(where, name)
        if claim.get("request"):
            yield from dns_label(claim["request"], f"{where}.request")
        seen.add((name, claim.get("request")))


# Defaults ------------------------------------------------------------------------------------------------------------


def round_up(amounts: dict[str, str]) -> None:
    """Kubernetes counts resources in thousandths: what is finer is rounded up."""
    for name, text in amounts.items():
        if text[-1:] in ("n", "u") or "e-" in text:
            found = quantity(text)
            if found.exponent < _MILLI:
                amounts[name] = quantity_text(found.scaled(-_MILLI, INT64_MAX), power=-_MILLI, binary=False)
