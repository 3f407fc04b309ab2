"""Backups of an embedded server's state, whether it runs or not, and their way back. Called by the commands.

While a server runs, its folder is its own; it is then asked to write the copy itself, as of one moment.
"""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from muster.apiserver.asgi import BACKUP_PATH
from muster.app.state_folder import WrongFolder, is_ours, kubeconfig_in, prepare_folder, tls_folder_in, token_file_in
from muster.store import backup
from muster.store.clock import RealClock
from muster.store.errors import Unavailable
from muster.store.sqlite import SqliteStore

_ANSWER_S = 600.0


def make_backup(folder: Path, target: Path) -> int:
    """Write a copy of all objects to a new file; gives the revision that it is of."""
    if not is_ours(folder):
        raise WrongFolder(f"{folder} has no state of Muster in it")
    try:
        store = SqliteStore(folder, RealClock())
    except Unavailable:
        if not kubeconfig_in(folder).exists():
            raise
        return _ask_server(folder, target)
    try:
        return backup.backup(store, target)
    finally:
        store.close()


def restore_backup(source: Path, folder: Path, *, is_overwriting: bool) -> int:
    """Make a folder's state out of a copy; gives the revision that it goes on from."""
    prepare_folder(folder, is_fresh=False)
    return backup.restore(source, folder, is_overwriting=is_overwriting)


def _ask_server(folder: Path, target: Path) -> int:
    """Have the server that runs write the copy."""
    text = kubeconfig_in(folder).read_text()
    place = urlsplit(next(line.split()[1] for line in text.splitlines() if line.strip().startswith("server:")))
    assert place.hostname, "a kubeconfig of ours names a server"
    tls = ssl.create_default_context(cafile=tls_folder_in(folder) / "ca.crt")
    token = token_file_in(folder).read_text().strip()
    connection = http.client.HTTPSConnection(place.hostname, place.port, context=tls, timeout=_ANSWER_S)
    try:
        body = json.dumps({"path": str(target)})
        connection.request("POST", BACKUP_PATH, body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        said = json.loads(answer.read())
    except (OSError, ValueError) as problem:
        raise Unavailable(f"{folder} is in use, and its server does not answer: {problem}") from None
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise Unavailable(str(said.get("message")))
    return int(said["revision"])
