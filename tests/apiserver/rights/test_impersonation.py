"""Acting as others: for those who may, as far as they may, and never silently as oneself."""

from __future__ import annotations

import pytest

from muster.apiserver.requests import User
from muster.apiserver.rights.access import Access
from muster.apiserver.rights.impersonation import acting_as
from muster.apiserver.statuses import Problem
from muster.store.clock import VirtualClock
from muster.store.memory import MemoryStore
from tests.apiserver.rights.guarded import ROBOT, Guarded, guarded

MASTER = User("root", ("system:masters",))
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def seen(*headers: tuple[str, str]) -> User:
    given = [(name.lower().encode(), value.encode()) for name, value in headers]
    return acting_as(Access(MemoryStore(VirtualClock())), MASTER, given)


def test_whom_headers_name():
    assert seen(("accept", "x")) == MASTER
    assert seen(("Impersonate-User", "ann")) == User("ann", ("system:authenticated",))
    assert seen(("Impersonate-User", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")).groups == (
        "a",
        "b",
        "system:authenticated",
    )
    whole = seen(("Impersonate-User", "ann"), ("Impersonate-Uid", "7"), ("Impersonate-Extra-A%2FB", "x"))
    assert (whole.uid, whole.extra) == ("7", (("a/b", ("x",)),))
    robot = seen(("Impersonate-User", "system:serviceaccount:red:robot"))
    assert robot.groups == ("system:serviceaccounts", "system:serviceaccounts:red", "system:authenticated")
    assert seen(("Impersonate-User", "system:anonymous")).groups == ("system:unauthenticated",)


@pytest.mark.parametrize(
    "headers",
    [
        [("Impersonate-Group", "system:masters")],
        [("Impersonate-Uid", "7")],
        [("Impersonate-User", "")],
        [("Impersonate-User", "ann"), ("Impersonate-Usr", "bob")],
        [("Impersonate-User", "ann")] + [("Impersonate-Group", "g")] * 1_000,
    ],
)
def test_what_is_refused(headers):
    with pytest.raises(Problem) as refused:
        seen(*headers)
    assert refused.value.code == 400


def test_each_thing_needs_its_own_right():
    async def story(world: Guarded) -> None:
        token = await world.account()

        async def status(**headers: str) -> int:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            return (await world.ask(token, "POST", SELF, {}, **given)).status

        assert await status(impersonate_user="ann") == 403
        rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["ann"]}
        await world.grant(ROBOT, rule)
        assert await status(impersonate_user="ann") == 201
        assert await status(impersonate_user="bob") == 403
        assert await status(impersonate_user="ann", impersonate_group="system:masters") == 403
        assert await status(impersonate_user="ann", impersonate_uid="1") == 403
        assert await status(impersonate_user="ann", impersonate_extra_scopes="x") == 403
        assert await status(impersonate_user="system:serviceaccount:default:robot") == 403
        extra = {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"]}
        await world.grant(ROBOT, extra, name="extras")
        assert await status(impersonate_user="ann", impersonate_extra_scopes="x") == 201

    guarded(story)


def test_whoever_acts_as_another_has_the_other_s_rights_alone():
    async def story(world: Guarded) -> None:
        answer = await world.admin("GET", "/api/v1/nodes", **{"impersonate-user": "ann"})
        assert answer.status == 403
        assert 'User "ann" cannot list resource "nodes"' in answer.json["message"]

    guarded(story)
