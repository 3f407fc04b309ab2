"""The chart through real Helm, and what it makes on a real API server: all of it is taken, the rights are as meant."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.app.config import parse_configuration
from muster.app.monitoring import METRICS
from muster.app.rights import LEASE, cluster_rules, metrics_rules, own_rules
from tests.kubernetes.build import NoControlPlane, helm
from tests.kubernetes.client import Client
from tests.kubernetes.managed import DEFINITIONS, wait_established
from tests.kubernetes.plane import Plane, started
from tools.deploy import ACCOUNT, CHART, GENERATED, MANIFESTS, NAMESPACE, manifests, template_command

Object = dict[str, Any]
Asked = tuple[str, str, str, str]  # a group, a resource of it, a verb and a name
MUSTER_YAML = "managerConfig.controllerManagerConfigYaml=guards: {repeatsMost: 5}"
MANAGES_ALL = """managerConfig:
  controllerManagerConfigYaml: |
    apiVersion: config.kueue.x-k8s.io/v1beta2
    kind: Configuration
    leaderElection: {resourceName: ours}
    manageJobsWithoutQueueName: true
    managedJobsNamespaceSelector: {matchLabels: {batch: "yes"}}
"""


@pytest.fixture(scope="module")
def helm_program(real_program: Path) -> Path:
    try:
        return helm()
    except NoControlPlane as missing:
        pytest.skip(str(missing))


def run(*command: Any, text: str = "") -> str:
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300)
    assert answer.returncode == 0, f"{command}: {answer.stdout} {answer.stderr}"
    return answer.stdout


def rendered(helm_program: Path, *settings: str, values: str = "", namespace: str = NAMESPACE) -> list[Object]:
    """The objects that Helm makes of the chart."""
    options = [option for setting in settings for option in ("--set", setting)]
    text = run(*template_command(helm_program), "--namespace", namespace, "--values", "-", *options, text=values)
    return [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [one for one in objects if one["kind"] == kind]


# Helm -------------------------------------------------------------------------------------------------------------


def test_helm_finds_nothing_wrong(helm_program: Path) -> None:
    assert "0 chart(s) failed" in run(helm_program, "lint", "--strict", CHART)


def test_the_plain_manifests_are_what_helm_makes(helm_program: Path) -> None:
    assert manifests(helm_program) == MANIFESTS.read_text(), "make them anew: .venv/bin/python -m tools.deploy"


def test_definitions_come_with_the_chart_and_stay_when_it_goes(helm_program: Path) -> None:
    definitions = of_kind(rendered(helm_program), "CustomResourceDefinition")
    files = {path.stem: yaml.load(path.read_text(), yaml.CSafeLoader) for path in (GENERATED / "definitions").iterdir()}
    assert {one["metadata"]["name"]: one["spec"] for one in definitions} == {
        name: one["spec"] for name, one in files.items()
    }
    assert all(one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for one in definitions)


def test_everything_follows_the_namespace_and_the_name(helm_program: Path) -> None:
    objects = rendered(helm_program, "fullnameOverride=queues", namespace="batch")
    text = yaml.safe_dump(objects)
    assert NAMESPACE not in text and "muster-webhook-service" not in text
    (role,) = (one for one in of_kind(objects, "Role"))
    assert ["queues-webhook-server-cert"] in [rule.get("resourceNames") for rule in role["rules"]]
    (webhooks,) = of_kind(objects, "MutatingWebhookConfiguration")
    excluded = webhooks["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"]
    assert excluded == ["kube-system", "batch"]


def test_certificates_can_come_from_cert_manager(helm_program: Path) -> None:
    objects = rendered(helm_program, "enableCertManager=true")
    (certificate,) = of_kind(objects, "Certificate")
    assert f"muster-webhook-service.{NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    trusting = [
        *of_kind(objects, "MutatingWebhookConfiguration"),
        *of_kind(objects, "ValidatingWebhookConfiguration"),
        *(one for one in of_kind(objects, "CustomResourceDefinition") if one["spec"].get("conversion")),
    ]
    wanted = f"{NAMESPACE}/{certificate['metadata']['name']}"
    assert {one["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] for one in trusting} == {wanted}
    (config,) = of_kind(objects, "ConfigMap")
    settings = parse_configuration(config["data"]["controller_manager_config.yaml"], "the chart").webhooks
    assert not settings.makes_certificates
    (deployment,) = of_kind(objects, "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    mounted = {one["name"]: one["mountPath"] for one in spec["containers"][0]["volumeMounts"]}
    (volume,) = (one["name"] for one in spec["volumes"] if "secret" in one)
    assert mounted[volume] == str(settings.folder)
    assert {"secretName": certificate["spec"]["secretName"], "defaultMode": 0o440} in [
        one.get("secret") for one in spec["volumes"]
    ]


def test_metrics_are_read_from_the_namespace_of_prometheus(helm_program: Path) -> None:
    objects = rendered(helm_program, "enablePrometheus=true", "metrics.prometheusNamespace=watchers")
    (monitor,) = of_kind(objects, "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    (service,) = (one for one in of_kind(objects, "Service") if "metrics" in one["metadata"]["name"])
    (port,) = service["spec"]["ports"]
    assert (endpoint["port"], endpoint["path"], endpoint["scheme"]) == (port["name"], METRICS, "https")
    (deployment,) = of_kind(objects, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert port["targetPort"] in [one["containerPort"] for one in container["ports"]]
    (config,) = of_kind(objects, "ConfigMap")
    settings = parse_configuration(config["data"]["controller_manager_config.yaml"], "the chart").monitoring
    assert settings.metrics_address == f":{port['targetPort']}"
    rules = [rule for one in of_kind(objects, "ClusterRole") for rule in one["rules"]]
    assert all(rule in rules for rule in (*metrics_rules(), {"nonResourceURLs": [METRICS], "verbs": ["get"]}))
    (policy,) = of_kind(objects, "NetworkPolicy")
    assert "watchers" in yaml.safe_dump(policy["spec"]["ingress"])


def test_webhooks_and_rights_follow_the_configuration(helm_program: Path) -> None:
    objects = rendered(helm_program, values=MANAGES_ALL)
    (role,) = of_kind(objects, "Role")
    assert ["ours"] in [rule.get("resourceNames") for rule in role["rules"] if rule["resources"] == ["leases"]]
    (webhooks,) = of_kind(objects, "MutatingWebhookConfiguration")
    for webhook in webhooks["webhooks"]:
        if webhook["name"].startswith("jobs"):
            assert webhook["namespaceSelector"] == {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", NAMESPACE]}
                ],
                "matchLabels": {"batch": "yes"},
            }


def test_a_muster_yaml_is_a_configuration_too(helm_program: Path) -> None:
    (config,) = of_kind(rendered(helm_program, MUSTER_YAML), "ConfigMap")
    read = yaml.safe_load(config["data"]["controller_manager_config.yaml"])
    assert read["guards"] == {"repeatsMost": 5}
    assert read["kueue"]["configuration"]["namespace"] == NAMESPACE


# A real API server ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(real_program, tmp_path_factory) -> Iterator[Plane]:
    """A real server of our own with everything installed from the plain files."""
    with started(tmp_path_factory.mktemp("chart")) as plane:
        plane.kubectl("create", "namespace", NAMESPACE)  # so that all else can be applied at once
        files = ("-f", str(GENERATED / "definitions"), "-f", str(MANIFESTS))
        plane.kubectl("apply", "--server-side", "--force-conflicts", *files)
        yield plane


def test_installing_again_changes_nothing(cluster: Plane) -> None:
    files = ("-f", str(GENERATED / "definitions"), "-f", str(MANIFESTS))
    told = cluster.kubectl("apply", "--server-side", *files)
    assert "serverside-applied" in told
    assert cluster.kubectl("diff", "--server-side", *files) == ""


def test_definitions_are_established(cluster: Plane) -> None:
    wait_established(cluster)
    there = {one["metadata"]["name"] for one in cluster.client.request("GET", DEFINITIONS).json["items"]}
    assert there == {path.stem for path in (GENERATED / "definitions").iterdir()}


def test_managers_may_do_what_is_meant_and_nothing_else(cluster: Plane) -> None:
    client = cluster.client
    wrong = [
        (namespace, *asked)
        for resource in _served(client)
        for verb in VERBS
        for namespace in (NAMESPACE, "default")
        for asked in {(*resource, verb, name) for name in ("", *_named(*resource))}
        if _may(client, namespace, asked) is not _is_meant(namespace, asked)
    ]
    assert wrong == []


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "escalate")
BY_NAME = ("leases", "secrets", "customresourcedefinitions", "validatingwebhookconfigurations", "pods", "workloads")


def _named(_group: str, resource: str) -> tuple[str, ...]:
    """Names to ask about beside any: one that Muster has, and one that it has not."""
    own = {
        "leases": LEASE,
        "secrets": "muster-webhook-server-cert",
        "customresourcedefinitions": "cohorts.kueue.x-k8s.io",
    }
    return (own.get(resource, "muster"), "another") if resource in BY_NAME else ()


def _is_meant(namespace: str, asked: Asked) -> bool:
    group, resource, verb, name = asked
    rules = [*cluster_rules(), *(own_rules() if namespace == NAMESPACE else ())]
    return any(
        group in rule["apiGroups"]
        and resource in rule["resources"]
        and verb in rule["verbs"]
        and ("resourceNames" not in rule or name in rule["resourceNames"])
        for rule in rules
    )


def _may(client: Client, namespace: str, asked: Asked) -> bool:
    group, resource, verb, name = asked
    plural, _, part = resource.partition("/")
    attributes = {"namespace": namespace, "group": group, "resource": plural, "verb": verb, "name": name}
    if part:
        attributes["subresource"] = part
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    }
    answer = client.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer.status == 201, answer.body
    return bool(answer.json["status"]["allowed"])


def _served(client: Client) -> list[tuple[str, str]]:
    """Everything that the server has, by group."""
    groups = client.request("GET", "/apis").json["groups"]
    found = {("", one["name"]) for one in client.request("GET", "/api/v1").json["resources"]}
    for group in groups:
        version = group["preferredVersion"]["groupVersion"]
        found.update(
            (group["name"], one["name"]) for one in client.request("GET", f"/apis/{version}").json["resources"]
        )
    return sorted(found)


# Helm on a real API server ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare(real_program, tmp_path_factory) -> Iterator[Plane]:
    """A real server of our own with nothing installed."""
    with started(tmp_path_factory.mktemp("helm")) as plane:
        yield plane


def test_helm_installs_upgrades_and_leaves_what_others_brought(helm_program: Path, bare: Plane) -> None:
    theirs = yaml.load((GENERATED / "definitions" / "cohorts.kueue.x-k8s.io.yaml").read_text(), yaml.CSafeLoader)
    del theirs["spec"]["conversion"]
    bare.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump(theirs))
    where = ("--kubeconfig", str(bare.kubeconfig), "--namespace", NAMESPACE)
    # There are no nodes here: what is made is looked at, not waited for.
    run(helm_program, "install", "muster", CHART, "--create-namespace", *where)
    run(helm_program, "upgrade", "muster", CHART, "--set", "controllerManager.replicas=3", *where)
    assert bare.kubectl("get", "deployments", "-n", NAMESPACE, "-o", "jsonpath={.items[*].spec.replicas}") == "3"
    assert "Webhook" not in bare.kubectl(
        "get", "crd/cohorts.kueue.x-k8s.io", "-o", "jsonpath={.spec.conversion.strategy}"
    )
    installed = set(bare.kubectl("get", "crds", "-o", "name").split())
    assert len(installed) == len(list((GENERATED / "definitions").iterdir()))
    run(helm_program, "uninstall", "muster", *where)
    assert set(bare.kubectl("get", "crds", "-o", "name").split()) == installed
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations", "priorityclasses"):
        assert "muster" not in bare.kubectl("get", kind, "-o", "name")
