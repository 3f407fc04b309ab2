"""The objects that have an API server ask Muster: whom they ask about, and whom they leave in peace."""

from __future__ import annotations

import pytest

from muster.apiserver.cel import BOOL, RULE_STEPS, Budget, compile_expression
from muster.apiserver.hooks.configurations import (
    Asking,
    Reached,
    conversion,
    definition_names,
    webhook_configurations,
)
from muster.apiserver.kinds.admission_variables import OF_CONDITIONS
from muster.app.config import Configuration
from muster.app.hooks import configurations, reached_by_service
from muster.app.plugins import job_kinds
from muster.dialects.kueue.names import HAS_DEFAULT_QUEUE
from muster.model.labels import Operator, Requirement, Selector
from tests.controllers.jobs_world import KINDS, QUEUE, a_job, a_pod

REACHED = Reached(service="hooks", namespace="muster-system", bundle="Yg==")


def webhooks(**more):
    made = webhook_configurations(Asking(kinds=KINDS, **more), REACHED)
    return {one["name"]: one for configuration in made for one in configuration["webhooks"]}


def test_every_webhook_fails_closed_in_time_and_without_side_effects():
    for one in webhooks().values():
        assert (one["failurePolicy"], one["sideEffects"], one["timeoutSeconds"]) == ("Fail", "None", 10)
        assert one["admissionReviewVersions"] == ["v1"]
        assert one["clientConfig"]["caBundle"] == "Yg=="
        assert one["clientConfig"]["service"]["path"] == ("/mutate" if ".mutate." in one["name"] else "/validate")


def test_webhooks_that_change_objects_are_asked_again_where_others_change_them_too():
    made = webhook_configurations(Asking(kinds=KINDS), REACHED)
    assert [one["kind"] for one in made] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert {one["reinvocationPolicy"] for one in made[0]["webhooks"]} == {"IfNeeded"}


@pytest.mark.parametrize("name", [name for name in webhooks() if name.startswith("jobs")])
def test_the_clusters_own_namespaces_never_wait_for_muster(name):
    (first, *_) = webhooks()[name]["namespaceSelector"]["matchExpressions"]
    wanted = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "muster-system"]}
    assert first == wanted


def is_asked(webhook, given, before=None, user="anna") -> bool:
    """Whether an API server asks, as the conditions say."""
    request = {"operation": "CREATE" if before is None else "UPDATE", "userInfo": {"username": user}}
    known = {"object": given, "oldObject": before, "request": request}
    programs = (compile_expression(one["expression"], OF_CONDITIONS, BOOL) for one in webhook["matchConditions"])
    return all(one.evaluate(known, Budget(RULE_STEPS)) is True for one in programs)


def named_in_annotation():
    job = a_job(queue="", annotations={QUEUE: "main"})
    del job["metadata"]["labels"]
    return job


BARE = {"metadata": {"name": "a"}}


@pytest.mark.parametrize(
    ("given", "before", "has_queue"),
    [
        pytest.param(a_job(), None, True, id="a label"),
        pytest.param(named_in_annotation(), None, True, id="an annotation"),
        pytest.param(a_pod(queue=""), None, False, id="no queue"),
        pytest.param(BARE, None, False, id="no labels at all"),
        pytest.param(a_job(queue=""), a_job(), True, id="it is taken out"),
        pytest.param(a_job(), a_job(queue=""), True, id="it is added"),
        pytest.param(BARE, BARE, False, id="it never had one"),
    ],
)
@pytest.mark.parametrize("way", ["mutate", "validate"])
def test_only_what_has_a_queue_is_asked_about(given, before, has_queue, way):
    made = webhooks(own_user="system:serviceaccount:muster-system:muster")
    assert is_asked(made[f"jobs.{way}.muster.dev"], given, before) is has_queue
    assert is_asked(made[f"jobs-without-queue.{way}.muster.dev"], given, before) is not has_queue


def test_jobs_without_a_queue_are_asked_about_where_there_is_one_for_them():
    wanted = {"key": HAS_DEFAULT_QUEUE, "operator": "In", "values": ["true"]}
    for way in ("mutate", "validate"):
        name = f"jobs-without-queue.{way}.muster.dev"
        assert wanted in webhooks()[name]["namespaceSelector"]["matchExpressions"]
        assert wanted not in webhooks(manages_without_queue=True)[name]["namespaceSelector"]["matchExpressions"]


def test_musters_own_changes_are_not_asked_about_again():
    name = "system:serviceaccount:muster-system:it's"
    for one in ("jobs.validate.muster.dev", "kueue.validate.muster.dev"):
        webhook = webhooks(own_user=name)[one]
        assert not is_asked(webhook, a_job(), a_job(), user=name)
        assert is_asked(webhook, a_job(), None, user=name)
        assert is_asked(webhook, a_job(), a_job())


def test_managed_namespaces_are_those_of_the_configuration():
    selector = Selector((Requirement("team", Operator.EXISTS), Requirement("a", Operator.IN, frozenset({"c", "b"}))))
    found = webhooks(managed_namespaces=selector)["jobs.mutate.muster.dev"]["namespaceSelector"]["matchExpressions"]
    assert found[1:] == [{"key": "team", "operator": "Exists"}, {"key": "a", "operator": "In", "values": ["b", "c"]}]


def test_rules_name_every_kind_in_all_its_versions():
    made = webhooks()
    jobs = [
        (*rule["apiGroups"], *rule["resources"], rule["operations"]) for rule in made["jobs.mutate.muster.dev"]["rules"]
    ]
    assert {(group, plural) for group, plural, _ in jobs} == {
        (one.gvk.group, one.plural) for one in job_kinds().values()
    }
    assert ("batch", "jobs", ["CREATE"]) in jobs
    assert ("apps", "deployments", ["CREATE", "UPDATE"]) in jobs, "what it makes carries its queue on"
    (rule,) = made["kueue.validate.muster.dev"]["rules"]
    assert rule["apiVersions"] == ["v1beta2", "v1beta1"]
    assert {f"{one}.kueue.x-k8s.io" for one in rule["resources"]} == {
        *definition_names(),
        "workloads/status.kueue.x-k8s.io",
    }
    (rule,) = made["kueue.mutate.muster.dev"]["rules"]
    assert (rule["resources"], rule["operations"]) == (["clusterqueues", "resourceflavors", "workloads"], ["CREATE"])


def test_an_installation_is_reached_by_its_service():
    reached = reached_by_service(Configuration())
    assert reached.hosts[0] == "muster-webhook-service.muster-system.svc"
    config = conversion(reached)["webhook"]["clientConfig"]
    assert config["service"]["path"] == "/convert"
    assert "caBundle" not in config  # it is put in when there is one
    assert reached.is_named_by(config)
    assert not reached.is_named_by(conversion(REACHED)["webhook"]["clientConfig"])
    made = configurations(Configuration(), reached)
    expressions = made[0]["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert expressions[1] == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", "kueue-system"],
    }


def test_an_address_may_stand_for_a_service():
    reached = Reached(url="https://127.0.0.1:9443")
    assert reached.client_config("/mutate") == {"url": "https://127.0.0.1:9443/mutate"}
    assert reached.hosts == ("127.0.0.1",)
    assert reached.is_named_by({"url": "https://127.0.0.1:9443/mutate"})
    assert not reached.is_named_by({"url": "https://127.0.0.1:94430/mutate"})
