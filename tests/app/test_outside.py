"""Asking another server over HTTP, and what comes of answers that are none."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from muster.app import outside
from muster.app.config import Configuration
from muster.app.outside import post_json
from muster.app.plan import PlanOptions, plan_objects
from muster.engine.outside import NoAnswer
from muster.model.documents import Document
from tests.app.test_groups import node, obj, volcano_job

ANSWERS = {
    "/echo": (200, None),
    "/empty": (200, b""),
    "/list": (200, b"[]"),
    "/broken": (200, b"{"),
    "/long": (200, b" " * 200),
    "/moved": (302, b"{}"),
    "/predicate": (200, b'{"status": "not today"}'),
}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        status, answer = ANSWERS.get(self.path, (404, b"{}"))
        self.send_response(status)
        self.send_header("Location", "/echo")
        self.end_headers()
        self.wfile.write(sent if answer is None else answer)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def address():
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_object_is_sent_and_one_comes_back(address):
    assert post_json(f"{address}/echo", {"a": [1]}, 60) == {"a": [1]}
    assert post_json(f"{address}/empty", {}, 60) == {}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param("/list", "answers with no object", id="no object"),
        pytest.param("/broken", "Expecting property name", id="no JSON"),
        pytest.param("/long", "more than 100 bytes", id="too long"),
        pytest.param("/moved", "answers 302", id="a redirect is not followed"),
        pytest.param("/nowhere", "answers 404", id="not found"),
    ],
)
def test_other_answers_are_none(address, path, want, monkeypatch):
    monkeypatch.setattr(outside, "ANSWER_MOST", 100)
    with pytest.raises(NoAnswer, match=want):
        post_json(address + path, {}, 60)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://", "http://[", "gopher://x", "http://127.0.0.1:1/"])
def test_addresses_where_nobody_is(address):
    with pytest.raises(NoAnswer):
        post_json(address, {}, 60)


@pytest.mark.parametrize(("is_asked", "binds"), [(True, 0), (False, 1)])
def test_a_plan_asks_only_where_it_may(address, is_asked, binds):
    arguments = f"{{extender.urlPrefix: '{address}', extender.predicateVerb: predicate, extender.httpTimeout: 1m}}"
    text = f"tiers: [{{plugins: [{{name: gang}}, {{name: extender, arguments: {arguments}}}]}}]"
    configuration = obj("ConfigMap", "c", namespace="volcano-system", data={"volcano-scheduler.conf": text})
    documents = [Document(one, "test", 1) for one in (node("n1"), configuration, volcano_job("a", 1, 1))]
    report = plan_objects(documents, PlanOptions(now=0.0, configuration=Configuration(asks_extenders=is_asked)))
    assert not report.refused
    assert len(report.groups[0].binds) == binds
    assert [one.problem for one in report.warnings] == ([] if is_asked else ["names an extender, and nobody is asked"])
