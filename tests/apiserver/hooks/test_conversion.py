"""ConversionReview: the same functions as of the embedded server, many objects at a time."""

from __future__ import annotations

import asyncio
import json

import pytest

from muster.dialects.kueue.versions import to_version
from tests.apiserver.hooks.test_admission import a_cluster_queue, a_workload
from tests.apiserver.hooks.world import Hooks

OLDER, NEWER = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


def converted(objects, version):
    request = {"uid": "c-1", "desiredAPIVersion": version, "objects": objects}
    review = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": request}
    status, answer = asyncio.run(Hooks().send("/convert", json.dumps(review).encode()))
    assert status == 200, answer
    told = json.loads(answer)
    assert (told["kind"], told["response"]["uid"]) == ("ConversionReview", "c-1")
    return told["response"]


def test_there_and_back_loses_nothing():
    newer = [a_cluster_queue(cohortName="one"), a_workload(queueName="main")]
    older = converted(newer, OLDER)
    assert older["result"] == {"status": "Success"}
    assert [one["apiVersion"] for one in older["convertedObjects"]] == [OLDER, OLDER]
    assert older["convertedObjects"] == [to_version(one, "v1beta1") for one in newer]
    assert older["convertedObjects"][0]["spec"]["cohort"] == "one"
    back = converted(older["convertedObjects"], NEWER)
    assert back["convertedObjects"] == newer


def test_none_and_many():
    assert converted([], OLDER)["convertedObjects"] == []
    assert len(converted([a_cluster_queue()] * 333, OLDER)["convertedObjects"]) == 333


@pytest.mark.parametrize(
    ("objects", "version", "said"),
    [
        pytest.param([a_cluster_queue()], "kueue.x-k8s.io/v1", "request.desiredAPIVersion", id="no such version"),
        pytest.param([a_cluster_queue()], "batch/v1", "request.desiredAPIVersion", id="another group"),
        pytest.param(
            [a_cluster_queue(), {"apiVersion": "v1", "kind": "Pod"}], OLDER, "request.objects[1].apiVersion", id="a pod"
        ),
        pytest.param([{**a_cluster_queue(), "kind": "Other"}], OLDER, "request.objects[0].kind", id="no such kind"),
        pytest.param([{**a_cluster_queue(), "spec": 3}], OLDER, "request.objects[0]", id="no spec"),
        pytest.param([3], OLDER, "request.objects[0]", id="no object"),
        pytest.param([json.loads('{"a":' * 150 + "1" + "}" * 150)], OLDER, "request.objects[0]", id="deep"),
    ],
)
def test_what_cannot_be_converted_is_told(objects, version, said):
    response = converted(objects, version)
    assert response["result"]["status"] == "Failure"
    assert said in response["result"]["message"]
    assert response["convertedObjects"] == []
