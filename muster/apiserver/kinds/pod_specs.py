"""The rules for what a pod says, in a pod of its own and in the templates of workloads. Called by the kinds of both."""

from __future__ import annotations

import re
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
from muster.apiserver.kinds.pod_containers import (
    PodFacts,
    app_armor_profile,
    containers,
    init_containers,
    seccomp_profile,
    windows_options,
)
from muster.apiserver.kinds.pod_placing import affinity, gates, spread_constraints, tolerations
from muster.apiserver.kinds.pod_volumes import check_volumes
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, not_supported, required, too_long
from muster.apiserver.kinds.resources import container_resource_name, pod_requirements, resource_amount
from muster.model.fields import INT32_MAX

Object = dict[str, Any]

NAME_SERVERS_MOST = 3
SEARCHES_MOST = 32
SEARCH_CHARACTERS_MOST = 2048
HOSTNAME_MOST = 64
RESTART_POLICIES = ("Always", "OnFailure", "Never")

_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?", re.ASCII)
_SYSCTL_MOST = 253


def _sysctl(value: Object, path: str) -> Problems:
    name = value.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    elif len(name) > _SYSCTL_MOST or not _SYSCTL.fullmatch(name):
        yield invalid(f"{path}.name", name[:_SYSCTL_MOST], "must be the name of a setting such as net.core.somaxconn")


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
        "seccompProfile": seccomp_profile,
        "appArmorProfile": app_armor_profile,
        "sysctls": both(each(_sysctl), unique("name")),
        "windowsOptions": windows_options,
    },
)


def _host_aliases(value: list[Object], path: str) -> Problems:
    for index, alias in enumerate(value):
        yield from address(alias.get("ip") or "", f"{path}[{index}].ip")
        for place, name in enumerate(alias.get("hostnames") or ()):
            yield from dns_subdomain(name, f"{path}[{index}].hostnames[{place}]")


def _overhead(value: dict[str, str], path: str) -> Problems:
    for name, one in value.items():
        # Kubernetes looks at these as at the limits of a container.
        yield from container_resource_name(name, f"{path}.limits[{name}]")
        yield from resource_amount(name, one, f"{path}.limits[{name}]")


def _operating_system(value: Object, path: str) -> Problems:
    name = value.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    elif name not in ("linux", "windows"):
        yield not_supported(path, name, ("linux", "windows"))


_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def _claim(value: Object, path: str) -> Problems:
    given = [name for name in _CLAIM_SOURCES if value.get(name) is not None]
    if len(given) != 1:
        yield invalid(path, value, f"must specify one of: {', '.join(_CLAIM_SOURCES)}")
    for name in given:
        yield from dns_subdomain(value[name], f"{path}.{name}")


def _hostname(value: str, path: str) -> Problems:
    yield from dns_subdomain(value, path)
    if len(value) > HOSTNAME_MOST:
        yield too_long(path, HOSTNAME_MOST)


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
    "os": _operating_system,
    "resourceClaims": both(unique("name"), each(fields("name", {"name": dns_label})), each(_claim)),
    "resources": pod_requirements,
    "hostnameOverride": _hostname,
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
        has_host_users=spec.get("hostUsers") is not False,
    )


def _host_network(spec: Object, path: str, *, is_pod: bool) -> Problems:
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield invalid(f"{path}.securityContext.shareProcessNamespace", True, "cannot be used together with hostPID")
    if not spec.get("hostNetwork"):
        return
    if spec.get("hostnameOverride") is not None:
        yield forbidden(f"{path}.hostnameOverride", "may not be specified when hostNetwork is true")
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
