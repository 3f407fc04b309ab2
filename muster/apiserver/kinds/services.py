"""Services and where their traffic goes. Addresses are given out by admission, which knows what is taken."""

from __future__ import annotations

import ipaddress
from typing import Any

from muster.apiserver.kinds.base import is_new, kind_rules
from muster.apiserver.kinds.checks import (
    address,
    address_range,
    dns_label,
    dns_subdomain,
    each,
    fields,
    labels,
    needed,
    one_of,
    port_number,
    port_or_name,
    qualified_name,
)
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.problems import (
    Problems,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from muster.model.labels import dns1123_label_problem

Object = dict[str, Any]

HEADLESS = "None"
AFFINITY_S = 10_800
AFFINITY_MOST_S = 86_400
ENDPOINTS_MOST = 1000
SLICE_PORTS_MOST = 20_000
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_EXTERNAL = ("NodePort", "LoadBalancer")
_TRAFFIC = ("Cluster", "Local")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


# Services ------------------------------------------------------------------------------------------------------------


def _fill(service: Object) -> None:
    spec = service["spec"]
    fill(spec, {"sessionAffinity": "None", "type": "ClusterIP"})
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    else:
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        if not config.get("timeoutSeconds"):
            config["timeoutSeconds"] = AFFINITY_S
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port["port"]
    if _is_external(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "ExternalName":
        if spec.get("internalTrafficPolicy") in _TRAFFIC:
            del spec["internalTrafficPolicy"]
    else:
        spec.setdefault("internalTrafficPolicy", "Cluster")
        _fill_addresses(spec)
        if is_new(service):
            _fill_families(spec)
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _is_external(spec: Object) -> bool:
    """Whether traffic from outside the cluster comes in."""
    return spec["type"] in _EXTERNAL or (spec["type"] == "ClusterIP" and bool(spec.get("externalIPs")))


def _fill_addresses(spec: Object) -> None:
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    elif spec.get("clusterIPs"):
        spec["clusterIP"] = spec["clusterIPs"][0]


def _fill_families(spec: Object) -> None:
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        # Whoever names the endpoints himself may name them of both families.
        fill(spec, {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]})
    fill(spec, {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]})


_PORT = fields(
    "",
    {
        "name": dns_label,
        "port": port_number,
        "protocol": one_of(*_PROTOCOLS),
        "targetPort": port_or_name,
        "appProtocol": qualified_name,
    },
)
_PLAIN = fields(
    "",
    {
        "type": one_of(*_TYPES),
        "selector": labels,
        "sessionAffinity": one_of("ClientIP", "None"),
        "internalTrafficPolicy": one_of(*_TRAFFIC),
        "trafficDistribution": one_of("PreferClose", "PreferSameZone", "PreferSameNode"),
        "externalIPs": each(address),
    },
)


def _check(service: Object) -> Problems:
    spec = service["spec"]
    kind, ports = spec["type"], spec.get("ports") or []
    is_headless = spec.get("clusterIP") == HEADLESS
    yield from _PLAIN(spec, "spec")
    if not ports and not is_headless and kind != "ExternalName":
        yield required("spec.ports")
    yield from _ports(spec, ports)
    yield from _addresses(spec, is_headless=is_headless)
    if spec["sessionAffinity"] == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= AFFINITY_MOST_S:
            where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield invalid(where, seconds, f"must be greater than 0 and less than {AFFINITY_MOST_S}")
    yield from _traffic(spec)
    yield from each(address_range)(spec.get("loadBalancerSourceRanges") or [], "spec.LoadBalancerSourceRanges")
    if kind != "LoadBalancer":
        if ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress"):
            yield forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")
        if spec.get("loadBalancerSourceRanges"):
            yield forbidden("spec.LoadBalancerSourceRanges", "may only be used when `type` is 'LoadBalancer'")
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(name) not in (None, []):
                yield forbidden(f"spec.{name}", "may only be used when `type` is 'LoadBalancer'")


