"""The server's own authority: made once, renewed in time, and good for the names it is reached by."""

from __future__ import annotations

import ssl
import stat

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from muster.apiserver.certificates import certified, client_certificate, prepare
from muster.apiserver.requests import User
from muster.apiserver.server import tls_of

NOW_S = 1_700_000_000.0
DAY_S = 86_400.0


def test_all_files_are_private(tmp_path):
    files = prepare(tmp_path / "tls", ["127.0.0.1"], NOW_S)
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.folder.iterdir()}
    assert modes == dict.fromkeys(("ca.crt", "ca.key", "server.crt", "server.key"), 0o600)


def test_they_stay_until_they_are_about_to_end(tmp_path):
    files = prepare(tmp_path, [], NOW_S)
    authority, certificate = files.authority.read_bytes(), files.certificate.read_bytes()
    prepare(tmp_path, [], NOW_S + 300 * DAY_S)
    assert (files.authority.read_bytes(), files.certificate.read_bytes()) == (authority, certificate)
    prepare(tmp_path, [], NOW_S + 340 * DAY_S)
    assert files.authority.read_bytes() == authority
    assert files.certificate.read_bytes() != certificate
    prepare(tmp_path, [], NOW_S + 3_640 * DAY_S)
    assert files.authority.read_bytes() != authority


def test_another_address_needs_another_certificate(tmp_path):
    files = prepare(tmp_path, ["127.0.0.1"], NOW_S)
    first = files.certificate.read_bytes()
    prepare(tmp_path, ["127.0.0.1", "192.0.2.7", "gpu.example.com"], NOW_S)
    certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "gpu.example.com" in names.get_values_for_type(x509.DNSName)
    assert "192.0.2.7" in map(str, names.get_values_for_type(x509.IPAddress))
    assert files.certificate.read_bytes() != first


def test_nothing_older_than_tls_1_2(tmp_path):
    context = tls_of(prepare(tmp_path, [], NOW_S))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_client_s_certificate_says_who_it_is(tmp_path):
    files = prepare(tmp_path, [], NOW_S)
    text, _ = client_certificate(files, User("ann", ("devs", "ops")), days=7, now_s=NOW_S)
    read = x509.load_pem_x509_certificate(text)
    found = certified(read.public_bytes(Encoding.DER))
    assert found is not None
    assert found.user == User("ann", ("devs", "ops", "system:authenticated"))
    assert found.ends_s == NOW_S + 7 * DAY_S
