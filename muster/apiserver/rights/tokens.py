"""Signed tokens (JSON Web Tokens, ES256) and the key that signs them. Used by `service_accounts`, made by `app`."""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from muster.apiserver.private_files import write_private

Claims = dict[str, Any]
_ALGORITHM = "ES256"
_HALF_BYTES = 32  # a signature is two numbers of this size
MOST_CHARACTERS = 16 * 1024
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class SigningKey:
    """Signs claims, and knows its own signature again."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        der = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id = _text(hashlib.sha256(der).digest())
        self._head = _text(_encode({"alg": _ALGORITHM, "kid": self.id}))

    @staticmethod
    def new() -> SigningKey:
        return SigningKey(ec.generate_private_key(ec.SECP256R1()))

    @property
    def pem(self) -> bytes:
        """The key as a file keeps it."""
        pem = serialization.Encoding.PEM
        return self._key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    def signed(self, claims: Claims) -> str:
        """The token that holds some claims."""
        content = f"{self._head}.{_text(_encode(claims))}"
        first, second = decode_dss_signature(self._key.sign(content.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{content}.{_text(first.to_bytes(_HALF_BYTES) + second.to_bytes(_HALF_BYTES))}"

    def claims(self, token: str) -> Claims | None:
        """The claims of a token that this key has signed; `None` for any other text."""
        head, _, rest = token.partition(".")
        content, _, signature = rest.partition(".")
        # Another algorithm or key has another head: nothing that a token says of itself is believed.
        if head != self._head or len(token) > MOST_CHARACTERS:
            return None
        try:
            halves = _bytes(signature)
            if len(halves) != 2 * _HALF_BYTES:
                return None
            numbers = int.from_bytes(halves[:_HALF_BYTES]), int.from_bytes(halves[_HALF_BYTES:])
            signed = f"{head}.{content}".encode()
            self._public.verify(encode_dss_signature(*numbers), signed, ec.ECDSA(hashes.SHA256()))
            return _decode(_bytes(content))
        except (InvalidSignature, ValueError, msgspec.MsgspecError):
            return None

    def public_keys(self) -> dict[str, Any]:
        """The key for others to check tokens with, as a set of JSON Web Keys."""
        numbers = self._public.public_numbers()
        place = {"x": _text(numbers.x.to_bytes(_HALF_BYTES)), "y": _text(numbers.y.to_bytes(_HALF_BYTES))}
        return {"keys": [{"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": _ALGORITHM, **place}]}


def signing_key_in(path: Path) -> SigningKey:
    """The key in a file, which is made where it is missing."""
    if path.exists():
        path.chmod(0o600)
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey), "the key is one of Muster's own"
        return SigningKey(key)
    made = SigningKey.new()
    write_private(path, made.pem)
    return made


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as problem:
        raise ValueError(str(problem)) from None
    return data
