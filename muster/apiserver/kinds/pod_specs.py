"""The rules for what a pod says, in a pod of its own and in the templates of workloads. Called by the kinds of both."""

from __future__ import annotations

from typing import Any

from muster.apiserver.kinds.checks import (
    Check,
    address,
    annotation_keys,
    between,
    both,
    dns_label,
    dns_subdomain,
    each,
    fields,
    labels,
    one_of,
    qualified_name,
    unique,
    user_or_group,
)
from muster.apiserver.kinds.pod_containers import PodFacts, containers, init_containers, profile
from muster.apiserver.kinds.pod_placing import affinity, gates, spread_constraints, tolerations
from muster.apiserver.kinds.pod_volumes import check_volumes
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, required
from muster.apiserver.kinds.resources import container_resource_name, resource_amount
from muster.model.fields import INT32_MAX

Object = dict[str, Any]

NAME_SERVERS_MOST = 3
SEARCHES_MOST = 32
SEARCH_CHARACTERS_MOST = 2048
RESTART_POLICIES = ("Always", "OnFailure", "Never")

_SECURITY = fields(
    "",
    {
        "fsGroup": user_or_group,
        "runAsUser": user_or_group,
        "runAsGroup": user_or_group,
        "supplementalGroups": each(user_or_group),
        "fsGroupChangePolicy": one_of("Always", "OnRootMismatch"),
        "supplementalGroupsPolicy": one_of("Merge", "Strict"),
        "seLinuxChangePolicy": one_of("MountOption", "Recursive"),
        "seccompProfile": profile,
        "appArmorProfile": profile,
        "sysctls": unique("name"),
    },
)


def _host_aliases(value: list[Object], path: str) -> Problems:
    for index, alias in enumerate(value):
        yield from address(alias.get("ip") or "", f"{path}[{index}].ip")
        for place, name in enumerate(alias.get("hostnames") or ()):
            yield from dns_subdomain(name, f"{path}[{index}].hostnames[{place}]")


def _overhead(value: dict[str, str], path: str) -> Problems:
    for name, one in value.items():
        yield from container_resource_name(name, f"{path}[{name}]")
        yield from resource_amount(name, one, f"{path}[{name}]")


_PLAIN: dict[str, Check] = {
    "restartPolicy": one_of(*RESTART_POLICIES),
    "dnsPolicy": one_of("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "nodeSelector": labels,
    "securityContext": _SECURITY,
    "affinity": affinity,
    "readinessGates": each(fields("", {"conditionType": qualified_name})),
    "schedulingGates": gates,
    "topologySpreadConstraints": spread_constraints,
    "serviceAccountName": dns_subdomain,
    "nodeName": dns_subdomain,
    "activeDeadlineSeconds": between(1, INT32_MAX),
    "hostname": dns_label,
    "subdomain": dns_label,
    "tolerations": tolerations,
    "hostAliases": _host_aliases,
    "priorityClassName": dns_subdomain,
    "runtimeClassName": dns_subdomain,
    "preemptionPolicy": one_of("PreemptLowerPriority", "Never"),
    "overhead": _overhead,
    "os": fields("name", {"name": one_of("linux", "windows")}),
    "resourceClaims": both(unique("name"), each(fields("name", {"name": dns_label}))),
}
_ALL_PLAIN = fields("", _PLAIN)


def pod_spec(spec: Object, path: str, *, is_pod: bool = False) -> Problems:
    """Everything that is wrong with the spec of a pod or of a template."""
    found = check_volumes(spec.get("volumes") or [], f"{path}.volumes")
    yield from found.problems
    pod = _facts(spec, found.sound)
    own = spec.get("containers") or []
    yield from containers(own, f"{path}.containers", pod)
    taken = frozenset(one.get("name") or "" for one in own)
    yield from init_containers(spec.get("initContainers") or [], f"{path}.initContainers", pod, taken)
    yield from _ALL_PLAIN(spec, path)
    yield from _host_network(spec, path, is_pod=is_pod)
    yield from _host_users(spec, path)
    yield from _dns_config(spec, path)


def _facts(spec: Object, volumes: list[Object]) -> PodFacts:
    claimed = [one for one in volumes if one.get("persistentVolumeClaim") or one.get("ephemeral")]
    return PodFacts(
        volumes=frozenset(one["name"] for one in volumes),
        block_volumes=frozenset(one["name"] for one in claimed),
        claims=frozenset(one["name"] for one in spec.get("resourceClaims") or () if one.get("name")),
        restart_policy=spec.get("restartPolicy") or "",
        grace_s=spec.get("terminationGracePeriodSeconds") or 0,
        has_system=spec.get("os") is not None,
        has_host_users=spec.get("hostUsers") is not False,
    )


def _host_network(spec: Object, path: str, *, is_pod: bool) -> Problems:
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield invalid(f"{path}.securityContext.shareProcessNamespace", True, "cannot be used together with hostPID")
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort") or 0
            if (is_pod or host_port) and host_port != port.get("containerPort"):
                where = f"{path}.containers[{index}].ports[{place}].hostPort"
                yield invalid(where, host_port, "must match containerPort when hostNetwork is true")


def _host_users(spec: Object, path: str) -> Problems:
    if spec.get("hostUsers") is not False:
        return
    for field, shown_as in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            yield forbidden(f"{path}.{shown_as}", "when hostUsers is false")


def _dns_config(spec: Object, path: str) -> Problems:
    config, where = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None" and not (config or {}).get("nameservers"):
        yield required(where if config is None else f"{where}.nameservers", "is needed when dnsPolicy is None")
        return
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > NAME_SERVERS_MOST:
        yield invalid(f"{where}.nameservers", servers, f"must not have more than {NAME_SERVERS_MOST}")
    yield from each(address)(servers, f"{where}.nameservers")
    if len(searches) > SEARCHES_MOST:
        yield invalid(f"{where}.searches", searches, f"must not have more than {SEARCHES_MOST}")
    if len(" ".join(searches)) > SEARCH_CHARACTERS_MOST:
        yield invalid(f"{where}.searches", searches, f"must not have more than {SEARCH_CHARACTERS_MOST} characters")
    for index, search in enumerate(searches):
        if search != ".":
            # A name of a search list may have underscores, unlike those of objects.
            yield from dns_subdomain(search.removesuffix(".").replace("_", "a"), f"{where}.searches[{index}]")
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{where}.options[{index}]", "must not be empty")


def template(value: Object, path: str) -> Problems:
    """The template of a workload's pods."""
    metadata = value.get("metadata") or {}
    yield from labels(metadata.get("labels") or {}, f"{path}.labels")
    yield from annotation_keys(metadata.get("annotations") or {}, f"{path}.annotations")
    spec = value.get("spec") or {}
    yield from pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers are not allowed in templates")
