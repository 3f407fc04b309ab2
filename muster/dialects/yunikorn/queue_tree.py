"""The queues of a partition as a tree, with those that placement rules make while applications come in.

Called by `placement_rules` to look queues up and to make them, and by `read_queues`, which turns the tree into the
model's queues. A queue that is made gets what the nearest child template above it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.dialects.yunikorn.amounts import Amounts, parse_amounts
from muster.dialects.yunikorn.configuration import ROOT, ChildTemplate, Limit, Partition, QueueSettings
from muster.dialects.yunikorn.validate_names import QUEUE_NAME, QUEUE_NAME_HINT
from muster.model.durations import NANOSECONDS, duration_ns
from muster.model.errors import InvalidObject
from muster.model.fields import INT32_MAX

SORT_POLICY = "application.sort.policy"
SORT_PRIORITY = "application.sort.priority"
PRIORITY_POLICY = "priority.policy"
PRIORITY_OFFSET = "priority.offset"
PREEMPTION_POLICY = "preemption.policy"
PREEMPTION_DELAY = "preemption.delay"
QUOTA_DELAY = "quota.preemption.delay"
DELAYS_S = {PREEMPTION_DELAY: 30.0, QUOTA_DELAY: 0.0}  # where they are not given
FENCE = "fence"
DISABLED = "disabled"
SORTS = ("fifo", "fair", "stateaware")

DEPTH_MOST = 50  # of a path that a rule makes: a configuration cannot nest deeper either


@dataclass(frozen=True, slots=True)
class People:
    """Users and groups; `*` among them is everybody."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @staticmethod
    def read(entries: str) -> People:
        """Users, a space, and groups, each with commas between them."""
        users, _, groups = entries.partition(" ")
        return People(frozenset(users.split(",")) - {""}, frozenset(groups.strip().split(",")) - {""})

    def has(self, user: str, groups: tuple[str, ...]) -> bool:
        is_for_all = "*" in self.users or "*" in self.groups
        return is_for_all or user in self.users or any(group in self.groups for group in groups)


@dataclass(slots=True, kw_only=True)
class QueueNode:
    """One queue of the tree; what is said of it may come from a template."""

    path: str
    parent: QueueNode | None
    is_leaf: bool
    number: int  # its place among all queues, as they are written down or made
    guaranteed: Amounts = field(default_factory=dict)
    most: Amounts = field(default_factory=dict)
    applications_most: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    admins: People = People()
    submitters: People = People()
    template: ChildTemplate = field(default_factory=ChildTemplate)
    limits: tuple[Limit, ...] = ()
    is_made: bool = False  # by a placement rule
    children: dict[str, QueueNode] = field(default_factory=dict)

    def walk(self) -> Iterator[QueueNode]:
        """The queue and all below it, each after its parent."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))

    def ancestors(self) -> Iterator[QueueNode]:
        """The queue and those above it, up to the root."""
        node: QueueNode | None = self
        while node is not None:
            yield node
            node = node.parent

    def lets_submit(self, user: str, groups: tuple[str, ...]) -> bool:
        """Whether somebody may submit here: by the queue's own lists or those of any queue above."""
        return any(one.has(user, groups) for node in self.ancestors() for one in (node.submitters, node.admins))


