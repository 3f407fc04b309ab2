"""The rules for containers. Called by `pod_specs`; what does not depend on the rest of the pod is a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.apiserver.kinds.checks import (
    dns_label,
    dns_subdomain,
    each,
    entry_key,
    fields,
    local_path,
    needed,
    not_negative,
    one_of,
    port_name,
    port_number,
    port_or_name,
    user_or_group,
    variable_name,
)
from muster.apiserver.kinds.downward import variable_field, variable_resource
from muster.apiserver.kinds.problems import (
    Problems,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from muster.apiserver.kinds.resources import requirements

Object = dict[str, Any]

ALWAYS = "Always"
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_RESTART_RULES_MOST = 20
_EXIT_CODES_MOST = 255
_CREDENTIALS_MOST = 64 * 1024
_SHOWN = 100
_WINDOWS_NAME_MOST = 104
_NOT_IN_USERS = frozenset('"/\\:;|=,+*?<>@[]')


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the rules for a container have to know of its pod."""

    volumes: frozenset[str]
    block_volumes: frozenset[str]  # those that may be devices: claims
    claims: frozenset[str]
    restart_policy: str
    grace_s: int
    has_host_users: bool


# Ports and variables -------------------------------------------------------------------------------------------------

_PORT = fields(
    "containerPort",
    {
        "name": port_name,
        "containerPort": port_number,
        "hostPort": lambda value, path: port_number(value, path) if value else iter(()),
        "protocol": one_of("TCP", "UDP", "SCTP"),
    },
)


def _ports(value: list[Object], path: str) -> Problems:
    names = set()
    for index, port in enumerate(value):
        yield from _PORT(port, f"{path}[{index}]")
        if name := port.get("name"):
            if name in names:
                yield duplicate(f"{path}[{index}].name", name)
            names.add(name)


_KEY_REFERENCE = fields("key", {"key": entry_key})


def _key_reference(value: Object, path: str) -> Problems:
    yield from dns_subdomain(value.get("name") or "", f"{path}.name")
    yield from _KEY_REFERENCE(value, path)


_VALUE_SOURCES = {
    "fieldRef": variable_field,
    "resourceFieldRef": variable_resource,
    "configMapKeyRef": _key_reference,
    "secretKeyRef": _key_reference,
    "fileKeyRef": fields("key volumeName path", {"key": variable_name, "volumeName": dns_label, "path": local_path}),
}


def _variable(value: Object, path: str) -> Problems:
    yield from needed(variable_name)(value.get("name") or "", f"{path}.name")
    source = value.get("valueFrom")
    if source is None:
        return
    where = f"{path}.valueFrom"
    given = [one for one in _VALUE_SOURCES if source.get(one) is not None]
    for one in given:
        yield from _VALUE_SOURCES[one](source[one], f"{where}.{one}")
    if not given:
        yield invalid(where, "", "must name one source")
    elif value.get("value"):
        yield invalid(where, "", "may not be given when value is not empty")
    elif len(given) > 1:
        yield invalid(where, "", "may not name more than one source")


def _variables_from(value: list[Object], path: str) -> Problems:
    for index, source in enumerate(value):
        where = f"{path}[{index}]"
        if source.get("prefix"):
            yield from variable_name(source["prefix"], f"{where}.prefix")
        given = [one for one in ("configMapRef", "secretRef") if source.get(one) is not None]
        for one in given:
            yield from fields("name", {"name": dns_subdomain})(source[one], f"{where}.{one}")
        if len(given) != 1:
            yield invalid(path, "", "must name one of configMapRef and secretRef")


# Probes and handlers -------------------------------------------------------------------------------------------------


def _http_headers(value: list[Object], path: str) -> Problems:
    for header in value:
        name = header.get("name") or ""
        if not name or not all(one.isascii() and (one.isalnum() or one in "-_") for one in name):
            yield invalid(path, name, "must be a valid HTTP header name")


_HTTP_GET = fields("path", {"port": port_or_name, "scheme": one_of("HTTP", "HTTPS"), "httpHeaders": _http_headers})
_ACTIONS = {
    "exec": fields("command", {}),
    "httpGet": _HTTP_GET,
    "tcpSocket": fields("", {"port": port_or_name}),
    "grpc": fields("", {"port": port_or_name}),
}


