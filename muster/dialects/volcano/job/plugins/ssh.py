"""ssh: pods of a job log in to each other without a password. Volcano's plugin of that name."""

from __future__ import annotations

from base64 import b64encode

from muster.dialects.volcano.job.plugins.contract import (
    Flags,
    JobPlugin,
    Keys,
    Object,
    PluginObject,
    hosts,
    port_of,
)
from muster.dialects.volcano.job.plugins.svc import object_of
from muster.dialects.volcano.job.pods import PodPlace, containers_of
from muster.dialects.volcano.job.spec import VolcanoJob

_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_USER = "root"  # whom containers run as where nobody says otherwise
HOME = f"/{_USER}/.ssh"


def secret_name(job: VolcanoJob) -> str:
    """The Secret with the keys of a job."""
    return f"{job.name}-ssh"


def _objects(job: VolcanoJob, flags: Flags) -> list[PluginObject]:
    given = Keys(flags["ssh-private-key"], flags["ssh-public-key"])
    has_keys = bool(given.private and given.public)
    hosts_text = _configuration(job, port_of(flags, "ssh-port"))

    def secret(keys: Keys) -> Object:
        texts = (keys.private, keys.public, keys.public, hosts_text)
        data = {name: b64encode(text.encode()).decode() for name, text in zip(_FILES, texts, strict=True)}
        return {**object_of(job, "v1", "Secret", secret_name(job)), "data": data}

    # The keys of running pods must not change under them, so it stays as it is.
    return [PluginObject("secrets", secret(given), is_kept=True, with_keys=None if has_keys else secret)]


def _configuration(job: VolcanoJob, port: int) -> str:
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.tasks:
        for name in hosts(job, task):
            lines += [f"Host {name.partition('.')[0]}", f"  HostName {name}", f"  Port {port}"]
    return "\n".join(lines) + "\n"


def _add(pod: Object, place: PodPlace, flags: Flags) -> None:
    name, path = secret_name(place.job), flags["ssh-key-file-path"]
    source = {
        "secretName": name,
        "items": [{"key": file, "path": f".ssh/{file}"} for file in _FILES],
        "defaultMode": 0o600 if path == HOME else 0o644,
    }
    pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), {"name": name, "secret": source}]
    mount = {"name": name, "mountPath": path, "subPath": ".ssh"}
    for container in containers_of(pod):
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


PLUGIN = JobPlugin(
    name="ssh",
    flags={"ssh-key-file-path": HOME, "ssh-private-key": "", "ssh-public-key": "", "ssh-port": "22"},
    add=_add,
    objects=_objects,
)
