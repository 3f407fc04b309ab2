"""A connection to a cluster: what answers mean, how often it is asked, and that every request ends."""

from __future__ import annotations

import asyncio

import pytest

from muster.model.errors import InvalidObject, InvalidObjects
from muster.store.errors import AlreadyExists, Conflict, Expired, Forbidden, NotFound, Refused, Unavailable
from muster.store.kube import Answer, Kube, Limits, Send, Sent, problem_of
from muster.store.kube_client import KubeClient
from muster.store.kube_config import Access, FixedCredentials
from muster.store.objects import Part
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.store.scripted import QuickClock, config, hangs, refuses, says, scripted

KEY = Key("configmaps", "x", "a")
TERMINATING = {"causes": [{"reason": "NamespaceTerminating", "message": "namespace x is being terminated"}]}


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        pytest.param(refuses(404, "NotFound", kind="configmaps"), NotFound, id="it is not there"),
        pytest.param(refuses(409, "AlreadyExists"), AlreadyExists, id="the name is taken"),
        pytest.param(refuses(409, "Conflict"), Conflict, id="it has changed"),
        pytest.param(refuses(410, "Expired"), Expired, id="too old"),
        pytest.param(refuses(422, "Invalid"), InvalidObject, id="it is wrong"),
        pytest.param(refuses(400, "BadRequest"), InvalidObject, id="it cannot be read"),
        pytest.param(refuses(403, "Forbidden", "exceeded quota"), Forbidden, id="a quota"),
        pytest.param(refuses(403, "Forbidden", **TERMINATING), Refused, id="its namespace goes"),
        pytest.param(refuses(500, "InternalError"), Unavailable, id="a fault of the server"),
        pytest.param(refuses(503), Unavailable, id="no server"),
        pytest.param(refuses(401, "Unauthorized"), Unavailable, id="nobody knows us"),
        pytest.param(says("<html>", status=502), Unavailable, id="something in between"),
    ],
)
def test_what_an_answer_means(answer, wanted):
    async def story() -> None:
        async with scripted(answer) as (kube, _, _):
            with pytest.raises(wanted):
                await KubeClient(kube).update(KEY, config("a", 1))

    asyncio.run(story())


def test_every_field_that_is_wrong_is_named():
    body = b'{"details": {"causes": [{"field": "spec.a", "message": "no"}, {"field": "spec.b", "message": "none"}]}}'
    problem = problem_of(KEY, Answer(422, body))
    assert isinstance(problem, InvalidObjects)
    assert [(one.path, one.problem) for one in problem.problems] == [("spec.a", "no"), ("spec.b", "none")]


def test_a_message_that_quotes_a_whole_object_is_shortened():
    problem = problem_of(KEY, Answer(422, b'{"message": "begin %s end"}' % (b"x" * 10_000)))
    assert len(str(problem)) < 700 and str(problem).startswith("begin") and str(problem).endswith("end")


def test_a_namespace_that_is_not_there_is_named():
    problem = problem_of(KEY, Answer(404, b'{"details": {"kind": "namespaces", "name": "x"}}'))
    assert isinstance(problem, NotFound) and problem.key == Key("namespaces", "", "x")


def test_a_server_without_time_is_asked_when_it_says():
    async def story() -> None:
        busy = says({"kind": "Status", "code": 429}, status=429, Retry_After="3")
        async with scripted(busy, refuses(429), says(config("a", 2))) as (kube, script, clock):
            kept = await KubeClient(kube).update(KEY, config("a", 1))
            assert kept["metadata"]["resourceVersion"] == "2"
            assert clock.slept_s == [3.0, 1.0]
            assert len(script.asked) == 3

    asyncio.run(story())


def test_every_request_ends_in_time():
    async def story() -> None:
        async with scripted(hangs, limits=Limits(timeout_s=0.05)) as (kube, _, _):
            with pytest.raises(Unavailable, match=r"no answer within 0\.05 s"):
                await kube.ask("GET", "/api/v1/pods")

    asyncio.run(story())


