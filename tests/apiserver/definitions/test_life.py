"""The life of a definition: names, what is served, changes under live objects, conversion, and its end."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy

import pytest

from muster.apiserver.definitions.kinds import version_order
from tests.apiserver.definitions.servers import (
    DEFINITIONS,
    MERGE,
    Here,
    given_definitions,
    sample_object,
    versions,
)
from tests.apiserver.definitions.stories import GROUP, changed, definition, two_versions
from tests.apiserver.world import World, in_world
from tests.support import is_full_proof

WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
NAME = f"{DEFINITIONS}/widgets.{GROUP}"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def with_spec(schema, **more):
    return definition({"type": "object", "properties": {"spec": schema}}, **more)


def widget(name="w", version="v1", **more):
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Widget", "metadata": {"name": name}, **more}


@pytest.fixture
def here():
    server = Here()
    yield server
    server.close()


def conditions(here, name="widgets"):
    status = here.request("GET", f"{DEFINITIONS}/{name}.{GROUP}").json["status"]
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}, status["acceptedNames"]


def test_a_definition_is_established_and_its_kind_is_served(here):
    assert here.request("GET", WIDGETS).status == 404
    made = definition()
    made["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    assert here.request("POST", DEFINITIONS, made).status == 201
    told, names = conditions(here)
    assert told == {"NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted")}
    assert names["shortNames"] == ["wd"]
    (row,) = here.request("GET", f"/apis/{GROUP}/v1").json["resources"]
    assert (row["name"], row["shortNames"], row["categories"]) == ("widgets", ["wd"], ["all"])
    assert here.request("POST", WIDGETS, widget()).status == 201
    document = here.request("GET", f"/openapi/v3/apis/{GROUP}/v1").json
    assert "com.example.stories.v1.Widget" in document["components"]["schemas"]


def test_discovery_changes_with_the_definitions_and_has_a_tag(here):
    form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    def groups():
        answer = here.request("GET", "/apis", accept=form)
        return answer.headers["etag"], [one["metadata"]["name"] for one in answer.json["items"]]

    before, names = groups()
    assert GROUP not in names
    here.request("POST", DEFINITIONS, definition())
    after, names = groups()
    assert after != before and GROUP in names
    here.request("DELETE", NAME)
    assert groups()[0] == before


def test_names_that_are_taken_are_not_accepted_until_they_are_free(here):
    here.request("POST", DEFINITIONS, definition())
    other = changed("spec.names.kind", "Widget", definition(plural="gadgets"))
    here.request("POST", DEFINITIONS, other)
    told, names = conditions(here, "gadgets")
    assert told == {"NamesAccepted": ("False", "ListKindConflict"), "Established": ("False", "NotAccepted")}
    assert names == {"plural": "gadgets", "kind": ""}
    gadgets = WIDGETS.replace("widgets", "gadgets")
    assert here.request("GET", gadgets).status == 404
    here.request("DELETE", NAME)
    told, _ = conditions(here, "gadgets")
    assert told["Established"][0] == "True"
    assert here.request("GET", gadgets).status == 200


def test_a_definition_that_goes_takes_its_objects_with_it():
    async def story(world: World) -> None:
        await world.request("POST", DEFINITIONS, definition())
        await world.request("POST", WIDGETS, widget("free"))
        held = widget("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await world.request("POST", WIDGETS, held)
        async with world.exchange("GET", f"{WIDGETS}?watch=true") as watch:
            assert len(await watch.events(2)) == 2
            answer = await world.request("DELETE", NAME)
            assert answer.json["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
            assert {one["object"]["metadata"]["name"] for one in await watch.events(2)} == {"free", "held"}
            status = (await world.get(NAME)).json["status"]["conditions"]
            assert [one["reason"] for one in status if one["type"] == "Terminating"] == ["InstanceDeletionInProgress"]
            refused = await world.request("POST", WIDGETS, widget("new"))
            assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
            following = asyncio.ensure_future(world.definitions.run())
            await world.request("PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": None}}, headers=AS_MERGE)
            async with asyncio.timeout(10):
                await watch.done  # the watch ends with its kind
            following.cancel()
        assert (await world.get(NAME)).status == 404
        assert (await world.get(WIDGETS)).status == 404

    in_world(story)


AS_MERGE = {"content-type": MERGE}


def test_watches_end_when_their_definition_changes():
    async def story(world: World) -> None:
        await world.request("POST", DEFINITIONS, definition())
        async with world.exchange("GET", f"{WIDGETS}?watch=true") as watch:
            await asyncio.sleep(0)
            await world.request("PATCH", NAME, {"metadata": {"labels": {"a": "b"}}}, headers=AS_MERGE)
            await world.request("POST", WIDGETS, widget())
            assert len(await watch.events(1)) == 1  # a label changes nothing for those who watch
            column = [{"name": "A", "type": "string", "jsonPath": ".spec"}]
            patch = [{"op": "add", "path": "/spec/versions/0/additionalPrinterColumns", "value": column}]
            form = {"content-type": "application/json-patch+json"}
            assert (await world.request("PATCH", NAME, patch, headers=form)).status == 200
            async with asyncio.timeout(10):
                await watch.done

    in_world(story)


def test_a_stricter_schema_lets_old_mistakes_stay_and_new_ones_not(here):
    here.request("POST", DEFINITIONS, with_spec(OPEN))
    here.request("POST", WIDGETS, widget(spec={"old": "wrong", "count": 5, "gone": 1}))
    fields = {
        "old": {"type": "integer"},
        "count": {"type": "integer", "maximum": 9},
        "new": {"type": "integer", "default": 3},
    }
    put_schema(here, {"type": "object", "properties": fields})
    assert here.request("GET", f"{WIDGETS}/w").json["spec"] == {"old": "wrong", "count": 5, "new": 3}
    assert here.request("GET", WIDGETS).json["items"][0]["spec"]["new"] == 3
    patched = here.request("PATCH", f"{WIDGETS}/w", {"spec": {"count": 6}}, content_type=MERGE)
    assert (patched.status, patched.json["spec"]) == (200, {"old": "wrong", "count": 6, "new": 3})
    assert here.request("PATCH", f"{WIDGETS}/w", {"spec": {"count": 10}}, content_type=MERGE).status == 422
    assert here.request("PATCH", f"{WIDGETS}/w", {"spec": {"old": "other"}}, content_type=MERGE).status == 422


def put_schema(here, schema):
    whole = {"type": "object", "properties": {"spec": schema}}
    patch = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": whole}]
    answer = here.request("PATCH", NAME, patch, content_type="application/json-patch+json")
    assert answer.status == 200, answer.json["message"]


def test_all_versions_show_the_same_object_and_the_stored_one_may_change(here):
    here.request("POST", DEFINITIONS, two_versions(first={"schema": {"openAPIV3Schema": OPEN}}))
    here.request("POST", WIDGETS, widget(spec={"a": 1}))
    second = WIDGETS.replace("/v1/", "/v2/")
    shown = here.request("GET", f"{second}/w").json
    assert (shown["apiVersion"], "spec" in shown) == (f"{GROUP}/v2", False)  # its own schema has no such field
    found = here.request("GET", NAME).json
    for version, is_stored in zip(found["spec"]["versions"], (False, True), strict=True):
        version |= {"storage": is_stored, "schema": {"openAPIV3Schema": OPEN}}
    assert here.request("PUT", NAME, found).json["status"]["storedVersions"] == ["v1", "v2"]
    assert here.request("GET", f"{second}/w").json["spec"] == {"a": 1}
    assert here.request("GET", second).json["items"][0]["apiVersion"] == f"{GROUP}/v2"
    before = here.request("GET", f"{second}/w").json
    same = here.request("PUT", f"{second}/w", before).json
    assert same["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]  # it is stored anew


def test_a_version_that_was_stored_cannot_be_taken_away(here):
    here.request("POST", DEFINITIONS, two_versions())
    found = here.request("GET", NAME).json
    found["spec"]["versions"] = [{**found["spec"]["versions"][1], "storage": True}]
    answer = here.request("PUT", NAME, found)
    (cause,) = answer.json["details"]["causes"]
    assert (answer.status, cause["field"]) == (422, "status.storedVersions[0]")
    found["status"]["storedVersions"] = ["v2"]
    current = here.request("GET", NAME).json
    current["status"]["storedVersions"] = ["v2"]
    assert here.request("PUT", f"{NAME}/status", current).status == 422  # while v1 is what is written


@pytest.mark.parametrize(
    ("field", "value"), [("scope", "Cluster"), ("names.kind", "Other"), ("group", "o.example.com")]
)
def test_what_cannot_change(here, field, value):
    here.request("POST", DEFINITIONS, definition())
    found = changed(f"spec.{field}", value, here.request("GET", NAME).json)
    answer = here.request("PUT", NAME, found)
    assert answer.status == 422
    assert f"spec.{field}" in {one["field"] for one in answer.json["details"]["causes"]}


def test_a_deprecated_version_warns_whoever_uses_it(here):
    here.request("POST", DEFINITIONS, definition(deprecated=True))
    assert here.request("GET", WIDGETS).headers["warning"] == f'299 - "{GROUP}/v1 Widget is deprecated"'


def test_kinds_that_muster_has_by_itself_stay_what_they_are(here):
    name = "clusterqueues.kueue.x-k8s.io"
    queues = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    here.request("POST", queues, sample_object(given_definitions()[name], "v1beta2"))
    assert here.request("POST", DEFINITIONS, given_definitions()[name]).status == 201
    assert here.request("GET", f"{DEFINITIONS}/{name}").json["status"]["conditions"][1]["status"] == "True"
    here.request("DELETE", f"{DEFINITIONS}/{name}")
    assert here.request("GET", f"{DEFINITIONS}/{name}").status == 404
    assert len(here.request("GET", queues).json["items"]) == 1


def test_what_is_established_is_found_again_after_a_restart():
    async def story(world: World) -> None:
        await world.request(
            "POST", DEFINITIONS, with_spec({"type": "object", "properties": {"a": {"type": "integer"}}})
        )
        await world.request("POST", WIDGETS, widget(spec={"a": 1}))
        again = World(store=world.store)
        await again.definitions.settle()
        assert (await again.get(f"{WIDGETS}/w")).json["spec"] == {"a": 1}
        assert (await again.request("POST", WIDGETS, widget("x", spec={"a": "b"}))).status == 422

    in_world(story)


@pytest.fixture(scope="module")
def one_for_all():
    server = Here()
    yield server
    server.close()


def size_of(name):
    return len(json.dumps(given_definitions()[name]))


# The large ones take a second each: an ordinary run leaves them to the proofs.
TRIED = [name for name in sorted(given_definitions(), key=size_of) if is_full_proof() or size_of(name) < 150_000]


@pytest.mark.prove
@pytest.mark.parametrize("name", TRIED)
def test_definitions_of_today_are_taken_and_their_objects_live(one_for_all, name):
    here = one_for_all
    given = given_definitions()[name]
    assert here.request("POST", DEFINITIONS, given).status == 201
    version, path = list(versions(given))[-1]
    sample = sample_object(given, version)
    if name.startswith("multikueueclusters"):
        sample["spec"] = {"clusterSource": {"kubeConfig": {"location": "a", "locationType": "Secret"}}}
    made = here.request("POST", path, sample)
    assert made.status == 201, made.json["message"]
    here.request("PATCH", f"{path}/sample", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    found = here.request("GET", f"{path}?labelSelector=a=b").json["items"]
    assert [one["metadata"]["name"] for one in found] == ["sample"]
    kept = deepcopy(found[0])
    assert here.request("PUT", f"{path}/sample", kept).json["metadata"] == kept["metadata"]  # nothing has changed
    assert here.request("DELETE", f"{path}/sample").status == 200
    assert here.request("DELETE", f"{DEFINITIONS}/{name}").status == 200
    is_own = here.world.catalog.is_own(given["spec"]["group"], given["spec"]["names"]["plural"])
    assert here.request("GET", path).status == (200 if is_own else 404)


def test_versions_are_ordered_by_how_finished_they_are():
    names = ["v1alpha1", "foo1", "v2", "v11beta2", "v10", "v3beta1", "v1", "v12alpha1", "foo10", "v11alpha2"]
    wanted = ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"]
    assert sorted(names, key=version_order) == wanted
