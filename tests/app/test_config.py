"""The configuration file of a command: Kueue's own in any form that people have it, or muster.yaml."""

from __future__ import annotations

import re
import sys

import pytest

from muster.app.config import _FIELDS, Configuration, parse_configuration
from muster.engine.profile import DEFAULT, PROFILES, PolicyUse, Tier
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.settings import PreemptionGuards, Settings
from muster.model.shapes import ListOf, Struct
from tests.support import ROOT

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


# Profiles and policies -----------------------------------------------------------------------------------------------


def test_the_profile_is_musters_unless_another_is_named():
    assert Configuration().profile is parse_configuration("guards: {}", "file").profile is DEFAULT
    assert parse_configuration("profile: kueue", "file").profile is PROFILES["kueue"]


def test_a_profile_alone_loads_no_policy():
    assert parse_configuration("profile: kube-default", "file").tiers is None


TIERS = """
profile: kube-default
tiers:
- policies: [{name: priority}]
- policies:
  - {name: binpack, arguments: {binpack.weight: 2}}
  - {name: spread, enable: {score: false, fit: true}}
"""


def test_tiers_take_the_place_of_the_profiles_own():
    configuration = parse_configuration(TIERS, "file")
    assert configuration.profile.depth is PROFILES["kube-default"].depth
    assert configuration.profile.tiers == (
        Tier((PolicyUse(name="priority"),)),
        Tier(
            (
                PolicyUse(name="binpack", arguments={"binpack.weight": 2}),
                PolicyUse(name="spread", off=frozenset(("score",))),
            )
        ),
    )
    assert configuration.tiers is not None
    assert [hooks.score is not None for hooks in configuration.tiers.hooks] == [False, True, False]


def test_another_profile_keeps_the_tiers_that_were_given():
    given = parse_configuration(TIERS, "file")
    changed = given.with_profile("muster", "--profile")
    assert (changed.profile.name, changed.profile.tiers) == ("muster", given.profile.tiers)
    assert Configuration().with_profile("kueue", "--profile").profile is PROFILES["kueue"]


def test_a_policy_that_no_tier_names_is_remarked(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from muster.policies.binpack import build, Arguments, Policy\nPOLICY = Policy('mine', Arguments, build)"
    )
    source = str(tmp_path / "muster.yaml")
    (note,) = parse_configuration("policies: [{file: mine.py}]", source).notes
    assert str(note) == "policies[0]: is used in no tier; name it in tiers"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "profile: kueu",
            "profile: is 'kueu', which is no profile; did you mean kueue? known are kube-default, kueue, muster",
            id="misspelt profile",
        ),
        pytest.param(
            "profile: zzz",
            "profile: is 'zzz', which is no profile; known are kube-default, kueue, muster",
            id="unknown profile",
        ),
        pytest.param("profile: 3", "profile: is 3; give a string", id="no text"),
        pytest.param(
            "policies: [{file: gone.py}]", "policies[0].file: gone.py does not exist; check the name", id="gone"
        ),
        pytest.param("policies: {}", "policies: is an object; give a list", id="no list"),
        pytest.param(
            "policies: [{path: x.py}]", "policies[0].path: is not a known field; take it out", id="no such source"
        ),
        pytest.param("tiers: [{}]", "tiers[0].policies: is missing; give it a value", id="a tier without policies"),
        pytest.param(
            "tiers: [{policies: [{}]}]", "tiers[0].policies[0].name: is missing; give it a value", id="without a name"
        ),
        pytest.param(
            "tiers: [{policies: [{name: gang, enable: {scores: false}}]}]",
            "tiers[0].policies[0].enable.scores: is not a known field; did you mean score?",
            id="misspelt hook",
        ),
        pytest.param(
            "tiers: [{policies: [{name: gang, enable: {score: maybe}}]}]",
            "tiers[0].policies[0].enable.score: is 'maybe'; give true or false",
            id="no truth value",
        ),
        pytest.param(
            "tiers: [{policies: [{name: gang, arguments: {weight: 1}}]}]",
            "tiers[0].policies[0].arguments.weight: is no argument of gang; there are none, take it out",
            id="an argument too many",
        ),
        pytest.param(
            "tiers: [{policies: [{name: binpack, arguments: [1]}]}]",
            "tiers[0].policies[0].arguments: is a list; give an object",
            id="no arguments",
        ),
    ],
)
def test_mistakes_with_policies(text, want):
    with pytest.raises(InvalidObject) as caught:
        parse_configuration(text, "file")
    assert str(caught.value) == want


# The documents -------------------------------------------------------------------------------------------------------


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """The examples of a page that are in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name), re.DOTALL | re.MULTILINE)


def settings_in(schema: object, path: str = "") -> list[str]:
    """The names of all settings below a field."""
    if isinstance(schema, ListOf):
        return settings_in(schema.item, f"{path}[]")
    if not isinstance(schema, Struct) or not schema.fields or path.endswith("enable"):
        return [path]
    return [
        one for name, inner in schema.fields.items() for one in settings_in(inner, f"{path}.{name}" if path else name)
    ]


def test_every_setting_is_explained():
    missing = [one for one in settings_in(_FIELDS) if f"`{one}" not in page("configuration.md")]
    assert not missing


def test_the_example_of_the_page_can_be_used():
    (example,) = blocks("configuration.md", "yaml")
    configuration = parse_configuration(example, "muster.yaml")
    assert configuration.tiers is not None
    assert configuration.notes == ()


def test_the_example_policy_does_what_its_page_says(tmp_path):
    policy, trial = blocks("extend/policy.md", "python")
    (configuration,) = blocks("extend/policy.md", "yaml")
    (tmp_path / "cardless.py").write_text(policy)
    built = parse_configuration(configuration, str(tmp_path / "muster.yaml")).tiers
    assert built is not None
    assert [len(tier) for tier in built.tiers] == [2, 2]
    module = sys.modules.pop(f"muster.policies@{(tmp_path / 'cardless.py').resolve().as_posix()}")
    exec(trial, module.__dict__)


def test_nobody_is_asked_unless_the_file_says_so():
    assert not Configuration().asks_extenders
    assert parse_configuration("askExtenders: true", "file").asks_extenders


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("actions: enqueue, allocate\n", "-n volcano-system create configmap volcano-scheduler-configmap"),
        ("tiers:\n- plugins: [{name: gang}]\n", "--from-file=volcano-scheduler.conf=file"),
        ("kind: ConfigMap\ndata: {volcano-scheduler.conf: ''}\n", "volcano-scheduler-configmap"),
        ("partitions: []\n", "-n yunikorn create configmap yunikorn-configs --from-file=queues.yaml=file"),
        ("kind: ConfigMap\ndata: {queues.yaml: ''}\n", "yunikorn-configs"),
    ],
)
def test_other_schedulers_configurations_go_into_the_cluster(text, want):
    with pytest.raises(InvalidObject) as caught:
        parse_configuration(text, "file")
    assert "which the cluster holds as a ConfigMap" in caught.value.problem
    assert want in caught.value.hint
