"""Queues that cannot be meant: bounds below what they promise, and trees that promise more than they have.

Called where objects are taken in as a user wrote them. Each mistake names the queue, the field and what to change; a
queue with a mistake is left out, and all below it with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.dialects.volcano.names import ROOT_QUEUE
from muster.model.errors import InvalidObject
from muster.model.groups import Amounts, FairQueue
from muster.model.resources import amount_text, sum_amounts

DEPTH_MOST = 5
Fault = tuple[str, InvalidObject]  # a queue and what is wrong with it


def queue_faults(queues: Mapping[str, FairQueue]) -> list[Fault]:
    """All mistakes of some queues, the first of each queue."""
    found: dict[str, InvalidObject] = {}
    for name in sorted(queues):
        fault = next(_own_faults(queues[name]), None) or _place_fault(queues, name)
        if fault is not None:
            found[name] = fault
    below: dict[str, list[FairQueue]] = {}
    for name, queue in sorted(queues.items()):
        if queue.parent in queues and queue.parent not in (name, ROOT_QUEUE):
            below.setdefault(queue.parent, []).append(queue)
    for parent, children in sorted(below.items()):
        for child, fault in _sum_faults(queues[parent], children):
            found.setdefault(child, fault)
    return list(found.items())


def without_faults(queues: Mapping[str, FairQueue], faults: Iterable[Fault]) -> dict[str, FairQueue]:
    """The queues that have no mistake, and that are below none that has one."""
    bad = {name for name, _ in faults}
    kept: dict[str, FairQueue] = {}
    for name, queue in queues.items():
        path = _path(queues, name)
        if path is not None and not bad.intersection(path):
            kept[name] = queue
    return kept


def _own_faults(queue: FairQueue) -> Iterator[InvalidObject]:
    capability = queue.capability or {}
    for path, amounts in (("spec.deserved", queue.deserved), ("spec.guarantee.resource", queue.guarantee)):
        for resource, amount in sorted(amounts.items()):
            if resource in capability and amount > capability[resource]:
                yield _above(f"{path}[{resource}]", resource, amount, capability[resource], "its capability")
    for resource, amount in sorted(queue.guarantee.items()):
        if resource in queue.deserved and amount > queue.deserved[resource]:
            path = f"spec.guarantee.resource[{resource}]"
            yield _above(path, resource, amount, queue.deserved[resource], "what it deserves")


def _place_fault(queues: Mapping[str, FairQueue], name: str) -> InvalidObject | None:
    """What is wrong with where a queue stands in the tree."""
    parent = queues[name].parent
    if parent and parent != ROOT_QUEUE and parent not in queues:
        return InvalidObject("spec.parent", f"is {parent}, which is not there", "name a queue, or leave it out")
    path = _path(queues, name)
    if path is None:
        return InvalidObject("spec.parent", f"is {parent}, and the parents go round in a circle", "name another queue")
    if len(path) > DEPTH_MOST:
        return InvalidObject("spec.parent", f"puts it {len(path)} levels deep", f"give at most {DEPTH_MOST} levels")
    above = next((queues[one] for one in path[1:] if queues[one].capability), None)
    for resource, amount in sorted((queues[name].capability or {}).items()):
        most = (above.capability or {}).get(resource) if above is not None else None
        if most is not None and amount > most:
            where = f"the capability of {above.name}" if above is not None else ""
            return _above(f"spec.capability[{resource}]", resource, amount, most, where)
    return None


def _sum_faults(own: FairQueue, children: list[FairQueue]) -> Iterator[Fault]:
    """Children that are promised more together than their parent has; the last of them by name is named."""
    parent = own.name
    bounds: tuple[tuple[str, Amounts, list[Amounts]], ...] = (
        ("spec.deserved", own.deserved, [one.deserved for one in children]),
        ("spec.guarantee.resource", own.guarantee or own.capability or {}, [one.guarantee for one in children]),
    )
    for path, bound, parts in bounds:
        for resource, total in sorted(sum_amounts(parts).items()):
            if resource in bound and total > bound[resource]:
                given = _above(f"{path}[{resource}]", resource, total, bound[resource], f"what {parent} has")
                yield (
                    children[-1].name,
                    InvalidObject(given.path, f"makes the queues below {parent} have {given.problem[3:]}", given.hint),
                )


def _path(queues: Mapping[str, FairQueue], name: str) -> list[str] | None:
    """A queue and its ancestors below the root; `None` where they go round in a circle."""
    path: list[str] = []
    while name and name != ROOT_QUEUE and name in queues:
        if name in path:
            return None
        path.append(name)
        if len(path) > 2 * DEPTH_MOST:
            break  # too deep already, and refused for it
        name = queues[name].parent
    return path


def _above(path: str, resource: str, amount: int, most: int, what: str) -> InvalidObject:
    problem = f"is {amount_text(resource, amount)}, above {what}, {amount_text(resource, most)}"
    return InvalidObject(path, problem, "give less, or raise the other")