class QueueTree:
    """All queues of a partition. Names are told apart without regard to case."""

    def __init__(self, partition: Partition) -> None:
        self._count = 0
        self.root = self._configured(partition.root, None)

    def __getitem__(self, path: str) -> QueueNode:
        found = self.find(path)
        assert found is not None, f"{path} was looked up before"
        return found

    def find(self, path: str) -> QueueNode | None:
        """The queue at a full path."""
        node, names = self._deepest(path)
        return None if names else node

    def nearest(self, path: str) -> QueueNode:
        """The deepest queue on a full path that exists."""
        return self._deepest(path)[0]

    def make(self, path: str) -> QueueNode:
        """The queue at a full path, made with all that is missing above it; the deepest there is must not be a leaf."""
        node, names = self._deepest(path)
        assert not node.is_leaf or not names, f"{node.path} is a leaf"
        if path.count(".") >= DEPTH_MOST:
            raise InvalidObject("", f"leads to a queue {path.count('.')} levels deep", f"{DEPTH_MOST} is the most")
        for index, name in enumerate(names):
            if not QUEUE_NAME.fullmatch(name):
                raise InvalidObject("", f"leads to a queue called {name[:80]!r}", QUEUE_NAME_HINT)
            node = self._made(name, node, is_leaf=index == len(names) - 1)
        return node

    def _deepest(self, path: str) -> tuple[QueueNode, list[str]]:
        """The deepest queue on a path that exists, and the names that are missing below it."""
        first, *names = path.lower().split(".", DEPTH_MOST + 1)
        assert first == ROOT, f"{path[:80]} does not begin at the root"
        node = self.root
        for index, name in enumerate(names):
            if name not in node.children:
                return node, names[index:]
            node = node.children[name]
        return node, []

    def _configured(self, settings: QueueSettings, parent: QueueNode | None) -> QueueNode:
        name = settings.name.lower()
        has_template = settings.template != ChildTemplate()
        node = QueueNode(
            path=f"{parent.path}.{name}" if parent is not None else ROOT,
            parent=parent,
            is_leaf=settings.is_leaf,
            number=self._count,
            guaranteed=parse_amounts(settings.resources.guaranteed, "guaranteed"),
            most=parse_amounts(settings.resources.most, "max"),
            applications_most=settings.applications_most,
            properties=_merged(parent, settings.properties),
            admins=People.read(settings.admins),
            submitters=People.read(settings.submitters),
            template=settings.template if has_template or parent is None else parent.template,
            limits=settings.limits,
        )
        self._count += 1
        for child in settings.children:
            node.children[child.name.lower()] = self._configured(child, node)
        return node

    def _made(self, name: str, parent: QueueNode, *, is_leaf: bool) -> QueueNode:
        template = parent.template if is_leaf else ChildTemplate()
        node = QueueNode(
            path=f"{parent.path}.{name}",
            parent=parent,
            is_leaf=is_leaf,
            number=self._count,
            guaranteed=_template_amounts(template.resources.guaranteed),
            most=_template_amounts(template.resources.most),
            applications_most=template.applications_most,
            properties=_merged(parent, template.properties),
            template=parent.template,
            is_made=True,
        )
        self._count += 1
        parent.children[name] = node
        return node


def _template_amounts(texts: Mapping[str, str] | None) -> Amounts:
    """A template's amounts; one that cannot be read counts as not given, as the configuration was accepted with it."""
    try:
        return parse_amounts(texts, "childtemplate")
    except InvalidObject:
        return {}


def _merged(parent: QueueNode | None, own: Mapping[str, str] | None) -> dict[str, str]:
    """A queue's properties: its own, and its parent's but for those that are about the parent alone."""
    inherited = dict(parent.properties) if parent is not None else {}
    for name in (PRIORITY_POLICY, PRIORITY_OFFSET):
        inherited.pop(name, None)
    # That nobody leaves goes for all below; a fence stands where it is set.
    if inherited.get(PREEMPTION_POLICY, "").lower() != DISABLED:
        inherited.pop(PREEMPTION_POLICY, None)
    return {**inherited, **(own or {})}


def delay_s(node: QueueNode, name: str) -> float:
    """How long a property has something wait; what is no duration, or below zero, counts as not given."""
    try:
        given_ns = duration_ns(node.properties.get(name, ""), name)
    except InvalidObject:
        return DELAYS_S[name]
    return given_ns / NANOSECONDS if given_ns > 0 else DELAYS_S[name]


def priority_offset(node: QueueNode) -> int:
    """What a queue adds to the priority of those in it; what is no number adds nothing."""
    try:
        offset = int(node.properties.get(PRIORITY_OFFSET, "0")[:20])
    except ValueError:
        return 0
    return offset if -INT32_MAX - 1 <= offset <= INT32_MAX else 0
