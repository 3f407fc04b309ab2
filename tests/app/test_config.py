"""The configuration file of a command: Kueue's own in any form that people have it, or muster.yaml."""

from __future__ import annotations

import pytest

from muster.app.config import Configuration, parse_configuration
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.settings import PreemptionGuards, Settings

KUEUE = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def paths(text: str) -> list[str]:
    with pytest.raises(InvalidObject) as caught:
        parse_configuration(text, "file")
    problem = caught.value
    return [one.path for one in (problem.problems if isinstance(problem, InvalidObjects) else (problem,))]


def test_without_a_file_everything_is_as_kueue_has_it():
    configuration = Configuration()
    assert configuration.settings == Settings()
    assert configuration.frameworks is None
    assert not configuration.strict_validation
    assert not configuration.managed_namespaces.matches({"kubernetes.io/metadata.name": "kube-system"})
    assert configuration.managed_namespaces.matches({"kubernetes.io/metadata.name": "team-a"})


def test_defaults_are_those_of_an_empty_file_of_kueues():
    given, none = parse_configuration(KUEUE, "file"), Configuration()
    assert given.settings == none.settings
    assert given.managed_namespaces == none.managed_namespaces
    assert given.queued_by_eviction == none.queued_by_eviction
    assert given.frameworks == ("batch/job",), "a file that names no frameworks turns jobs alone on, as Kueue does"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(KUEUE + "resources: {quotaCheckStrategy: IgnoreUndeclared}", id="whole"),
        pytest.param("resources: {quotaCheckStrategy: IgnoreUndeclared}", id="a part"),
        pytest.param(
            "kind: ConfigMap\ndata:\n  controller_manager_config.yaml: |\n"
            "    apiVersion: config.kueue.x-k8s.io/v1beta2\n    kind: Configuration\n"
            "    resources: {quotaCheckStrategy: IgnoreUndeclared}",
            id="as it is mounted",
        ),
        pytest.param("kueue: {configuration: {resources: {quotaCheckStrategy: IgnoreUndeclared}}}", id="ours"),
    ],
)
def test_kueues_settings_in_every_form(text):
    assert parse_configuration(text, "file").settings == Settings(ignores_undeclared=True)


def test_settings_that_change_decisions():
    text = """
        waitForPodsReady: {blockAdmission: true, requeuingStrategy: {timestamp: Creation}}
        fairSharing: {preemptionStrategies: [LessThanInitialShare]}
        admissionFairSharing: {usageHalfLifeTime: 60s, usageSamplingInterval: 10s, resourceWeights: {cpu: 2}}
        manageJobsWithoutQueueName: true
        integrations: {frameworks: [pod], labelKeysToCopy: [team]}
        featureGates: {PartialAdmission: false}
    """
    configuration = parse_configuration(KUEUE + text.replace("\n        ", "\n"), "file")
    settings = configuration.settings
    assert settings.blocks_until_ready and not settings.partial_admission
    assert settings.fair_sharing is not None and settings.fair_sharing.strategies == ("LessThanInitialShare",)
    assert settings.usage_fairness is not None and settings.usage_fairness.half_life_s == 60.0
    assert not configuration.queued_by_eviction
    assert configuration.manages_jobs_without_queue
    assert configuration.frameworks == ("pod",)
    assert configuration.labels_to_copy == ("team",)


def test_musters_own_settings():
    text = """
        kueue: {strictValidation: true}
        guards: {minimumRunTime: 10m, queueCoolDown: 1m30s, workloadCoolDown: 1h,
                 honourPreemptible: true, repeatsMost: 0}
    """
    configuration = parse_configuration(text.replace("\n        ", "\n"), "file")
    assert configuration.strict_validation
    assert configuration.frameworks is None
    assert configuration.notes == ()
    assert configuration.settings.guards == PreemptionGuards(
        run_time_least_s=600.0,
        queue_cool_down_s=90.0,
        workload_cool_down_s=3600.0,
        honours_marks=True,
        repeat_most=0,
    )


def test_guards_that_are_not_given_keep_their_defaults():
    assert parse_configuration("guards: {}", "file").settings.guards == PreemptionGuards()


def test_a_part_says_how_it_was_read():
    (note,) = parse_configuration("waitForPodsReady: {enable: true, timeout: 10m}", "file").notes
    assert "read as v1beta1" in note.problem


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("guards: {minimumRunTime: soon}", ["guards.minimumRunTime"], id="no duration"),
        pytest.param("guards: {queueCoolDown: -5m}", ["guards.queueCoolDown"], id="below zero"),
        pytest.param("guards: {repeatsMost: -1}", ["guards.repeatsMost"], id="fewer than none"),
        pytest.param("guards: {minimumRuntime: 5m}", ["guards.minimumRuntime"], id="misspelt"),
        pytest.param("guards: 3", ["guards"], id="no block"),
        pytest.param("guards: {}\nother: 1", ["other"], id="unknown beside ours"),
        pytest.param("kueue: {strictValidation: maybe}", ["kueue.strictValidation"], id="no truth value"),
        pytest.param("kueue: {strict: true}", ["kueue.strict"], id="misspelt in a block"),
        pytest.param(
            "kueue: {configuration: {featureGates: {NoSuch: true}}}",
            ["kueue.configuration.featureGates.NoSuch"],
            id="below ours",
        ),
        pytest.param("featureGates: {NoSuch: true}", ["featureGates.NoSuch"], id="an unknown gate"),
        pytest.param("strange: 1", ["strange"], id="nobody's"),
        pytest.param("kind: ConfigMap\ndata: {}", ["data"], id="another ConfigMap"),
        pytest.param("apiVersion: v1\nkind: Pod", ["apiVersion"], id="another object"),
        pytest.param("[1, 2]", [""], id="a list"),
    ],
)
def test_mistakes(text, want):
    assert paths(text) == want
