"""The files of deploy/: as the code makes them, and as safe as they are meant to be."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
import yaml

from muster import __version__
from muster.app.config import Configuration, parse_configuration
from muster.app.job_control import managed_kinds
from muster.app.rights import LEASE, administrator_rules, cluster_rules, metrics_rules, own_rules, reader_rules
from muster.controllers.cache import RESOURCES
from muster.dialects.kueue.configuration_schema import CONFIGURATIONS, HUB
from muster.model.shapes import Struct
from tests.support import ROOT
from tools.deploy import CHART, GENERATED, MANIFESTS, NAMESPACE, PAGE, generated_files, with_table

ANEW = "make the files anew: .venv/bin/python -m tools.deploy"
Object = dict[str, Any]


@cache
def installed() -> tuple[Object, ...]:
    """The objects of the plain manifests."""
    return tuple(one for one in yaml.load_all(MANIFESTS.read_text(), yaml.CSafeLoader) if one)


def of_kind(kind: str) -> list[Object]:
    return [one for one in installed() if one["kind"] == kind]


# As the code makes them -------------------------------------------------------------------------------------------


def test_generated_files_are_those_that_the_code_makes() -> None:
    wanted = generated_files()
    there = {str(path.relative_to(GENERATED)): path.read_text() for path in GENERATED.rglob("*.yaml")}
    assert there.keys() == wanted.keys(), ANEW
    assert [name for name in wanted if wanted[name] != there[name]] == [], ANEW


def test_the_page_has_the_values_of_the_chart() -> None:
    page = PAGE.read_text()
    assert with_table(page) == page, ANEW


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_definitions_fit_into_what_kubectl_notes_of_them() -> None:
    """Whoever applies a file without --server-side has the whole of it in an annotation, which has a limit."""
    texts = [path.read_text() for path in (GENERATED / "definitions").iterdir()]
    assert max(len(json.dumps(yaml.load(text, yaml.CSafeLoader))) for text in texts) < 250_000


# Rights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [cluster_rules, own_rules, metrics_rules, administrator_rules, reader_rules])
def test_no_right_is_for_everything(rules) -> None:
    for rule in rules():
        words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not any("*" in word for word in words)
        assert not {"escalate", "bind", "impersonate"}.intersection(rule["verbs"])


def test_secrets_of_others_cannot_be_read() -> None:
    assert not any("secrets" in rule["resources"] for rule in cluster_rules())
    reading = [rule for rule in own_rules() if "secrets" in rule["resources"] and rule["verbs"] != ["create"]]
    assert all(rule["resourceNames"] for rule in reading)


def test_the_lease_is_the_one_that_managers_share() -> None:
    election = CONFIGURATIONS[HUB].fields["leaderElection"]
    assert isinstance(election, Struct)
    assert election.defaults["resourceName"] == LEASE


def test_what_is_followed_may_be_followed() -> None:
    allowed = {
        (resource if not group else f"{resource}.{group}", verb)
        for rule in cluster_rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    followed = {*RESOURCES, *(kind.resource for kind in managed_kinds(Configuration()))}
    assert {(resource, verb) for resource in followed for verb in ("get", "list", "watch")} <= allowed


def test_the_installed_role_has_the_rules_of_the_code() -> None:
    roles = {one["metadata"]["name"]: one["rules"] for one in (*of_kind("ClusterRole"), *of_kind("Role"))}
    assert roles["muster-manager-role"] == cluster_rules()
    assert roles["muster-own-role"] == own_rules()


# What runs --------------------------------------------------------------------------------------------------------


def test_managers_have_no_more_than_they_need() -> None:
    (deployment,) = of_kind("Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert container["resources"]["limits"].keys() == container["resources"]["requests"].keys()
    assert not spec.get("hostNetwork") and not spec.get("hostPID")
    assert container["image"] == f"muster:{__version__}"


def test_managers_are_kept_running_and_apart() -> None:
    (budget,) = of_kind("PodDisruptionBudget")
    (deployment,) = of_kind("Deployment")
    assert budget["spec"]["minAvailable"] < deployment["spec"]["replicas"]
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    (policy,) = of_kind("NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["podSelector"] == deployment["spec"]["selector"]
    assert deployment["spec"]["template"]["spec"]["priorityClassName"] in {
        one["metadata"]["name"] for one in of_kind("PriorityClass")
    }


def test_webhooks_ask_the_service_that_is_there() -> None:
    (service,) = (one for one in of_kind("Service"))
    for configuration in (*of_kind("MutatingWebhookConfiguration"), *of_kind("ValidatingWebhookConfiguration")):
        for webhook in configuration["webhooks"]:
            asked = webhook["clientConfig"]["service"]
            assert (asked["name"], asked["namespace"]) == (service["metadata"]["name"], NAMESPACE)
            assert asked["port"] == service["spec"]["ports"][0]["port"]


def test_the_configuration_is_one_that_muster_reads() -> None:
    (config,) = of_kind("ConfigMap")
    (text,) = config["data"].values()
    settings = parse_configuration(text, "the chart").webhooks
    assert (settings.namespace, settings.service) == (NAMESPACE, "muster-webhook-service")
    assert settings.makes_certificates


# The image --------------------------------------------------------------------------------------------------------


def test_the_image_is_built_from_the_lock_and_run_by_nobody() -> None:
    lines = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    words = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    images = [rest.split()[0] for word, rest in words if word == "FROM"]
    assert all(re.fullmatch(r"[a-z]+:[0-9][a-z0-9.-]*", image) for image in images), "images are plain names with a tag"
    installs = [rest for word, rest in words if word == "RUN" and "pip install" in rest]
    assert all("--require-hashes" in rest and "--only-binary" in rest for rest in installs)
    last_stage = words[max(index for index, (word, _) in enumerate(words) if word == "FROM") :]
    users = [rest for word, rest in last_stage if word == "USER"]
    assert users == ["65532:65532"], "as the chart has it"
    assert not any(word == "ADD" for word, _ in words)
