"""Files and folders that nobody else may read. Used for keys, tokens and the kubeconfig."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make a folder if there is none, and keep others out of it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; it is there whole or not at all."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def token_in(path: Path) -> str:
    """The token in a file, which is made where it is missing."""
    if path.exists():
        path.chmod(0o600)
        return path.read_text().strip()
    token = secrets.token_urlsafe(32)  # 256 bits
    write_private(path, f"{token}\n".encode())
    return token
