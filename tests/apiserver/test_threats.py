"""Bad input, row by row: which test shows that the server, the store or the reader of manifests withstands it.

The table is checked: a test that it names has to be there. What had no test of its own has it below.
"""

from __future__ import annotations

import pytest

from muster.apiserver.kinds import BUILTIN
from muster.apiserver.served import Catalog, builtin
from tests.apiserver.world import World, config, in_world, pod
from tests.stopwatch import is_done_within
from tests.support import ROOT

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

_ERRORS, _LIKE, _HERE = "apiserver/test_server_errors", "apiserver/test_like_kubernetes", "apiserver/test_threats"
_TEXTS, _QUANTITIES = "model/test_documents", "model/test_quantity"
ROWS: dict[str, list[str]] = {
    "a body above 3 MiB, without end, or of another length than it says": [
        f"{_ERRORS}::test_too_long_a_body_is_refused_before_it_is_read",
        f"{_ERRORS}::test_a_body_without_end_is_refused_where_the_limit_is",
        f"{_ERRORS}::test_a_body_that_does_not_come_is_not_waited_for",
    ],
    "packed bodies that grow": [f"{_ERRORS}::test_packed_bodies"],
    "JSON a hundred thousand levels deep, NaN, numbers of 5,000 digits, half characters, NUL, no UTF-8": [
        f"{_ERRORS}::test_bodies_that_cannot_be_taken",
        f"{_TEXTS}::test_refused",
    ],
    "fields given twice": [
        "apiserver/test_server::test_fields_that_are_given_twice",
        f"{_LIKE}::test_yaml_is_read_leniently_and_judged_by_the_level",
    ],
    "unknown fields": [
        "apiserver/test_server::test_fields_that_a_kind_does_not_have",
        f"{_LIKE}::test_warnings_are_no_more_than_anybody_reads",
    ],
    "numbers that a field cannot hold": [f"{_HERE}::test_numbers_that_a_field_cannot_hold"],
    "YAML: aliases that grow, an anchor within itself, tags, merges, 3,000 levels": [
        f"{_ERRORS}::test_yaml_that_cannot_be_taken",
        f"{_TEXTS}::test_refused_at_once",
        f"{_TEXTS}::test_merge_keys",
    ],
    "YAML: words, octals, times and dates": [
        f"{_TEXTS}::test_scalars_mean_what_kubernetes_reads",
        "kubernetes/test_bodies::test_scalars_mean_the_same",
    ],
    "YAML of 3 MiB": [f"{_TEXTS}::test_the_largest_texts_stay_within_their_time"],
    "quantities that are none, too large, or negative": [
        f"{_QUANTITIES}::test_refused_text",
        f"{_QUANTITIES}::test_hostile_texts_cost_little",
        f"{_QUANTITIES}::test_hostile_texts_are_refused_at_little_cost",
        f"{_HERE}::test_quantities_in_objects",
    ],
    "the last item of every list": [f"{_HERE}::test_the_last_item_is_looked_at_as_the_first"],
    "null anywhere": ["apiserver/kinds/test_kinds::test_nulls_anywhere_are_absences_or_refused"],
    "long names, bad labels, large annotations": ["store/test_rules::test_metadata_that_is_refused"],
    "paths that climb, are empty or long; parameters by the thousand": [
        f"{_ERRORS}::test_questions_that_have_no_answer",
        f"{_LIKE}::test_parameters_mean_what_they_mean_to_kubernetes",
    ],
    "selectors of 100 KiB, and any text as one": [
        f"{_ERRORS}::test_questions_that_have_no_answer",
        "apiserver/test_selectors::test_whatever_is_written_is_read_or_refused",
    ],
    "patches of many operations, copies of copies": [
        "apiserver/test_patches::test_operations_that_are_refused",
        f"{_HERE}::test_patches_that_grow",
    ],
    "revisions that are none, too old, or to come": [
        f"{_ERRORS}::test_questions_that_have_no_answer",
        "apiserver/test_server_lists::test_what_is_too_old_is_said_to_be",
        f"{_LIKE}::test_a_watch_from_a_revision_to_come_waits_for_it",
    ],
    "tokens of pages that were changed": [
        "apiserver/test_server_lists::test_a_forged_token_shows_nothing_of_another_namespace"
    ],
    "a clock that is set": [
        "controllers/nodes/test_simulated::test_a_clock_that_is_set_silences_no_node_and_hides_none_that_is_silent"
    ],
    "gangs of no pods, of more than there are, of a billion": [
        "app/test_placement_input::test_a_gang_larger_than_the_cluster_never_starts",
        "app/test_placement_input::test_a_minimum_that_is_none",
        "app/test_placement_input::test_more_pods_than_kubernetes_counts",
    ],
    "cohorts in a ring, without their parent, a thousand deep": [
        "app/test_plan::test_long_chains_of_cohorts",
        "app/test_plan::test_a_ring_of_cohorts_stops_its_queues",
        "engine/test_tree::test_chain_of_a_thousand_cohorts_needs_no_deep_stack",
    ],
    "weights of nothing, beyond measure, below nothing": [
        "dialects/kueue/test_validate_queues::test_cluster_queues",
        "engine/test_usage_history::test_weight_zero_comes_last",
    ],
    "more watches or requests than there is room for": [
        "apiserver/test_server_watch::test_beyond_the_limit_a_watch_is_refused",
        "apiserver/test_connections::test_an_answer_that_nobody_reads_is_not_kept",
        f"{_ERRORS}::test_beyond_the_limit_clients_are_told_to_come_back",
    ],
}