def _addresses(spec: Object, *, is_headless: bool) -> Problems:
    kind = spec["type"]
    if kind == "ExternalName":
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(name) or (name == "clusterIPs" and spec.get("clusterIP")):
                yield forbidden(f"spec.{name}", "may not be set for ExternalName services")
        if not spec.get("externalName"):
            yield required("spec.externalName")
        else:
            yield from dns_subdomain(spec["externalName"].removesuffix("."), "spec.externalName")
        return
    policy = spec.get("ipFamilyPolicy")
    if policy is not None:
        yield from one_of("SingleStack", "PreferDualStack", "RequireDualStack")(policy, "spec.ipFamilyPolicy")
    if is_headless and kind in _EXTERNAL:
        yield invalid("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services")
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            yield not_supported(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6"))
        elif family == "IPv6" and not (is_headless and not spec.get("selector")):
            yield invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
    for index, ip in enumerate(spec.get("clusterIPs") or ()):
        if ip != HEADLESS or index:
            yield from address(ip, f"spec.clusterIPs[{index}]")
    addresses = spec.get("clusterIPs") or []
    if addresses and addresses[0] != spec.get("clusterIP"):
        yield invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and not (is_headless and not spec.get("selector")):
        problem = "this cluster is not configured for dual-stack services"
        yield invalid("spec.ipFamilyPolicy", "RequireDualStack", problem)


def _ports(spec: Object, ports: list[Object]) -> Problems:
    names, identities, node_ports = set(), set(), set()
    for index, port in enumerate(ports):
        where = f"spec.ports[{index}]"
        yield from _PORT(port, where)
        name = port.get("name") or ""
        if len(ports) > 1 and not name:
            yield required(f"{where}.name")
        elif name and name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)
        identity = (port.get("protocol"), port.get("port"))
        if identity in identities:
            yield duplicate(where, {"protocol": identity[0], "port": identity[1]})
        identities.add(identity)
        if not (node_port := port.get("nodePort")):
            continue
        if spec["type"] == "ClusterIP":
            yield forbidden(f"{where}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if (port.get("protocol"), node_port) in node_ports:
            yield duplicate(f"{where}.nodePort", node_port)
        node_ports.add((port.get("protocol"), node_port))


def _traffic(spec: Object) -> Problems:
    policy = spec.get("externalTrafficPolicy") or ""
    if not _is_external(spec):
        if policy:
            yield invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    elif policy and policy not in ("Cluster", "Local"):
        yield not_supported("spec.externalTrafficPolicy", policy, ("Cluster", "Local"))
    is_checked = spec["type"] == "LoadBalancer" and policy == "Local"
    if spec.get("healthCheckNodePort") and not is_checked:
        yield invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], "is for local load balancers only")


def _change(new: Object, before: Object) -> Problems:
    spec, old = new["spec"], before["spec"]
    _leave_behind(spec, old)
    _carry_over(spec, old)
    keeps_address = "ExternalName" not in (spec["type"], old.get("type"))
    if keeps_address and old.get("clusterIP") and spec.get("clusterIP") != old["clusterIP"]:
        yield invalid("spec.clusterIPs[0]", [spec.get("clusterIP") or ""], "may not change once set")


