"""A real API server asks Muster's webhooks: defaults, refusals, versions, rights, outages and new certificates."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from muster.app.config import Configuration
from tests.kubernetes.canary import SECRET, canary
from tests.kubernetes.hooked import JOBS, PODS, Hooked, a_cluster_queue, a_job, a_pod, hooked
from tests.kubernetes.managed import managed
from tests.kubernetes.plane import started
from tests.support import proof_count, shared

OLDER, NEWER = "/apis/kueue.x-k8s.io/v1beta1", "/apis/kueue.x-k8s.io/v1beta2"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/team"
SHARED = "/apis/batch/v1/namespaces/shared/jobs"  # where there is a queue for jobs that name none
GATE = {"name": "kueue.x-k8s.io/admission"}


@pytest.fixture(scope="module")
def world(real_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooked]:
    shared("crds")  # skips where there are none
    with (
        started(tmp_path_factory.mktemp("hooked")) as plane,
        hooked(plane, Configuration(checks_queue_use=True)) as one,
    ):
        yield one


def test_a_job_is_held_back_and_its_pods_are_given_to_muster(world):
    held = world.made(JOBS, a_job("held"))
    assert (held["spec"]["suspend"], held["spec"]["template"]["spec"]["schedulerName"]) == (True, "muster")
    free = world.made(JOBS, a_job("free", queue=""))
    assert (free["spec"]["suspend"], free["spec"]["template"]["spec"]["schedulerName"]) == (False, "default-scheduler")


def test_a_pod_is_held_back_by_its_gate(world):
    held = world.made(PODS, a_pod("held"))
    assert (held["spec"]["schedulingGates"], held["spec"]["schedulerName"]) == ([GATE], "muster")
    assert "schedulingGates" not in world.made(PODS, a_pod("free", queue=""))["spec"]


def test_a_queue_named_the_old_way_is_read_with_a_warning(world):
    job = a_job("older", queue="")
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/queue-name": "main"}
    answer = world.client.request("POST", JOBS, job)
    assert answer.json["spec"]["suspend"] is True
    assert any("names the queue the old way" in one for one in answer.warnings)


def test_the_queue_of_a_running_job_stays(world):
    world.made(JOBS, a_job("runs"))
    patch = "application/merge-patch+json"
    going = world.client.request("PATCH", f"{JOBS}/runs", {"spec": {"suspend": False}}, content_type=patch)
    assert going.status == 200, going.body
    moved = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}}
    refused = world.client.request("PATCH", f"{JOBS}/runs", moved, content_type=patch)
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert "jobs.validate.muster.dev" in refused.json["message"]
    assert refused.json["details"]["causes"][0]["field"] == "metadata.labels[kueue.x-k8s.io/queue-name]"
    unnamed = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}}
    assert world.client.request("PATCH", f"{JOBS}/runs", unnamed, content_type=patch).status == 422


def test_kueues_kinds_get_their_defaults_and_their_refusals(world):
    made = world.made(f"{NEWER}/clusterqueues", a_cluster_queue("defaults"))
    assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    # A mistake that no schema knows of: the rules between fields are the webhook's.
    wrong = a_cluster_queue("wrong")
    wrong["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["name"] = "memory"
    refused = world.client.request("POST", f"{NEWER}/clusterqueues", wrong)
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert refused.json["message"].startswith('admission webhook "kueue.validate.muster.dev" denied the request: ')
    assert refused.json["details"]["causes"][0]["field"].startswith("spec.resourceGroups[0].flavors[0]")


def test_an_older_version_is_judged_by_the_fields_that_it_has(world):
    answer = world.client.request("POST", f"{OLDER}/clusterqueues", a_cluster_queue("fields", "v1beta1", cohort="a b"))
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "spec.cohort"


def test_versions_are_converted_both_ways(world):
    world.made(f"{OLDER}/clusterqueues", a_cluster_queue("from-older", "v1beta1", cohort="one"))
    world.made(f"{NEWER}/clusterqueues", a_cluster_queue("from-newer", cohortName="two"))
    names = {"from-older": "one", "from-newer": "two"}
    for version, field in (("v1beta1", "cohort"), ("v1beta2", "cohortName")):
        told = world.plane.kubectl("get", f"clusterqueues.{version}.kueue.x-k8s.io", *names, "-o", "json")
        found = {one["metadata"]["name"]: one["spec"][field] for one in json.loads(told)["items"]}
        assert found == names
    listed = world.client.request("GET", f"{OLDER}/clusterqueues").json["items"]
    assert {one["apiVersion"] for one in listed} == {"kueue.x-k8s.io/v1beta1"}


# Rights --------------------------------------------------------------------------------------------------------------


def test_whoever_may_not_use_a_queue_may_not_submit_to_it(world):
    anna = replace(world.client, headers=(("Impersonate-User", "anna"),))
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]
    _grant(world, "submit", rules)
    world.until(lambda: anna.request("POST", f"{JOBS}?dryRun=All", a_job("free-one", queue="")).status == 201)
    refused = anna.request("POST", JOBS, a_job("mine"))
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert refused.json["message"] == (
        'admission webhook "jobs.validate.muster.dev" denied the request: localqueues.kueue.x-k8s.io "main" is '
        'forbidden: User "anna" cannot use resource "localqueues" in API group "kueue.x-k8s.io" in the namespace "team"'
    )
    use = {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"], "resourceNames": ["main"], "verbs": ["use"]}
    _grant(world, "use", [use])
    world.until(lambda: anna.request("POST", f"{JOBS}?dryRun=All", a_job("mine")).status == 201)
    assert anna.request("POST", JOBS, a_job("mine-too", queue="other")).status == 403


def _grant(world: Hooked, name: str, rules: list) -> None:
    world.made(f"{RIGHTS}/roles", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "anna"}
    world.made(f"{RIGHTS}/rolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})


# Outages -------------------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_without_muster_nothing_unmanaged_is_refused_and_nothing_managed_starts(world, tmp_path):
    count = proof_count(1_000)
    world.stop()
    try:
        _run_and_kill(world, tmp_path)
        for number in range(count):
            free = world.client.request("POST", PODS, a_pod(f"down-free-{number}", queue=""))
            assert free.status == 201, free.body
            held = world.client.request("POST", PODS, a_pod(f"down-held-{number}"))
            assert (held.status, "failed calling webhook" in held.json["message"]) == (500, True)
        assert world.client.request("POST", JOBS, a_job("down-job")).status == 500
        assert world.client.request("POST", SHARED, _unnamed()).status == 500
        assert world.client.request("POST", JOBS, a_job("down-free-job", queue="")).status == 201
    finally:
        world.start()
    names = [one["metadata"]["name"] for one in world.client.request("GET", PODS).json["items"]]
    assert sum(one.startswith("down-free-") for one in names) == count
    assert not any(one.startswith("down-held-") for one in names)
    assert world.made(PODS, a_pod("up-again"))["spec"]["schedulingGates"] == [GATE]


def _run_and_kill(world: Hooked, folder: Path) -> None:
    """Have a whole `muster manage` answer, and end it in the middle of that."""
    configuration = folder / "configuration.json"
    frameworks = {"frameworks": ["batch/job", "pod"]}
    block = {"webhook": world.webhook_block, "integrations": frameworks}
    configuration.write_text(json.dumps({"kueue": {"configuration": block}}))
    with managed(world.plane, folder, "--webhooks", world.reached.url, "--config", str(configuration)) as process:
        world.until(world.is_asked)
        assert world.made(PODS, a_pod("managed"))["spec"]["schedulingGates"] == [GATE]
        _have_default_queue(world)
        process.kill()
        process.wait()


def _have_default_queue(world: Hooked) -> None:
    """A namespace with a queue for jobs that name none: those wait for Muster, too."""
    world.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": "shared"}})
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "default"}}
    world.made(f"{NEWER}/namespaces/shared/localqueues", {**queue, "spec": {"clusterQueue": "all"}})

    def is_held() -> bool:
        answer = world.client.request("POST", f"{SHARED}?dryRun=All", _unnamed())
        return answer.status == 201 and answer.json["spec"]["suspend"] is True

    world.until(is_held)


def _unnamed() -> dict:
    job = a_job("unnamed", queue="")
    del job["metadata"]["namespace"]
    return job


# Certificates --------------------------------------------------------------------------------------------------------


@pytest.mark.prove
def test_no_call_fails_while_certificates_are_renewed(world, tmp_path):
    made_before = world.client.request("GET", SECRET).json["data"]["tls.crt"]
    with canary(world, tmp_path / "canary") as bird, under_load(world) as load:
        for _ in range(proof_count(100)):
            calls = load.calls
            world.server.renew()
            bird.wait()
            world.until(lambda calls=calls: load.calls >= calls + len(load.threads) or bool(load.failures))
            assert not load.failures
    assert not load.failures
    assert world.client.request("GET", SECRET).json["data"]["tls.crt"] != made_before


class Load:
    """Threads that have the webhooks asked, each time on a connection of their own to the API server."""

    def __init__(self, world: Hooked) -> None:
        self.calls = 0
        self.failures: list[bytes] = []
        self.is_over = threading.Event()
        self._world = world
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(3)]

    def _run(self, number: int) -> None:
        while not self.is_over.is_set():
            answer = self._world.client.request("POST", f"{JOBS}?dryRun=All", a_job(f"load-{number}"))
            if answer.status != 201 or answer.json["spec"]["suspend"] is not True:
                self.failures.append(answer.body)
            self.calls += 1


@contextmanager
def under_load(world: Hooked) -> Iterator[Load]:
    load = Load(world)
    for thread in load.threads:
        thread.start()
    try:
        yield load
    finally:
        load.is_over.set()
        for thread in load.threads:
            thread.join()
