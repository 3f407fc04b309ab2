"""Placement rules: which queue an application goes to, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.dialects.yunikorn.placement_rules import Placement, Submission
from muster.dialects.yunikorn.queue_tree import QueueTree
from muster.dialects.yunikorn.validate import read_configuration
from muster.model.errors import InvalidObject
from tests.stopwatch import is_done_within

QUEUES: list[dict[str, Any]] = [
    {"name": "batch"},
    {"name": "people", "parent": True, "queues": [{"name": "Ann"}]},
    {"name": "closed", "submitacl": "eve staff", "queues": [{"name": "inner", "adminacl": " admins"}]},
]


def placement(*rules: dict[str, Any], queues: list[dict[str, Any]] | None = None, acl: str = "*") -> Placement:
    root = {"name": "root", "submitacl": acl, "queues": QUEUES if queues is None else queues}
    text = yaml.safe_dump({"partitions": [{"name": "default", "queues": [root], "placementrules": list(rules)}]})
    (partition,) = read_configuration(text, "queues.yaml").partitions
    return Placement(partition, QueueTree(partition))


def rule(name: str, value: str = "", **parts: Any) -> dict[str, Any]:
    return {"name": name, "value": value, **parts}


PEOPLE = rule("fixed", "root.people")


@pytest.mark.parametrize(
    ("rules", "submission", "want"),
    [
        pytest.param((), {"queue": "root.batch"}, "root.batch", id="without rules, the queue that it names"),
        pytest.param((), {"queue": "ROOT.Batch"}, "root.batch", id="in whatever case"),
        pytest.param((), {"queue": "batch"}, "root.batch", id="or its last name"),
        pytest.param((), {"queue": "root.new"}, "", id="not one that is not there"),
        pytest.param((), {}, "", id="not where it names none"),
        pytest.param((rule("provided", create=True),), {"queue": "root.new"}, "root.new", id="a new one"),
        pytest.param((rule("provided", create=True),), {"queue": "a.b"}, "root.a_dot_b", id="dots are no levels"),
        pytest.param((rule("provided", create=True),), {"queue": "root.a.b"}, "root.a.b", id="a path has levels"),
        pytest.param((rule("provided", create=True),), {"queue": "root.batch.x"}, "", id="nothing below a leaf"),
        pytest.param((rule("provided", create=True),), {"queue": "root.people"}, "", id="not an inner queue"),
        pytest.param((rule("provided", create=True),), {"queue": "root.a b"}, "", id="not one of a wrong name"),
        pytest.param((rule("user", parent=PEOPLE),), {"user": "ann"}, "root.people.ann", id="a user's queue"),
        pytest.param((rule("user", parent=PEOPLE),), {"user": "ben"}, "", id="which has to be there"),
        pytest.param(
            (rule("user", create=True, parent=PEOPLE),), {"user": "b.en"}, "root.people.b_dot_en", id="or is made"
        ),
        pytest.param((rule("User", create=True),), {"user": "ben"}, "root.ben", id="rules in whatever case"),
        pytest.param((rule("tag", "Namespace", create=True),), {"tags": {"namespace": "lab"}}, "root.lab", id="a tag"),
        pytest.param((rule("tag", "other", create=True),), {"tags": {"namespace": "lab"}}, "", id="another tag"),
        pytest.param(
            (rule("tag", "namespace", create=True, parent=rule("tag", "namespace.parentqueue", create=True)),),
            {"tags": {"namespace": "lab", "namespace.parentqueue": "root.teams"}},
            "root.teams.lab",
            id="below what another tag says",
        ),
        pytest.param(
            (rule("user", create=True, parent=rule("tag", "missing", create=True)), rule("fixed", "batch")),
            {"user": "ann"},
            "root.batch",
            id="a parent that leads nowhere passes on",
        ),
        pytest.param(
            (rule("user", create=True, parent=rule("fixed", "root.people.sub", create=True)),),
            {"user": "ann"},
            "root.people.sub.ann",
            id="a parent that is made too",
        ),
        pytest.param((rule("fixed", "batch"),), {"queue": "root.people.ann"}, "root.batch", id="a fixed queue"),
        pytest.param((rule("something"), rule("fixed", "batch")), {}, "root.batch", id="an unknown rule passes on"),
        pytest.param((rule("recovery"), rule("fixed", "batch")), {}, "root.batch", id="so does that for recovery"),
    ],
)
def test_rules(rules: tuple[dict[str, Any], ...], submission: dict[str, Any], want: str) -> None:
    assert place(placement(*rules), submission) == want


def place(at: Placement, submission: dict[str, Any]) -> str:
    try:
        return at.queue_of(Submission(**submission)).path
    except InvalidObject:
        return ""


@pytest.mark.parametrize(
    ("chosen", "user", "groups", "want"),
    [
        pytest.param({}, "ann", (), True, id="for everybody"),
        pytest.param({"type": "deny"}, "ann", (), False, id="for nobody"),
        pytest.param({"users": ["ann", "ben"]}, "ben", (), True, id="a list of users"),
        pytest.param({"users": ["ann", "ben"]}, "eve", (), False, id="and somebody else"),
        pytest.param({"type": "Deny", "users": ["ann", "ben"]}, "eve", (), True, id="all but some"),
        pytest.param({"users": ["a.*n"]}, "ann", (), True, id="one entry may be an expression"),
        pytest.param({"users": ["^a$"]}, "ann", (), False, id="that does not match"),
        pytest.param({"users": ["ann.b"]}, "annxb", (), False, id="a dot alone makes no expression"),
        pytest.param({"users": ["a.*", "ann"]}, "abc", (), False, id="of several none is one"),
        pytest.param({"groups": ["staff"]}, "ann", ("x", "staff"), True, id="a group"),
        pytest.param({"type": "deny", "groups": ["st.*"]}, "ann", ("staff",), False, id="a group that is denied"),
    ],
)
def test_filters(chosen: dict[str, Any], user: str, groups: tuple[str, ...], want: bool) -> None:
    at = placement(rule("fixed", "batch", filter=chosen))
    assert place(at, {"user": user, "groups": groups}) == ("root.batch" if want else "")


@pytest.mark.parametrize(
    ("user", "groups", "queue", "want"),
    [
        pytest.param("eve", (), "root.closed.inner", True, id="by the list of a queue above"),
        pytest.param("ann", ("staff",), "root.closed.inner", True, id="by a group"),
        pytest.param("ann", ("admins",), "root.closed.inner", True, id="who manages may submit"),
        pytest.param("ann", ("users",), "root.closed.inner", False, id="nobody else"),
        pytest.param("ann", (), "root.batch", False, id="an empty list is nobody"),
    ],
)
def test_who_may_submit(user: str, groups: tuple[str, ...], queue: str, want: bool) -> None:
    at = placement(acl="")
    submission = {"queue": queue, "user": user, "groups": groups}
    assert place(at, {**submission, "is_user_known": True}) == (queue if want else "")
    assert place(at, submission) == queue  # nobody says who it is


def test_the_queue_default_takes_whom_no_rule_places() -> None:
    at = placement(rule("provided"), queues=[{"name": "default"}, {"name": "other"}])
    assert place(at, {"queue": "root.missing"}) == "root.default"


def test_a_queue_that_was_made_is_there_for_the_next() -> None:
    at = placement(rule("provided", create=True))
    first = at.queue_of(Submission(queue="root.a.b"))
    assert at.queue_of(Submission(queue="root.a.b")) is first
    assert place(at, {"queue": "root.a"}) == ""  # it is an inner queue now
    assert place(at, {"queue": "root.a.c"}) == "root.a.c"


def test_a_path_of_a_million_levels_is_refused_at_once() -> None:
    at = placement(rule("provided", create=True))
    assert is_done_within(1.0, lambda: place(at, {"queue": "root" + ".a" * 1_000_000}))


def test_many_applications_meet_a_long_filter_and_a_long_list() -> None:
    users = [f"user{number}" for number in range(20_000)]
    at = placement(
        rule("fixed", "batch", filter={"users": users}),
        queues=[{"name": "batch", "submitacl": ",".join(users)}],
        acl="",
    )
    submission = Submission(user="user19999", is_user_known=True)
    assert is_done_within(2.0, lambda: [at.queue_of(submission) for _ in range(2000)])
