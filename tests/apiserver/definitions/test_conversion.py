"""Versions that a webhook converts: a server of the test's own on loopback, asked over TLS."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from muster.apiserver import outgoing
from muster.apiserver.certificates import prepare
from muster.apiserver.definitions.conversion import ByWebhook
from tests.apiserver.definitions.servers import DEFINITIONS, MERGE, TABLE, Here
from tests.apiserver.definitions.stories import GROUP, two_versions

OPEN = {"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
FIRST, SECOND = (f"/apis/{GROUP}/{version}/namespaces/default/widgets" for version in ("v1", "v2"))


class Webhook:
    """Renames the field of v1, `old`, to that of v2, `new`; a test may have it answer something else."""

    def __init__(self, folder):
        self.reviews = []
        self.change = lambda answer: answer
        files = prepare(folder, ["127.0.0.1", "convert.default.svc"], time.time())
        self.authority = files.authority.read_bytes()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["content-length"])))
                webhook.reviews.append(review["request"])
                body = json.dumps(webhook.change(webhook.answer(review))).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def port(self):
        return self._server.server_port

    def answer(self, review):
        request = review["request"]
        names = ("old", "new") if request["desiredAPIVersion"].endswith("v2") else ("new", "old")
        made = [self.converted(one, request["desiredAPIVersion"], names) for one in request["objects"]]
        response = {"uid": request["uid"], "convertedObjects": made, "result": {"status": "Success"}}
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}

    def converted(self, given, version, names):
        spec = {names[1] if name == names[0] else name: one for name, one in (given.get("spec") or {}).items()}
        return {**given, "apiVersion": version, "spec": spec}

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return tmp_path_factory.mktemp("tls")


@pytest.fixture
def webhook(certificates):
    made = Webhook(certificates)
    yield made
    made.close()


def with_webhook(webhook, config=None):
    client = config or {"url": f"https://127.0.0.1:{webhook.port}/convert"}
    client["caBundle"] = base64.b64encode(webhook.authority).decode()
    hook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    return two_versions(first=OPEN, second=OPEN, conversion={"strategy": "Webhook", "webhook": hook})


@pytest.fixture
def here(webhook):
    server = Here()
    assert server.request("POST", DEFINITIONS, with_webhook(webhook)).status == 201
    yield server
    server.close()


def widget(version, name="w", **spec):
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def test_an_object_is_written_and_read_in_both_versions(here, webhook):
    assert here.request("POST", FIRST, widget("v1", old=1)).json["spec"] == {"old": 1}
    assert webhook.reviews == []
    assert here.request("GET", f"{SECOND}/w").json["spec"] == {"new": 1}
    made = here.request("POST", SECOND, widget("v2", "x", new=2))
    assert (made.status, made.json["spec"], made.json["apiVersion"]) == (201, {"new": 2}, f"{GROUP}/v2")
    assert here.request("GET", f"{FIRST}/x").json["spec"] == {"old": 2}
    patched = here.request("PATCH", f"{SECOND}/x", {"spec": {"new": 3}}, content_type=MERGE)
    assert (patched.status, patched.json["spec"]) == (200, {"new": 3})
    assert here.request("GET", f"{FIRST}/x").json["spec"] == {"old": 3}


def test_a_list_is_converted_in_one_call(here, webhook):
    for number in range(5):
        here.request("POST", FIRST, widget("v1", f"w{number}", old=number))
    webhook.reviews.clear()
    items = here.request("GET", SECOND).json["items"]
    assert [one["spec"] for one in items] == [{"new": number} for number in range(5)]
    assert len(here.request("GET", SECOND, accept=TABLE).json["rows"]) == 5
    assert [len(one["objects"]) for one in webhook.reviews] == [5]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda one: {**one, "kind": "Other"}, "expected a ConversionReview"),
        (lambda one: {**one, "response": None}, "no response provided"),
        (lambda one: {**one, "response": {**one["response"], "uid": "x"}}, "expected response.uid"),
        (
            lambda one: {**one, "response": {**one["response"], "convertedObjects": []}},
            "returned 0 objects",
        ),
        (lambda one: {**one, "response": {**one["response"], "result": {"status": "Failure", "message": "no"}}}, "no"),
        (lambda one: changed_object(one, apiVersion="a/v9"), "invalid groupVersion"),
        (lambda one: changed_object(one, kind="Other"), "invalid kind"),
        (lambda one: changed_object(one, metadata={"name": "other"}), "name must not be changed"),
        (lambda one: changed_object(one, metadata=None), "missing metadata"),
        (lambda _: [], "no object"),
    ],
)
def test_what_a_webhook_must_not_answer(here, webhook, change, problem):
    here.request("POST", FIRST, widget("v1", old=1))
    webhook.change = change
    answer = here.request("GET", f"{SECOND}/w")
    assert (answer.status, answer.json["reason"]) == (500, "InternalError")
    assert f"conversion webhook for {GROUP}/v1, Kind=Widget failed: " in answer.json["message"]
    assert problem in answer.json["message"]


def changed_object(answer, **change):
    answer["response"]["convertedObjects"][0] |= change
    return answer


def test_labels_may_change_in_a_conversion_and_nothing_else_of_the_metadata(here, webhook):
    here.request("POST", FIRST, widget("v1", old=1))
    metadata = here.request("GET", f"{FIRST}/w").json["metadata"]
    webhook.change = lambda one: changed_object(
        one, metadata={**metadata, "labels": {"a": "b"}, "generation": 99, "finalizers": ["a/b"]}
    )
    assert here.request("GET", f"{SECOND}/w").json["metadata"] == {**metadata, "labels": {"a": "b"}}


def test_a_service_is_reached_only_where_it_is_mapped_to_loopback(webhook, monkeypatch):
    config = {"service": {"namespace": "default", "name": "convert", "path": "/c"}}
    for mapped, problem in (
        ("", "there is no network of services"),
        ("default/convert=10.0.0.1:443", "not an address of loopback"),
        (f"default/convert=127.0.0.1:{webhook.port}", ""),
    ):
        monkeypatch.setenv(outgoing.SERVICES, mapped)
        here = Here()
        here.request("POST", DEFINITIONS, with_webhook(webhook, dict(config)))
        here.request("POST", FIRST, widget("v1", old=1))
        answer = here.request("GET", f"{SECOND}/w")
        assert problem in answer.json.get("message", "")
        assert answer.status == (500 if problem else 200)
        here.close()


def test_a_webhook_that_nobody_vouches_for_is_not_asked(webhook):
    made = with_webhook(webhook)
    made["spec"]["conversion"]["webhook"]["clientConfig"].pop("caBundle")
    here = Here()
    here.request("POST", DEFINITIONS, made)
    here.request("POST", FIRST, widget("v1", old=1))
    assert here.request("GET", f"{SECOND}/w").status == 500
    here.close()


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("muster.apiserver.definitions.conversion._REMEMBERED_BYTES", 1_000)
    monkeypatch.setattr("muster.apiserver.definitions.conversion.OBJECTS_A_CALL", 5)
    converter = ByWebhook({"url": "https://127.0.0.1/"})
    for number in range(100):
        converter._remember({"number": number}, "a/v1", {})
    assert len(converter._known) <= 60
