"""Parts of cards, and cards without a limit, as pods can ask for them."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.job.cards import CARDS, CORES, MEMORY, MEMORY_SHARE, card_remarks, whole_cards, with_texts
from muster.model.fields import Fields
from tests.dialects.volcano.job.objects import job_object, task


def template(**resources):
    return {"spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]}}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"limits": {CARDS: 1}}, {"limits": {CARDS: 1}}, id="whole cards"),
        pytest.param({"requests": {"cpu": "500m"}}, {"requests": {"cpu": "500m"}}, id="parts of a CPU"),
        pytest.param(
            {"requests": {CARDS: "1"}}, {"requests": {CARDS: "1"}, "limits": {CARDS: "1"}}, id="cards without a limit"
        ),
        pytest.param(
            {"requests": {CARDS: "0.5"}},
            {
                "requests": {CARDS: "1", MEMORY_SHARE: "50", CORES: "50"},
                "limits": {CARDS: "1", MEMORY_SHARE: "50", CORES: "50"},
            },
            id="half a card",
        ),
        pytest.param(
            {"limits": {CARDS: "1.5", "cpu": "1"}},
            {"limits": {CARDS: "2", MEMORY_SHARE: "75", CORES: "75", "cpu": "1"}},
            id="one and a half",
        ),
        pytest.param(
            {"limits": {CARDS: "500m", MEMORY: "1000"}},
            {"limits": {CARDS: "1", MEMORY: "1000", CORES: "50"}},
            id="what is said holds",
        ),
    ],
)
def test_how_pods_ask_for_cards(given, want) -> None:
    assert whole_cards(Fields(template(**given))) == template(**want)


def test_a_template_that_asks_well_is_left_alone() -> None:
    given = template(limits={CARDS: 1})
    assert whole_cards(Fields(given)) is given


def test_amounts_become_text_as_pods_have_them() -> None:
    given = {
        "containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "env": [{"divisor": 1}]}],
        "overhead": {"cpu": 0.5},
        "volumes": [{"emptyDir": {"sizeLimit": 5}}],
        "priority": 3,
    }
    assert with_texts(given) == {
        "containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "env": [{"divisor": "1"}]}],
        "overhead": {"cpu": "0.5"},
        "volumes": [{"emptyDir": {"sizeLimit": "5"}}],
        "priority": 3,
    }


def test_whoever_submits_is_told_the_exact_form() -> None:
    half = template(requests={CARDS: "0.5"})["spec"]
    (told,) = card_remarks(Fields(job_object(task("a"), task("b", pod=half))))
    assert told.startswith("spec.tasks[1].template.spec.containers[0].resources: ")
    assert told.endswith(f"{CARDS}: 1, {CORES}: 50, {MEMORY_SHARE}: 50")
    assert list(card_remarks(Fields({"spec": {"tasks": "none"}}))) == []
