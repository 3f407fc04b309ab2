"""The tree of queues: what templates give to queues that are made, and which properties come from above."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.dialects.yunikorn.queue_tree import People, QueueTree, priority_offset
from muster.dialects.yunikorn.validate import read_configuration

TEMPLATE = {
    "maxapplications": 5,
    "properties": {"application.sort.policy": "fair"},
    "resources": {"guaranteed": {"vcore": 1}, "max": {"vcore": "2", "memory": "4Gi"}},
}


def tree_of(*queues: dict[str, Any], **root: Any) -> QueueTree:
    text = yaml.safe_dump({"partitions": [{"queues": [{"name": "root", "queues": list(queues), **root}]}]})
    (partition,) = read_configuration(text, "queues.yaml").partitions
    return QueueTree(partition)


@pytest.mark.parametrize(
    ("path", "has_template"),
    [
        pytest.param("root.people.ann", True, id="a queue below the one that has it"),
        pytest.param("root.people.team.ann", True, id="one deeper: templates go down"),
        pytest.param("root.other.ann", False, id="not beside it"),
        pytest.param("root.ann", False, id="not above it"),
    ],
)
def test_templates(path: str, has_template: bool) -> None:
    tree = tree_of({"name": "people", "parent": True, "childtemplate": TEMPLATE}, {"name": "other", "parent": True})
    made = tree.make(path)
    assert made.is_made and made.is_leaf
    assert made.applications_most == (5 if has_template else 0)
    assert made.most == ({"vcore": 2000, "memory": 4 * 2**30} if has_template else {})
    assert made.guaranteed == ({"vcore": 1000} if has_template else {})
    assert made.properties == ({"application.sort.policy": "fair"} if has_template else {})


def test_the_queues_between_get_nothing_of_a_template() -> None:
    tree = tree_of(parent=True, childtemplate=TEMPLATE)
    made = tree.make("root.a.b")
    assert made.parent is not None
    assert not made.parent.is_leaf
    assert not made.parent.most
    assert made.most


def test_a_nearer_template_goes_before_one_further_up() -> None:
    near = {"resources": {"max": {"vcore": 9}}}
    tree = tree_of({"name": "people", "parent": True, "childtemplate": near}, childtemplate=TEMPLATE)
    assert tree.make("root.people.ann").most == {"vcore": 9000}
    assert tree.make("root.ann").most == {"vcore": 2000, "memory": 4 * 2**30}


def test_a_template_that_cannot_be_read_gives_nothing() -> None:
    tree = tree_of(childtemplate={"resources": {"max": {"memory": "much"}}})
    assert tree.make("root.ann").most == {}


def test_properties_come_from_above_but_for_those_of_the_queue_itself() -> None:
    above = {
        "application.sort.policy": "fair",
        "priority.offset": "7",
        "priority.policy": "fence",
        "preemption.policy": "fence",
    }
    tree = tree_of({"name": "a", "properties": {"application.sort.policy": "fifo"}}, {"name": "b"}, properties=above)
    assert tree["root.a"].properties == {"application.sort.policy": "fifo"}
    assert tree["root.b"].properties == {"application.sort.policy": "fair"}


def test_that_nobody_is_preempted_goes_for_all_below() -> None:
    tree = tree_of({"name": "a", "queues": [{"name": "b"}]}, properties={"preemption.policy": "disabled"})
    assert tree["root.a.b"].properties == {"preemption.policy": "disabled"}


@pytest.mark.parametrize(
    ("text", "want"), [("5", 5), ("-1000", -1000), ("", 0), ("x", 0), ("2147483648", 0), ("9" * 50, 0)]
)
def test_offsets(text: str, want: int) -> None:
    assert priority_offset(tree_of(properties={"priority.offset": text}).root) == want


@pytest.mark.parametrize(
    ("entries", "user", "groups", "want"),
    [
        ("*", "ann", (), True),
        (" *", "ann", (), True),
        ("ann,ben", "ben", (), True),
        ("ann,ben", "eve", (), False),
        (" staff,admins", "eve", ("admins",), True),
        (" staff", "staff", (), False),
        ("staff", "eve", ("staff",), False),
        ("", "ann", ("staff",), False),
        ("", "", ("",), False),
    ],
)
def test_people(entries: str, user: str, groups: tuple[str, ...], want: bool) -> None:
    assert People.read(entries).has(user, groups) is want
