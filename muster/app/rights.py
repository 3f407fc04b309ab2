"""What Muster may do on a real cluster: the smallest rights that its work needs. `tools.deploy` writes them down.

What is followed comes from the constants of the controllers and of the kinds of job; a new kind of job brings its
rights with it. What is written is a table here, of which only the rows count whose resource is followed. No rule has a
wildcard, and nothing that anybody else's secrets could be read with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from muster.apiserver.hooks.configurations import NAME, definition_names
from muster.app.config import Configuration, WebhookSettings
from muster.app.job_control import managed_kinds
from muster.controllers.cache import RESOURCES
from muster.controllers.jobs import resources as job_resources
from muster.dialects.kueue.kinds import KINDS
from muster.dialects.kueue.names import GROUP
from muster.dialects.volcano.definitions import KINDS as VOLCANO_KINDS
from muster.engine.contracts import JobKind
from muster.store.kinds import Object

Right = tuple[str, str]  # a resource as the store calls it, with a part behind a slash, and a verb
FOLLOW = ("get", "list", "watch")
# The lease that the replicas share: Kueue's, so that Kueue and Muster in one namespace do not both act.
LEASE = "c1f6bfd2.kueue.x-k8s.io"
_CHANGE = ("create", "delete", "deletecollection", "patch", "update")

# What is written by the scheduler and beside it, by the resource that has to be followed for it.
_WRITTEN: dict[str, dict[str, tuple[str, ...]]] = {
    f"workloads.{GROUP}": {
        f"workloads.{GROUP}": ("create", "update", "delete"),
        f"workloads/status.{GROUP}": ("update",),
    },
    f"clusterqueues.{GROUP}": {f"clusterqueues/status.{GROUP}": ("update",)},
    f"localqueues.{GROUP}": {f"localqueues/status.{GROUP}": ("update",)},
    # A pod is given its place by a binding, let go by its gates, and told of in its status why it waits.
    "pods": {"pods": ("update", "delete"), "pods/binding": ("create",), "pods/status": ("update",)},
    "persistentvolumeclaims": {"persistentvolumeclaims": ("update",)},  # which node a claim is for
    "namespaces": {"namespaces": ("update",)},  # which have a queue for jobs that name none
    "podgroups.scheduling.volcano.sh": {"podgroups.scheduling.volcano.sh": ("create", "update")},
    "queues.scheduling.volcano.sh": {"queues/status.scheduling.volcano.sh": ("update",)},
}


def cluster_rules() -> list[Object]:
    """The rules of the ClusterRole of `muster manage`."""
    kinds = managed_kinds(Configuration())
    followed = {*RESOURCES, *job_resources(kinds)}
    rights = {(resource, verb) for resource in followed for verb in FOLLOW}
    for resource in followed & _WRITTEN.keys():
        rights.update((part, verb) for part, verbs in _WRITTEN[resource].items() for verb in verbs)
    rights.update(right for kind in kinds for right in _of_jobs(kind))
    rights.update({("events", "create"), ("events", "update")})
    rights.add(("subjectaccessreviews.authorization.k8s.io", "create"))  # who may use a queue
    return [*_rules(rights), *_of_certificates()]


def _of_jobs(kind: JobKind) -> Iterator[Right]:
    """Starting and stopping a job is an update of it; one that cannot be stopped is deleted."""
    if not kind.written:
        return
    plural, _, group = kind.resource.partition(".")
    end = f".{group}" if group else ""
    yield from ((kind.resource, verb) for verb in ("get", *kind.written))
    if kind.writes_status:
        yield f"{plural}/status{end}", "update"  # what is left of its last run
    yield f"{plural}/finalizers{end}", "update"  # so that its workload can be its own


def _of_certificates() -> list[Object]:
    """Whoever asks the webhooks has to be told whom to trust; nobody else's configurations are touched."""
    touched = ("get", "update")
    return [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "resourceNames": [NAME],
            "verbs": list(touched),
        },
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "resourceNames": sorted(definition_names()),
            "verbs": list(touched),
        },
    ]


def own_rules() -> list[Object]:
    """The rules of the Role in Muster's own namespace: who leads, and the certificate of the webhooks."""
    secret = WebhookSettings().secret
    return [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [LEASE],
            "verbs": ["get", "update"],
        },
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get", "update"]},
    ]


def metrics_rules() -> list[Object]:
    """What is needed beside that where metrics are served: whoever reads them has to be known."""
    return _rules({("tokenreviews.authentication.k8s.io", "create")})


def administrator_rules() -> list[Object]:
    """What people need who set up queues and the like."""
    return _rules({(resource, verb) for resource in _dialect_resources() for verb in (*FOLLOW, *_CHANGE)})


def reader_rules() -> list[Object]:
    """What people need who want to see where their jobs stand."""
    return _rules({(resource, verb) for resource in _dialect_resources() for verb in FOLLOW})


def _dialect_resources() -> Iterator[str]:
    yield from (f"{kind.plural}.{GROUP}" for kind in KINDS.values())
    yield from (kind.name for kind in VOLCANO_KINDS)


def _rules(rights: Iterable[Right]) -> list[Object]:
    """Rights as rules: what has the same verbs in the same group is one rule."""
    verbs: dict[str, set[str]] = defaultdict(set)
    for resource, verb in rights:
        verbs[resource].add(verb)
    together: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for resource, allowed in verbs.items():
        plural, _, group = resource.partition(".")
        together[group, tuple(sorted(allowed))].append(plural)
    return [
        {"apiGroups": [group], "resources": sorted(resources), "verbs": list(allowed)}
        for (group, allowed), resources in sorted(together.items())
    ]
