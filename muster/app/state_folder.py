"""The folder that an embedded server keeps everything in: which one, whose it is, and how it is made empty again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from muster.apiserver.private_files import private_folder
from muster.apiserver.rights.audit import FILE_NAME as AUDIT_LOG
from muster.store.sqlite_owner import FILE_NAME, Owner

_LOCK_NAME = "store.lock"  # which every store has beside its file
_SQLITE_HEADER_BYTES = 72
_APPLICATION = slice(68, 72)  # where SQLite keeps whose file it is
_OURS, _NOT_YET = b"MUST", b"\0\0\0\0"
_SQLITE = b"SQLite format 3\0"
_OF_A_STORE = (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm", f"{FILE_NAME}-journal", f"{FILE_NAME}.new")


class WrongFolder(Exception):
    """Why a folder is not used: for whoever named it."""


def default_folder() -> Path:
    """The folder where nobody has named one."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "muster"


def kubeconfig_in(folder: Path) -> Path:
    return folder / "kubeconfig"


def token_file_in(folder: Path) -> Path:
    return folder / "token"


def tls_folder_in(folder: Path) -> Path:
    return folder / "tls"


def volumes_in(folder: Path) -> Path:
    """Where the folders of claims are."""
    return folder.absolute() / "volumes"


def prepare_folder(folder: Path, *, is_fresh: bool) -> None:
    """Make the folder ready for a server; with `is_fresh` everything that an earlier one has left there goes."""
    if folder.exists() and not folder.is_dir():
        raise WrongFolder(f"{folder} is not a folder")
    is_used = folder.exists() and any(folder.iterdir())
    if is_used and not is_ours(folder):
        raise WrongFolder(
            f"{folder} has files that are not Muster's: name an empty folder, or one that is not there yet"
        )
    try:
        private_folder(folder)
        if is_fresh and is_used:
            _empty(folder)
    except OSError as problem:
        raise WrongFolder(f"{folder} cannot be used: {problem.strerror}") from None


def is_ours(folder: Path) -> bool:
    """Whether a store is there that Muster has made; of a new one the log may hold all that says so."""
    if not (folder / _LOCK_NAME).is_file():
        return False
    if not (folder / FILE_NAME).exists():
        return True  # made fresh, and stopped right then
    try:
        with (folder / FILE_NAME).open("rb") as file:
            header = file.read(_SQLITE_HEADER_BYTES)
    except OSError:
        return False
    return not header or (header.startswith(_SQLITE) and header[_APPLICATION] in (_OURS, _NOT_YET))


def _empty(folder: Path) -> None:
    """Remove what Muster has made, and nothing else; refuses while another process uses it."""
    owner = Owner(folder)
    try:
        for name in _OF_A_STORE:
            (folder / name).unlink(missing_ok=True)
        kubeconfig_in(folder).unlink(missing_ok=True)
        token_file_in(folder).unlink(missing_ok=True)
        for path in folder.glob(f"{AUDIT_LOG}*"):
            path.unlink()
        for path in (tls_folder_in(folder), volumes_in(folder)):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        owner.release()
