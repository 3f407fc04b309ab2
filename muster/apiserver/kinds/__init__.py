"""The built-in kinds and the dialects' own: their defaults, and the rules that their objects obey.

`BUILTIN["jobs.batch"]` is what the store has to know of jobs. One file for each family; a kind that has no rules of its
own is still read into its type, so that nothing is kept that its type does not have. Used by `app`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.apiserver.facts import KINDS, Kind
from muster.apiserver.kinds import (
    access,
    autoscaling,
    cluster,
    configs,
    devices,
    extensions,
    flow_control,
    jobs,
    networks,
    pods,
    policies,
    quotas,
    services,
    storage,
    storage_drivers,
    webhooks,
    workloads,
)
from muster.apiserver.kinds.base import kind_rules, resource_of
from muster.apiserver.kinds.kueue import KUEUE
from muster.store.kinds import KindRules

_FAMILIES = (
    pods, jobs, workloads, services, configs, cluster, storage, quotas, autoscaling, access, networks, storage_drivers,
    devices, flow_control, policies, extensions, webhooks,
)  # fmt: skip
_ELSEWHERE = frozenset({"events.events.k8s.io"})  # a view of another resource


def _all_rules() -> Iterator[tuple[str, KindRules]]:
    own = {rules.resource: rules for family in _FAMILIES for rules in family.KINDS}
    yield from own.items()
    for names, kind in KINDS.items():
        resource = resource_of(kind)
        if _is_kept(kind) and resource not in own and resource not in _ELSEWHERE:
            yield resource, kind_rules(names)


def _is_kept(kind: Kind) -> bool:
    """Whether objects of a kind can be asked for again: reviews and bindings are only ever sent."""
    return "create" in kind.verbs and "get" in kind.verbs


BUILTIN: Mapping[str, KindRules] = dict(_all_rules())
ALL: Mapping[str, KindRules] = {**BUILTIN, **KUEUE}
