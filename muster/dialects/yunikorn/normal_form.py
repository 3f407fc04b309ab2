"""A checked queue configuration as plain values again, in YuniKorn's own form. Called by the conformance tests.

What is empty is left out, but for names, the title of a limit and the type of a filter or a sort that says more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.dialects.yunikorn.configuration import (
    Limit,
    NodeSort,
    Partition,
    PlacementRule,
    Preemption,
    QueueConfiguration,
    QueueSettings,
    Resources,
)

Plain = dict[str, Any]


def normal_form(configuration: QueueConfiguration) -> Plain:
    """The configuration with its roots, as YuniKorn would write it."""
    return _without_empty(
        {
            "partitions": [_partition(one) for one in configuration.partitions],
            "checksum": configuration.checksum,
        },
        keeps=("partitions",),
    )


def _partition(partition: Partition) -> Plain:
    return _without_empty(
        {
            "name": partition.name,
            "queues": [_queue(one) for one in partition.queues or ()],
            "placementrules": [_rule(one) for one in partition.rules],
            "limits": [_limit(one) for one in partition.limits],
            "preemption": _preemption(partition.preemption),
            "nodesortpolicy": _node_sort(partition.node_sort),
            "usergroupresolver": _without_empty({"type": partition.group_resolver}),
        },
        keeps=("name", "queues"),
    )


def _queue(queue: QueueSettings) -> Plain:
    template = queue.template
    return _without_empty(
        {
            "name": queue.name,
            "parent": queue.is_parent,
            "resources": _resources(queue.resources),
            "maxapplications": queue.applications_most,
            "properties": dict(queue.properties or {}),
            "adminacl": queue.admins,
            "submitacl": queue.submitters,
            "childtemplate": _without_empty(
                {
                    "maxapplications": template.applications_most,
                    "properties": dict(template.properties or {}),
                    "resources": _resources(template.resources),
                }
            ),
            "queues": [_queue(one) for one in queue.children],
            "limits": [_limit(one) for one in queue.limits],
        },
        keeps=("name",),
    )


def _resources(resources: Resources) -> Plain:
    return _without_empty({"guaranteed": dict(resources.guaranteed or {}), "max": dict(resources.most or {})})


def _limit(limit: Limit) -> Plain:
    return _without_empty(
        {
            "limit": limit.title,
            "users": list(limit.users),
            "groups": list(limit.groups),
            "maxresources": dict(limit.most or {}),
            "maxapplications": limit.applications_most,
        },
        keeps=("limit",),
    )


def _rule(rule: PlacementRule) -> Plain:
    chosen = {"type": rule.filter.kind, "users": list(rule.filter.users), "groups": list(rule.filter.groups)}
    return _without_empty(
        {
            "name": rule.name,
            "create": rule.may_create,
            "filter": _without_empty(chosen, keeps=("type",)) if any(chosen.values()) else {},
            "parent": _rule(rule.parent) if rule.parent is not None else {},
            "value": rule.value,
        },
        keeps=("name",),
    )


def _preemption(preemption: Preemption) -> Plain:
    flags = {"enabled": preemption.is_on, "quotapreemptionenabled": preemption.is_quota_on}
    return {name: value for name, value in flags.items() if value is not None}


def _node_sort(node_sort: NodeSort) -> Plain:
    values = {"type": node_sort.kind, "resourceweights": dict(node_sort.weights or {})}
    return _without_empty(values, keeps=("type",)) if any(values.values()) else {}


def _without_empty(values: Mapping[str, Any], keeps: tuple[str, ...] = ()) -> Plain:
    return {name: value for name, value in values.items() if value or name in keeps}
