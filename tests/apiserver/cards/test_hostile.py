"""Strangers, bodies without end, texts that are nothing, and pods that bring what only schedulers write."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from muster.apiserver.cards import asgi
from muster.apiserver.cards.asgi import CardApp, CardRules
from muster.apiserver.cards.callers import Callers
from muster.apiserver.certificates import client_certificate, prepare
from muster.apiserver.requests import User
from muster.app.card_extender import callers_of
from muster.dialects.hami.claims import forged
from muster.dialects.hami.settings import HamiSettings
from muster.model.errors import InvalidObject
from muster.store.clock import VirtualClock
from tests.apiserver.cards.serving import CALLERS, TOKEN, Served
from tests.apiserver.cards.test_conformance import review
from tests.apiserver.cards.world import VENDORS, TableCards, a_node, a_pod


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as one:
        yield one


@pytest.fixture
def cluster(served) -> TableCards:
    cluster = TableCards([a_node()], [a_pod()])
    served.app = CardApp(CardRules.of(VENDORS, HamiSettings()), cluster, clock=VirtualClock(), callers=CALLERS)
    return cluster


ARGS = {"Pod": a_pod(), "Nodes": None, "NodeNames": ["n"]}
BIND = {"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n"}


@pytest.mark.parametrize("path", ["/filter", "/bind", "/explain"])
@pytest.mark.parametrize("token", ["", "a-wrong-token", f"{TOKEN}x", TOKEN[:-1]])
def test_strangers_are_refused_and_nothing_is_done(served, cluster, path, token):
    before = json.dumps([*cluster.objects.values()])
    status, answer = served.post(path, BIND if path == "/bind" else ARGS, token=token)
    assert (status, answer["reason"]) == (401, "Unauthorized")
    assert json.dumps([*cluster.objects.values()]) == before


def test_whoever_has_the_token_is_served(served, cluster):
    status, answer = served.post("/filter", ARGS)
    assert (status, answer["NodeNames"], answer["Error"]) == (200, ["n"], "")
    assert served.post("/bind", BIND) == (200, {"Error": ""})


def test_a_scheduler_may_show_a_certificate_instead(tmp_path):
    files = prepare(tmp_path, ["127.0.0.1"], time.time())
    with Served(files.authority.read_text()) as served:
        for users, want in ((frozenset(), 200), (frozenset({"kube-scheduler"}), 200), (frozenset({"other"}), 403)):
            certificate, key = client_certificate(files, User("kube-scheduler"), days=1, now_s=time.time())
            (tmp_path / "client.pem").write_bytes(certificate + key)
            callers = Callers(has_authority=True, users=users)
            cluster = TableCards([a_node()], [a_pod()])
            served.app = CardApp(CardRules.of(VENDORS, HamiSettings()), cluster, clock=VirtualClock(), callers=callers)
            assert served.status_with(tmp_path / "client.pem", "/filter", ARGS) == want


@pytest.mark.parametrize("path", ["/filter", "/bind", "/webhook", "/explain"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(b'{"a":' * 2_000 + b"1" + b"}" * 2_000, id="deep"),
    ],
)
def test_what_is_no_question_is_refused_with_a_status(served, cluster, path, body):
    status, answer = served.post(path, body)
    assert (status, answer["kind"]) == (400, "Status")
    assert "Traceback" not in answer["message"] and len(answer["message"]) < 2_500


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/filter", {"Pod": 7, "NodeNames": ["n"]}),
        ("/filter", {"Pod": {"metadata": {"annotations": {"a": 1}}}, "NodeNames": ["n"]}),
        ("/filter", {"Pod": a_pod(), "NodeNames": [{}]}),
        ("/filter", {"Pod": a_pod(), "NodeNames": ["n"] * 20_001}),
        ("/filter", {"Pod": {**a_pod(), "spec": {"containers": [7]}}, "NodeNames": ["n"]}),
        ("/bind", {}),
        ("/bind", {**BIND, "PodUID": ""}),
        ("/bind", {**BIND, "PodUID": "uid-of-somebody-else"}),
        ("/bind", {**BIND, "Node": "no-such-node"}),
    ],
)
def test_odd_questions_of_a_scheduler_are_answered_with_an_error(served, cluster, path, body):
    status, answer = served.post(path, body)
    assert status == 200 and answer["Error"]
    assert not cluster.bound


@contextmanager
def stream_to(served: Served) -> Iterator[ssl.SSLSocket]:
    raw = socket.create_connection(("127.0.0.1", served.port), 60)
    with raw, served.trusting().wrap_socket(raw, server_hostname="127.0.0.1") as stream:
        yield stream


def test_a_body_without_end_is_given_up_and_the_next_request_is_answered(served, cluster, monkeypatch):
    monkeypatch.setattr(asgi, "MOST_BYTES", 100_000)
    head = b"POST /filter HTTP/1.1\r\nhost: a\r\nauthorization: Bearer %s\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk, most, sent = b"4000\r\n" + b" " * 0x4000 + b"\r\n", 20_000, 0  # 320 MiB all together
    with suppress(OSError), stream_to(served) as stream:  # the server hangs up
        stream.sendall(head % TOKEN.encode())
        for sent in range(most):  # noqa: B007
            stream.sendall(chunk)
    assert sent < most - 1
    assert served.post("/filter", ARGS)[0] == 200


def test_the_body_of_a_stranger_is_not_even_read(served, cluster):
    with stream_to(served) as stream:
        stream.sendall(b"POST /filter HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n")
        assert stream.recv(100).startswith(b"HTTP/1.1 401")


# Forged annotations --------------------------------------------------------------------------------------------------

OURS = [
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-mig-allocations",
    "hami.io/dcu-devices-allocated",
    "hami.io/vgpu-node",
    "hami.io/vgpu-time",
    "hami.io/bind-phase",
    "hami.io/bind-time",
    "muster.dev/bind-fence",
]


@pytest.mark.parametrize("name", OURS)
def test_a_new_pod_that_brings_what_schedulers_write_is_refused(served, cluster, name):
    pod = a_pod()
    pod["metadata"]["annotations"] = {name: "GPU-n-0,NVIDIA,1,1:;"}
    status, answer = served.post("/webhook", review(pod, "ns"), token="")
    assert (status, answer["response"]["allowed"], answer["response"]["status"]["code"]) == (200, False, 403)
    assert name in answer["response"]["status"]["message"]


def test_what_users_may_write_is_not_called_forged():
    mine = [
        "hami.io/gpu-scheduler-policy",
        "nvidia.com/use-gputype",
        "hami.io/webhook",
        "example.com/x-devices-allocated",
    ]
    assert forged(dict.fromkeys(mine, "x")) == []


def test_an_extender_that_would_answer_anybody_is_not_started(tmp_path):
    with pytest.raises(InvalidObject, match="anybody could take cards"):
        callers_of(None, None, ())
    (tmp_path / "token").write_text("short")
    with pytest.raises(InvalidObject, match="holds 5 characters"):
        callers_of(tmp_path / "token", None, ())
