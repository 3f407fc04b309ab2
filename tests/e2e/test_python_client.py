"""The public Python client against `muster up`: objects, patches, apply, pages, watches that go on or begin anew."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.e2e.process import Muster, started

kubernetes = pytest.importorskip("kubernetes", reason="needs the public Python client: pip install kubernetes")

LARGE_BYTES, LARGE_WRITES = 1_000_000, 40  # more than the history keeps of what was replaced
NAMESPACE = "default"
ENOUGH_S = 30


@pytest.fixture(scope="module")
def muster(tmp_path_factory) -> Any:
    with started(tmp_path_factory.mktemp("python") / "state") as running:
        yield running


@pytest.fixture
def client(muster: Muster) -> Any:
    with kubernetes.config.new_client_from_config(config_file=str(muster.kubeconfig)) as one:
        yield one


@pytest.fixture
def core(client: Any) -> Any:
    return kubernetes.client.CoreV1Api(client)


def config(name: str, value: str = "0", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"value": value}}


def test_objects_are_made_read_changed_and_deleted(core):
    core.create_namespaced_config_map(NAMESPACE, config("life"))
    core.patch_namespaced_config_map("life", NAMESPACE, {"data": {"more": "1"}})
    found = core.read_namespaced_config_map("life", NAMESPACE)
    assert found.data == {"value": "0", "more": "1"}
    found.data["value"] = "2"
    assert core.replace_namespaced_config_map("life", NAMESPACE, found).data["value"] == "2"
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.replace_namespaced_config_map("life", NAMESPACE, found)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    core.delete_namespaced_config_map("life", NAMESPACE)
    with pytest.raises(kubernetes.client.ApiException) as gone:
        core.read_namespaced_config_map("life", NAMESPACE)
    assert gone.value.status == 404


def test_kinds_of_many_groups_keep_to_the_models_of_the_client(client):
    batch, apps = kubernetes.client.BatchV1Api(client), kubernetes.client.AppsV1Api(client)
    container = kubernetes.client.V1Container(name="main", image="busybox")
    spec = kubernetes.client.V1PodSpec(containers=[container], restart_policy="Never")
    template = kubernetes.client.V1PodTemplateSpec(
        metadata=kubernetes.client.V1ObjectMeta(labels={"app": "web"}), spec=spec
    )
    job = kubernetes.client.V1Job(
        metadata=kubernetes.client.V1ObjectMeta(name="work"),
        spec=kubernetes.client.V1JobSpec(template=template, suspend=True),
    )
    assert batch.create_namespaced_job(NAMESPACE, job).spec.suspend is True
    spec.restart_policy = "Always"
    selector = kubernetes.client.V1LabelSelector(match_labels={"app": "web"})
    deployment = kubernetes.client.V1Deployment(
        metadata=kubernetes.client.V1ObjectMeta(name="web"),
        spec=kubernetes.client.V1DeploymentSpec(selector=selector, template=template),
    )
    apps.create_namespaced_deployment(NAMESPACE, deployment)
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
    assert scale.spec.replicas == 3
    version = kubernetes.client.VersionApi(client).get_code()
    assert (version.major, version.minor) == ("1", "36")


def test_pages_are_of_one_state(core):
    for number in range(7):
        core.create_namespaced_config_map(NAMESPACE, config(f"page-{number}", of="pages"))
    names, token, revisions = [], None, set()
    while token != "":
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="of=pages", limit=3, _continue=token)
        names += [one.metadata.name for one in page.items]
        revisions.add(page.metadata.resource_version)
        token = page.metadata._continue or ""
        core.create_namespaced_config_map(NAMESPACE, config(f"page-later-{len(names)}", of="pages"))
    assert names == [f"page-{number}" for number in range(7)]
    assert len(revisions) == 1


def test_what_is_applied_has_an_owner(client):
    dynamic = kubernetes.dynamic.DynamicClient(client)
    configs = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", **config("applied", "1", of="both")}
    configs.server_side_apply(body=body, namespace=NAMESPACE, field_manager="ann")
    with pytest.raises(kubernetes.dynamic.exceptions.ConflictError):
        configs.server_side_apply(body={**body, "data": {"value": "2"}}, namespace=NAMESPACE, field_manager="bob")
    taken = configs.server_side_apply(
        body={**body, "data": {"value": "2"}}, namespace=NAMESPACE, field_manager="bob", force_conflicts=True
    )
    assert {one["manager"] for one in taken.metadata.managedFields} == {"ann", "bob"}


def test_a_watch_tells_of_changes_and_bookmarks(core):
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    for number in range(20):
        core.create_namespaced_config_map(NAMESPACE, config(f"watched-{number}", of="watch"))
    watch = kubernetes.watch.Watch()
    options = {"label_selector": "of=watch", "allow_watch_bookmarks": True, "timeout_seconds": 4}
    seen, marks = [], []
    for event in watch.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=start, **options):
        if event["type"] == "BOOKMARK":
            marks.append(int(event["raw_object"]["metadata"]["resourceVersion"]))
            watch.stop()
        else:
            seen.append((event["type"], event["object"].metadata.name))
    assert seen == [("ADDED", f"watched-{number}") for number in range(20)]
    assert marks and marks[0] >= int(start)


def test_whoever_is_too_late_lists_anew(core):
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, config("large"))
    for number in range(LARGE_WRITES):
        core.replace_namespaced_config_map("large", NAMESPACE, config("large", f"{number:0>{LARGE_BYTES}}"))
    watch = kubernetes.watch.Watch()
    options = {"resource_version": start, "timeout_seconds": 2}
    with pytest.raises(kubernetes.client.ApiException) as refused:
        # The client asks once more from the start where it was told so; without that it raises.
        for _ in watch.stream(core.list_namespaced_config_map, NAMESPACE, **options):
            pass
    assert refused.value.status == 410
    core.delete_namespaced_config_map("large", NAMESPACE)


class Mirror:
    """What an informer of the client's would hold: a list, then a watch, and both again whenever that ends."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self.held: dict[str, str] = {}
        self.has_ended = threading.Event()

    def run(self) -> None:
        while not self.has_ended.is_set():
            listed = self._core.list_namespaced_config_map(NAMESPACE, label_selector="of=mirror")
            self.held = {one.metadata.name: one.metadata.resource_version for one in listed.items}
            self._follow(listed.metadata.resource_version)

    def _follow(self, revision: str) -> None:
        options = {"label_selector": "of=mirror", "resource_version": revision, "timeout_seconds": 2}
        for event in kubernetes.watch.Watch().stream(self._core.list_namespaced_config_map, NAMESPACE, **options):
            metadata = event["object"].metadata
            if event["type"] == "DELETED":
                self.held.pop(metadata.name, None)
            else:
                self.held[metadata.name] = metadata.resource_version
            if metadata.name == "mirror-end":
                self.has_ended.set()
                return


def test_a_mirror_holds_what_the_server_has(muster, core, client):
    mirror = Mirror(core)
    thread = threading.Thread(target=mirror.run, daemon=True)
    thread.start()
    other = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(config_file=str(muster.kubeconfig)))
    for number in range(300):
        name = f"mirror-{number % 17}"
        try:
            if number % 5 == 4:
                other.delete_namespaced_config_map(name, NAMESPACE)
            else:
                other.create_namespaced_config_map(NAMESPACE, config(name, of="mirror"))
        except kubernetes.client.ApiException:
            other.patch_namespaced_config_map(
                name, NAMESPACE, {"data": {"value": str(number)}}
            ) if number % 5 != 4 else None
    other.create_namespaced_config_map(NAMESPACE, config("mirror-end", of="mirror"))
    thread.join(ENOUGH_S)
    assert not thread.is_alive()
    listed = other.list_namespaced_config_map(NAMESPACE, label_selector="of=mirror")
    assert mirror.held == {one.metadata.name: one.metadata.resource_version for one in listed.items}
    other.api_client.close()
