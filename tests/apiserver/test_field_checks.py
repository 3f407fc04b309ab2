"""Bodies as their types have them: what is kept, what is dropped, what is refused, in the server's words."""

from __future__ import annotations

import json

import pytest

from muster.apiserver.field_checks import (
    duplicate_fields,
    read,
    read_body,
    strict_problems,
    strict_refusal,
    unknown_fields,
)
from muster.apiserver.statuses import Problem
from tests.apiserver.samples import full

POD = "io.k8s.api.core.v1.Pod"
SECRET = "io.k8s.api.core.v1.Secret"
LEASE = "io.k8s.api.coordination.v1.Lease"


def pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def container(**fields):
    return pod(containers=[fields])


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (pod(restartPolicy="", hostNetwork=False, nodeSelector={}, volumes=[]), {}),
        (
            pod(priority=0, hostUsers=False, runtimeClassName=""),
            {"priority": 0, "hostUsers": False, "runtimeClassName": ""},
        ),
        (pod(priority=None, affinity=None), {}),
        (pod(affinity={}), {"affinity": {}}),
        (
            pod(overhead={"cpu": 1.5, "memory": "1024Mi", "x": None}),
            {"overhead": {"cpu": "1500m", "memory": "1Gi", "x": "0"}},
        ),
        (pod(nodeSelector={"a": None}), {"nodeSelector": {"a": ""}}),
        (pod(containers=[None]), {"containers": [{"name": "", "resources": {}}]}),
    ],
)
def test_an_object_is_what_go_would_write(given, want):
    assert read(given, POD).value["spec"] == want


def test_times_have_one_form():
    spec = {"renewTime": "2024-02-29T03:02:03.1234567+02:00"}
    lease = read({"spec": spec, "metadata": {"creationTimestamp": "2024-02-29T03:02:03.5+02:00"}}, LEASE).value
    assert lease["spec"]["renewTime"] == "2024-02-29T01:02:03.123456Z"
    assert lease["metadata"]["creationTimestamp"] == "2024-02-29T01:02:03Z"


@pytest.mark.parametrize(
    ("given", "type_name", "problem"),
    [
        (pod(priority="3"), POD, "string into Go struct field PodSpec.spec.priority of type int32"),
        (pod(priority=3.0), POD, "json: cannot unmarshal number 3.0 into Go struct field PodSpec.spec.priority"),
        (pod(priority=1 << 40), POD, "cannot unmarshal number 1099511627776 into Go struct field"),
        (container(name=3), POD, "number into Go struct field Container.spec.containers.name of type string"),
        (container(ports={}), POD, "Go struct field Container.spec.containers.ports of type []v1.ContainerPort"),
        (container(resources="a"), POD, "of type v1.ResourceRequirements"),
        (container(resources={"limits": {"cpu": "1 Gi"}}), POD, "quantities must match the regular expression"),
        (container(resources={"limits": {"cpu": True}}), POD, "quantities must match the regular expression"),
        (pod(nodeSelector={"a": 3}), POD, "number into Go struct field PodSpec.spec.nodeSelector of type string"),
        ({**pod(), "spec": []}, POD, "cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        ({**pod(), "metadata": {"creationTimestamp": "now"}}, POD, 'parsing time "now"'),
        ({**pod(), "metadata": {"creationTimestamp": "2024-02-30T00:00:00Z"}}, POD, "parsing time"),
        ({"apiVersion": "v1", "data": {"a": "!!"}}, SECRET, "illegal base64 data at input byte 0"),
        ({"apiVersion": "v1", "data": {"a": 3}}, SECRET, "number into Go struct field Secret.data of type []uint8"),
    ],
)
def test_another_type_is_refused_in_the_words_of_the_server(given, type_name, problem):
    with pytest.raises(Problem) as caught:
        read_body(given, type_name)
    name = type_name.rpartition(".")[2]
    assert caught.value.code == 400
    assert caught.value.message.startswith(f'{name} in version "v1" cannot be handled as a {name}: ')
    assert problem in caught.value.message


def test_unknown_fields_have_their_paths():
    given = {**container(name="a", Image="x"), "top": 1}
    given["metadata"]["deep"] = {"er": 1}
    assert unknown_fields(given, POD) == ["metadata.deep", "spec.containers[0].Image", "top"]
    assert unknown_fields(pod(nodeSelector={"any": "key"}), POD) == []


def test_fields_given_twice_are_named_once_each():
    body = b'{"kind":"Pod","kind":"Pod","spec":{"containers":[{"name":"a","name":"b","name":"c","odd":1,"odd":2}]}}'
    assert duplicate_fields(body) == ["kind", "spec.containers[0].name", "spec.containers[0].odd"]
    assert strict_problems(body, ["spec.containers[0].odd"]) == [
        'duplicate field "kind"',
        'duplicate field "spec.containers[0].name"',
        'unknown field "spec.containers[0].odd"',
    ]
    assert duplicate_fields(json.dumps(full("v1", "Pod")).encode()) == []


def test_a_strict_refusal_names_all_of_it():
    problem = strict_refusal(pod(), POD, ['unknown field "a"', 'unknown field "b"'])
    told = 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "a", unknown field "b"'
    assert (problem.code, problem.message) == (400, told)


def test_everything_that_a_type_has_is_kept():
    given = full("v1", "Pod")
    assert read(given, POD).unknown == []
    assert read(given, POD).value == given
    schema = full("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    type_name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    assert read(schema, type_name).unknown == []


def test_a_type_that_holds_itself_is_read_only_so_deep():
    schema = {"type": "object"}
    for _ in range(500):
        schema = {"properties": {"a": schema}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    given = {"apiVersion": "apiextensions.k8s.io/v1", "spec": {"versions": [version]}}
    with pytest.raises(Problem, match="deeper than"):
        read_body(given, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")


def test_what_is_the_same_in_the_object_before_is_taken_from_there():
    given = {"kind": "Pod", "metadata": {"name": "one"}, "spec": {"nodeName": "a"}, "status": {"phase": "Running"}}
    before = read_body(given, POD).value
    after = {**given, "status": {"phase": "Failed", "unheard": 1}}
    found = read_body(after, POD, known=before)
    assert found == read_body(after, POD) and found.unknown == ["status.unheard"]
    assert found.value["spec"] is before["spec"]