def test_whoever_waits_for_room_gives_up_in_time_too():
    async def story() -> None:
        async with scripted(hangs, limits=Limits(in_flight=1, timeout_s=0.1)) as (kube, _, _):
            asked = [kube.ask("GET", f"/api/v1/pods?{number}") for number in range(5)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(one, Unavailable) for one in answers)

    asyncio.run(story())


def test_no_server_at_all():
    async def story() -> None:
        kube = Kube(Access(url="http://127.0.0.1:1", credentials=FixedCredentials({})), QuickClock())
        with pytest.raises(Unavailable):
            await kube.ask("GET", "/api/v1/pods")
        await kube.close()

    asyncio.run(story())


def test_where_resources_are():
    async def story() -> None:
        async with scripted(says({})) as (kube, _, _):
            workloads = await kube.where("workloads.kueue.x-k8s.io")
            assert workloads is not None and workloads.api_version == "kueue.x-k8s.io/v1beta2"
            assert workloads.path("x", "w", "status") == "/apis/kueue.x-k8s.io/v1beta2/namespaces/x/workloads/w/status"
            nodes = await kube.where("nodes")
            assert nodes is not None and nodes.path("", "n") == "/api/v1/nodes/n"
            assert await kube.where("queues.scheduling.volcano.sh") is None
            with pytest.raises(NotFound):
                await KubeClient(kube).update(Key("queues.scheduling.volcano.sh", "", "q"), {"metadata": {}})

    asyncio.run(story())


def test_the_status_of_a_custom_object_is_sent_by_itself():
    async def story() -> None:
        workload = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "w", "namespace": "x", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
            "spec": {"podSets": []},
            "status": {"conditions": []},
        }
        async with scripted(says(workload)) as (kube, script, _):
            await KubeClient(kube).update(Key("workloads.kueue.x-k8s.io", "x", "w"), workload, Part.STATUS)
            ((method, path, _, body),) = script.asked
            assert (method, path.rpartition("/")[2]) == ("PUT", "status")
            metadata = {"name": "w", "namespace": "x", "uid": "u", "resourceVersion": "7"}
            head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
            assert body == {**head, "metadata": metadata, "status": {"conditions": []}}

    asyncio.run(story())


def test_a_deletion_sends_what_must_be_so():
    async def story() -> None:
        async with scripted(says({"kind": "Status", "status": "Success"})) as (kube, script, _):
            gone = await KubeClient(kube).delete(KEY, Deletion(uid="u", revision="5", grace_s=0))
            assert gone["metadata"]["resourceVersion"] == "0"
            body = script.asked[0][3]
            assert body["preconditions"] == {"uid": "u", "resourceVersion": "5"}
            assert (body["gracePeriodSeconds"], body["propagationPolicy"]) == (0, "Background")

    asyncio.run(story())


def test_writes_pass_a_guard_when_they_are_sent_and_reads_do_not():
    passed: list[str] = []

    async def guard(send: Send) -> Sent:
        passed.append("write")
        return await send()

    async def story() -> None:
        answers = (says(config("a", 1)), says({}, status=429, Retry_After="1"), says(config("a", 2)))
        async with scripted(*answers, limits=Limits(write_s=3.0), guard=guard) as (kube, script, _):
            await KubeClient(kube).get(KEY)
            assert not passed
            await KubeClient(kube).update(KEY, config("a", 1))
            assert passed == ["write", "write"], "it is asked each time that something is sent"
            assert [query.get("timeout") for _, _, query, _ in script.asked] == [None, "3000ms", "3000ms"]

    asyncio.run(story())


def test_a_write_that_a_guard_refuses_is_not_sent():
    async def guard(_: Send) -> Sent:
        raise Unavailable("this process does not lead")

    async def story() -> None:
        async with scripted(guard=guard) as (kube, script, _):
            with pytest.raises(Unavailable, match="does not lead"):
                await KubeClient(kube).update(KEY, config("a", 1))
            assert not script.asked

    asyncio.run(story())
