"""Logs: what the keeper writes is read back as it is asked for."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from muster.agent.local import keeper
from muster.agent.local.logs import read_log
from muster.model.pod_streams import LogOptions
from muster.store.clock import VirtualClock

LINES = b"""2026-01-01T00:00:00.000000000Z stdout F one
2026-01-01T00:00:01.500000000Z stderr F two
2026-01-01T00:00:02.000000000Z stdout P th
2026-01-01T00:00:02.000000001Z stdout F ree
2026-01-01T00:00:03.000000000Z stdout P end
"""
SECOND_S = 1_767_225_601.0


def read(folder: Path, **options: Any) -> bytes:
    async def run() -> bytes:
        return b"".join([one async for one in read_log(folder, LogOptions(**options), VirtualClock())])

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, b"one\ntwo\nthree\nend"),
        ({"tail_lines": 0}, b""),
        ({"tail_lines": 1}, b"end"),
        ({"tail_lines": 2}, b"three\nend"),
        ({"tail_lines": 99}, b"one\ntwo\nthree\nend"),
        ({"since_s": SECOND_S}, b"two\nthree\nend"),
        ({"since_s": SECOND_S + 0.6}, b"three\nend"),
        ({"tail_lines": 2, "has_timestamps": True, "since_s": SECOND_S + 1.5}, b"2026-01-01T00:00:03.000000000Z end"),
    ],
)
def test_parts_of_a_log(options, want, tmp_path):
    (tmp_path / "log").write_bytes(LINES)
    found = read(tmp_path, **options)
    assert found.endswith(want) if "has_timestamps" in options else found == want


def test_a_log_goes_on_in_another_file(tmp_path, monkeypatch):
    monkeypatch.setattr(keeper, "LOG_BYTES", 400)
    log = keeper.Log(str(tmp_path))
    for number in range(20):
        log.add(b"stdout", b"line %d\n" % number)
    log.end()
    lines = read(tmp_path).splitlines()
    assert lines[-1] == b"line 19"
    assert 10 <= len(lines) < 20
    assert (tmp_path / "log.1").stat().st_size < 1_000


def test_long_lines_and_bare_ends_are_kept_whole(tmp_path):
    log = keeper.Log(str(tmp_path))
    text = b"x" * 50_000
    log.add(b"stdout", text[:30_000])
    log.add(b"stdout", text[30_000:] + b"\nrest")
    log.end()
    assert read(tmp_path) == text + b"\nrest"


def test_a_log_is_followed_to_its_end(tmp_path):
    async def story() -> list[bytes]:
        clock, log, found = VirtualClock(), keeper.Log(str(tmp_path)), []
        log.add(b"stdout", b"first\n")
        async for line in _ticking(read_log(tmp_path, LogOptions(is_followed=True), clock), clock):
            found.append(line)
            if line == b"first\n":
                log.add(b"stdout", b"second\n")
                log.end()
                (tmp_path / "end.json").write_text("{}")
        return found

    assert asyncio.run(story()) == [b"first\n", b"second\n"]


def test_what_a_pod_has_written_is_read_though_its_folder_goes_at_once(tmp_path):
    async def story() -> list[bytes]:
        folder = tmp_path / "run"
        folder.mkdir()
        clock, log, found = VirtualClock(), keeper.Log(str(folder)), []
        log.add(b"stdout", b"first\n")
        async for line in _ticking(read_log(folder, LogOptions(is_followed=True), clock), clock):
            found.append(line)
            if line == b"first\n":
                log.add(b"stdout", b"last words\n")
                log.end()
                shutil.rmtree(folder)
        return found

    assert asyncio.run(story()) == [b"first\n", b"last words\n"]


async def _ticking(lines: Any, clock: VirtualClock) -> Any:
    """The lines, while time passes."""
    while True:
        step = asyncio.ensure_future(anext(lines, None))
        while not step.done():
            await asyncio.sleep(0)
            clock.advance(1)
        if step.result() is None:
            return
        yield step.result()
