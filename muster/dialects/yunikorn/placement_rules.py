"""Placement rules: which queue an application goes to. Called while applications are read, before anything is decided.

Rules are tried in order; the first that leads to a queue which takes the application decides. One that leads nowhere,
to a queue that is no leaf or to one that does not let the user submit is passed over. After the last, `root.default`
takes whoever may submit there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from re import Pattern

from muster.dialects.yunikorn.configuration import ROOT, Partition, PlacementRule
from muster.dialects.yunikorn.names import NOBODY
from muster.dialects.yunikorn.queue_tree import QueueNode, QueueTree
from muster.dialects.yunikorn.validate import compiled
from muster.dialects.yunikorn.validate_names import EXPRESSION_SIGNS, GROUP_NAME, USER_NAME
from muster.model.errors import InvalidObject

DOT = "_dot_"  # what stands for a dot in the name of a queue
FALLBACK = f"{ROOT}.default"
DENY = "deny"
KNOWN_RULES = ("provided", "user", "fixed", "tag", "recovery")
# Where a partition has no rules, an application goes where it says, if that is there.
NO_RULES = (PlacementRule(name="provided"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What placement rules look at."""

    queue: str = ""  # that the application names
    user: str = NOBODY
    groups: tuple[str, ...] = ()
    is_user_known: bool = False  # else lists of who may submit are not asked
    tags: Mapping[str, str] = field(default_factory=dict)  # names in lower case


class _Names:
    """Names of users or of groups that a filter holds: one by itself may be an expression for many."""

    def __init__(self, names: tuple[str, ...], pattern: Pattern[str]) -> None:
        is_expression = len(names) == 1 and bool(EXPRESSION_SIGNS.search(names[0]))
        self._expression = compiled(names[0]) if is_expression else None
        self._names = frozenset() if is_expression else frozenset(name for name in names if pattern.fullmatch(name))

    def has(self, name: str) -> bool:
        if self._expression is not None:
            return self._expression.search(name) is not None
        return name in self._names


class _Rule:
    """A placement rule made ready: what it looks for is read once, not for every application."""

    def __init__(self, rule: PlacementRule) -> None:
        self.kind = rule.name.lower()
        self.value = rule.value.lower()
        self.may_create = rule.may_create
        self.parent = _Rule(rule.parent) if rule.parent is not None else None
        self._is_deny = rule.filter.kind.lower() == DENY
        self._is_for_all = not rule.filter.users and not rule.filter.groups
        self._users = _Names(rule.filter.users, USER_NAME)
        self._groups = _Names(rule.filter.groups, GROUP_NAME)

    def is_for(self, submission: Submission) -> bool:
        """Whether the filter lets the rule apply to whoever submits."""
        if self._is_for_all:
            return not self._is_deny
        is_listed = self._users.has(submission.user) or any(map(self._groups.has, submission.groups))
        return is_listed is not self._is_deny

    def name_for(self, submission: Submission) -> str:
        """The name that the rule gives, before it is looked up."""
        if self.kind == "provided":
            return submission.queue
        if self.kind == "user":
            return submission.user.replace(".", DOT)  # also of one who is called as a path
        if self.kind == "fixed":
            return self.value
        if self.kind == "tag":
            return submission.tags.get(self.value, "")
        return ""


class Placement:
    """The rules of one partition at work on its queues."""

    def __init__(self, partition: Partition, tree: QueueTree) -> None:
        self.tree = tree
        self._rules = [_Rule(rule) for rule in partition.rules or NO_RULES]

    def queue_of(self, submission: Submission) -> QueueNode:
        """The leaf that an application goes to, made where a rule says so; `InvalidObject` where no rule has one."""
        passed: list[str] = []
        for rule in self._rules:
            path = self._path(rule, submission)
            if not path:
                passed.append(f"{rule.kind} names none that is there")
                continue
            try:
                return self._leaf(path, submission)
            except InvalidObject as problem:
                passed.append(f"{rule.kind} {problem.problem}")
        if self.tree.find(FALLBACK) is not None:
            try:
                return self._leaf(FALLBACK, submission)
            except InvalidObject as problem:
                passed.append(f"what is left {problem.problem}")
        hint = "name a queue of the configuration, or let a placement rule create it"
        raise InvalidObject("", f"no placement rule leads to a queue: {'; '.join(passed)}"[:1000], hint)

    def _leaf(self, path: str, submission: Submission) -> QueueNode:
        """The queue at a path if it takes the application."""
        nearest = self.tree.nearest(path)
        found = self.tree.find(path)
        if found is not None and not found.is_leaf:
            raise InvalidObject("", f"leads to {found.path}, which is not a leaf")
        if found is None and nearest.is_leaf:
            raise InvalidObject("", f"leads below {nearest.path}, which is a leaf")
        if submission.is_user_known and not nearest.lets_submit(submission.user, submission.groups):
            raise InvalidObject("", f"leads to {nearest.path}, which does not let {submission.user[:80]} submit")
        return found if found is not None else self.tree.make(path)

    def _path(self, rule: _Rule, submission: Submission) -> str:
        """The full path that a rule names; empty where it does not apply or the queue is not there."""
        name = rule.name_for(submission)
        if not name or not rule.is_for(submission):
            return ""
        path = name.lower()
        if not path.startswith(f"{ROOT}."):
            above = ROOT
            if rule.parent is not None:
                above = self._path(rule.parent, submission)
                parent = self.tree.find(above) if above else None
                if not above or (parent is not None and parent.is_leaf):
                    return ""
            # What a rule is told is one name; what it is configured with may be several.
            path = f"{above}.{path}" if rule.kind == "fixed" else f"{above}.{path.replace('.', DOT)}"
        return path if rule.may_create or self.tree.find(path) is not None else ""
