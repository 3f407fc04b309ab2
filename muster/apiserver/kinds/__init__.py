"""The built-in kinds and the dialects' own: their defaults, and the rules that their objects obey.

`BUILTIN["jobs.batch"]` is what the store has to know of jobs. One file for each family; a kind that has no rules of its
own is still read into its type, so that nothing is kept that its type does not have. Used by `app`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.apiserver.facts import KINDS, Kind
from muster.apiserver.kinds import (
    access,
    autoscaling,
    cluster,
    configs,
    jobs,
    pods,
    quotas,
    services,
    storage,
    webhooks,
    workloads,
)
from muster.apiserver.kinds.base import kind_rules, resource_of
from muster.apiserver.kinds.kueue import KUEUE
from muster.store.kinds import KindRules

_FAMILIES = (pods, jobs, workloads, services, configs, cluster, storage, quotas, autoscaling, access, webhooks)
_ELSEWHERE = frozenset({"events.events.k8s.io"})  # a view of another resource
_WITHOUT_GENERATION = frozenset(
    {
        "certificatesigningrequests.certificates.k8s.io",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "ipaddresses.networking.k8s.io",
        "volumeattachments.storage.k8s.io",
    }
)
# A write to the status of these leaves their metadata alone, as it does to kinds that are defined by objects.
_STATUS_ALONE = frozenset(
    {
        "apiservices.apiregistration.k8s.io",
        "flowschemas.flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        "resourceclaims.resource.k8s.io",
        "servicecidrs.networking.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "volumeattachments.storage.k8s.io",
    }
)


def _all_rules() -> Iterator[tuple[str, KindRules]]:
    own = {rules.resource: rules for family in _FAMILIES for rules in family.KINDS}
    yield from own.items()
    for names, kind in KINDS.items():
        resource = resource_of(kind)
        if _is_kept(kind) and resource not in own and resource not in _ELSEWHERE:
            settings: dict[str, Any] = {"has_generation": resource not in _WITHOUT_GENERATION}
            if resource in _STATUS_ALONE:
                settings["status_metadata"] = ()
            yield resource, kind_rules(names, **settings)


def _is_kept(kind: Kind) -> bool:
    """Whether objects of a kind can be asked for again: reviews and bindings are only ever sent."""
    return "create" in kind.verbs and "get" in kind.verbs


BUILTIN: Mapping[str, KindRules] = dict(_all_rules())
ALL: Mapping[str, KindRules] = {**BUILTIN, **KUEUE}
