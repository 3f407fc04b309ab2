"""The certificate of the webhooks and the authorities that vouch for it, made and renewed. Called by `keeping`.

An API server hears of a new authority some time after it was made, and servers load a new certificate some time after
that. So neither may depend on the other: with each renewal the new authority is signed by the one before it as well,
and the server shows that. Whoever trusts any of the last authorities can follow the chain to the newest certificate,
and the older ones stay trusted for as long as a server may show theirs. In whatever order the news arrives, no call
fails.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.apiserver.certificates import key_pem, named, names_of, started, usage
from muster.store.kinds import Object

AUTHORITY_DAYS = 730
SERVER_DAYS = 90
RENEWED_BEFORE_DAYS = 30
KEPT = 3  # authorities that are trusted: the newest, and those whose certificates a server may still show
_PARTS = ("ca.crt", "ca.key", "tls.crt", "tls.key")
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What proves that the webhooks are Muster's, as texts: certificates, and the keys of the newest."""

    authorities: bytes  # all that are trusted, the newest first
    authority_key: bytes
    certificate: bytes  # the server's own, then the authorities as those before them have signed them
    key: bytes

    @property
    def bundle(self) -> str:
        """The authorities as configurations have them."""
        return base64.b64encode(self.authorities).decode()

    def data(self) -> Object:
        """The data of the Secret that it is kept in."""
        parts = (self.authorities, self.authority_key, self.certificate, self.key)
        return {name: base64.b64encode(part).decode() for name, part in zip(_PARTS, parts, strict=True)}


def identity_in(secret: Object) -> Identity | None:
    """What a Secret holds; None where it is not whole."""
    data = secret.get("data") or {}
    try:
        authorities, authority_key, certificate, key = (base64.b64decode(data.get(name) or "") for name in _PARTS)
        found = Identity(authorities=authorities, authority_key=authority_key, certificate=certificate, key=key)
        newest = _certificates(authorities)[0]
        _check_pair(newest, authority_key)
        _check_pair(_certificates(certificate)[0], key)
    except (ValueError, TypeError, IndexError, binascii.Error):
        return None
    return found


def is_due(identity: Identity, hosts: Iterable[str], now_s: float) -> bool:
    """Whether it has to be renewed: it is about to end, or is not for all names."""
    certificate = _certificates(identity.certificate)[0]
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if not set(names_of(hosts)) <= set(found):
        return True
    left = certificate.not_valid_after_utc - datetime.fromtimestamp(now_s, UTC)
    return left < timedelta(days=RENEWED_BEFORE_DAYS)


def renewed(before: Identity | None, hosts: Iterable[str], now_s: float) -> Identity:
    """A new identity, which everybody believes who believes the one before it."""
    now = datetime.fromtimestamp(now_s, UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # Names differ, so that nobody has to try which of several authorities has signed something.
    subject = named(f"muster-webhooks-{x509.random_serial_number():x}"[:40])
    authority = _authority(subject, authority_key, signed_by=subject, with_key=authority_key, now=now)
    certificate = (
        started(named("muster-webhooks"), subject, key.public_key(), now, days=SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names_of(hosts)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    trusted, shown = [authority], [certificate]
    if before is not None:
        older = _certificates(before.authorities)
        older_key = _key_in(before.authority_key)
        shown.append(_authority(subject, authority_key, signed_by=older[0].subject, with_key=older_key, now=now))
        shown += _certificates(before.certificate)[1 : KEPT - 1]
        trusted += older[: KEPT - 1]
    return Identity(
        authorities=_text(trusted), authority_key=key_pem(authority_key), certificate=_text(shown), key=key_pem(key)
    )


def _authority(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    signed_by: x509.Name,
    with_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    return (
        started(subject, signed_by, key.public_key(), now, days=AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage(is_authority=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(with_key.public_key()), critical=False)
        .sign(with_key, hashes.SHA256())
    )


def _certificates(text: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(text)


def _text(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(one.public_bytes(_PEM) for one in certificates)


def _key_in(text: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(text, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not one of Muster's own")
    return key


def _check_pair(certificate: x509.Certificate, key: bytes) -> None:
    """Raise where a key is not that of a certificate."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    mine, its = (one.public_bytes(_PEM, form) for one in (_key_in(key).public_key(), certificate.public_key()))
    if mine != its:
        raise ValueError("the key is of another certificate")
