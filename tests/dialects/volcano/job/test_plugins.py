"""What each plugin adds to pods, and the objects that it has beside them."""

from __future__ import annotations

import base64
import json

import pytest

from muster.dialects.volcano.job.plugins import PLUGINS, Keys, read_flags
from muster.dialects.volcano.job.plugins.ssh import HOME
from muster.dialects.volcano.job.pods import PodPlace, pod_of
from muster.model.errors import InvalidObject
from tests.dialects.volcano.job.objects import job, task

INIT = {"initContainers": [{"name": "first", "image": "i"}]}


def made(of, name, index=0, *plugins):
    """A pod of a task, after some plugins."""
    found = of.task(name)
    pod = pod_of(PodPlace(of, found, index), group="g", version=0, retries=0)
    for plugin in plugins:
        flags, problem = read_flags(PLUGINS[plugin], of.plugins.get(plugin, ()))
        assert not problem, problem
        PLUGINS[plugin].add(pod, PodPlace(of, found, index), flags)
    return pod


def variables(pod, kind="containers"):
    return {one["name"]: one.get("value") for one in pod["spec"][kind][0].get("env") or ()}


def objects(of, plugin, *flags):
    found = PLUGINS[plugin].objects(of, read_flags(PLUGINS[plugin], flags)[0])
    return {(one.resource, one.wanted["metadata"]["name"]): one for one in found}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ((), {"master": "master", "worker": "worker", "port": "22"}),
        (("--master=m", "-port=33"), {"master": "m", "worker": "worker", "port": "33"}),
        (("--master", "m", "--worker", "w"), {"master": "m", "worker": "w", "port": "22"}),
        (("--", "--master=m"), {"master": "master", "worker": "worker", "port": "22"}),
        (("--master=m", "rest", "--port=1"), {"master": "m", "worker": "worker", "port": "22"}),
    ],
)
def test_flags_are_read_as_go_reads_them(given, want) -> None:
    assert read_flags(PLUGINS["mpi"], given) == (want, "")


def test_a_flag_that_nobody_knows_ends_the_list_and_is_told() -> None:
    flags, problem = read_flags(PLUGINS["mpi"], ("--master=m", "--prot=1", "--worker=w"))
    assert flags == {"master": "m", "worker": "worker", "port": "22"}
    assert problem == "plugin mpi has no flag '--prot=1': did you mean --port?"


def test_a_switch_needs_no_value() -> None:
    assert read_flags(PLUGINS["svc"], ("--disable-network-policy", "--inject-hosts-env=False"))[0] == {
        "publish-not-ready-addresses": "false",
        "disable-network-policy": "true",
        "inject-hosts-env": "false",
    }


def test_env_tells_every_container_its_number() -> None:
    pod = made(job(task("a", 3, pod=INIT)), "a", 2, "env")
    for kind in ("containers", "initContainers"):
        assert variables(pod, kind) == {"VK_TASK_INDEX": "2", "VC_TASK_INDEX": "2"}


