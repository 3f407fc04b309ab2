"""The manifests that users have today: accepted as written, in both versions, with the warnings that are due."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.dialects.kueue.configuration import read_configuration_fragment
from muster.dialects.kueue.forgiving import queue_name_of_job
from muster.dialects.kueue.kinds import OLDER
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.validate import problems_of, unknown_fields_of
from muster.dialects.kueue.versions import to_hub, to_version
from muster.model.documents import parse_documents, parse_value
from muster.model.errors import InvalidObject
from tests.support import shared

NOBODY = "spec.namespaceSelector"
LIMIT = "spec.resourceGroups[0].flavors[0].resources"

# file: paths of the warnings, and whether strict validation refuses it
MANIFESTS: dict[str, tuple[list[str], bool]] = {
    "kueue-clusterqueue-admission-checks.yaml": ([NOBODY], False),
    "kueue-clusterqueue-ai-training.yaml": ([f"{LIMIT}[2].lendingLimit"], True),
    "kueue-clusterqueue-gpu.yaml": ([NOBODY], False),
    "kueue-clusterqueue-ml-training.yaml": ([NOBODY], False),
    "kueue-clusterqueue-prod.yaml": ([], False),
    "kueue-clusterqueue-production.yaml": ([NOBODY], False),
    "kueue-clusterqueue-safe.yaml": ([NOBODY], False),
    "kueue-clusterqueue-team-a.yaml": ([], False),
    "kueue-clusterqueue-tenant-a.yaml": ([f"{LIMIT}[0].borrowingLimit", LIMIT], True),
    "kueue-clusterqueue-vgpu.yaml": ([NOBODY], False),
    "kueue-flavor-a100.yaml": ([], False),
    "kueue-flavor-topology.yaml": ([], False),
    "kueue-localqueue-team-a.yaml": ([], False),
    "kueue-localqueue-user.yaml": ([], False),
    "kueue-quickstart-queues.yaml": ([], False),
    "kueue-workload-replicas.yaml": (["spec.podSets[0].replicas"], True),
    "kueue-workloadpriorityclass.yaml": ([], False),
}
JOBS = {
    "kueue-job-after-admission.yaml": ("", False),
    "kueue-job-ml-training.yaml": ("team-a-local-queue", False),
    "kueue-job-queue-name-annotation.yaml": ("ai-team-queue", True),
    "kueue-job-sample.yaml": ("user-queue", False),
    "kueue-pod-managed.yaml": ("user-queue", False),
    "kueue-quickstart-job.yaml": ("user-queue", False),
}


def documents(path: str) -> list[dict[str, Any]]:
    return [document.value for document in parse_documents(shared(f"manifests/{path}").read_text(), path)]


def test_every_manifest_is_in_a_table() -> None:
    names = {path.name for path in shared("manifests").glob("kueue-*.yaml")}
    assert names == MANIFESTS.keys() | JOBS.keys() | {"kueue-config-wait-for-pods-ready.yaml"}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_are_accepted(name: str) -> None:
    want, is_refused_when_strict = MANIFESTS[name]
    found = documents(name)
    warned: list[str] = []
    refused: list[InvalidObject] = []
    for made in found:
        errors, warnings = problems_of(made)
        assert not errors, errors
        assert not unknown_fields_of(made)
        warned += [warning.path for warning in warnings]
        refused += problems_of(made, strict=True)[0]
    assert warned == want
    assert bool(refused) is is_refused_when_strict


@pytest.mark.parametrize("name", MANIFESTS)
@pytest.mark.parametrize("preserve", [True, False])
def test_manifests_get_the_same_answers_in_the_newer_version(name: str, preserve: bool) -> None:
    for made in documents(name):
        hub = to_hub(made, preserve=preserve)
        assert [len(part) for part in problems_of(hub)] == [len(part) for part in problems_of(made)]
        assert len(problems_of(hub, strict=True)[0]) == len(problems_of(made, strict=True)[0])
        if preserve:
            assert to_version(hub, OLDER) == made


@pytest.mark.parametrize("name", JOBS)
def test_jobs_name_their_queue(name: str) -> None:
    want, is_warned = JOBS[name]
    (made,) = documents(name)
    queue, warnings = queue_name_of_job(made)
    assert queue == want
    assert bool(warnings) is is_warned


def test_a_part_of_the_configuration_is_read() -> None:
    text = shared("manifests/kueue-config-wait-for-pods-ready.yaml").read_text()
    configuration, notes = read_configuration_fragment(parse_value(text, "config"))
    ready = configuration.wait_for_pods_ready
    assert ready is not None
    assert (ready.timeout_s, ready.recovery_timeout_s, ready.blocks_admission) == (600, 180, True)
    assert (ready.queues_by_eviction, ready.requeues_most, ready.backoff_base_s) == (True, 5, 60)
    assert ready.backoff_most_s == 3600
    assert [note.path for note in notes] == ["apiVersion"]


def test_examples_of_kueue_get_the_verdict_of_a_real_server() -> None:
    verdicts = json.loads(shared("manifests/real-world/verdicts.json").read_text())
    count = 0
    for name in sorted(verdicts):
        if not name.startswith("kueue"):
            continue
        ours = [
            made for made in documents(f"real-world/{name}") if str(made.get("apiVersion")).startswith(f"{GROUP}/v")
        ]
        count += len(ours)
        for made in ours:
            assert verdicts[name]["accepted"] is not bool(problems_of(made, strict=True)[0]), name
    assert count >= 5
