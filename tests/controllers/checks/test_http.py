"""The check by a server of the user's: answers, silence, signatures, and a server that hangs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest

from muster.controllers.checks.http import NoAnswer, Outside
from tests.stories.lives import CHECKS, a_job, an_object, lives

KEY = b"known to two"


class Server:
    """Plays the server: says what it is told to say, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, dict[str, str]]] = []
        self.says: Callable[[dict[str, Any]], Any] = lambda _asked: {"state": "Ready", "message": "looks good"}

    async def post(self, _url: str, body: bytes, headers: dict[str, str], _timeout_s: float) -> tuple[int, bytes]:
        self.asked.append((body, headers))
        said = self.says(json.loads(body))
        if said is None:
            raise NoAnswer("it does not answer within 10 s")
        if said == "hang":
            await asyncio.Event().wait()
        return (said, b"") if isinstance(said, int) else (200, json.dumps(said).encode())

    async def secret(self, name: str) -> dict[str, Any] | None:
        return {"data": {"key": base64.b64encode(KEY).decode()}} if name == "signing" else None


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def story(server):
    queue = {"admissionChecksStrategy": {"admissionChecks": [{"name": "scan"}]}}
    with lives(outside=Outside(post=server.post, secret=server.secret), **queue) as made:
        yield made


def prepare(story, **spec):
    """Make the check with its parameters."""
    named = {"apiGroup": "muster.dev", "kind": "HttpCheck", "name": "scanner"}
    story.create(an_object("AdmissionCheck", "scan", {"controllerName": "muster.dev/http", "parameters": named}))
    story.run(1)
    assert active(story) == ("False", "HttpCheck scanner does not exist")
    given = {"url": "https://scan.example.com/check", "retries": 2, **spec}
    story.create({"apiVersion": "muster.dev/v1", "kind": "HttpCheck", "metadata": {"name": "scanner"}, "spec": given})
    story.run(1)


def active(story):
    (condition,) = story.world.get(CHECKS, "scan")["status"]["conditions"]
    return condition["status"], condition["message"]


def check_of(story, job="train"):
    (check,) = story.workload(job)["status"]["admissionChecks"]
    return check


def test_a_server_that_agrees_lets_a_workload_start(story, server):
    server.says = lambda _: {"state": "Ready", "podSetUpdates": [{"name": "main", "labels": {"scanned": "yes"}}]}
    prepare(story, secretName="signing")
    assert active(story) == ("True", "The admission check is active")
    story.create(a_job("train", 2))
    story.run(10)
    assert story.has("Admitted") and len(server.asked) == 1
    assert all(pod["metadata"]["labels"]["scanned"] == "yes" for pod in story.pods())
    body, headers = server.asked[0]
    asked = json.loads(body)
    assert (asked["check"], asked["attempt"], asked["workload"]["metadata"]["namespace"]) == ("scan", 1, "default")
    assert asked["workload"]["admission"]["clusterQueue"] == "main"
    at, signed = headers["Muster-Signature"].removeprefix("t=").split(",v1=")
    assert signed == hmac.new(KEY, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert "AdmissionCheckUpdated" in story.reasons


def test_a_server_that_refuses_switches_a_workload_off(story, server):
    server.says = lambda _: {"state": "Rejected", "message": "forbidden image"}
    prepare(story)
    story.create(a_job("train"))
    story.run(30)
    assert story.status("Evicted") == ("True", "DeactivatedDueToAdmissionCheck")
    assert not story.workload()["spec"]["active"] and len(server.asked) == 1


def test_an_approval_may_take_its_time(story, server):
    server.says = lambda _: {
        "state": "Pending",
        "message": f"asked {len(server.asked)} times",
        "requeueAfterSeconds": 60,
    }
    prepare(story)
    story.create(a_job("train"))
    story.run(150)
    assert len(server.asked) == 3 and not story.has("Admitted"), "it is asked when it wants to be asked"
    assert check_of(story)["message"] == "asked 3 times"
    server.says = lambda _: {"state": "Ready"}
    story.run(60)
    assert story.has("Admitted")


@pytest.mark.parametrize(
    "said",
    [
        None,
        500,
        {"state": "Perhaps"},
        ["Ready"],
        {"state": "Ready", "podSetUpdates": 7},
        {"state": "Retry", "requeueAfterSeconds": -1},
    ],
    ids=["silence", "an error", "no such state", "no object", "no updates", "no delay"],
)
def test_whoever_gives_no_answer_is_asked_again_and_given_up(story, server, said):
    server.says = lambda _: said
    prepare(story)
    story.create(a_job("train"))
    story.run(30)
    assert len(server.asked) == 3, "once, and two retries"
    assert story.status("Evicted") == ("True", "AdmissionCheck") and not story.has("QuotaReserved")
    server.says = lambda asked: {"state": "Ready", "message": str(asked["attempt"])}
    story.run(60)
    assert story.has("Admitted") and check_of(story)["message"] == "2"


def test_updates_that_nobody_can_write_down_are_another_try(story, server):
    server.says = lambda _: {"state": "Ready", "podSetUpdates": [{"name": "main", "labels": {"x": 7}}]}
    prepare(story)
    story.create(a_job("train"))
    story.run(20)
    assert story.status("Evicted") == ("True", "AdmissionCheck")


def test_a_server_that_hangs_delays_nobody_else(story, server):
    server.says = lambda asked: "hang" if "slow" in asked["workload"]["metadata"]["name"] else {"state": "Ready"}
    prepare(story)
    for number in range(3):
        story.create(a_job(f"slow{number}"))
    story.run(5)
    story.create(a_job("train"))
    story.run(5)
    assert story.has("Admitted"), "it starts while others wait for their answer"
    assert all(story.has("QuotaReserved", f"slow{number}") for number in range(3))


def test_an_address_that_is_none_makes_the_check_inactive(story, server):
    prepare(story, url="ftp://scan.example.com")
    assert active(story) == ("False", "spec.url is no address of http or https")
    story.create(a_job("train"))
    story.run(20)
    assert not story.has("QuotaReserved") and not server.asked


def test_a_secret_that_is_not_there_is_no_answer(story, server):
    prepare(story, secretName="missing")
    story.create(a_job("train"))
    story.run(20)
    assert story.status("Evicted") == ("True", "AdmissionCheck") and not server.asked
