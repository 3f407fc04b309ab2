"""The server's own authority and certificate, made when there are none or they are about to end. Called at start.

What certificates are made of is used by `hooks.authorities`, too.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.apiserver.private_files import private_folder, write_private
from muster.apiserver.requests import User
from muster.apiserver.rights.service_accounts import AUTHENTICATED

_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 365
_RENEWED_BEFORE_DAYS = 30
_EARLIER = timedelta(minutes=5)  # for clients whose clocks are late
SERVICE_ADDRESS = "10.96.0.1"
NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


CERTIFIED = "muster.certified"  # where a request's scope has the user of its connection's certificate


class Certified(NamedTuple):
    """Whom a client's certificate is for, and until when."""

    user: User
    ends_s: float


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the keys and certificates of a server are."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def authority_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def certificate(self) -> Path:
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        return self.folder / "server.key"

    @property
    def signing_key(self) -> Path:
        """Of the tokens for service accounts."""
        return self.folder / "sa.key"


def certified(certificate: bytes) -> Certified | None:
    """Whom a certificate stands for that the TLS layer has found good: its common name, in its organizations."""
    read = x509.load_der_x509_certificate(certificate)
    names = [str(one.value) for one in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or not names[0]:
        return None
    groups = tuple(str(one.value) for one in read.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    user = User(names[0], groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED))
    return Certified(user, read.not_valid_after_utc.timestamp())


def client_certificate(files: TlsFiles, user: User, *, days: int, now_s: float) -> tuple[bytes, bytes]:
    """A certificate for a user, signed by the folder's authority, and its key; both are texts for a kubeconfig."""
    authority, authority_key = _authority_in(files)
    key = ec.generate_private_key(ec.SECP256R1())
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in user.groups]
    subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, user.name)])
    certificate = (
        started(subject, authority.subject, key.public_key(), datetime.fromtimestamp(now_s, UTC), days=days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key_pem(key)


def prepare(folder: Path, hosts: Iterable[str], now_s: float) -> TlsFiles:
    """The files of a server that is reached under these addresses; what is missing or nearly over is made anew."""
    files = TlsFiles(folder)
    now = datetime.fromtimestamp(now_s, UTC)
    private_folder(folder)
    wanted = names_of([*NAMES, "127.0.0.1", "::1", SERVICE_ADDRESS, *hosts])
    if not _is_good(files.authority, now):
        _make_authority(files, now)
        files.certificate.unlink(missing_ok=True)
    if not _is_good(files.certificate, now) or not _has_names(files.certificate, wanted):
        _make_server(files, wanted, now)
    return files


def _is_good(path: Path, now: datetime) -> bool:
    if not path.exists():
        return False
    ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    return ends - now > timedelta(days=_RENEWED_BEFORE_DAYS)


def _has_names(path: Path, wanted: list[x509.GeneralName]) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(wanted) <= set(found)


def names_of(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Addresses and names as a certificate has them, each once."""
    names: dict[x509.GeneralName, None] = {}
    for host in hosts:
        try:
            names[x509.IPAddress(ipaddress.ip_address(host))] = None
        except ValueError:
            names[x509.DNSName(host)] = None
    return list(names)


def _make_authority(files: TlsFiles, now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = named("muster-ca")
    certificate = (
        started(name, name, key.public_key(), now, days=_AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(is_authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(files.authority, files.authority_key, certificate, key)


def _make_server(files: TlsFiles, names: list[x509.GeneralName], now: datetime) -> None:
    authority, authority_key = _authority_in(files)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        started(named("muster"), authority.subject, key.public_key(), now, days=_SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    _write(files.certificate, files.key, certificate, key)


def _authority_in(files: TlsFiles) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
    key = serialization.load_pem_private_key(files.authority_key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey), "the authority's key is one of Muster's own"
    return authority, key


def named(name: str) -> x509.Name:
    """A subject that has nothing but a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def started(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, *, days: int
) -> x509.CertificateBuilder:
    """A certificate with what all of them have, still to be signed."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def usage(*, is_authority: bool) -> x509.KeyUsage:
    """What a key may be used for."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, key_path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    write_private(key_path, key_pem(key))
    write_private(path, certificate.public_bytes(serialization.Encoding.PEM))


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as a text, which is to be kept secret."""
    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
