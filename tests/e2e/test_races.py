"""Updates of the same version by several clients at once: one of them wins, the others are told of the conflict."""

from __future__ import annotations

import asyncio
import json

import pytest

from bench.wire import Connection
from tests.e2e.lives import Lives, config_of, encoded
from tests.support import proof_count

RACERS = 4
TRACKS = 10  # objects that are raced for at the same time
CONFIGS = "/api/v1/namespaces/default/configmaps"


async def race(racers: list[Connection], name: str, races: int) -> None:
    """Race for one object again and again; each race is for what the last winner wrote."""
    _, made = await racers[0].request("POST", CONFIGS, encoded(config_of(name, "start")))
    revision = int(json.loads(made)["metadata"]["resourceVersion"])
    for number in range(races):
        bodies = [encoded(config_of(name, f"{number}-{racer}", revision=revision)) for racer in range(RACERS)]
        heard = await asyncio.gather(
            *(one.request("PUT", f"{CONFIGS}/{name}", body) for one, body in zip(racers, bodies, strict=True))
        )
        winners = [json.loads(answer) for status, answer in heard if status == 200]
        losers = [(status, json.loads(answer)["reason"]) for status, answer in heard if status != 200]
        assert len(winners) == 1, f"race {number} for {name} at {revision}: {heard}"
        assert losers == [(409, "Conflict")] * (RACERS - 1), f"race {number} for {name}: {losers}"
        assert winners[0]["data"]["value"].startswith(f"{number}-"), f"race {number} for {name}: {winners}"
        revision = int(winners[0]["metadata"]["resourceVersion"])


async def all_races(lives: Lives, count: int) -> None:
    connections = [await lives.connect() for _ in range(TRACKS * RACERS)]
    tracks = [connections[track * RACERS :][:RACERS] for track in range(TRACKS)]
    await asyncio.gather(*(race(racers, f"track-{track}", count // TRACKS) for track, racers in enumerate(tracks)))
    for one in connections:
        one.close()


@pytest.mark.prove
def test_every_race_has_one_winner(tmp_path):
    with Lives(tmp_path / "state") as lives:
        asyncio.run(all_races(lives, proof_count(10_000)))
