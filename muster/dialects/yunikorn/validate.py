"""Checks of a queue configuration, by YuniKorn's rules. Called by whoever is given one, before anything is made of it.

A configuration is accepted as a whole or refused; what is wrong is said of every part that is, with its path. Each
check walks the tree once, whatever the configuration holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import re2  # type: ignore[import-untyped]

from muster.dialects.yunikorn.amounts import is_within, least_of, parse_amounts
from muster.dialects.yunikorn.configuration import (
    BINPACKING,
    DEFAULT_PARTITION,
    ROOT,
    Filter,
    Partition,
    PlacementRule,
    QueueConfiguration,
    QueueSettings,
    configuration_of,
    parse_configuration,
)
from muster.dialects.yunikorn.validate_limits import limit_problems, limit_tree_problems
from muster.dialects.yunikorn.validate_names import (
    EXPRESSION_SIGNS,
    GROUP_NAME,
    QUEUE_NAME,
    QUEUE_NAME_HINT,
    RULE_NAME,
    USER_NAME,
)
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import shown
from muster.model.resources import sum_amounts

NODE_SORTS = ("", "fair", BINPACKING)
FILTER_KINDS = ("", "allow", "deny")
FIXED = "fixed"
PROBLEMS_MOST = 50  # told of one configuration

Amounts = dict[str, int]


def read_configuration(text: str | bytes, source: str) -> QueueConfiguration:
    """The configuration that a text holds, checked and in its normal form: every partition has a name and one root."""
    return _checked(parse_configuration(text, source))


def read_plain_configuration(value: object) -> QueueConfiguration:
    """The same of a document that was read already."""
    return _checked(configuration_of(value))


def _checked(configuration: QueueConfiguration) -> QueueConfiguration:
    partitions = tuple(map(_with_root, configuration.partitions))
    problems: list[InvalidObject] = []
    seen: set[str] = set()
    for index, partition in enumerate(partitions):
        path = f"partitions[{index}]"
        if partition.name.lower() in seen:
            problems.append(InvalidObject(f"{path}.name", f"is {shown(partition.name)} again", "name each once"))
        seen.add(partition.name.lower())
        problems += _partition_problems(partition, path)
    if problems:
        raise InvalidObjects(tuple(problems[:PROBLEMS_MOST]))
    return configuration.with_partitions(partitions)


# Partitions ----------------------------------------------------------------------------------------------------------


def _with_root(partition: Partition) -> Partition:
    """The partition with its name and a root at the top, whose limits are the partition's own."""
    name = DEFAULT_PARTITION if partition.name.lower() in ("", DEFAULT_PARTITION) else partition.name
    if partition.queues is None:
        return replace(partition, name=name)
    tops = partition.queues
    if len(tops) == 1 and tops[0].name.lower() == ROOT:
        root = replace(tops[0], is_parent=True)
    else:
        root = QueueSettings(name=ROOT, is_parent=True, queues=tops)
    if not root.limits:
        root = replace(root, limits=partition.limits)
    return replace(partition, name=name, queues=(root,))


def _partition_problems(partition: Partition, path: str) -> Iterator[InvalidObject]:
    if partition.queues is None:
        yield InvalidObject(f"{path}.queues", "is missing", "give at least an empty list")
        return
    root = partition.root
    at = f"{path}.queues[0]"
    if root.resources.guaranteed is not None or root.resources.most is not None:
        yield InvalidObject(f"{at}.resources", "is given for the root", "the root has all that the nodes have")
    yield from _queue_problems(root, at)
    yield from _amount_problems(root, at)
    yield from _application_problems(root, at)
    if partition.limits and partition.limits != root.limits:
        hint = "give them in one place, or alike in both"
        yield InvalidObject(f"{path}.limits", "are not the limits of the root queue", hint)
    yield from limit_problems(partition.limits, root, f"{path}.limits")
    yield from limit_tree_problems(root, at)
    yield from _rule_problems(partition, f"{path}.placementrules")
    if partition.node_sort.kind not in NODE_SORTS:
        hint = "give fair or binpacking"
        yield InvalidObject(f"{path}.nodesortpolicy.type", f"is {shown(partition.node_sort.kind)}", hint)
    for name, weight in (partition.node_sort.weights or {}).items():
        if weight < 0:
            where = f"{path}.nodesortpolicy.resourceweights.{name}"
            yield InvalidObject(where, f"is {weight}", "give 0 or more")


# Queues --------------------------------------------------------------------------------------------------------------


def _queue_problems(queue: QueueSettings, path: str) -> Iterator[InvalidObject]:
    """What is wrong with names, with who may do what, and with limits as each queue gives them."""
    for name, entries in (("adminacl", queue.admins), ("submitacl", queue.submitters)):
        if len(entries.split()) > 2:
            yield InvalidObject(f"{path}.{name}", f"is {shown(entries)}", "give users, one space, and groups")
    yield from limit_problems(queue.limits, queue, f"{path}.limits")
    seen: set[str] = set()
    for index, child in enumerate(queue.children):
        at = f"{path}.queues[{index}]"
        if not QUEUE_NAME.fullmatch(child.name):
            yield InvalidObject(f"{at}.name", f"is {shown(child.name)}", QUEUE_NAME_HINT)
        if child.name.lower() in seen:
            yield InvalidObject(f"{at}.name", f"is {shown(child.name)} again", "name each queue of a parent once")
        seen.add(child.name.lower())
        yield from _queue_problems(child, at)


