"""Certificates that are renewed: whoever trusts one of the last authorities believes each of the last servers."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from contextlib import suppress

import pytest
from cryptography import x509

from muster.apiserver.hooks.authorities import KEPT, SERVER_DAYS, identity_in, is_due, renewed

HOSTS = ("muster-webhook-service.muster-system.svc", "127.0.0.1")
NOW_S = 1_790_000_000.0
DAY_S = 86_400.0


def is_believed(tmp_path, identity, authorities) -> bool:
    """Whether a client with these authorities makes a connection with a server of this identity."""
    (tmp_path / "crt").write_bytes(identity.certificate)
    (tmp_path / "key").write_bytes(identity.key)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    trusting = ssl.create_default_context(cadata=authorities.decode())
    # Roots alone are trusted, as Go has it: a chain must not end with one that was signed by another.
    trusting.verify_flags &= ~ssl.VERIFY_X509_PARTIAL_CHAIN
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with suppress(OSError), serving.wrap_socket(theirs, server_side=True) as tls:
            tls.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours, trusting.wrap_socket(ours, server_hostname=HOSTS[0]):
            return True
    except ssl.SSLCertVerificationError:
        return False
    finally:
        ours.close()
        thread.join()


@pytest.fixture(scope="module")
def generations():
    found = [renewed(None, HOSTS, time.time())]
    for _ in range(5):
        found.append(renewed(found[-1], HOSTS, time.time()))
    return found


@pytest.mark.parametrize("lag", range(-2, 3))
def test_news_may_come_in_any_order(generations, tmp_path, lag):
    """A server may be two generations ahead of a client, or two behind it."""
    for number, identity in enumerate(generations):
        if 0 <= number + lag < len(generations):
            assert is_believed(tmp_path, identity, generations[number + lag].authorities)


def test_strangers_are_not_believed(generations, tmp_path):
    stranger = renewed(None, HOSTS, NOW_S)
    assert not is_believed(tmp_path, generations[0], stranger.authorities)
    assert not is_believed(tmp_path, generations[0], generations[KEPT].authorities)


def test_what_is_kept_and_shown_does_not_grow(generations):
    counts = [[text.count(b"BEGIN CERTIFICATE") for text in (one.authorities, one.certificate)] for one in generations]
    assert counts == [[1, 1], [2, 2], [3, 3], [3, 3], [3, 3], [3, 3]]


def test_it_is_renewed_before_it_ends_and_when_names_change():
    identity = renewed(None, HOSTS, NOW_S)
    assert not is_due(identity, HOSTS, NOW_S)
    assert not is_due(identity, HOSTS, NOW_S + (SERVER_DAYS - 31) * DAY_S)
    assert is_due(identity, HOSTS, NOW_S + (SERVER_DAYS - 29) * DAY_S)
    assert is_due(identity, (*HOSTS, "other.muster-system.svc"), NOW_S)
    ends = x509.load_pem_x509_certificate(identity.certificate).not_valid_after_utc.timestamp()
    assert ends == NOW_S + SERVER_DAYS * DAY_S


def test_a_secret_holds_it():
    identity = renewed(None, HOSTS, NOW_S)
    assert identity_in({"data": identity.data()}) == identity


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("value", [None, "", "!", base64.b64encode(b"no certificate").decode(), 7])
def test_a_secret_that_is_not_whole_holds_nothing(name, value):
    data = renewed(None, HOSTS, NOW_S).data()
    assert identity_in({"data": {**data, name: value}}) is None


def test_keys_have_to_be_those_of_their_certificates():
    one, other = renewed(None, HOSTS, NOW_S).data(), renewed(None, HOSTS, NOW_S).data()
    assert identity_in({"data": {**one, "tls.key": other["tls.key"]}}) is None
    assert identity_in({"data": {**one, "ca.key": other["ca.key"]}}) is None
    assert identity_in({}) is None
