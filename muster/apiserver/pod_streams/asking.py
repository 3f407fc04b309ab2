"""Which pod and which container a request for logs, a command or a port means. Called by the handlers of this package.

Whatever can be refused without asking a node is refused here, in Kubernetes' words.
"""

from __future__ import annotations

from muster.apiserver.api import Api
from muster.apiserver.requests import Request, Target
from muster.apiserver.statuses import Problem, bad_request, invalid
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.pod_streams import CommandOptions, LogOptions, Place
from muster.model.times import parse_moment
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.records import Key

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_MOST_COMMAND_BYTES = 128 * 1024
_PULLS = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def find_pod(api: Api, target: Target) -> Object:
    """The pod of a path, or 404."""
    return decode(api.store.store.get(target.key))


def container_of(pod: Object, asked: str) -> str:
    """The container that is meant; the only one need not be named."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [one["name"] for kind in _CONTAINERS for one in spec.get(kind) or ()]
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(spec["containers"]) > 1:
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
    return str(spec["containers"][0]["name"])


def place_of(api: Api, pod: Object, container: str = "") -> Place:
    """Where a pod is, or why it is nowhere."""
    metadata = pod["metadata"]
    node = pod["spec"].get("nodeName")
    if not node:
        raise bad_request(f"pod {metadata['name']} does not have a host assigned")
    try:
        api.store.store.get(Key("nodes", "", node))
    except NotFound:
        # Kubernetes, too, says "pods" of a node.
        raise NotFound(Key("pods", "", node)) from None
    uid = metadata.get("uid", "")
    return Place(node=node, namespace=metadata["namespace"], pod=metadata["name"], uid=uid, container=container)


def unreachable(reason: object) -> Problem:
    """What is answered in place of a node that cannot."""
    return Problem(500, "", f"error dialing backend: {reason}")


# Logs ----------------------------------------------------------------------------------------------------------------


def log_options(request: Request, pod_name: str, now_s: float) -> LogOptions:
    """What of a log is asked for."""
    problems = list(_log_problems(request))
    if problems:
        raise invalid(
            "PodLogOptions", "", pod_name, InvalidObjects(tuple(problems)) if len(problems) > 1 else problems[0]
        )
    since_s: float | None = None
    if "sinceSeconds" in request.query:
        since_s = now_s - request.number("sinceSeconds")
    elif text := request.option("sinceTime"):
        since_s = _moment(text)
    return LogOptions(
        is_followed=request.flag("follow"),
        is_previous=request.flag("previous"),
        has_timestamps=request.flag("timestamps"),
        tail_lines=request.number("tailLines") if "tailLines" in request.query else None,
        since_s=since_s,
    )


def _log_problems(request: Request) -> list[InvalidObject]:
    found = []
    if (lines := request.number("tailLines")) < 0:
        problem = f"Invalid value: {lines}: must be greater than or equal to 0"
        found.append(InvalidObject("tailLines", problem))
    found += _not_positive(request, "limitBytes")
    if "sinceSeconds" in request.query and request.option("sinceTime"):
        problem = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        found.append(InvalidObject("[]", problem))
    else:
        found += _not_positive(request, "sinceSeconds")
    if "stream" in request.query:
        found.append(InvalidObject("stream", "Forbidden: may not be specified"))
    return found


def _not_positive(request: Request, name: str) -> list[InvalidObject]:
    if name in request.query and (number := request.number(name)) < 1:
        return [InvalidObject(name, f"Invalid value: {number}: must be greater than 0")]
    return []


def _moment(text: str) -> float:
    try:
        return parse_moment(text, "sinceTime")
    except InvalidObject:
        shown = text[:100]
        message = f'parsing time "{shown}" as "2006-01-02T15:04:05Z07:00": cannot parse "{shown}" as "2006"'
        raise bad_request(message) from None


def check_log_is_there(pod: Object, container: str, *, is_previous: bool) -> None:
    """Refuse the log of a container that has not run yet, as a node of Kubernetes does."""
    what = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    statuses = pod.get("status") or {}
    status = next((one for kind in _STATUSES for one in statuses.get(kind) or () if one["name"] == container), None)
    if status is None:
        raise bad_request(f"{what} is not available")
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    if is_previous:
        if last is None:
            raise bad_request(f"previous terminated {what} not found")
    elif not ("running" in state or "terminated" in state or last is not None):
        reason = (state.get("waiting") or {}).get("reason")
        why = f": {_PULLS.get(reason, reason)}" if reason else " - no logs yet"
        raise bad_request(f"{what} is waiting to start{why}")


# Commands ------------------------------------------------------------------------------------------------------------


def command_options(request: Request, *, is_attached: bool) -> CommandOptions:
    """What is to run, and which of its ends the client wants."""
    command = () if is_attached else tuple(request.query.get("command", ()))
    if sum(len(one) + 1 for one in command) > _MOST_COMMAND_BYTES:
        raise bad_request(f"the command is longer than {_MOST_COMMAND_BYTES} bytes")
    if not is_attached and not any(command):
        raise bad_request("you must specify at least one command for the container")
    options = CommandOptions(
        command=command,
        has_stdin=request.flag("stdin"),
        has_stdout=request.flag("stdout"),
        has_stderr=request.flag("stderr") and not request.flag("tty"),
        has_terminal=request.flag("tty"),
    )
    if not (options.has_stdin or options.has_stdout or options.has_stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return options