def test_svc_has_a_service_the_hosts_and_a_guard() -> None:
    of = job(task("ps"), task("big-worker", 2), task("named", 3, pod={"hostname": "h", "subdomain": "s"}))
    found = objects(of, "svc")
    assert found["configmaps", "j-svc"].wanted["data"] == {
        "ps.host": "j-ps-0.j",
        "VC_PS_HOSTS": "j-ps-0.j",
        "VC_PS_NUM": "1",
        "big_worker.host": "j-big-worker-0.j\nj-big-worker-1.j",
        "VC_BIG_WORKER_HOSTS": "j-big-worker-0.j,j-big-worker-1.j",
        "VC_BIG_WORKER_NUM": "2",
        "named.host": "h.s",
        "VC_NAMED_HOSTS": "h.s",
        "VC_NAMED_NUM": "1",
    }
    selector = {"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "x"}
    assert found["services", "j"].wanted["spec"] == {
        "clusterIP": "None",
        "selector": selector,
        "publishNotReadyAddresses": False,
    }
    guard = found["networkpolicies.networking.k8s.io", "j"].wanted["spec"]
    assert guard == {
        "podSelector": {"matchLabels": selector},
        "ingress": [{"from": [{"podSelector": {"matchLabels": selector}}]}],
        "policyTypes": ["Ingress"],
    }
    open_ = objects(of, "svc", "--disable-network-policy=true", "--publish-not-ready-addresses=true")
    assert set(open_) == {("configmaps", "j-svc"), ("services", "j")}
    assert open_["services", "j"].wanted["spec"]["publishNotReadyAddresses"] is True


def test_svc_gives_pods_a_name_and_the_hosts() -> None:
    pod = made(job(task("a-b", 2, pod=INIT)), "a-b", 1, "svc")
    spec = pod["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("j-a-b-1", "j")
    for kind in ("containers", "initContainers"):
        (container,) = spec[kind]
        assert container["volumeMounts"] == [{"name": "j-svc", "mountPath": "/etc/volcano"}]
        assert [one["name"] for one in container["env"]] == ["VC_A_B_HOSTS", "VC_A_B_NUM"]
        assert container["env"][0]["valueFrom"] == {"configMapKeyRef": {"name": "j-svc", "key": "VC_A_B_HOSTS"}}
    kept = made(job(task("a", pod={"hostname": "h", "subdomain": "s"})), "a", 0, "svc")["spec"]
    assert (kept["hostname"], kept["subdomain"]) == ("h", "s")


def test_ssh_has_keys_and_a_configuration() -> None:
    of = job(task("a", 2))
    secret = objects(of, "ssh")["secrets", "j-ssh"]
    assert secret.is_kept and secret.with_keys is not None
    data = {name: base64.b64decode(text).decode() for name, text in secret.with_keys(Keys("p", "q"))["data"].items()}
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("p", "q", "q")
    assert data["config"].splitlines() == [
        "StrictHostKeyChecking no",
        "UserKnownHostsFile /dev/null",
        "Host j-a-0",
        "  HostName j-a-0.j",
        "  Port 22",
        "Host j-a-1",
        "  HostName j-a-1.j",
        "  Port 22",
    ]
    given = objects(of, "ssh", "--ssh-private-key=p p", "--ssh-public-key=q")["secrets", "j-ssh"]
    assert given.with_keys is None and base64.b64decode(given.wanted["data"]["id_rsa"]) == b"p p"


@pytest.mark.parametrize(("path", "mode"), [(HOME, 0o600), ("/keys/.ssh", 0o644)])
def test_ssh_mounts_the_keys(path, mode) -> None:
    pod = made(job(task("a", pod=INIT), plugins={"ssh": [f"--ssh-key-file-path={path}"]}), "a", 0, "ssh")
    (volume,) = pod["spec"]["volumes"]
    assert volume["secret"]["defaultMode"] == mode
    assert [one["path"] for one in volume["secret"]["items"]] == [
        ".ssh/id_rsa",
        ".ssh/id_rsa.pub",
        ".ssh/authorized_keys",
        ".ssh/config",
    ]
    for kind in ("containers", "initContainers"):
        assert pod["spec"][kind][0]["volumeMounts"] == [{"name": "j-ssh", "mountPath": path, "subPath": ".ssh"}]


@pytest.mark.parametrize(("name", "index", "rank"), [("master", 0, "0"), ("worker", 1, "2"), ("other", 0, None)])
def test_pytorch_tells_where_the_master_is(name, index, rank) -> None:
    of = job(task("master"), task("worker", 2), task("other"))
    pod = made(of, name, index, "pytorch")
    want = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    assert variables(pod) == ({**want, "RANK": rank} if rank is not None else want)
    assert pod["spec"]["containers"][0]["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]


def test_pytorch_lets_workers_wait_and_leaves_jobs_without_a_master_alone() -> None:
    of = job(task("master"), task("worker"), plugins={"pytorch": ["--wait-master-enabled"]})
    (waiting,) = made(of, "worker", 0, "pytorch")["spec"]["initContainers"]
    assert waiting["name"] == "wait-for-master" and waiting["image"] == "busybox:1.36.1"
    assert "nc -z -w 2 j-master-0.j 23456" in waiting["command"][2] and "+ 300" in waiting["command"][2]
    assert "initContainers" not in made(of, "master", 0, "pytorch")["spec"]
    assert variables(made(job(task("worker")), "worker", 0, "pytorch")) == {}


def test_a_port_that_is_declared_is_not_declared_again() -> None:
    port = {"name": "mine", "containerPort": 23456}
    of = job(task("master", pod={"containers": [{"name": "main", "image": "i", "ports": [port]}]}))
    assert made(of, "master", 0, "pytorch")["spec"]["containers"][0]["ports"] == [port]


def test_tensorflow_tells_the_whole_cluster() -> None:
    of = job(task("ps", pod={"hostname": "h"}), task("worker", 2), plugins={"tensorflow": ["--port=99"]})
    pod = made(of, "worker", 1, "tensorflow")
    assert json.loads(variables(pod)["TF_CONFIG"]) == {
        "cluster": {"ps": ["h.j:99"], "worker": ["j-worker-0.j:99", "j-worker-1.j:99"]},
        "task": {"type": "worker", "index": 1},
    }
    assert variables(made(job(task("worker")), "worker", 0, "tensorflow")) == {}, "alone it needs no cluster"


def test_mpi_tells_the_master_where_the_workers_are() -> None:
    of = job(task("master", pod=INIT), task("worker", 2))
    master, worker = made(of, "master", 0, "mpi"), made(of, "worker", 0, "mpi")
    for kind in ("containers", "initContainers"):
        assert variables(master, kind) == {"MPI_HOST": "j-worker-0.j,j-worker-1.j"}
        assert master["spec"][kind][0]["ports"] == [{"name": "mpijob-port", "containerPort": 22}]
    assert variables(worker) == {} and worker["spec"]["containers"][0]["ports"]
    alone = made(job(task("master")), "master", 0, "mpi")
    assert variables(alone) == {} and "ports" not in alone["spec"]["containers"][0]


def named(container):
    return {"containers": [{"name": container, "image": "ray"}]}


def test_ray_starts_a_head_and_workers_that_find_it() -> None:
    of = job(task("head", pod=named("head")), task("worker", 2, pod=named("worker")))
    (head,) = made(of, "head", 0, "ray")["spec"]["containers"]
    start = "ray start --head --block --dashboard-host=0.0.0.0"
    ports = "--port=6379 --dashboard-port=8265 --ray-client-server-port=10001"
    assert head["command"] == ["sh", "-c", f"{start} {ports}"]
    assert [(one["name"], one["containerPort"]) for one in head["ports"]] == [
        ("gcs", 6379),
        ("dashboard", 8265),
        ("client-server", 10001),
    ]
    (worker,) = made(of, "worker", 1, "ray")["spec"]["containers"]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=j-head-0.j:6379"]
    service = objects(of, "ray")["services", "j-head-svc"].wanted["spec"]
    assert service["selector"]["volcano.sh/task-spec"] == "head"
    assert [(one["name"], one["port"], one["targetPort"]) for one in service["ports"]] == [
        ("gcs", 6379, "gcs"),
        ("dashboard", 8265, "dashboard"),
        ("client-server", 10001, "client-server"),
    ]
    with pytest.raises(InvalidObject, match="none named head"):
        made(job(task("worker")), "worker", 0, "ray")


@pytest.mark.parametrize(
    ("name", "index", "more", "rank"),
    [
        pytest.param("master", 1, {}, "1", id="master"),
        pytest.param("worker", 1, {}, "3", id="worker"),
        pytest.param("other", 0, {}, None, id="other tasks have none"),
        pytest.param("worker", 1, {"env": [{"name": "RANK", "value": "9"}]}, "9", id="the rank of a container"),
    ],
)
def test_hcclrank_numbers_pods(name, index, more, rank) -> None:
    containers = [{"name": "main", "image": "i", **more}]
    of = job(task("master", 2), task("worker", 2, pod={"containers": containers}), task("other"))
    assert made(of, name, index, "hcclrank")["metadata"]["annotations"].get("hccl/rankIndex") == rank


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidObject, match="give a port"):
        made(job(task("master"), plugins={"pytorch": ["--port=x"]}), "master", 0, "pytorch")


def test_which_plugins_a_job_tells_of() -> None:
    assert [name for name, one in PLUGINS.items() if not one.is_told] == ["hcclrank"]
