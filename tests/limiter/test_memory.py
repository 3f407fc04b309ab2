"""The memory limit through the whole library, over a stand-in for the driver: all paths, views, races and kills."""

from __future__ import annotations

import time
from random import Random

import pytest

from muster.agent.region import read_region
from tests.limiter.building import MIB, PATIENCE_S, Built, Card
from tests.support import proof_count

LIMIT = 2048 * MIB
CONTEXT = 500 * MIB
OUT_OF_MEMORY = "2"
PATHS = (
    ("plain", "pitch", "managed", "async", "async_ptsz", "pool", "virtual", "array", "array3d", "mipmap", "graph")
)  # fmt: skip


@pytest.mark.parametrize("how", PATHS)
def test_every_path_stops_at_the_limit_and_every_view_shows_it(card: Card, how: str):
    seen = card.run("fill", how, 16 * MIB, 4 * LIMIT, CUDA_DEVICE_MEMORY_LIMIT_0="2048m")
    assert seen["result"] == OUT_OF_MEMORY
    assert LIMIT * 0.98 <= card.count("used") <= LIMIT
    assert {seen[name] for name in ("total", "device_total", "nvml_total", "nvml2_total")} == {str(LIMIT)}
    assert int(seen["nvml_used"]) == int(seen["nvml2_used"]) == card.count("used")
    assert int(seen["free"]) == LIMIT - card.count("used")
    assert read_region(card.region()).devices[0].refusals == 1


def test_without_a_limit_nothing_changes(card: Card):
    seen = card.run("fill", "plain", 1024 * MIB, 8192 * MIB)
    assert (seen["result"], int(seen["total"]), seen["null"]) == ("0", 64 << 30, "1")
    assert not card.region().exists()


def test_every_way_to_a_function_ends_in_its_wrapper(card: Card):
    seen = card.run("routes", CUDA_DEVICE_MEMORY_LIMIT_0="2048m")
    assert seen.pop("missing") == "500 0 1" and seen.pop("absent") == "0"
    assert len(seen) > 50
    assert {name: ways for name, ways in seen.items() if ways != "1111"} == {}


def test_a_block_is_held_by_its_handles_and_its_mappings(card: Card):
    seen = card.run("map", CUDA_DEVICE_MEMORY_LIMIT_0="2048m")
    assert [int(seen[f"held{step}"]) // MIB for step in range(1, 5)] == [4, 4, 2, 0]


def test_allocating_and_freeing_leaves_nothing(card: Card):
    seen = card.run("churn", 7, 20_000, 32 * MIB, CUDA_DEVICE_MEMORY_LIMIT_0="2048m")
    assert int(seen["nvml_used"]) == card.count("used") == CONTEXT


def test_eight_that_race_never_exceed_the_limit(card: Card):
    settings = {"CUDA_DEVICE_MEMORY_LIMIT_0": "2048m", "FAKE_CONTEXT_MIB": "100"}
    assert card.run("race", 8, 16 * MIB, **settings) == {"failed": "0"}
    assert LIMIT * 0.9 < card.count("most_used") <= LIMIT


def test_a_context_that_does_not_fit_is_refused(card: Card):
    first = card.start("wait", CUDA_DEVICE_MEMORY_LIMIT_0="600m")
    try:
        assert first.stdout is not None and first.stdout.readline().startswith("free=")
        assert card.run("views", CUDA_DEVICE_MEMORY_LIMIT_0="600m") == {"context": OUT_OF_MEMORY}
    finally:
        first.communicate(timeout=PATIENCE_S)


def test_processes_of_a_container_see_each_other_and_no_one_else(card: Card):
    neighbour = card.start("wait", tenant="neighbour", CUDA_DEVICE_MEMORY_LIMIT_0="1g")
    first = card.start("wait", CUDA_DEVICE_MEMORY_LIMIT_0="2048m")
    try:
        for process in (neighbour, first):
            assert process.stdout is not None and process.stdout.readline().startswith("free=")
        seen = card.run("views", CUDA_DEVICE_MEMORY_LIMIT_0="2048m")
    finally:
        for process in (neighbour, first):
            process.communicate(timeout=PATIENCE_S)
    assert (seen["processes"], int(seen["nvml_used"])) == ("2", 2 * CONTEXT)


def test_limits_of_a_file_win_over_the_environment_and_change_while_it_runs(card: Card):
    limits = card.folder / "limits"
    limits.write_text("CUDA_DEVICE_MEMORY_LIMIT_0=1g\n")
    process = card.start("wait", MUSTER_LIMITS=limits, CUDA_DEVICE_MEMORY_LIMIT_0="8g")
    assert process.stdout is not None and process.stdin is not None
    try:
        seen = dict(process.stdout.readline().strip().split("=") for _ in range(9))
        assert int(seen["total"]) == 1 << 30
        fresh = card.folder / "fresh"
        fresh.write_text("CUDA_DEVICE_MEMORY_LIMIT_0=3g\n")
        fresh.rename(limits)
        until = time.monotonic() + PATIENCE_S
        while int(seen["total"]) != 3 << 30 and time.monotonic() < until:
            print(file=process.stdin, flush=True)
            seen = dict(process.stdout.readline().strip().split("=") for _ in range(9))
        assert int(seen["total"]) == 3 << 30
    finally:
        process.communicate(timeout=PATIENCE_S)


@pytest.mark.prove
def test_kills_leave_no_byte_and_no_hang(card: Card):
    chance, alive = Random(7), []
    settings = {"CUDA_DEVICE_MEMORY_LIMIT_0": "4g", "FAKE_CONTEXT_MIB": "100"}
    try:
        for number in range(proof_count(200)):
            while len(alive) < 4:
                alive.append(card.start("churn", number, 0, 64 * MIB, **settings))
            victim = alive.pop(chance.randrange(4))
            assert victim.stdout is not None and victim.stdout.read(chance.randrange(1, 200))
            victim.kill()
            victim.communicate()
    finally:
        for process in alive:
            process.kill()
            process.communicate()
    seen = card.run("fill", "plain", 16 * MIB, 8192 * MIB, **settings)
    assert (seen["result"], int(seen["got"])) == (OUT_OF_MEMORY, (4096 - 112) * MIB)
    left = read_region(card.region()).processes
    assert len(left) == 1, "the slots of the dead are free again"


@pytest.mark.parametrize("task", ["threads", "fill"])
def test_threads_race_for_nothing(card: Card, task: str):
    program = card.built.with_sanitizer()
    if program is None:
        pytest.skip("the compiler has no ThreadSanitizer")
    (card.folder / "tsan").mkdir()
    folder = card.folder / "tsan"
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (folder / name).symlink_to(card.built.folder / name)
    (folder / "client").symlink_to(program)
    inside = Card(Built(folder), card.folder, preloads=False)
    words = ("threads", 6) if task == "threads" else ("fill", "async", 16 * MIB, LIMIT)
    seen = inside.run(*words, CUDA_DEVICE_MEMORY_LIMIT_0="2048m", CUDA_DEVICE_SM_LIMIT="90", TSAN_OPTIONS="exitcode=66")
    assert int(seen["total"]) == LIMIT
