"""The roles of every cluster: there from the beginning, and put right at the next start."""

from __future__ import annotations

from muster.apiserver.rights.first_roles import first_roles
from muster.apiserver.rights.rbac import Rule
from tests.apiserver.rights.guarded import RBAC, Guarded, guarded

VIEWER = f"{RBAC}/clusterroles/system:public-info-viewer"
BINDING = f"{RBAC}/clusterrolebindings/system:public-info-viewer"
MERGE = {"content-type": "application/merge-patch+json"}
MORE = {"verbs": ["get"], "nonResourceURLs": ["/more"]}


def start_again(world: Guarded) -> None:
    world.store.write(first_roles(world.objects))


def test_a_second_start_changes_nothing():
    async def story(world: Guarded) -> None:
        revision = world.store.revision
        start_again(world)
        assert world.store.revision == revision

    guarded(story)


def test_what_was_lost_comes_back_and_what_was_added_stays():
    async def story(world: Guarded) -> None:
        before = (await world.admin("GET", VIEWER)).json["rules"]
        await world.admin("PATCH", VIEWER, {"rules": [MORE]}, **MERGE)
        await world.admin("PATCH", BINDING, {"subjects": []}, **MERGE)
        await world.admin("DELETE", f"{RBAC}/clusterroles/cluster-admin")
        start_again(world)
        assert (await world.admin("GET", VIEWER)).json["rules"] == [MORE, *before]
        names = [one["name"] for one in (await world.admin("GET", BINDING)).json["subjects"]]
        assert names == ["system:authenticated", "system:unauthenticated"]
        assert (await world.admin("GET", f"{RBAC}/clusterroles/cluster-admin")).status == 200

    guarded(story)


def test_who_wants_to_be_left_alone_is():
    async def story(world: Guarded) -> None:
        left_alone = {
            "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}},
            "rules": [],
        }
        await world.admin("PATCH", VIEWER, left_alone, **MERGE)
        start_again(world)
        assert not (await world.admin("GET", VIEWER)).json.get("rules")

    guarded(story)


def test_nobody_but_administrators_may_everything():
    async def story(world: Guarded) -> None:
        roles = (await world.admin("GET", f"{RBAC}/clusterroles")).json["items"]
        rules = {one["metadata"]["name"]: [Rule.of(rule) for rule in one.get("rules") or ()] for one in roles}
        everything = Rule(("*",), ("*",), ("*",))
        assert [name for name, its in rules.items() if any(rule.covers(everything) for rule in its)] == [
            "cluster-admin"
        ]
        bindings = (await world.admin("GET", f"{RBAC}/clusterrolebindings")).json["items"]
        subjects = [one["subjects"] for one in bindings if one["roleRef"]["name"] == "cluster-admin"]
        assert [[one["name"] for one in group] for group in subjects] == [["system:masters"]]

    guarded(story)
