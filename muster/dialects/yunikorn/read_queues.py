"""The queues of a partition as the model has them, and limits for users, groups and numbers of applications.

Called by `read` when all applications have their queues. A guarantee is a queue's own share, a maximum its limit, and
the root brings all that the nodes have. Guarantees that together are more than what is above them are cut, later ones
first: nobody can be promised more than there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.dialects.yunikorn.amounts import VCORE, Amounts, parse_amounts
from muster.dialects.yunikorn.applications import Application
from muster.dialects.yunikorn.configuration import Limit, Partition
from muster.dialects.yunikorn.queue_tree import (
    DELAYS_S,
    DISABLED,
    FENCE,
    PREEMPTION_POLICY,
    PRIORITY_OFFSET,
    PRIORITY_POLICY,
    QUOTA_DELAY,
    SORT_POLICY,
    SORT_PRIORITY,
    SORTS,
    QueueNode,
    QueueTree,
    delay_s,
    priority_offset,
)
from muster.dialects.yunikorn.quota_preemption import Cap
from muster.dialects.yunikorn.validate_names import EVERYBODY
from muster.model.durations import duration_ns
from muster.model.errors import InvalidObject
from muster.model.fields import shown
from muster.model.labels import Selector
from muster.model.queue import PreemptionPolicy, PreemptionRules, Queue, Quota, ResourceGroup, SharedLimit, Turns
from muster.model.resources import CPU, UNLIMITED, sum_amounts

PREFIX = "yunikorn/"  # so that no queue of another system is called the same
FLAVOR = "all nodes"  # what quota is counted in; no flavor of another system can be called so


def queue_name(node: QueueNode) -> str:
    """How the engine calls a queue."""
    return f"{PREFIX}{node.path}"


def counted(amounts: Amounts) -> dict[str, int]:
    """Amounts by the names that pods ask under; YuniKorn's `cpu` is a resource that nobody asks for."""
    return {CPU if name == VCORE else name: amount for name, amount in amounts.items() if name != CPU}


# Queues --------------------------------------------------------------------------------------------------------------


def model_queues(
    tree: QueueTree, partition: Partition, *, total: Mapping[str, int] | None, asked: Iterable[str]
) -> Iterator[Queue]:
    """All queues; `total` is what the nodes have, `None` where nobody knows, `asked` what pods and limits name."""
    nodes = list(tree.root.walk())
    resources = set(asked)
    for node in nodes:
        resources.update(counted(node.guaranteed), counted(node.most))
    shares = _Shares(tree, {name: UNLIMITED if total is None else total.get(name, 0) for name in resources})
    groups = (ResourceGroup(resources=tuple(sorted(resources)), flavors=(FLAVOR,)),)
    may_preempt = partition.preemption.is_on is not False
    for node in nodes:
        yield Queue(
            name=queue_name(node),
            title=node.path,
            is_leaf=node.is_leaf,
            parent=queue_name(node.parent) if node.parent is not None else None,
            quotas={(FLAVOR, name): quota for name, quota in shares.quotas(node).items()},
            groups=groups,
            preemption=_preemption(node, may_preempt=may_preempt),
            admits_namespaces=Selector(),
            turns=Turns(
                by_priority=node.properties.get(SORT_PRIORITY, "").lower() != DISABLED,
                priority_offset=priority_offset(node),
                is_priority_fence=node.properties.get(PRIORITY_POLICY, "").lower() == FENCE,
                number=node.number,
            ),
            shares_by_application=node.is_leaf and node.properties.get(SORT_POLICY, "").lower() == "fair",
        )


def caps_of(tree: QueueTree, partition: Partition) -> dict[str, Cap]:
    """The queues that evict what they hold above their maximum."""
    if not partition.preemption.is_quota_on:
        return {}
    return {
        queue_name(node): Cap(most=counted(node.most), guaranteed=counted(node.guaranteed), delay_s=delay)
        for node in tree.root.walk()
        if node.most and (delay := delay_s(node, QUOTA_DELAY)) > 0
    }


def _preemption(node: QueueNode, *, may_preempt: bool) -> PreemptionRules:
    policy = node.properties.get(PREEMPTION_POLICY, "").lower()
    return PreemptionRules(
        within_queue=PreemptionPolicy.UNSET,
        counts_shares_alone=True,
        reclaim=PreemptionPolicy.LOWER_OR_EQUAL_PRIORITY if may_preempt else PreemptionPolicy.NEVER,
        is_fence=policy == FENCE,
        is_spared=policy == DISABLED,
    )


