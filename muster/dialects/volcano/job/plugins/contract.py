"""What a job plugin is, how its flags are read, and the hosts of tasks. Used by every plugin of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.dialects.volcano.job.pods import PodPlace, pod_name
from muster.dialects.volcano.job.spec import Task, VolcanoJob
from muster.model.errors import InvalidObject
from muster.model.fields import shown
from muster.model.texts import nearest

Object = dict[str, Any]
Flags = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Keys:
    """A pair of keys for ssh."""

    private: str  # PEM
    public: str  # one line as in authorized_keys


@dataclass(frozen=True, slots=True)
class PluginObject:
    """An object that a job has beside its pods."""

    resource: str
    wanted: Object
    is_kept: bool = False  # whether it stays as it was first made
    with_keys: Callable[[Keys], Object] | None = None  # the same with keys, where it needs some that are made anew


def _leave(_pod: Object, _place: PodPlace, _flags: Flags) -> None:
    """Add nothing to a pod."""


def _no_objects(_job: VolcanoJob, _flags: Flags) -> list[PluginObject]:
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlugin:
    """What a plugin does. `add` fills a pod that nobody else has yet."""

    name: str
    flags: Flags  # with what they are where nobody says otherwise
    add: Callable[[Object, PodPlace, Flags], None] = _leave
    objects: Callable[[VolcanoJob, Flags], list[PluginObject]] = _no_objects
    is_told: bool = True  # whether the status of the job names it


def read_flags(plugin: JobPlugin, given: tuple[str, ...]) -> tuple[dict[str, str], str]:
    """The flags of a plugin, as Go reads them, and what is wrong with them.

    `--name=value`, `--name value` or `--name`, with one dash or two. As in Volcano a flag that nobody knows ends the
    list, and those before it hold.
    """
    found, words = dict(plugin.flags), iter(given)
    for word in words:
        name, has_value, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not name:
            break  # what follows is no flag
        if name not in found:
            close = nearest(name, sorted(found))
            hint = f"did you mean --{close}?" if close else f"known are {', '.join(sorted(found)) or 'none'}"
            return found, f"plugin {plugin.name} has no flag {shown(word)}: {hint}"
        is_switch = plugin.flags[name] in ("true", "false")
        if not has_value:
            value = "true" if is_switch else next(words, "")
        found[name] = value.lower() if is_switch else value
    return found, ""


def port_of(flags: Flags, name: str = "port") -> int:
    """The number of a port in a flag."""
    text = flags[name]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    if not 0 < number < 65536:
        raise InvalidObject("spec.plugins", f"has {name} {shown(text)}", "give a port from 1 to 65535")
    return number


def host(job: VolcanoJob, task: Task, index: int) -> str:
    """The name by which other pods reach a pod of a job."""
    name = task.pod_spec.get("hostname") or pod_name(job.name, task.name, index)
    return f"{name}.{task.pod_spec.get('subdomain') or job.name}"


def hosts(job: VolcanoJob, task: Task) -> list[str]:
    """The names of all pods of a task; those that share one name have one."""
    count = min(task.replicas, 1) if task.pod_spec.get("hostname") else task.replicas
    return [host(job, task, index) for index in range(count)]


def add_variables(container: Object, *variables: Object) -> None:
    """Set variables of a container that its author has not set."""
    known = {one.get("name") for one in container.get("env") or ()}
    more = [one for one in variables if one["name"] not in known]
    if more:
        container["env"] = [*(container.get("env") or ()), *more]


def add_port(container: Object, name: str, number: int) -> None:
    """Declare a port of a container, unless it is declared."""
    ports = container.get("ports") or []
    if not any(one.get("containerPort") == number for one in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": number}]
