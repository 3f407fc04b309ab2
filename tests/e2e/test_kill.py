"""kill -9 of a server under eight writers: what it acknowledged over its API is there, and no revision comes twice."""

from __future__ import annotations

import signal
import threading
from http.client import HTTPException
from pathlib import Path
from random import Random

import pytest

from tests.e2e.process import Muster, started
from tests.support import is_full_proof

CONFIGS = "/api/v1/namespaces/default/configmaps"
WRITERS = 8
Acknowledged = dict[str, int]  # the revision of each object that was made


def write_until_it_dies(muster: Muster, name: str, acknowledged: Acknowledged) -> None:
    """Make objects for as long as the server answers."""
    number = 0
    while True:
        made = f"{name}-{number}"
        try:
            answer = muster.client.request("POST", CONFIGS, {"metadata": {"name": made}})
        except (OSError, HTTPException):  # it was killed
            return
        if answer.status != 201:
            return
        acknowledged[made] = int(answer.json["metadata"]["resourceVersion"])
        number += 1


def one_life(folder: Path, life: int, *, writes: int) -> tuple[Acknowledged, Acknowledged]:
    """A server that is killed after about so many writes: what it had when it began, and what it acknowledged."""
    acknowledged: Acknowledged = {}
    with started(folder) as muster:
        listed = muster.client.request("GET", CONFIGS).json["items"]
        found = {one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) for one in listed}
        names = [f"w{life}-{number}" for number in range(WRITERS)]
        writers = [
            threading.Thread(target=write_until_it_dies, args=(muster, name, acknowledged), daemon=True)
            for name in names
        ]
        for one in writers:
            one.start()
        while len(acknowledged) < writes and any(one.is_alive() for one in writers):
            writers[0].join(0.001)
        muster.stop(signal.SIGKILL)
        for one in writers:
            one.join(30)
    return found, acknowledged


# Python leaves the socket of a handshake that is cut short to its garbage collector, which complains.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.prove
def test_kills_lose_nothing_that_was_acknowledged(tmp_path):
    chance = Random(0)
    made: Acknowledged = {}
    for life in range(200 if is_full_proof() else 3):
        found, acknowledged = one_life(tmp_path / "state", life, writes=chance.randrange(1, 60))
        lost = {name: revision for name, revision in made.items() if found.get(name) != revision}
        assert not lost, f"life {life}"
        assert not set(made.values()) & set(acknowledged.values()), f"life {life}: a revision came twice"
        made |= acknowledged
    assert len(made) > 10
