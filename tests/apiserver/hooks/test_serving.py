"""A server whose certificate changes while it runs: connections there are go on, new ones see the new certificate."""

from __future__ import annotations

import asyncio
import json
import ssl
import time

import pytest

from muster.apiserver.hooks.authorities import renewed
from muster.apiserver.hooks.serving import ServedCertificate, follow_files, serve_beside
from muster.apiserver.server import listen
from muster.store.clock import VirtualClock
from tests.apiserver.hooks.world import Hooks, a_review
from tests.controllers.jobs_world import JOBS, a_job

HOSTS = ("127.0.0.1",)


def trusting(identity) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=identity.authorities.decode())


async def asked(reader, writer) -> dict:
    """The answer to a review on a connection that is kept."""
    body = json.dumps(a_review(JOBS, a_job())).encode()
    writer.write(b"POST /mutate?timeout=10s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return json.loads(await reader.readexactly(length))


def test_certificates_change_while_reviews_are_answered():
    async def story():
        first = renewed(None, HOSTS, time.time())
        served = ServedCertificate()
        served.show(first.certificate, first.key)
        listening = listen("127.0.0.1", 0, is_authenticated=True)
        port = listening.getsockname()[1]
        ready = asyncio.Event()
        serving = asyncio.create_task(serve_beside(Hooks().app, listening, served, ready.set))
        await ready.wait()
        old = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(first))
        assert (await asked(*old))["response"]["allowed"]
        second = renewed(first, HOSTS, time.time())
        assert served.show(second.certificate, second.key)
        assert not served.show(second.certificate, second.key)
        assert (await asked(*old))["response"]["allowed"]
        for known in (first, second):
            new = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(known))
            shown = new[1].get_extra_info("ssl_object").getpeercert(binary_form=True)
            assert ssl.DER_cert_to_PEM_cert(shown).encode() in second.certificate.replace(b"\r", b"")
            assert (await asked(*new))["response"]["allowed"]
            new[1].close()
            await new[1].wait_closed()
        old[1].close()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        listening.close()

    asyncio.run(story())


def test_what_cannot_be_used_does_not_take_the_place_of_what_can():
    async def story():
        identity, other = (renewed(None, HOSTS, time.time()) for _ in range(2))
        served = ServedCertificate()
        served.show(identity.certificate, identity.key)
        with pytest.raises(ssl.SSLError):
            served.show(identity.certificate, other.key)
        assert not served.show(identity.certificate, identity.key)

    asyncio.run(story())


def test_files_that_somebody_else_keeps_are_shown_when_they_are_there_and_when_they_change(tmp_path):
    async def story():
        clock, served = VirtualClock(), ServedCertificate()
        following = asyncio.create_task(follow_files(tmp_path, served, clock))
        shown = []
        for _ in range(2):
            identity = renewed(None, HOSTS, time.time())
            await asyncio.sleep(0)
            shown.append(served.is_there.is_set())
            (tmp_path / "tls.crt").write_bytes(identity.certificate)
            (tmp_path / "tls.key").write_bytes(identity.key)
            clock.advance(11.0)
            for _ in range(5):
                await asyncio.sleep(0)
            assert not served.show(identity.certificate, identity.key)  # it is what is shown already
        following.cancel()
        return shown

    assert asyncio.run(story()) == [False, True]