def _handler(value: Object, path: str, grace_s: int) -> Problems:
    given = [name for name in _HANDLERS if value.get(name) is not None]
    if not given:
        yield required(path, "must specify a handler type")
        return
    first = given[0]
    if first == "sleep":
        seconds = value["sleep"].get("seconds") or 0
        if not 0 <= seconds <= grace_s:
            yield invalid(f"{path}.sleep", seconds, f"must be from 0 to the grace period of {grace_s}")
    else:
        yield from _ACTIONS[first](value[first], f"{path}.{first}")
    for name in given[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


_PROBE_NUMBERS = fields(
    "",
    dict.fromkeys(
        ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"), not_negative
    ),
)


def _probe(name: str, value: Object, path: str, grace_s: int) -> Problems:
    yield from _handler(value, path, grace_s)
    yield from _PROBE_NUMBERS(value, path)
    probe_grace_s = value.get("terminationGracePeriodSeconds")
    if name != "readinessProbe" and value.get("successThreshold", 1) != 1:
        yield invalid(f"{path}.successThreshold", value["successThreshold"], "must be 1")
    if probe_grace_s is None:
        return
    if name == "readinessProbe":
        yield invalid(f"{path}.terminationGracePeriodSeconds", probe_grace_s, "must not be set for readiness probes")
    if probe_grace_s <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", probe_grace_s, "must be greater than 0")


def _probes_and_hooks(container: Object, path: str, pod: PodFacts) -> Problems:
    for name in _PROBES:
        if container.get(name) is not None:
            yield from _probe(name, container[name], f"{path}.{name}", pod.grace_s)
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            yield from _handler(lifecycle[name], f"{path}.lifecycle.{name}", pod.grace_s)


# Mounts --------------------------------------------------------------------------------------------------------------


def _mounts(container: Object, path: str, pod: PodFacts) -> Problems:
    devices = {one.get("name"): one.get("devicePath") for one in container.get("volumeDevices") or ()}
    device_paths = set(devices.values())
    places = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        name, place = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required(f"{where}.name")
        if name not in pod.volumes:
            yield not_found(f"{where}.name", name)
        if not place:
            yield required(f"{where}.mountPath")
        if place in places:
            yield invalid(f"{where}.mountPath", place, "must be unique")
        places.add(place)
        if name in devices:
            yield invalid(f"{where}.name", name, "must not already exist in volumeDevices")
        if place in device_paths:
            yield invalid(f"{where}.mountPath", place, "must not already exist as a path in volumeDevices")
        yield from _mount_details(mount, where, f"{path}.volumeMounts", container)


def _mount_details(mount: Object, where: str, path: str, container: Object) -> Problems:
    sub_path, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    # Kubernetes gives the path of the whole list for these.
    yield from local_path(sub_path, f"{path}.subPath")
    if expression and sub_path:
        yield invalid(f"{where}.subPathExpr", expression, "only one of subPathExpr and subPath may be given")
    yield from local_path(expression, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        yield from one_of("None", "HostToContainer", "Bidirectional")(propagation, f"{path}.mountPropagation")
        is_privileged = (container.get("securityContext") or {}).get("privileged")
        if propagation == "Bidirectional" and not is_privileged:
            yield forbidden(f"{path}.mountPropagation", "Bidirectional is for privileged containers only")
    recursive = mount.get("recursiveReadOnly")
    if recursive is not None:
        yield from one_of("Disabled", "IfPossible", "Enabled")(recursive, f"{path}.recursiveReadOnly")
        if recursive in ("IfPossible", "Enabled") and not mount.get("readOnly"):
            yield forbidden(f"{path}.recursiveReadOnly", "may only be given when readOnly is true")


def _devices(container: Object, path: str, pod: PodFacts) -> Problems:
    mounts = {one.get("name"): one.get("mountPath") for one in container.get("volumeMounts") or ()}
    mount_paths = set(mounts.values())
    names, places = set(), set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        where = f"{path}.volumeDevices[{index}]"
        name, place = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            yield required(f"{where}.name")
        if name in names:
            yield invalid(f"{where}.name", name, "must be unique")
        if name not in pod.volumes:
            yield not_found(f"{where}.name", name)
        elif name not in pod.block_volumes:
            yield invalid(f"{where}.name", name, "only claims can be devices")
        if not place:
            yield required(f"{where}.devicePath")
        if place in places:
            yield invalid(f"{where}.devicePath", place, "must be unique")
        if ".." in place.split("/"):
            yield invalid(f"{where}.devicePath", place, "must not contain '..'")
        if name in mounts:
            yield invalid(f"{where}.name", name, "must not already exist in volumeMounts")
        if place and place in mount_paths:
            yield invalid(f"{where}.devicePath", place, "must not already exist as a path in volumeMounts")
        names.add(name)
        places.add(place)


# Security ------------------------------------------------------------------------------------------------------------

_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")


def seccomp_profile(value: Object, path: str) -> Problems:
    """Which calls of the system a container may make."""
    yield from _profile(value, path, takes_empty=True)


def app_armor_profile(value: Object, path: str) -> Problems:
    """What AppArmor allows a container."""
    yield from _profile(value, path, takes_empty=False)


def _profile(value: Object, path: str, *, takes_empty: bool) -> Problems:
    kind, file = value.get("type") or "", value.get("localhostProfile")
    if not kind:
        yield required(f"{path}.type", "a profile needs a type")
    elif kind not in _PROFILE_TYPES:
        yield not_supported(f"{path}.type", kind, _PROFILE_TYPES)
    if kind == "Localhost":
        if file is None or not (file or takes_empty):
            yield required(f"{path}.localhostProfile", "must be set when the type is Localhost")
        else:
            yield from local_path(file, f"{path}.localhostProfile")
    elif file is not None and kind in ("", *_PROFILE_TYPES):
        yield invalid(f"{path}.localhostProfile", file, "can only be set when the type is Localhost")


def windows_options(value: Object, path: str) -> Problems:
    """What only Windows knows; anything is taken but what it could not read."""
    name, text, user = (value.get(one) for one in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName"))
    if name is not None:
        yield from dns_subdomain(name, f"{path}.gmsaCredentialSpecName")
    if text is not None and not 0 < len(text) <= _CREDENTIALS_MOST:
        yield invalid(f"{path}.gmsaCredentialSpec", text[:_SHOWN], f"must have 1 to {_CREDENTIALS_MOST} characters")
    if user is not None:
        yield from _windows_user(user, f"{path}.runAsUserName")


def _windows_user(user: str, path: str) -> Problems:
    domain, slash, name = user.rpartition("\\")
    if not user:
        yield invalid(path, user, "must not be empty")
    elif any(one < " " or one == "\x7f" for one in user):
        yield invalid(path, user, "must not have control characters")
    elif "\\" in domain or (slash and not (domain and name)):
        yield invalid(path, user, "must be a user, or a domain and a user with one backslash between them")
    elif len(name) > _WINDOWS_NAME_MOST or not name.strip(". ") or _NOT_IN_USERS.intersection(name):
        yield invalid(path, user, "must be a name that Windows takes for a user")


_SECURITY = fields(
    "",
    {
        "runAsUser": user_or_group,
        "runAsGroup": user_or_group,
        "windowsOptions": windows_options,
        "procMount": one_of("Default", "Unmasked"),
        "seccompProfile": seccomp_profile,
        "appArmorProfile": app_armor_profile,
    },
)


def _security(value: Object, path: str, pod: PodFacts) -> Problems:
    yield from _SECURITY(value, path)
    if value.get("procMount") == "Unmasked" and pod.has_host_users:
        yield invalid(f"{path}.procMount", "Unmasked", "hostUsers must be false to use Unmasked")
    if value.get("allowPrivilegeEscalation") is False:
        if value.get("privileged"):
            yield invalid(path, value, "allowPrivilegeEscalation cannot be false when privileged is true")
        if "CAP_SYS_ADMIN" in ((value.get("capabilities") or {}).get("add") or ()):
            yield invalid(path, value, "allowPrivilegeEscalation cannot be false with CAP_SYS_ADMIN")


# Restarts ------------------------------------------------------------------------------------------------------------


def _restarts(container: Object, path: str, *, is_init: bool) -> Problems:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None:
        if rules:
            yield required(f"{path}.restartPolicy", "restart rules need a restart policy")
        if is_init:
            return
    else:
        yield from one_of(ALWAYS, "Never", "OnFailure")(policy, f"{path}.restartPolicy")
    if len(rules) > _RESTART_RULES_MOST:
        yield too_many(f"{path}.restartPolicyRules", len(rules), _RESTART_RULES_MOST)
    for index, rule in enumerate(rules):
        where = f"{path}.restartPolicyRules[{index}]"
        yield from one_of("Restart", "RestartAllContainers")(rule.get("action") or "", f"{where}.action")
        codes = rule.get("exitCodes")
        if codes is None:
            yield required(f"{where}.exitCodes", "must be specified")
            continue
        yield from one_of("In", "NotIn")(codes.get("operator") or "", f"{where}.exitCodes.operator")
        if len(codes.get("values") or ()) > _EXIT_CODES_MOST:
            yield too_many(f"{where}.exitCodes.values", len(codes["values"]), _EXIT_CODES_MOST)


def _resize_policies(value: list[Object], path: str, pod: PodFacts) -> Problems:
    seen = set()
    for index, policy in enumerate(value):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)
        yield from needed(one_of("cpu", "memory"))(name, path)
        yield from needed(one_of("NotRequired", "RestartContainer"))(restart, path)
        if pod.restart_policy == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be NotRequired when the pod never restarts")


# Containers ----------------------------------------------------------------------------------------------------------

_PLAIN = fields(
    "name image",
    {
        "name": dns_label,
        "ports": _ports,
        "env": each(_variable),
        "envFrom": _variables_from,
        "imagePullPolicy": one_of(ALWAYS, "IfNotPresent", "Never"),
        "terminationMessagePolicy": one_of("File", "FallbackToLogsOnError"),
    },
)


def _container(container: Object, path: str, pod: PodFacts) -> Problems:
    """What the rules for all sorts of containers have in common."""
    yield from _PLAIN(container, path)
    for index, variable in enumerate(container.get("env") or ()):
        name = ((variable.get("valueFrom") or {}).get("fileKeyRef") or {}).get("volumeName")
        if name is not None and name not in pod.volumes:
            yield not_found(f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName", name)
    if container.get("volumeMounts"):
        yield from _mounts(container, path, pod)
    if container.get("volumeDevices"):
        if not pod.has_host_users:
            yield forbidden(f"{path}.volumeDevices", "when `hostUsers` is false")
        yield from _devices(container, path, pod)
    if container.get("resources"):
        yield from requirements(pod.claims)(container["resources"], f"{path}.resources")
    if container.get("resizePolicy"):
        yield from _resize_policies(container["resizePolicy"], f"{path}.resizePolicy", pod)
    if container.get("securityContext"):
        yield from _security(container["securityContext"], f"{path}.securityContext", pod)


def containers(value: list[Object], path: str, pod: PodFacts) -> Problems:
    """The containers of a pod."""
    if not value:
        yield required(path)
    names = set()
    for index, container in enumerate(value):
        where = f"{path}[{index}]"
        yield from _container(container, where, pod)
        name = container.get("name") or ""
        if name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)
        yield from _probes_and_hooks(container, where, pod)
        yield from _restarts(container, where, is_init=False)
    yield from host_ports(value, path)


def init_containers(value: list[Object], path: str, pod: PodFacts, taken: frozenset[str]) -> Problems:
    """The containers that run before the others; their names are apart from those taken."""
    names = set(taken)
    for index, container in enumerate(value):
        where = f"{path}[{index}]"
        yield from _container(container, where, pod)
        yield from _restarts(container, where, is_init=True)
        name = container.get("name") or ""
        if name in names:
            yield duplicate(f"{where}.name", name)
        elif name:
            names.add(name)
        yield from host_ports([container], path)
        if container.get("restartPolicy") == ALWAYS:
            yield from _probes_and_hooks(container, where, pod)
            continue
        for field in ("lifecycle", *_PROBES):
            if container.get(field) is not None:
                yield forbidden(f"{where}.{field}", "is only for init containers that restart always")
        for place, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                path_of_policy = f"{where}.resizePolicy[{place}].restartPolicy"
                yield invalid(path_of_policy, "RestartContainer", "is only for init containers that restart always")


def host_ports(value: list[Object], path: str) -> Problems:
    """No two containers share a port of the node."""
    seen = set()
    for index, container in enumerate(value):
        for place, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            identity = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if identity in seen:
                yield duplicate(f"{path}[{index}].ports[{place}].hostPort", identity)
            seen.add(identity)


tidy_images = each(
    lambda container, path: (
        iter([invalid(f"{path}.image", container["image"], "must not have spaces at its ends")])
        if (container.get("image") or "").strip() != (container.get("image") or "")
        else iter(())
    )
)
