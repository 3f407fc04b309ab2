"""Groups as a session begins: their pods, divided into sub groups. Called by `muster/engine/session.py`."""

from __future__ import annotations

from collections.abc import Mapping

from muster.engine.standing import PodStanding, QueueStanding, Standing, SubStanding, count_pod, count_pods
from muster.model.groups import GroupPod, GroupSnapshot, PodStatus, SubGroupRule
from muster.model.labels import selects


def stand(snapshot: GroupSnapshot, queues: Mapping[str, QueueStanding]) -> dict[str, Standing]:
    """All groups whose queue is there, with their pods; pods without a group are nobody's."""
    groups = {key: Standing(group) for key, group in sorted(snapshot.groups.items()) if group.queue in queues}
    for group in groups.values():
        queues[group.queue].groups.append(group)
    for key in sorted(snapshot.pods):
        pod = snapshot.pods[key]
        owner = groups.get(pod.group)
        if owner is not None:
            standing = PodStanding(pod, owner, _sub_of(owner, pod))
            owner.pods[key] = standing
            standing.sub.pods[key] = standing
    for group in groups.values():
        _count(group, queues[group.queue])
    return groups


def _count(group: Standing, queue: QueueStanding) -> None:
    """Count the pods of a group; those that wait hold nothing, so they are counted together."""
    waiting: dict[tuple[str, str, bool], list[PodStanding]] = {}
    for pod in group.pods.values():
        if pod.status is PodStatus.PENDING:
            waiting.setdefault((pod.sub.key, pod.role, pod.is_best_effort), []).append(pod)
        else:
            count_pod(pod, queue, 1)
    for pods in waiting.values():
        count_pods(pods, queue, 1)


def _sub_of(owner: Standing, pod: GroupPod) -> SubStanding:
    """The sub group that a pod belongs to: of the first rule that takes it, else of those that no rule takes."""
    for rule in owner.group.sub_groups:
        if _takes(rule, pod):
            values = tuple(pod.labels[key] for key in rule.label_keys)
            key = f"{owner.key}/{rule.name}-{'-'.join(values)}"
            return _known_sub(owner, key, rule, values)
    return _known_sub(owner, owner.key, None, ())


def _known_sub(owner: Standing, key: str, rule: SubGroupRule | None, values: tuple[str, ...]) -> SubStanding:
    known = owner.subs.get(key)
    if known is None:
        known = owner.subs[key] = SubStanding(key, owner, rule, values)
    return known


def _takes(rule: SubGroupRule, pod: GroupPod) -> bool:
    if not rule.label_keys or any(key not in pod.labels for key in rule.label_keys):
        return False
    return rule.selector is None or selects(rule.selector, pod.labels)
