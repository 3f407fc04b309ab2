"""Networks: policies, ways in from outside, and ranges of addresses. They are kept; nothing here routes traffic."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from muster.apiserver.kinds.base import is_new, kind_rules
from muster.apiserver.kinds.checks import (
    Check,
    address_range,
    between,
    dns_1035_label,
    dns_subdomain,
    each,
    fields,
    label_selector,
    one_of,
    port_name,
    port_number,
    port_or_name,
    unchanged,
)
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, not_supported, required
from muster.model.labels import dns1123_subdomain_problem

Object = dict[str, Any]

_GROUP = "networking.k8s.io"
_PROTOCOLS = one_of("SCTP", "TCP", "UDP")
_WAYS = ("Ingress", "Egress")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_AT_ENDS = ("/..", "/.")
_PORTS = between(1, 65535)
_SEGMENT = re.compile(r"[^/%]+", re.ASCII)


# Policies ------------------------------------------------------------------------------------------------------------


def _fill_policy(policy: Object) -> None:
    spec = policy["spec"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(_WAYS if spec.get("egress") else _WAYS[:1])


def _policy_port(port: Object, path: str) -> Problems:
    number, last = port.get("port"), port.get("endPort")
    if port.get("protocol") is not None:
        yield from _PROTOCOLS(port["protocol"], f"{path}.protocol")
    if number is not None:
        yield from port_or_name(number, f"{path}.port")
    if last is None:
        return
    if not isinstance(number, int):
        yield invalid(f"{path}.endPort", last, "may only be given with the number of a first port")
    else:
        if number > last:
            yield invalid(f"{path}.endPort", last, "must be greater than or equal to `port`")
        yield from _PORTS(last, f"{path}.endPort")


def _block(block: Object, path: str) -> Problems:
    whole = block.get("cidr") or ""
    if not whole:
        yield required(f"{path}.cidr")
        return
    found = list(address_range(whole, f"{path}.cidr"))
    yield from found
    if found:
        return
    for index, one in enumerate(block.get("except") or ()):
        where = f"{path}.except[{index}]"
        found = list(address_range(one, where))
        yield from found
        if not found and not _is_within(one, whole):
            yield invalid(where, one, f"must be a strict subset of `cidr` {whole}")


def _is_within(part: str, whole: str) -> bool:
    inner, outer = (ipaddress.ip_network(one, strict=False) for one in (part, whole))
    if isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network):
        return inner.prefixlen > outer.prefixlen and inner.subnet_of(outer)
    if isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network):
        return inner.prefixlen > outer.prefixlen and inner.subnet_of(outer)
    return False


def _peer(peer: Object, path: str) -> Problems:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not given:
        yield required(path, "must specify a peer")
    if "ipBlock" in given and len(given) > 1:
        yield forbidden(path, "may not specify both ipBlock and another peer")
    for name in given:
        yield from (_block if name == "ipBlock" else label_selector)(peer[name], f"{path}.{name}")


def _peers(name: str) -> Check:
    return each(fields("", {"ports": each(_policy_port), name: each(_peer)}))


_POLICY = fields("", {"podSelector": label_selector, "ingress": _peers("from"), "egress": _peers("to")})


def _check_policy(policy: Object) -> Problems:
    spec = policy["spec"]
    yield from _POLICY(spec, "spec")
    types = spec.get("policyTypes") or []
    if len(types) > len(_WAYS):
        yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, one in enumerate(types):
        if one not in _WAYS:
            yield not_supported(f"spec.policyTypes[{index}]", one, _WAYS)


# Ways in -------------------------------------------------------------------------------------------------------------


def host_problem(text: str) -> str:
    """What is wrong with the name of a host, whose first part may be a star."""
    return (
        dns1123_subdomain_problem(text.removeprefix("*.")) if text.startswith("*.") else dns1123_subdomain_problem(text)
    )


def _host(text: str, path: str) -> Problems:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if problem := host_problem(text):
            yield invalid(path, text, problem)
    else:
        yield invalid(path, text, "must be a DNS name, not an IP address")


_RESOURCE = fields("kind name", {})


def _backend(backend: Object, path: str) -> Problems:
    service, resource = backend.get("service"), backend.get("resource")
    if (service is None) == (resource is None):
        yield invalid(path, "", "exactly one of `service` and `resource` must be given")
        return
    if resource is not None:
        if resource.get("apiGroup") is not None:
            yield from dns_subdomain(resource["apiGroup"], f"{path}.resource.apiGroup")
        yield from _RESOURCE(resource, f"{path}.resource")
    if service is None:
        return
    name, port = service.get("name") or "", service.get("port") or {}
    if not name:
        yield required(f"{path}.service.name")
    else:
        yield from dns_1035_label(name, f"{path}.service.name")
    if bool(port.get("name")) == bool(port.get("number")):
        if port.get("name"):
            yield invalid(path, "", "cannot set both port name & port number")
        else:
            yield required(path, "port name or number is required")
    elif port.get("name"):
        yield from port_name(port["name"], f"{path}.service.port.name")
    else:
        yield from port_number(port["number"], f"{path}.service.port.number")


def _http_path(given: Object, path: str) -> Problems:
    text, kind = given.get("path") or "", given.get("pathType")
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", kind, _PATH_TYPES)
    elif kind != "ImplementationSpecific" or text:
        yield from _path_text(text, f"{path}.path", is_strict=kind != "ImplementationSpecific")
    yield from _backend(given.get("backend") or {}, f"{path}.backend")


def _path_text(text: str, path: str, *, is_strict: bool) -> Problems:
    if not text.startswith("/"):
        yield invalid(path, text, "must be an absolute path")
    if not is_strict:
        return
    for one in _NOT_IN_PATHS:
        if one in text:
            yield invalid(path, text, f"must not contain '{one}'")
    for one in _NOT_AT_ENDS:
        if text.endswith(one):
            yield invalid(path, text, f"cannot end with '{one}'")


def _rule(rule: Object, path: str) -> Problems:
    if rule.get("host"):
        yield from _host(rule["host"], f"{path}.host")
    if rule.get("http") is not None:
        paths = rule["http"].get("paths") or ()
        if not paths:
            yield required(f"{path}.http.paths")
        yield from each(_http_path)(paths, f"{path}.http.paths")


def _secret(name: str, path: str) -> Problems:
    if name:
        yield from dns_subdomain(name, path)


_INGRESS = fields(
    "",
    {
        "ingressClassName": dns_subdomain,
        "defaultBackend": _backend,
        "tls": each(fields("", {"hosts": each(_host), "secretName": _secret})),
        "rules": each(_rule),
    },
)
_CLASS = "kubernetes.io/ingress.class"


def _check_ingress(ingress: Object) -> Problems:
    spec = ingress["spec"]
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield invalid("spec", spec.get("rules") or [], "either `defaultBackend` or `rules` must be specified")
    yield from _INGRESS(spec, "spec")
    said = (ingress["metadata"].get("annotations") or {}).get(_CLASS)
    if not ingress["metadata"].get("resourceVersion") and said and spec.get("ingressClassName") is not None:
        where = f"metadata.annotations[{_CLASS}]"
        yield invalid(where, said, "can not be set when the class field is also set")


# Addresses -----------------------------------------------------------------------------------------------------------


def _address_name_problem(text: str) -> str:
    try:
        is_plain = str(ipaddress.ip_address(text)) == text
    except ValueError:
        is_plain = False
    return "" if is_plain else "must be an IP address in its canonical form"


def _check_address(given: Object) -> Problems:
    parent = given["spec"].get("parentRef")
    if parent is None:
        yield required("spec.parentRef")
        return
    path = "spec.parentRef"
    if parent.get("group"):
        yield from dns_subdomain(parent["group"], f"{path}.group")
    for name in ("resource", "name", "namespace"):
        text = parent.get(name) or ""
        if text and not _SEGMENT.fullmatch(text):
            yield invalid(f"{path}.{name}", text, "must be usable in a path")
        elif not text and name != "namespace":
            yield required(f"{path}.{name}")


def _change_address(new: Object, before: Object) -> Problems:
    if before["spec"].get("parentRef") is not None:
        yield from unchanged(new, before, ("spec.parentRef",))


def _check_range(given: Object) -> Problems:
    if not is_new(given):
        return  # `_change_range` says what may be added
    ranges = given["spec"].get("cidrs") or []
    if not ranges:
        yield required("spec.cidrs", "at least one CIDR required")
    if len(ranges) > 2:
        yield invalid("spec.cidrs", ranges, "may only hold up to 2 values")
    if len(ranges) == 2 and len({":" in one for one in ranges}) == 1:
        yield invalid("spec.cidrs", ranges, "may specify no more than one IP for each IP family")
    for index, one in enumerate(ranges):
        yield from address_range(one, f"spec.cidrs[{index}]")


def _change_range(new: Object, before: Object) -> Problems:
    """A range stays; one of the other family may be added."""
    ranges, had = new["spec"].get("cidrs") or [], before["spec"].get("cidrs") or []
    is_added = len(had) == 1 and len(ranges) == 2 and ranges[0] == had[0]
    if is_added:
        found = list(address_range(ranges[1], "spec.cidrs[1]"))
        yield from found
        if not found and (":" in ranges[0]) == (":" in ranges[1]):
            yield invalid("spec.cidrs", ranges, "may specify no more than one IP for each IP family")
    elif ranges != had:
        found = [one for index, text in enumerate(ranges) for one in address_range(text, f"spec.cidrs[{index}]")]
        yield from found
        if not found:
            yield invalid("spec.cidrs", ranges, "field is immutable")


KINDS = (
    kind_rules((_GROUP, "v1", "NetworkPolicy"), fill=_fill_policy, check=_check_policy),
    kind_rules((_GROUP, "v1", "Ingress"), check=_check_ingress),
    kind_rules(
        (_GROUP, "v1", "IPAddress"),
        check=_check_address,
        change=_change_address,
        name_problem=_address_name_problem,
        has_generation=False,
    ),
    kind_rules(
        (_GROUP, "v1", "ServiceCIDR"),
        check=_check_range,
        change=_change_range,
        has_generation=False,
        status_metadata=(),
    ),
)
