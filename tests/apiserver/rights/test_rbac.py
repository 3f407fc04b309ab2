"""Rules and bindings: what they allow, and what one covers of another."""

from __future__ import annotations

import pytest

from muster.apiserver.requests import User
from muster.apiserver.rights.rbac import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    Question,
    RoleBook,
    Rule,
    account_of,
)
from muster.store.records import Key
from tests.stopwatch import is_done_within

PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("rule", "asked", "is_allowed"),
    [
        (PODS, Question("get", "", "pods", "", "a", "x"), True),
        (PODS, Question("list", "", "pods"), False),
        (PODS, Question("get", "apps", "pods"), False),
        (PODS, Question("get", "", "pods", "log"), False),
        ({**PODS, "resources": ["pods/log"]}, Question("get", "", "pods", "log"), True),
        ({**PODS, "resources": ["*/log"]}, Question("get", "", "pods", "log"), True),
        ({**PODS, "resources": ["*/log"]}, Question("get", "", "pods"), False),
        ({**PODS, "resources": ["*"]}, Question("get", "", "pods", "log"), True),
        ({**PODS, "resources": ["pods/*"]}, Question("get", "", "pods", "log"), False),
        ({**PODS, "verbs": ["*"], "apiGroups": ["*"]}, Question("list", "apps", "pods"), True),
        ({**PODS, "resourceNames": ["x"]}, Question("get", "", "pods", name="x"), True),
        ({**PODS, "resourceNames": ["x"]}, Question("get", "", "pods", name="y"), False),
        ({**PODS, "resourceNames": ["x"]}, Question("get", "", "pods"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, Question("get", path="/a/b"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, Question("get", path="/a"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/a"]}, Question("get", path="/a/"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, Question("get", "", "pods"), False),
        ({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, Question("get", path="/a"), False),
    ],
)
def test_a_rule_allows(rule, asked, is_allowed):
    assert Rule.of(rule).allows(asked) is is_allowed


@pytest.mark.parametrize(
    ("rule", "other", "does_cover"),
    [
        (PODS, PODS, True),
        (PODS, {**PODS, "resourceNames": ["x"]}, True),
        ({**PODS, "resourceNames": ["x"]}, PODS, False),
        ({**PODS, "resourceNames": ["x", "y"]}, {**PODS, "resourceNames": ["x"]}, True),
        ({**PODS, "verbs": ["*"]}, PODS, True),
        (PODS, {**PODS, "verbs": ["*"]}, False),
        ({**PODS, "resources": ["*/log"]}, {**PODS, "resources": ["pods/log"]}, True),
        ({"verbs": ["get"], "nonResourceURLs": ["/a*"]}, {"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, True),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, {"verbs": ["get"], "nonResourceURLs": ["/a*"]}, False),
    ],
)
def test_a_rule_covers(rule, other, does_cover):
    assert Rule.of(rule).covers(Rule.of(other)) is does_cover


def binding(role: str, *subjects: dict, kind: str = "ClusterRole") -> dict:
    return {"roleRef": {"kind": kind, "name": role}, "subjects": list(subjects)}


ANN = {"kind": "User", "name": "ann"}
READ = Question("get", "", "pods", "", "red")


def test_a_role_is_what_is_bound_to_it():
    book = RoleBook()
    everywhere, here = Key(CLUSTER_BINDINGS, "", "b"), Key(BINDINGS, "red", "b")
    ann = User("ann", ("devs",))
    book.put(here, binding("reader", ANN))
    missing = 'RBAC: clusterrole.rbac.authorization.k8s.io "reader" not found'
    assert book.verdict(ann, READ) == (False, missing)
    book.put(Key(CLUSTER_ROLES, "", "reader"), {"rules": [PODS]})
    why = 'RBAC: allowed by RoleBinding "b/red" of ClusterRole "reader" to User "ann"'
    assert book.verdict(ann, READ) == (True, why)
    assert not book.verdict(ann, READ._replace(namespace="blue")).is_allowed
    assert not book.verdict(User("bob"), READ).is_allowed
    book.put(here, binding("reader", {"kind": "Group", "name": "devs"}))
    assert book.verdict(ann, READ).is_allowed
    book.remove(here)
    assert book.verdict(ann, READ) == (False, "")
    book.put(everywhere, binding("reader", ANN, ANN))
    assert book.verdict(ann, READ._replace(namespace="")).is_allowed
    book.remove(everywhere)
    assert not book.verdict(ann, READ).is_allowed
    book.put(Key(ROLES, "red", "own"), {"rules": [PODS]})
    book.put(here, binding("own", {"kind": "ServiceAccount", "name": "robot"}, kind="Role"))
    assert book.verdict(User("system:serviceaccount:red:robot"), READ).is_allowed
    assert not book.verdict(User("system:serviceaccount:blue:robot"), READ).is_allowed


@pytest.mark.parametrize(
    ("name", "account"),
    [
        ("system:serviceaccount:a:b", ("a", "b")),
        ("system:serviceaccount:a:", None),
        ("system:serviceaccount::b", None),
        ("system:serviceaccount:a:b:c", None),
        ("ann", None),
    ],
)
def test_which_account_a_name_stands_for(name, account):
    assert account_of(name) == account


def test_a_question_costs_microseconds_however_many_others_have_roles():
    book = RoleBook()
    for number in range(5_000):
        book.put(Key(CLUSTER_ROLES, "", f"r{number}"), {"rules": [PODS]})
        book.put(Key(BINDINGS, f"n{number}", "b"), binding(f"r{number}", {"kind": "User", "name": f"u{number}"}))
    ann = User("u7", ("devs", "system:authenticated"))
    asked = READ._replace(namespace="n7")
    assert book.verdict(ann, asked).is_allowed
    assert is_done_within(1.0, lambda: [book.verdict(ann, asked) for _ in range(10_000)])