def _amount_problems(root: QueueSettings, path: str) -> list[InvalidObject]:
    """What is wrong with guarantees and maximums, down the tree."""
    problems: list[InvalidObject] = []

    def check(queue: QueueSettings, at: str, most_above: Amounts) -> Amounts:
        """What the queue and those below are guaranteed together."""
        try:
            guaranteed = parse_amounts(queue.resources.guaranteed, f"{at}.resources.guaranteed")
            most = parse_amounts(queue.resources.most, f"{at}.resources.max")
        except InvalidObject as problem:
            problems.append(problem)
            guaranteed = most = {}
        if not is_within(guaranteed, most):
            problems.append(InvalidObject(f"{at}.resources.guaranteed", "is above max", "give less"))
        if not is_within(most, most_above):
            problems.append(InvalidObject(f"{at}.resources.max", "is above the max of a queue above it", "give less"))
        most = least_of(most, most_above)
        below = sum_amounts([check(child, f"{at}.queues[{index}]", most) for index, child in enumerate(queue.children)])
        for name, limit in (("guaranteed", guaranteed), ("max", most)):
            if not is_within(below, limit):
                hint = "guarantee the queues below less, together"
                problems.append(InvalidObject(f"{at}.resources.{name}", "is less than the queues below have", hint))
        return guaranteed if any(guaranteed.values()) else below

    check(root, path, {})
    return problems


def _application_problems(queue: QueueSettings, path: str) -> Iterator[InvalidObject]:
    """A queue below one that limits applications limits them too, and not to more."""
    for index, child in enumerate(queue.children):
        at = f"{path}.queues[{index}]"
        most = queue.applications_most
        if most and not child.applications_most:
            hint = f"give a number up to {most}, as the queue above limits them"
            yield InvalidObject(f"{at}.maxapplications", "is 0 or missing", hint)
        elif most and child.applications_most > most:
            yield InvalidObject(f"{at}.maxapplications", f"is {child.applications_most}", f"give up to {most}")
        yield from _application_problems(child, at)


# Placement rules -----------------------------------------------------------------------------------------------------


def _rule_problems(partition: Partition, path: str) -> Iterator[InvalidObject]:
    for index, rule in enumerate(partition.rules):
        at = f"{path}[{index}]"
        wrong = list(_chain_problems(rule, at))
        yield from wrong
        if not wrong:
            yield from _path_problems(rule, partition.root, at)


def chain_of(rule: PlacementRule) -> tuple[PlacementRule, ...]:
    """A rule with those that give its parent queue, the widest first."""
    chain = [rule]
    while chain[-1].parent is not None:
        chain.append(chain[-1].parent)
    return tuple(reversed(chain))


def _chain_problems(rule: PlacementRule, path: str) -> Iterator[InvalidObject]:
    at = path
    for one in reversed(chain_of(rule)):
        if not RULE_NAME.fullmatch(one.name):
            yield InvalidObject(f"{at}.name", f"is {shown(one.name)}", "give letters, digits and _")
        yield from _filter_problems(one.filter, f"{at}.filter")
        at += ".parent"


def _filter_problems(chosen: Filter, path: str) -> Iterator[InvalidObject]:
    if chosen.kind.lower() not in FILTER_KINDS:
        yield InvalidObject(f"{path}.type", f"is {shown(chosen.kind)}", "give allow or deny")
    for what, names, pattern in (("users", chosen.users, USER_NAME), ("groups", chosen.groups, GROUP_NAME)):
        # Of several, what is no name is passed over; one by itself is a name or an expression.
        if len(names) == 1 and not pattern.fullmatch(names[0]) and not is_expression(names[0]):
            hint = "give a name, several names, or a regular expression"
            yield InvalidObject(f"{path}.{what}[0]", f"is {shown(names[0])}", hint)


def is_expression(text: str) -> bool:
    """Whether a text is a regular expression rather than a name."""
    return bool(EXPRESSION_SIGNS.search(text)) and compiled(text) is not None


def compiled(text: str) -> re.Pattern[str] | None:
    """A regular expression that takes no longer than the text is long; `None` where it is none."""
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: re.Pattern[str] = re2.compile(text, options)
    except re2.error:
        return None
    return pattern


def _path_problems(rule: PlacementRule, root: QueueSettings, path: str) -> Iterator[InvalidObject]:
    """Whether the part of a rule's queue that is known beforehand is there, or may be made."""
    names: list[str] = []
    is_dynamic = False
    for one in chain_of(rule):
        if one.name != FIXED:
            is_dynamic = True
            break
        if one.value.startswith(ROOT):
            if names:
                hint = "name a queue below the one that the parent rule gives"
                yield InvalidObject(f"{path}.value", f"is {shown(one.value)}", hint)
                return
            names = one.value.lower().split(".")
        else:
            names = [*(names or [ROOT]), *one.value.lower().split(".")]
    if names and (problem := _missing(names, root, may_create=rule.may_create, is_dynamic=is_dynamic)):
        yield InvalidObject(path, f"leads to {shown('.'.join(names))}, {problem}", "name a queue that can take it")


def _missing(names: list[str], root: QueueSettings, *, may_create: bool, is_dynamic: bool) -> str:
    """Why no application could be placed in a queue, or below it where more names follow; empty where it could."""
    above: QueueSettings | None = None
    level: tuple[QueueSettings, ...] = (root,)
    for name in names:
        if above is not None and not level and not above.is_parent:
            return f"and {above.name} is a leaf"
        found = next((queue for queue in level if queue.name == name), None)
        if found is None:
            return "" if may_create else "which does not exist and may not be created"
        above, level = found, found.children
    assert above is not None, "a path has at least one name"
    if above.is_parent is not is_dynamic:
        return "which is a leaf" if is_dynamic else "which is not a leaf"
    return ""
