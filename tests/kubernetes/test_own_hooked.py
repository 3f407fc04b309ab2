"""Our definitions and our webhooks on a real API server: versions are translated, and what is forgiven is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.apiserver.hooks.configurations import conversion
from muster.app.config import Configuration
from muster.app.hooks import configurations
from muster.dialects.kueue.definitions import definitions
from tests.kubernetes.hooked import ADMISSION, DEFINITIONS, Hooked, a_cluster_queue
from tests.kubernetes.plane import started

OLDER, NEWER = "/apis/kueue.x-k8s.io/v1beta1", "/apis/kueue.x-k8s.io/v1beta2"


class OwnKinds(Hooked):
    """A plane that has the kinds by our definitions."""

    def install(self) -> None:
        for namespace in ("muster-system", "team"):
            self.made("/api/v1/namespaces", {"metadata": {"name": namespace}})
        plurals = [self._defined(one) for one in definitions(conversion(self.reached))]
        for plural in plurals:
            self.until(lambda plural=plural: self.client.request("GET", f"{NEWER}/{plural}").status == 200)
        for one in configurations(self.configuration, self.reached):
            self.made(f"{ADMISSION}/{one['kind'].lower()}s", one)

    def _defined(self, definition: dict) -> str:
        self.made(DEFINITIONS, definition)
        return str(definition["spec"]["names"]["plural"])


@pytest.fixture(scope="module")
def world(real_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnKinds]:
    with started(tmp_path_factory.mktemp("own-hooked")) as plane:
        own = OwnKinds(plane, Configuration())
        own.install()
        try:
            own.start()
            yield own
        finally:
            own.stop()


def test_a_queue_is_the_same_in_both_versions(world: OwnKinds) -> None:
    world.made(f"{OLDER}/clusterqueues", a_cluster_queue("older", "v1beta1", cohort="all"))
    assert world.client.request("GET", f"{NEWER}/clusterqueues/older").json["spec"]["cohortName"] == "all"
    world.made(f"{NEWER}/clusterqueues", a_cluster_queue("newer", cohortName="all"))
    assert world.client.request("GET", f"{OLDER}/clusterqueues/newer").json["spec"]["cohort"] == "all"


@pytest.mark.parametrize(("path", "version"), [(OLDER, "v1beta1"), (NEWER, "v1beta2")])
def test_a_queue_that_kueue_refuses_is_taken_with_warnings(world: OwnKinds, path: str, version: str) -> None:
    queue = a_cluster_queue(f"forgiven-{version}", version)
    (group,) = queue["spec"]["resourceGroups"]
    group["coveredResources"].append("memory")
    group["flavors"][0]["resources"][0]["borrowingLimit"] = "2"
    answer = world.client.request("POST", f"{path}/clusterqueues", queue)
    assert answer.status == 201, answer.body
    assert any("has no effect as long as" in one for one in answer.warnings)
    assert any("says nothing of memory" in one for one in answer.warnings)


@pytest.mark.parametrize(("path", "version"), [(OLDER, "v1beta1"), (NEWER, "v1beta2")])
def test_replicas_are_read_as_the_count(world: OwnKinds, path: str, version: str) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    workload = {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "Workload",
        "metadata": {"name": f"counted-{version}"},
        "spec": {"podSets": [{"name": "main", "replicas": 3, "template": template}]},
    }
    answer = world.client.request("POST", f"{path}/namespaces/team/workloads?fieldValidation=Strict", workload)
    assert answer.status == 201, answer.body
    (pod_set,) = answer.json["spec"]["podSets"]
    assert (pod_set["count"], "replicas" in pod_set) == (3, False)
    assert any("is read as count" in one for one in answer.warnings)


def test_a_mistake_is_still_one(world: OwnKinds) -> None:
    answer = world.client.request("POST", f"{NEWER}/clusterqueues", a_cluster_queue("bad", cohortName="Not valid!"))
    assert answer.status == 422
    assert "spec.cohortName" in answer.json["message"]
