"""A real HTTPS server of webhooks, whose paths say how they behave. A real API server asks it too."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from muster.apiserver.certificates import prepare

Json = dict[str, Any]
Said = tuple[int, bytes]


class Hooks:
    """The server: where it is, whom to trust, and what it was asked."""

    def __init__(self, port: int, authority: bytes) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.bundle = base64.b64encode(authority).decode()
        self.asked: list[tuple[str, Json]] = []  # paths and requests
        self.is_released = threading.Event()  # lets slow answers go

    def client_config(self, path: str) -> Json:
        return {"url": f"{self.url}{path}", "caBundle": self.bundle}


@contextmanager
def running(folder: Path) -> Iterator[Hooks]:
    """A server of webhooks with a certificate of its own."""
    files = prepare(folder, ["127.0.0.1"], time.time())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0]
            hooks.asked.append((path, review["request"]))
            status, body = answer_to(path, review, hooks)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_arguments: Any) -> None:
            """Clients may hang up."""

    server = Server(("127.0.0.1", 0), Handler)
    hooks = Hooks(server.server_port, files.authority.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hooks
    finally:
        hooks.is_released.set()
        server.shutdown()
        server.server_close()


def answer_to(path: str, review: Json, hooks: Hooks) -> Said:
    """How a path answers."""
    name, *arguments = path.strip("/").split("/")
    if name == "slow":
        hooks.is_released.wait(60)
        return _said(review, {"allowed": True})
    if name == "status":
        return int(arguments[0]), b"out of order"
    if name == "garbage":
        return 200, b"{"
    if name == "huge":
        return 200, b" " * (9 * 1024 * 1024) + b"{}"
    if name == "no-response":
        return 200, json.dumps({"kind": "AdmissionReview", "apiVersion": review["apiVersion"]}).encode()
    if name == "other-kind":
        return 200, json.dumps({"kind": "Other", "apiVersion": "v1", "response": {"allowed": True}}).encode()
    return _said(review, _RESPONSES[name](review["request"], arguments))


def _said(review: Json, response: Json) -> Said:
    told = {"uid": review["request"]["uid"], **response}
    return 200, json.dumps({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": told}).encode()


def _patch(*operations: Json) -> Json:
    text = json.dumps(list(operations)).encode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(text).decode()}


def _labelled(request: Json, arguments: list[str]) -> Json:
    """Adds a label; with a third word only where that label is there already."""
    name, value, *needed = arguments
    labels = request["object"]["metadata"].get("labels") or {}
    if needed and needed[0] not in labels:
        return {"allowed": True}
    return _patch({"op": "add", "path": "/metadata/labels", "value": {**labels, name: value}})


_RESPONSES: dict[str, Callable[[Json, list[str]], Json]] = {
    "allow": lambda _request, _arguments: {"allowed": True},
    "warn": lambda _request, _arguments: {"allowed": True, "warnings": ["take care", "and again"]},
    "deny": lambda _request, _arguments: {"allowed": False, "status": {"message": "not today", "code": 403}},
    "deny-bare": lambda _request, _arguments: {"allowed": False},
    "deny-reason": lambda _request, _arguments: {"allowed": False, "status": {"reason": "Conflict", "code": 409}},
    "deny-success": lambda _request, _arguments: {"allowed": False, "status": {"message": "no", "code": 200}},
    "deny-details": lambda _request, _arguments: {
        "allowed": False,
        "status": {"message": "no", "code": 422, "reason": "Invalid", "details": {"name": "x", "kind": "y"}},
    },
    "label": _labelled,
    "data": lambda _request, arguments: _patch({"op": "add", "path": "/data", "value": {arguments[0]: arguments[1]}}),
    "replicas": lambda _request, arguments: _patch(
        {"op": "replace", "path": "/spec/replicas", "value": int(arguments[0])}
    ),
    "image": lambda _request, arguments: _patch(
        {"op": "replace", "path": "/spec/containers/0/image", "value": arguments[0]}
    ),
    "bad-name": lambda _request, _arguments: _patch({"op": "replace", "path": "/metadata/name", "value": "Not a name"}),
    "wrong-uid": lambda _request, _arguments: {"allowed": True, "uid": "x"},
    "no-type": lambda _request, _arguments: {"allowed": True, "patch": base64.b64encode(b"[]").decode()},
    "bad-patch": lambda _request, _arguments: _patch({"op": "remove", "path": "/spec/none"}),
    "odd-type": lambda _request, _arguments: {"allowed": True, "patchType": "Merge", "patch": "e30="},
}
