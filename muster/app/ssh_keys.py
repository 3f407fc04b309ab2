"""Pairs of keys for jobs whose pods log in to each other. Called by the controllers of Volcano's jobs."""

from __future__ import annotations

import asyncio

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from muster.dialects.volcano.job.plugins import Keys

_BITS = 2048


async def make_keys() -> Keys:
    """A new pair, made beside everything else: it takes a part of a second."""
    return await asyncio.to_thread(new_keys)


def new_keys() -> Keys:
    """A new pair of RSA keys, as OpenSSH reads them."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return Keys(pem.decode(), f"{public.decode()}\n")