class _Shares:
    """What every queue brings of each resource, so that a queue and those below it bring its guarantee."""

    def __init__(self, tree: QueueTree, total: Mapping[str, int]) -> None:
        self._got: dict[str, dict[str, int]] = {tree.root.path: dict(total)}
        self._wanted: dict[str, dict[str, int]] = {}
        nodes = list(tree.root.walk())
        for node in reversed(nodes):
            below = sum_amounts(self._wanted[child.path] for child in node.children.values())
            declared = {name: amount for name, amount in counted(node.guaranteed).items() if amount}
            self._wanted[node.path] = {**below, **declared}
        for node in nodes:
            self._hand_down(node)

    def _hand_down(self, node: QueueNode) -> None:
        """Give the queues below a node what they want, as far as it goes."""
        left = dict(self._got[node.path])
        for child in node.children.values():
            most = counted(child.most)
            got = self._got[child.path] = {}
            for name, wanted in self._wanted[child.path].items():
                got[name] = min(wanted, left.get(name, 0), most.get(name, UNLIMITED))
                left[name] = left.get(name, 0) - got[name]

    def quotas(self, node: QueueNode) -> dict[str, Quota]:
        """The quotas of one queue; without a maximum it may use all that is free above it."""
        got, most = self._got[node.path], counted(node.most)
        below = sum_amounts(self._got[child.path] for child in node.children.values())
        return {
            name: Quota(
                nominal=got.get(name, 0) - below.get(name, 0),
                borrowable=most[name] - got.get(name, 0) if name in most else UNLIMITED,
            )
            for name in (*got, *(name for name in most if name not in got))
        }


# Limits --------------------------------------------------------------------------------------------------------------


class LimitTable:
    """The limits of all queues by whom they are for, so that an application is not looked for in long lists."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[dict[str, Limit], dict[str, Limit]]] = {}

    def limits_of(self, application: Application, queue: QueueNode) -> Iterator[SharedLimit]:
        """Everything beside quota that limits an application in its queue: by number, by user, by group."""
        for node in queue.ancestors():
            if node.applications_most:
                yield SharedLimit(
                    name=f"{node.path} applications",
                    title=f"the applications in {node.path}",
                    applications_most=node.applications_most,
                )
            users, groups = self._of(node)
            user = application.user
            if limit := users.get(user) or users.get(EVERYBODY):
                # What is allowed to everybody is allowed to each.
                yield _shared(limit, f"{node.path} user {user}", f"the pods of user {user} in {node.path}")
            name = next((one for one in application.user_groups if one in groups), EVERYBODY)
            if application.user_groups and name in groups:
                title = "all other groups" if name == EVERYBODY else f"group {name}"
                yield _shared(groups[name], f"{node.path} group {name}", f"the pods of {title} in {node.path}")

    def _of(self, node: QueueNode) -> tuple[dict[str, Limit], dict[str, Limit]]:
        if node.path not in self._known:
            users = {name: limit for limit in node.limits for name in limit.users}
            groups = {name: limit for limit in node.limits for name in limit.groups}
            self._known[node.path] = users, groups
        return self._known[node.path]


def _shared(limit: Limit, name: str, title: str) -> SharedLimit:
    return SharedLimit(
        name=name,
        title=title[:200],
        most=counted(parse_amounts(limit.most, "maxresources")),
        applications_most=limit.applications_most or None,
    )


# Doubts --------------------------------------------------------------------------------------------------------------


def property_doubts(tree: QueueTree) -> Iterator[InvalidObject]:
    """Properties and amounts that are accepted and have no meaning."""
    choices = {
        SORT_POLICY: SORTS,
        SORT_PRIORITY: ("enabled", DISABLED),
        PRIORITY_POLICY: ("default", FENCE),
        PREEMPTION_POLICY: ("default", FENCE, DISABLED),
    }
    for node in tree.root.walk():
        if node.is_made:
            continue
        for name, known in choices.items():
            value = node.properties.get(name, known[0])
            if value.lower() not in known:
                hint = f"known are {', '.join(known)}"
                yield InvalidObject(f"{node.path}: {name}", f"is {shown(value)} and counts as not given", hint)
        for name in DELAYS_S:
            if name in node.properties:
                try:
                    duration_ns(node.properties[name], f"{node.path}: {name}")
                except InvalidObject as problem:
                    yield problem
        offset = node.properties.get(PRIORITY_OFFSET, "0")
        if offset != "0" and not priority_offset(node):
            yield InvalidObject(f"{node.path}: {PRIORITY_OFFSET}", f"is {shown(offset)}", "give a number of 32 bits")
        if CPU in (*node.guaranteed, *node.most):
            yield InvalidObject(f"{node.path}: resources", "names cpu, which nothing counts", f"give {VCORE}")
