"""Pod Security: what the labels of a namespace do not let pods do. Pure; called by the chain for new pods.

Kubernetes' plugin of that name, at its newest version, for the label that enforces; those that warn and audit have no
effect. Each check gives what it forbids and who does that, in Kubernetes' words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from muster.store.errors import Forbidden
from muster.store.records import Key

Object = dict[str, Any]
Check = Callable[[Object, list[Object]], "tuple[str, list[str]]"]  # what is forbidden, and who does it

ENFORCE = "pod-security.kubernetes.io/enforce"
LEVELS = ("privileged", "baseline", "restricted")
_ADDED = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SELINUX = frozenset(("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"))
_PROFILES = ("RuntimeDefault", "Localhost")


def check_pod(key: Key, pod: Object, labels: dict[str, str]) -> None:
    """Raise Forbidden where a new pod does what its namespace does not allow."""
    level = labels.get(ENFORCE, "privileged")
    if level not in LEVELS[1:]:
        return
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    found = []
    checks = _RESTRICTED if level == "restricted" else _BASELINE
    if spec.get("hostUsers") is False:
        checks = tuple(check for check in checks if check not in _IN_OWN_USERS[level])
    for check in checks:
        reason, details = check(spec, containers)
        if details:
            found.append(f"{reason} ({'; '.join(details)})")
    if found:
        version = labels.get(f"{ENFORCE}-version", "latest")
        raise Forbidden(key, f'violates PodSecurity "{level}:{version}": {", ".join(found)}')


def _context(given: Object) -> Object:
    return given.get("securityContext") or {}


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _who(containers: list[Object], what: Callable[[Object], bool]) -> str:
    """The containers that do something, as a sentence begins; empty where none does."""
    names = [one["name"] for one in containers if what(one)]
    return f"container{'s' * (len(names) > 1)} {_quoted(names)}" if names else ""


def _says(who: str, what: str) -> list[str]:
    return [f"{who} {what}"] if who else []


# Baseline ------------------------------------------------------------------------------------------------------------


def _app_armor(spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    def is_bad(given: Object) -> bool:
        return (_context(given).get("appArmorProfile") or {}).get("type") == "Unconfined"

    who = [*(["pod"] if is_bad(spec) else []), *filter(None, [_who(containers, is_bad)])]
    sentence = 'must not set AppArmor profile type to "Unconfined"'
    return "forbidden AppArmor profile", _says(" and ".join(who), sentence)


def _capabilities(_spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    return "non-default capabilities", _added(containers, _ADDED)


def _added(containers: list[Object], allowed: frozenset[str]) -> list[str]:
    def extra(container: Object) -> set[str]:
        return set((_context(container).get("capabilities") or {}).get("add") or ()) - allowed

    names = sorted({name for one in containers for name in extra(one)})
    who = _who(containers, lambda one: bool(extra(one)))
    return _says(who, f"must not include {_quoted(names)} in securityContext.capabilities.add")


def _host_namespaces(spec: Object, _containers: list[Object]) -> tuple[str, list[str]]:
    used = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return "host namespaces", [", ".join(used)] if used else []


def _host_paths(spec: Object, _containers: list[Object]) -> tuple[str, list[str]]:
    names = [one["name"] for one in spec.get("volumes") or () if one.get("hostPath") is not None]
    return "hostPath volumes", [f"volume{'s' * (len(names) > 1)} {_quoted(names)}"] if names else []


def _host_ports(_spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    def ports(container: Object) -> set[int]:
        return {one["hostPort"] for one in container.get("ports") or () if one.get("hostPort")}

    used = sorted({str(port) for one in containers for port in ports(one)})
    names = [one["name"] for one in containers if ports(one)]
    who = _who(containers, lambda one: bool(ports(one)))
    verb = "use" if len(names) > 1 else "uses"
    return "hostPort", _says(who, f"{verb} hostPort{'s' * (len(used) > 1)} {', '.join(used)}")


def _probed_hosts(_spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    """A node could be made to knock anywhere by the probes and hooks of its pods."""
    names = [one["name"] for one in containers if _hosts(one)]
    hosts = sorted({host for one in containers for host in _hosts(one)})
    who = _who(containers, lambda one: bool(_hosts(one)))
    verb = "use" if len(names) > 1 else "uses"
    told = f"{verb} probe or lifecycle host{'s' * (len(hosts) > 1)} {_quoted(hosts)}"
    return "probe or lifecycle host", _says(who, told)


def _hosts(container: Object) -> set[str]:
    lifecycle = container.get("lifecycle") or {}
    actions = [container.get(name) or {} for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    actions += [lifecycle.get(name) or {} for name in ("postStart", "preStop")]
    asked = ((action.get(kind) or {}).get("host") for action in actions for kind in ("httpGet", "tcpSocket"))
    return {host for host in asked if host}


def _privileged(_spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    who = _who(containers, lambda one: _context(one).get("privileged") is True)
    return "privileged", _says(who, "must not set securityContext.privileged=true")


def _proc_mounts(_spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    kinds = sorted({mount for one in containers if (mount := _context(one).get("procMount") or "Default") != "Default"})
    who = _who(containers, lambda one: _context(one).get("procMount", "Default") != "Default")
    return "procMount", _says(who, f"must not set securityContext.procMount to {_quoted(kinds)}")


def _se_linux(spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    def is_bad(given: Object) -> bool:
        options = _context(given).get("seLinuxOptions") or {}
        return bool(options.get("user") or options.get("role") or (options.get("type") or "") not in _SELINUX)

    who = [*(["pod"] if is_bad(spec) else []), *filter(None, [_who(containers, is_bad)])]
    options = [_context(one).get("seLinuxOptions") or {} for one in (spec, *containers)]
    types = sorted({one["type"] for one in options if (one.get("type") or "") not in _SELINUX})
    wrong = [f"type{'s' * (len(types) > 1)} {_quoted(types)}"] if types else []
    wrong += [f"{name} may not be set" for name in ("user", "role") if any(one.get(name) for one in options)]
    sentence = f"set forbidden securityContext.seLinuxOptions: {'; '.join(wrong)}"
    return "seLinuxOptions", _says(" and ".join(who), sentence)


def _profile(given: Object) -> str:
    return str((_context(given).get("seccompProfile") or {}).get("type") or "")


def _seccomp(spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    who = [*(["pod"] if _profile(spec) == "Unconfined" else [])]
    who += filter(None, [_who(containers, lambda one: _profile(one) == "Unconfined")])
    sentence = 'must not set securityContext.seccompProfile.type to "Unconfined"'
    return "seccompProfile", _says(" and ".join(who), sentence)


def _sysctls(spec: Object, _containers: list[Object]) -> tuple[str, list[str]]:
    names = [one["name"] for one in _context(spec).get("sysctls") or () if one["name"] not in _SYSCTLS]
    return "forbidden sysctls", [", ".join(names)] if names else []


def _host_process(spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    def is_host(given: Object) -> bool:
        return (_context(given).get("windowsOptions") or {}).get("hostProcess") is True

    who = [*(["pod"] if is_host(spec) else []), *filter(None, [_who(containers, is_host)])]
    return "hostProcess", _says(" and ".join(who), "must not set securityContext.windowsOptions.hostProcess=true")


# Restricted ----------------------------------------------------------------------------------------------------------


def _escalation(_spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    who = _who(containers, lambda one: _context(one).get("allowPrivilegeEscalation") is not False)
    return "allowPrivilegeEscalation != false", _says(who, "must set securityContext.allowPrivilegeEscalation=false")


def _few_capabilities(_spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    def keeps(container: Object) -> bool:
        return "ALL" not in ((_context(container).get("capabilities") or {}).get("drop") or ())

    details = _says(_who(containers, keeps), 'must set securityContext.capabilities.drop=["ALL"]')
    return "unrestricted capabilities", details + _added(containers, frozenset({"NET_BIND_SERVICE"}))


def _few_volumes(spec: Object, _containers: list[Object]) -> tuple[str, list[str]]:
    kinds: dict[str, str] = {}
    for volume in spec.get("volumes") or ():
        for kind in volume.keys() - {"name"} - _VOLUMES:
            kinds[volume["name"]] = kind
    if not kinds:
        return "restricted volume types", []
    is_many = len(kinds) > 1
    types = sorted(set(kinds.values()))
    told = f"volume{'s' * is_many} {_quoted(kinds)} {'use' if is_many else 'uses'} restricted volume type"
    return "restricted volume types", [f"{told}{'s' * (len(types) > 1)} {_quoted(types)}"]


def _not_root(spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    of_pod = _context(spec).get("runAsNonRoot")
    details = ["pod must not set securityContext.runAsNonRoot=false"] if of_pod is False else []
    bad = _who(containers, lambda one: _context(one).get("runAsNonRoot") is False)
    details += _says(bad, "must not set securityContext.runAsNonRoot=false")
    if not details and not of_pod:
        silent = _who(containers, lambda one: _context(one).get("runAsNonRoot") is None)
        details = _says(silent and f"pod or {silent}", "must set securityContext.runAsNonRoot=true")
    return "runAsNonRoot != true", details


def _not_user_0(spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    details = ["pod must not set runAsUser=0"] if _context(spec).get("runAsUser") == 0 else []
    who = _who(containers, lambda one: _context(one).get("runAsUser") == 0)
    return "runAsUser=0", details + _says(who, "must not set runAsUser=0")


def _with_profile(spec: Object, containers: list[Object]) -> tuple[str, list[str]]:
    _, details = _seccomp(spec, containers)
    if not details and not _profile(spec):
        silent = _who(containers, lambda one: not _profile(one))
        known = " or ".join(f'"{one}"' for one in _PROFILES)
        details = _says(silent and f"pod or {silent}", f"must set securityContext.seccompProfile.type to {known}")
    return "seccompProfile", details


_BASELINE: tuple[Check, ...] = (
    _app_armor,
    _capabilities,
    _host_namespaces,
    _host_paths,
    _host_ports,
    _probed_hosts,
    _privileged,
    _proc_mounts,
    _se_linux,
    _seccomp,
    _sysctls,
    _host_process,
)
_COVERED = (_capabilities, _host_paths, _proc_mounts, _seccomp)  # by stricter checks of the same
_RESTRICTED: tuple[Check, ...] = (
    *(check for check in _BASELINE if check not in _COVERED),
    _escalation,
    _few_capabilities,
    _proc_mounts,
    _few_volumes,
    _not_root,
    _not_user_0,
    _with_profile,
)
# What does no harm where a pod's users are not those of its node.
_IN_OWN_USERS: dict[str, tuple[Check, ...]] = {"baseline": (_proc_mounts,), "restricted": (_not_root, _not_user_0)}