_OF_TYPES = (
    (_EXTERNAL, ("externalTrafficPolicy", "healthCheckNodePort")),
    (("LoadBalancer",), ("allocateLoadBalancerNodePorts", "loadBalancerClass")),
    (("ClusterIP", *_EXTERNAL), ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")),
)


def _leave_behind(spec: Object, old: Object) -> None:
    """What a service had by its old type goes with it, unless the writer has changed it too."""
    for types, names in _OF_TYPES:
        if old.get("type") in types and spec["type"] not in types:
            for name in names:
                if spec.get(name) == old.get(name):
                    spec.pop(name, None)
    numbers = [one.get("nodePort") for one in old.get("ports") or ()]
    if old.get("type") in _EXTERNAL and spec["type"] not in _EXTERNAL:
        ports = spec.get("ports") or ()
        if [one.get("nodePort") for one in ports] == numbers:
            for port in ports:
                port.pop("nodePort", None)


def _carry_over(spec: Object, old: Object) -> None:
    """What was given out stays where a writer does not speak of it."""
    if spec["type"] == "ExternalName":
        return
    if old.get("type") == "ExternalName":
        _fill_families(spec)
        return
    fill(spec, {name: old[name] for name in ("ipFamilyPolicy", "ipFamilies") if name in old})
    _fill_families(spec)
    if not spec.get("clusterIP") and old.get("clusterIP"):
        spec["clusterIP"], spec["clusterIPs"] = old["clusterIP"], list(old.get("clusterIPs") or [old["clusterIP"]])
    elif spec.get("clusterIPs") and spec["clusterIPs"] == old.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"], *old["clusterIPs"][1:]]  # the writer speaks of the first one alone
    if spec["type"] in _EXTERNAL and old.get("type") in _EXTERNAL:
        given = {(one.get("protocol"), one.get("port")): one.get("nodePort") for one in old.get("ports") or ()}
        for port in spec.get("ports") or ():
            if not port.get("nodePort") and (number := given.get((port.get("protocol"), port.get("port")))):
                port["nodePort"] = number


# Endpoints -----------------------------------------------------------------------------------------------------------


def _fill_endpoints(endpoints: Object) -> None:
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _endpoint_address(value: Object, path: str) -> Problems:
    ip = value.get("ip") or ""
    yield from address(ip, f"{path}.ip")
    yield from not_special(ip, f"{path}.ip")
    if value.get("hostname"):
        yield from dns_label(value["hostname"], f"{path}.hostname")
    if value.get("nodeName") is not None:
        yield from dns_subdomain(value["nodeName"], f"{path}.nodeName")


def not_special(text: str, path: str) -> Problems:
    """An address that can be somebody's, and is not the machine's own."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return
    is_link_multicast = ip.is_multicast and text.startswith(("224.0.0.", "ff02"))
    if ip.is_unspecified or ip.is_loopback or ip.is_link_local or is_link_multicast:
        yield invalid(path, text, "may not be unspecified, loopback or link-local")


def _check_endpoints(endpoints: Object) -> Problems:
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        where = f"subsets[{index}]"
        ready, waiting = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
        if not ready and not waiting:
            yield required(where, "must specify `addresses` or `notReadyAddresses`")
        yield from each(_endpoint_address)(ready, f"{where}.addresses")
        yield from each(_endpoint_address)(waiting, f"{where}.notReadyAddresses")
        ports = subset.get("ports") or []
        for place, port in enumerate(ports):
            here = f"{where}.ports[{place}]"
            if len(ports) > 1 and not port.get("name"):
                yield required(f"{here}.name")
            yield from _PORT(port, here)


def _fill_slice(endpoint_slice: Object) -> None:
    for port in endpoint_slice.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")
    for endpoint in endpoint_slice.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)  # only ever for what older versions could not say otherwise


_SLICE_PORT = fields("", {"protocol": one_of(*_PROTOCOLS), "appProtocol": qualified_name})


def _check_slice(endpoint_slice: Object) -> Problems:
    kind = endpoint_slice.get("addressType") or ""
    yield from needed(one_of("IPv4", "IPv6", "FQDN"))(kind, "addressType")
    endpoints, ports = endpoint_slice.get("endpoints") or [], endpoint_slice.get("ports") or []
    if len(endpoints) > ENDPOINTS_MOST:
        yield too_many("endpoints", len(endpoints), ENDPOINTS_MOST)
    for index, endpoint in enumerate(endpoints):
        yield from _slice_endpoint(endpoint, f"endpoints[{index}]", kind)
    names = set()
    for index, port in enumerate(ports[: SLICE_PORTS_MOST + 1]):
        name = port.get("name") or ""
        if name:
            yield from dns_label(name, f"ports[{index}].name")
        if name in names:
            yield duplicate(f"ports[{index}].name", name)
        names.add(name)
        yield from _SLICE_PORT(port, f"ports[{index}]")


def _slice_endpoint(endpoint: Object, path: str, kind: str) -> Problems:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield required(f"{path}.addresses", "must contain at least 1 address")
    if len(addresses) > 100:
        yield too_many(f"{path}.addresses", len(addresses), 100)
    for index, text in enumerate(addresses):
        where = f"{path}.addresses[{index}]"
        if kind == "FQDN":
            yield from dns_subdomain(text, where)
        elif kind in ("IPv4", "IPv6"):
            yield from address(text, where)
            yield from not_special(text, where)
            if (":" in text) != (kind == "IPv6"):
                yield invalid(where, text, f"must be an {kind} address")
    if endpoint.get("nodeName") is not None:
        yield from dns_subdomain(endpoint["nodeName"], f"{path}.nodeName")
    if endpoint.get("hostname") is not None:
        yield from dns_label(endpoint["hostname"], f"{path}.hostname")
    for index, node in enumerate((endpoint.get("hints") or {}).get("forNodes") or ()):
        yield from dns_subdomain(node.get("name") or "", f"{path}.hints.forNodes[{index}].name")


def _change_slice(new: Object, before: Object) -> Problems:
    if new.get("addressType") != before.get("addressType"):
        yield invalid("addressType", new.get("addressType"), "field is immutable")


KINDS = (
    kind_rules(
        ("", "v1", "Service"),
        fill=_fill,
        check=_check,
        change=_change,
        name_problem=dns1123_label_problem,
        has_generation=False,
    ),
    kind_rules(("", "v1", "Endpoints"), fill=_fill_endpoints, check=_check_endpoints, has_generation=False),
    kind_rules(("discovery.k8s.io", "v1", "EndpointSlice"), fill=_fill_slice, check=_check_slice, change=_change_slice),
)
