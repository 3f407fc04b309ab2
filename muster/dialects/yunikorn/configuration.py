"""The queue configuration as data, read from its YAML. Called by whoever is given one; `validate` checks what it says.

Fields are read as YuniKorn reads them: keys are lower case and none may be unknown, text may be written without
quotes (an amount of 010 is text), nothing at all stands for the empty value of its type, and of several documents the
first counts. An absent list of amounts is told from an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from muster.model.documents import PlainText, parse_texts
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.yaml_scalars import NotANumber, plain_scalar

ROOT = "root"
BINPACKING = "binpacking"  # a kind of node sort; the other is fair
DEFAULT_PARTITION = "default"
COUNT_MOST = 2**64 - 1

_NOTHING = frozenset(("", "~", "null", "Null", "NULL"))
_FLAGS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "True", "TRUE", "y", "Y", "yes", "on"), True),
    **dict.fromkeys(("false", "False", "FALSE", "n", "N", "no", "off"), False),
}
_FLAGS_OF_WORDS = frozenset(("y", "Y", "yes", "on", "n", "N", "no", "off"))  # also where they are in quotes

Texts = Mapping[str, str]
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a queue is guaranteed and what it may have at most; `None` where nothing is said."""

    guaranteed: Texts | None = None
    most: Texts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What each of some users, or some groups together, may have in a queue."""

    title: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    most: Texts | None = None
    applications_most: int = 0  # 0: not limited


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildTemplate:
    """What queues get that a placement rule makes below a queue."""

    applications_most: int = 0
    properties: Texts | None = None
    resources: Resources = Resources()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """One queue as it is configured, and those below it."""

    name: str = ""
    is_parent: bool = False
    resources: Resources = Resources()
    applications_most: int = 0  # 0: not limited
    properties: Texts | None = None
    admins: str = ""
    submitters: str = ""
    template: ChildTemplate = ChildTemplate()
    queues: tuple[QueueSettings, ...] | None = None
    limits: tuple[Limit, ...] = ()

    @property
    def children(self) -> tuple[QueueSettings, ...]:
        return self.queues or ()

    @property
    def is_leaf(self) -> bool:
        """Whether applications run in it."""
        return not self.is_parent and not self.queues


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """For whom a placement rule is; without users and groups for everybody."""

    kind: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRule:
    """One way to find the queue of an application."""

    name: str = ""
    may_create: bool = False
    filter: Filter = Filter()
    parent: PlacementRule | None = None
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSort:
    """Which nodes are filled first."""

    kind: str = ""
    weights: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """What may be preempted at all; `None` where nothing is said."""

    is_on: bool | None = None
    is_quota_on: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A part of the cluster with queues of its own. Pods of Kubernetes run in the partition `default`."""

    name: str = ""
    queues: tuple[QueueSettings, ...] | None = None
    rules: tuple[PlacementRule, ...] = ()
    limits: tuple[Limit, ...] = ()
    preemption: Preemption = Preemption()
    node_sort: NodeSort = NodeSort()
    group_resolver: str = ""

    @property
    def root(self) -> QueueSettings:
        """The one queue at the top; there is one when the configuration was checked."""
        assert self.queues is not None and len(self.queues) == 1, "a checked partition has one root"
        return self.queues[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfiguration:
    """All partitions."""

    partitions: tuple[Partition, ...] = ()
    checksum: str = ""

    def with_partitions(self, partitions: tuple[Partition, ...]) -> QueueConfiguration:
        return replace(self, partitions=partitions)


def parse_configuration(text: str | bytes, source: str) -> QueueConfiguration:
    """What a text says; an unknown key, a wrong type or broken YAML raises `InvalidObject`."""
    return configuration_of(parse_texts(text, source))


def configuration_of(value: object) -> QueueConfiguration:
    """What values say that were read from YAML, whether as texts or as what they mean."""
    top = _Node(Fields.of(_given(value), ""), ("partitions", "checksum"))
    partitions = tuple(map(_partition, top.parts("partitions", _PARTITION) or ()))
    return QueueConfiguration(partitions=partitions, checksum=top.text("checksum"))


# Parts ---------------------------------------------------------------------------------------------------------------

_PARTITION = (
    "name",
    "queues",
    "placementrules",
    "limits",
    "preemption",
    "nodesortpolicy",
    "usergroupresolver",
)
_QUEUE = (
    "name",
    "parent",
    "resources",
    "maxapplications",
    "properties",
    "adminacl",
    "submitacl",
    "childtemplate",
    "queues",
    "limits",
)
_RULE = ("name", "create", "filter", "parent", "value")
_LIMIT = ("limit", "users", "groups", "maxresources", "maxapplications")


def _partition(node: _Node) -> Partition:
    preemption = node.part("preemption", ("enabled", "quotapreemptionenabled"))
    node_sort = node.part("nodesortpolicy", ("type", "resourceweights"))
    return Partition(
        name=node.text("name"),
        queues=_several(node.parts("queues", _QUEUE), _queue),
        rules=_several(node.parts("placementrules", _RULE), _rule) or (),
        limits=_several(node.parts("limits", _LIMIT), _limit) or (),
        preemption=Preemption(is_on=preemption.flag("enabled"), is_quota_on=preemption.flag("quotapreemptionenabled")),
        node_sort=NodeSort(kind=node_sort.text("type"), weights=node_sort.numbers("resourceweights")),
        group_resolver=node.part("usergroupresolver", ("type",)).text("type"),
    )


def _queue(node: _Node) -> QueueSettings:
    template = node.part("childtemplate", ("maxapplications", "properties", "resources"))
    return QueueSettings(
        name=node.text("name"),
        is_parent=node.flag("parent") or False,
        resources=_resources(node),
        applications_most=node.count("maxapplications"),
        properties=node.texts("properties"),
        admins=node.text("adminacl"),
        submitters=node.text("submitacl"),
        template=ChildTemplate(
            applications_most=template.count("maxapplications"),
            properties=template.texts("properties"),
            resources=_resources(template),
        ),
        queues=_several(node.parts("queues", _QUEUE), _queue),
        limits=_several(node.parts("limits", _LIMIT), _limit) or (),
    )


def _resources(node: _Node) -> Resources:
    resources = node.part("resources", ("guaranteed", "max"))
    return Resources(guaranteed=resources.texts("guaranteed"), most=resources.texts("max"))


def _limit(node: _Node) -> Limit:
    return Limit(
        title=node.text("limit"),
        users=node.names("users"),
        groups=node.names("groups"),
        most=node.texts("maxresources"),
        applications_most=node.count("maxapplications"),
    )


def _rule(node: _Node) -> PlacementRule:
    chosen = node.part("filter", ("type", "users", "groups"))
    return PlacementRule(
        name=node.text("name"),
        may_create=node.flag("create") or False,
        filter=Filter(kind=chosen.text("type"), users=chosen.names("users"), groups=chosen.names("groups")),
        parent=_rule(node.part("parent", _RULE)) if node.has("parent") else None,
        value=node.text("value"),
    )


def _several(nodes: Iterator[_Node] | None, read: Callable[[_Node], Part]) -> tuple[Part, ...] | None:
    """The parts of a list, or `None` where there is no list."""
    return tuple(map(read, nodes)) if nodes is not None else None


# Values --------------------------------------------------------------------------------------------------------------


def _given(value: object) -> object:
    """A value, or nothing where it was written as nothing; a number or a flag as it would be written."""
    if isinstance(value, (bool, int, float)):
        return PlainText(str(value).lower())
    return None if isinstance(value, PlainText) and value in _NOTHING else value


@dataclass(frozen=True, slots=True)
class _Node:
    """An object of the configuration, none of whose keys is unknown."""

    fields: Fields
    known: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name in self.fields.values:
            if name not in self.known:
                raise self.fields.error(name[:60], "is not known", f"known are {', '.join(self.known)}")

    def raw(self, name: str) -> object:
        return _given(self.fields.raw(name))

    def has(self, name: str) -> bool:
        return self.raw(name) is not None

    def part(self, name: str, known: tuple[str, ...]) -> _Node:
        return _Node(Fields.of(self.raw(name), self.fields.at(name)), known)

    def parts(self, name: str, known: tuple[str, ...]) -> Iterator[_Node] | None:
        items = self._items(name)
        if items is None:
            return None
        at = self.fields.at(name)
        return (_Node(Fields.of(_given(item), f"{at}[{index}]"), known) for index, item in enumerate(items))

    def text(self, name: str) -> str:
        return _text(self.raw(name), self.fields.at(name))

    def names(self, name: str) -> tuple[str, ...]:
        at = self.fields.at(name)
        return tuple(_text(_given(item), f"{at}[{index}]") for index, item in enumerate(self._items(name) or ()))

    def texts(self, name: str) -> dict[str, str] | None:
        if not self.has(name):
            return None
        part = Fields.of(self.raw(name), self.fields.at(name))
        return {key: _text(_given(value), part.at(key)) for key, value in part.values.items()}

    def numbers(self, name: str) -> dict[str, float] | None:
        if not self.has(name):
            return None
        part = Fields.of(self.raw(name), self.fields.at(name))
        return {key: float(_number(_given(value), part.at(key))) for key, value in part.values.items()}

    def flag(self, name: str) -> bool | None:
        value = self.raw(name)
        if value is None:
            return None
        is_word = isinstance(value, PlainText) or (isinstance(value, str) and value in _FLAGS_OF_WORDS)
        if not is_word or value not in _FLAGS:
            raise self.fields.error(name, f"is {shown(value)}", "give true or false")
        return _FLAGS[str(value)]

    def count(self, name: str) -> int:
        value = int(_number(self.raw(name), self.fields.at(name)))
        if not 0 <= value <= COUNT_MOST:
            raise self.fields.error(name, f"is {shown(self.raw(name))}", f"give a number from 0 to {COUNT_MOST}")
        return value

    def _items(self, name: str) -> list[Any] | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, list):
            raise self.fields.error(name, f"is {shown(value)}", "give a list")
        return value


def _text(value: object, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidObject(path, f"is {shown(value)}", "give a text")
    return str(value)


def _number(value: object, path: str) -> int | float:
    if value is None:
        return 0
    try:
        number = plain_scalar(value) if isinstance(value, PlainText) else value
    except NotANumber as problem:
        raise InvalidObject(path, str(problem), "give a finite number") from None
    if isinstance(number, bool) or not isinstance(number, (int, float)) or abs(number) > 10**30:
        raise InvalidObject(path, f"is {shown(value)}", "give a number")
    return number
