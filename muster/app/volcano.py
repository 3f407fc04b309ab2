"""What Volcano's controllers need of the world besides the store: keys for ssh, and answers of pods.

Called by `living`.
"""

from __future__ import annotations

import asyncio

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from muster.controllers.volcano import Outside
from muster.dialects.volcano.flow import Check
from muster.dialects.volcano.job.plugins import Keys

_BITS = 2048
_WAIT_S = 1.0  # for an answer
_LINE_MOST = 1_024


async def make_keys() -> Keys:
    """A new pair of keys, made beside everything else: it takes a part of a second."""
    return await asyncio.to_thread(new_keys)


def new_keys() -> Keys:
    """A new pair of RSA keys, as OpenSSH reads them."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return Keys(pem.decode(), f"{public.decode()}\n")


async def ask(check: Check) -> bool:
    """Whether a pod takes a connection, or answers a request well, within a second."""
    try:
        async with asyncio.timeout(_WAIT_S):
            return await _answers(check)
    except (OSError, ValueError, TimeoutError, asyncio.LimitOverrunError):
        return False


async def _answers(check: Check) -> bool:
    reader, writer = await asyncio.open_connection(check.address, check.port, limit=_LINE_MOST)
    try:
        if not check.path:
            return True
        lines = [f"GET {check.path} HTTP/1.1", f"Host: {check.address}:{check.port}", "Connection: close"]
        if check.header is not None:
            lines.append(f"{check.header[0]}: {check.header[1]}")
        if any(mark in line for line in lines for mark in "\r\n"):
            return False  # it would say more than one request
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        words = (await reader.readline()).split()
        return len(words) >= 2 and words[0].startswith(b"HTTP/") and words[1][:1] in (b"2", b"3")
    finally:
        writer.close()


OUTSIDE = Outside(make_keys, ask)