@pytest.mark.parametrize("name", sorted({name for names in ROWS.values() for name in names}))
def test_every_row_has_its_test(name):
    path, _, function = name.partition("::")
    assert f"def {function}(" in (ROOT / "tests" / f"{path}.py").read_text()


def in_whole_world(story) -> None:
    in_world(story, catalog=Catalog(builtin(BUILTIN)))


@pytest.mark.parametrize("count", [2**31, -(2**31) - 1, 2**63, 10**400, 1.5, "3", True])
def test_numbers_that_a_field_cannot_hold(count):
    async def story(world: World) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
        spec = {"replicas": count, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        answer = await world.request("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        assert answer.status == 400, "as Kubernetes, which cannot even read it"
        assert "replicas" in answer.json["message"] or "unrecognized" in answer.json["message"]

    in_whole_world(story)


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 400), ("1 Gi", 400), ("1gi", 400), ("NaN", 400), ("0x10", 400), ("\uff11", 400), ("--1", 400), ("-1", 422)],
)
def test_quantities_in_objects(text, code):
    async def story(world: World) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": text}}}
        answer = await world.request("POST", PODS, pod("a", spec={"containers": [container]}))
        assert answer.status == code

    in_whole_world(story)


@pytest.mark.parametrize("text", ["1e999999999", "10E", "9" * 5_000])
def test_quantities_beyond_measure_cost_little(text):
    async def story(world: World) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": text}}}
        answer = await world.request("POST", PODS, pod("a", spec={"containers": [container]}))
        assert answer.status in (201, 400, 422)

    assert is_done_within(1.0, lambda: in_whole_world(story))


def test_the_last_item_is_looked_at_as_the_first():
    async def story(world: World) -> None:
        containers = [{"name": f"c{number}", "image": "i"} for number in range(9)]
        containers.append({"name": "Not Valid!", "image": "i", "env": [{"name": "A"}, {"name": ""}]})
        answer = await world.request("POST", PODS, pod("a", spec={"containers": containers}))
        fields = {one["field"] for one in answer.json["details"]["causes"]}
        assert fields == {"spec.containers[9].name", "spec.containers[9].env[1].name"}

    in_whole_world(story)


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([{"op": "add", "path": "/data/k", "value": "v"}] * 10_001, id="many"),
        pytest.param(
            [{"op": "add", "path": "/data/a", "value": "x" * 1_000}]
            + [{"op": "copy", "from": "/data", "path": f"/data/c{number}"} for number in range(40)],
            id="copies of copies",
        ),
    ],
)
def test_patches_that_grow(operations):
    async def story(world: World) -> None:
        await world.request("POST", CONFIGS, config("a", data={"k": "v"}))
        headers = {"content-type": "application/json-patch+json"}
        answer = await world.request("PATCH", f"{CONFIGS}/a", operations, headers=headers)
        assert answer.status == 413, answer.body[:300]

    assert is_done_within(2.0, lambda: in_whole_world(story))
