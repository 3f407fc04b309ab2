"""The tables say of Kubernetes' types and kinds what everybody knows of them, whole and without texts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from muster.apiserver import facts
from muster.apiserver.facts import FOLDER, KINDS, TYPES, Shape, all_kinds, shape, type_of

CORE = "io.k8s.api.core.v1."
META = facts.META


def field(type_name, name):
    return TYPES[type_name].fields[name]


@pytest.mark.parametrize(
    ("type_name", "name", "patched", "applied"),
    [
        (CORE + "PodSpec", "containers", (("merge",), "name"), ("map", ("name",))),
        (CORE + "PodSpec", "volumes", (("merge", "retainKeys"), "name"), ("map", ("name",))),
        (CORE + "PodSpec", "tolerations", ((), ""), ("atomic", ())),
        (CORE + "Container", "ports", (("merge",), "containerPort"), ("map", ("containerPort", "protocol"))),
        (CORE + "Container", "env", (("merge",), "name"), ("map", ("name",))),
        (CORE + "Container", "args", ((), ""), ("atomic", ())),
        (CORE + "ServiceSpec", "ports", (("merge",), "port"), ("map", ("port", "protocol"))),
        (CORE + "PodStatus", "conditions", (("merge",), "type"), ("map", ("type",))),
        (META + "ObjectMeta", "finalizers", (("merge",), ""), ("set", ())),
        (META + "ObjectMeta", "ownerReferences", (("merge",), "uid"), ("map", ("uid",))),
        ("io.k8s.api.apps.v1.DeploymentSpec", "strategy", (("retainKeys",), ""), ("", ())),
    ],
)
def test_how_a_field_is_merged(type_name, name, patched, applied):
    found = field(type_name, name)
    assert (found.patch_strategy, found.patch_merge_key) == patched
    assert (found.list_type, found.list_map_keys) == applied


@pytest.mark.parametrize(
    ("type_name", "name", "number", "kind", "wire"),
    [
        (CORE + "Pod", "metadata", 1, "object", "bytes"),
        (CORE + "Pod", "apiVersion", 0, "string", "bytes"),
        (CORE + "PodSpec", "containers", 2, "list", "bytes"),
        (CORE + "PodSpec", "nodeName", 10, "string", "bytes"),
        (CORE + "PodSpec", "terminationGracePeriodSeconds", 4, "int64", "varint"),
        (CORE + "PodSpec", "hostNetwork", 11, "bool", "varint"),
        (CORE + "ResourceRequirements", "limits", 1, "map", "bytes"),
        (CORE + "Secret", "data", 2, "map", "bytes"),
        (CORE + "ServicePort", "targetPort", 4, "intorstring", "bytes"),
        (META + "ObjectMeta", "creationTimestamp", 8, "time", "bytes"),
        (META + "ManagedFieldsEntry", "fieldsV1", 7, "raw", "bytes"),
        ("io.k8s.api.coordination.v1.LeaseSpec", "renewTime", 4, "microtime", "bytes"),
        (facts.SCHEMA, "maximum", 9, "float64", "fixed64"),
    ],
)
def test_where_a_field_is_on_the_wire(type_name, name, number, kind, wire):
    found = field(type_name, name)
    assert (found.number, found.shape.kind, found.shape.wire) == (number, kind, wire)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("string", Shape("string")),
        ("[]int64", Shape("list", of=Shape("int64"))),
        ("map[string]bytes", Shape("map", of=Shape("bytes"))),
        ("box []string", Shape("list", of=Shape("string"), is_boxed=True)),
        ("map[string]box []string", Shape("map", of=Shape("list", of=Shape("string"), is_boxed=True))),
        ("io.k8s.api.core.v1.Pod", Shape("object", type_name="io.k8s.api.core.v1.Pod")),
    ],
)
def test_shapes(text, want):
    assert shape(text) == want


def test_fields_of_inlined_types_are_there():
    volume = TYPES[CORE + "Volume"]
    assert "hostPath" in volume.fields and "hostPath" not in volume.own
    assert [(one.number, one.shape.type_name) for one in volume.inlined] == [(2, CORE + "VolumeSource")]


def test_what_is_required_chosen_from_and_set_by_default():
    assert field(CORE + "PodSpec", "containers").is_required
    assert not field(CORE + "PodSpec", "nodeName").is_required
    assert field(CORE + "Container", "imagePullPolicy").enum == ("Always", "IfNotPresent", "Never")
    assert field(CORE + "ContainerPort", "protocol").default == "TCP"
    assert field(CORE + "PodSpec", "nodeSelector").map_type == "atomic"
    assert TYPES[META + "LabelSelector"].map_type == "atomic"


@pytest.mark.parametrize(
    ("key", "plural", "singular", "short_names", "is_namespaced"),
    [
        (("", "v1", "Pod"), "pods", "pod", ("po",), True),
        (("", "v1", "Node"), "nodes", "node", ("no",), False),
        (("", "v1", "Namespace"), "namespaces", "namespace", ("ns",), False),
        (("", "v1", "PersistentVolumeClaim"), "persistentvolumeclaims", "persistentvolumeclaim", ("pvc",), True),
        (("apps", "v1", "Deployment"), "deployments", "deployment", ("deploy",), True),
        (("batch", "v1", "CronJob"), "cronjobs", "cronjob", ("cj",), True),
        (
            ("autoscaling", "v2", "HorizontalPodAutoscaler"),
            "horizontalpodautoscalers",
            "horizontalpodautoscaler",
            ("hpa",),
            True,
        ),
        (("scheduling.k8s.io", "v1", "PriorityClass"), "priorityclasses", "priorityclass", ("pc",), False),
        (
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            "customresourcedefinitions",
            "customresourcedefinition",
            ("crd", "crds"),
            False,
        ),
    ],
)
def test_names_of_a_kind(key, plural, singular, short_names, is_namespaced):
    kind = KINDS[key]
    assert (kind.plural, kind.singular, kind.short_names) == (plural, singular, short_names)
    assert kind.is_namespaced == is_namespaced


def test_verbs_categories_and_subresources():
    deployment = KINDS["apps", "v1", "Deployment"]
    everything = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    assert deployment.verbs == everything and deployment.categories == ("all",)
    scale = deployment.subresources["scale"]
    assert (scale.group, scale.version, scale.kind, scale.verbs) == (
        "autoscaling",
        "v1",
        "Scale",
        ("get", "patch", "update"),
    )
    assert deployment.subresources["status"].kind == "Deployment"
    pod = KINDS["", "v1", "Pod"]
    assert {"binding", "eviction", "log", "exec", "status", "ephemeralcontainers"} <= set(pod.subresources)
    assert pod.subresources["eviction"].group == "policy"
    assert pod.subresources["binding"].verbs == ("create",)
    assert KINDS["authorization.k8s.io", "v1", "SelfSubjectAccessReview"].verbs == ("create",)


def test_columns_are_those_that_kubectl_shows():
    pod = KINDS["", "v1", "Pod"]
    shown = ["Name", "Ready", "Status", "Restarts", "Age"]
    wide = ["IP", "Node", "Nominated Node", "Readiness Gates"]
    assert [column.name for column in pod.columns if not column.priority] == shown
    assert [column.name for column in pod.columns if column.priority] == wide
    assert (pod.columns[0].type, pod.columns[0].format) == ("string", "name")
    job = KINDS["batch", "v1", "Job"]
    assert [column.name for column in job.columns][:5] == ["Name", "Status", "Completions", "Duration", "Age"]


def test_field_selectors():
    pod = set(KINDS["", "v1", "Pod"].field_selectors)
    assert {"metadata.name", "metadata.namespace", "spec.nodeName", "spec.schedulerName", "status.phase"} <= pod
    assert "spec.priority" not in pod
    assert {"involvedObject.name", "reason", "type"} <= set(KINDS["", "v1", "Event"].field_selectors)
    assert "spec.unschedulable" in KINDS["", "v1", "Node"].field_selectors
    assert KINDS["", "v1", "ConfigMap"].field_selectors == ("metadata.name", "metadata.namespace")


@pytest.mark.parametrize(
    ("key", "want"),
    [
        (("", "v1", "Pod"), CORE + "Pod"),
        (("apps", "v1", "DeploymentList"), "io.k8s.api.apps.v1.DeploymentList"),
        (("autoscaling", "v1", "Scale"), "io.k8s.api.autoscaling.v1.Scale"),
        (("apps", "v1", "DeleteOptions"), META + "DeleteOptions"),
        (("meta.k8s.io", "v1", "PartialObjectMetadata"), META + "PartialObjectMetadata"),
        (("", "v1", "Container"), ""),
        (("kueue.x-k8s.io", "v1beta1", "Workload"), ""),
    ],
)
def test_the_type_of_a_kind(key, want):
    assert type_of(*key) == want


def test_every_type_that_is_named_is_there():
    named = {type_of(*group_version.rpartition("/")[::2], kind) for group_version, kind in all_kinds()}
    waiting = list(named | {kind.type_name for kind in KINDS.values()})
    seen = set()
    while waiting:
        found = TYPES[waiting.pop()]
        if found.name not in seen:
            seen.add(found.name)
            waiting += filter(None, (held(one.shape).type_name for one in (*found.fields.values(), *found.inlined)))
    # What is only inlined is a type too; nothing else is left over.
    assert seen == set(TYPES) and len(TYPES) == len(seen) > 500


def held(one):
    return held(one.of) if one.of else one


def test_numbers_of_a_type_differ():
    for name, found in TYPES.items():
        numbers = [one.number for one in (*found.own.values(), *found.inlined) if one.number]
        assert len(numbers) == len(set(numbers)), name


def test_there_are_facts_and_no_sentences():
    """No text in the tables is longer than a name or a list of names."""
    for path in (FOLDER / "kinds.json", *(FOLDER / "types").glob("*.json")):
        assert all(
            " " not in text.replace("box []", "") or len(text) < 40 for text in texts(json.loads(path.read_bytes()))
        )
    size = sum(path.stat().st_size for path in FOLDER.rglob("*.json"))
    assert size < 600_000, f"the tables have {size} bytes"


def texts(value):
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


def test_unknown_names_are_not_found():
    assert "io.k8s.api.core.v1.Nothing" not in TYPES and "Pod" not in TYPES
    assert ("", "v1", "Nothing") not in KINDS


def test_importing_reads_nothing():
    """A command that never asks for a fact does not wait for the tables."""
    code = "import muster.apiserver.facts as f; print(f._kinds_table.cache_info().currsize)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "0\n"
