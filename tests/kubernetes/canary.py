"""A webhook that shows only its newest certificate: an API server that believes it has heard of the newest authority.

A real API server does not say which state of a configuration it works with. This one is changed after the others, and
news of one kind comes in order: whoever knows this knows them too. Used by test_hooks.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from muster.apiserver.hooks.authorities import identity_in
from tests.kubernetes.hooked import ADMISSION, Hooked

Json = dict[str, Any]
_END = b"-----END CERTIFICATE-----\n"
SECRET = "/api/v1/namespaces/muster-system/secrets/muster-webhook-server-cert"
_LABEL = {"canary": "yes"}


class Canary:
    """The webhook, and the configurations that have it asked."""

    def __init__(self, world: Hooked, port: int, tls: ssl.SSLContext, folder: Path) -> None:
        self._world = world
        self._port = port
        self._tls = tls
        self._folder = folder

    def wait(self) -> None:
        """Return when the API server trusts the authority of the newest certificate."""
        identity = identity_in(self._world.client.request("GET", SECRET).json)
        assert identity is not None, "the Secret is whole"
        (self._folder / "crt").write_bytes(identity.certificate.partition(_END)[0] + _END)
        (self._folder / "key").write_bytes(identity.key)
        self._tls.load_cert_chain(self._folder / "crt", self._folder / "key")
        for kind in ("Mutating", "Validating"):
            self._configure(kind, identity.bundle)
        self._world.until(self._is_believed)

    def _configure(self, kind: str, bundle: str) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"]}
        webhook = {
            "name": "canary.muster.dev",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": f"https://127.0.0.1:{self._port}/{kind.lower()}", "caBundle": bundle},
            "objectSelector": {"matchLabels": _LABEL},
            "rules": [rule],
        }
        path = f"{ADMISSION}/{kind.lower()}webhookconfigurations"
        given = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": "canary"},
            "webhooks": [webhook],
        }
        answer = self._world.client.request(
            "PATCH",
            f"{path}/canary?fieldManager=canary&force=true",
            given,
            content_type="application/apply-patch+yaml",
        )
        assert answer.status in (200, 201), answer.body

    def _is_believed(self) -> bool:
        probe = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "canary", "labels": _LABEL}}
        answer = self._world.client.request("POST", "/api/v1/namespaces/team/secrets?dryRun=All", probe)
        return answer.status == 201 and base64.b64decode(answer.json.get("data", {}).get("seen", "")) == b"yes"


@contextmanager
def canary(world: Hooked, folder: Path) -> Iterator[Canary]:
    """A server of its own, which hangs up after each answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response: Json = {"uid": review["request"]["uid"], "allowed": True}
            if self.path.startswith("/mutating"):
                patch = json.dumps([{"op": "add", "path": "/data", "value": {"seen": "eWVz"}}]).encode()
                response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
            body = json.dumps({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_arguments: Any) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_arguments: Any) -> None:
            """Those that do not believe it hang up."""

    folder.mkdir()
    server = Server(("127.0.0.1", 0), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Canary(world, server.server_port, tls, folder)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
