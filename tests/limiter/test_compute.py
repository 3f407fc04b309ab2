"""Limits on GPU time: the account, the union of stretches and the turns by themselves with time as an argument, and
the whole library over a stand-in for the driver, where only what no load of the machine can change is asserted."""

from __future__ import annotations

import ctypes
import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from muster.agent.region import read_region
from tests.limiter.building import PATIENCE_S, SOURCES, Built, Card, call, compiler
from tests.support import proof_count

MS = 1_000_000


@pytest.fixture(scope="session")
def parts(built: Built) -> ctypes.CDLL:
    """The parts without a clock, callable from here."""
    library = built.folder / "parts.so"
    sources = [SOURCES / f"{name}.c" for name in ("account", "spans", "turns")]
    call(compiler(), "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", library, *sources)
    found = ctypes.CDLL(str(library))
    found.spans_add.restype = found.account_balance.restype = ctypes.c_int64
    found.account_wait_ns.restype = ctypes.c_uint64
    found.turns_map.restype = ctypes.c_void_p
    found.turn_try.restype = found.turn_is_wanted.restype = found.turn_has_others.restype = ctypes.c_bool
    return found


class Account(ctypes.Structure):
    _fields_ = (("balance_ns", ctypes.c_int64), ("refilled_at_ns", ctypes.c_uint64))


class Spans(ctypes.Structure):
    _fields_ = (("count", ctypes.c_int), ("starts", ctypes.c_int64 * 32), ("ends", ctypes.c_int64 * 32))


@pytest.mark.prove
def test_the_account_gives_what_is_asked(parts: ctypes.CDLL):
    """Kernels of any length, each launched when the account allows: their part of the time is the limit's."""
    for seed in range(proof_count(500)):
        chance = Random(seed)
        percent, account, now, busy = chance.randrange(1, 100), Account(), MS, 0
        longest = chance.choice((200_000, MS, 20 * MS))
        parts.account_refill(ctypes.byref(account), percent, ctypes.c_uint64(now))
        while now < 2_000 * MS:
            parts.account_refill(ctypes.byref(account), percent, ctypes.c_uint64(now))
            wait = parts.account_wait_ns(ctypes.byref(account), percent)
            if wait:
                now += wait + 1000
                continue
            kernel = chance.randrange(longest // 2, longest)
            parts.account_debit(ctypes.byref(account), ctypes.c_int64(kernel))
            busy, now = busy + kernel, now + kernel
        assert abs(100 * busy / now - percent) < 0.5 + 100 * 20 * MS / now + percent * 100 * MS / now, (
            f"seed {seed}: {percent} {busy / now}"
        )


def test_idle_time_is_not_saved_up(parts: ctypes.CDLL):
    account = Account()
    for now in (MS, 3_600_000 * MS):
        parts.account_refill(ctypes.byref(account), 30, ctypes.c_uint64(now))
    assert parts.account_balance(ctypes.byref(account)) == 30 * MS


def test_a_clock_that_began_anew_gives_nothing(parts: ctypes.CDLL):
    account = Account(balance_ns=-5, refilled_at_ns=10**18)
    parts.account_refill(ctypes.byref(account), 50, ctypes.c_uint64(MS))
    assert (account.balance_ns, account.refilled_at_ns) == (-5, MS)


@pytest.mark.prove
def test_stretches_that_overlap_count_once(parts: ctypes.CDLL):
    for seed in range(proof_count(1000)):
        chance, spans, seen, total = Random(seed), Spans(), set(), 0
        for number in range(60):
            start = number * 5 + chance.randrange(0, 30)
            end = start + chance.randrange(0, 25)
            fresh = set(range(start, end)) - seen
            added = parts.spans_add(ctypes.byref(spans), ctypes.c_int64(start), ctypes.c_int64(end))
            assert added == len(fresh), f"seed {seed}, stretch {number}"
            seen, total = seen | fresh, total + added
        assert total == len(seen)


class Turns:
    """A card's file of turns, by number of slot."""

    def __init__(self, parts: ctypes.CDLL, folder: Path) -> None:
        self.parts = parts
        self.at = ctypes.c_void_p(parts.turns_map(str(folder).encode(), b"GPU-1"))
        assert self.at.value

    def join(self, tenant: int, now: int) -> int:
        return self.parts.turn_join(self.at, ctypes.c_uint64(tenant), ctypes.c_uint64(now))

    def show(self, slot: int, now: int, priority: int = 0) -> None:
        self.parts.turn_show(self.at, slot, priority, ctypes.c_uint64(now))

    def ask(self, slot: int, now: int) -> bool:
        return self.parts.turn_try(self.at, slot, ctypes.c_uint64(now))

    def go(self, slot: int, now: int) -> None:
        self.parts.turn_pass(self.at, slot, ctypes.c_uint64(now))


def test_turns_go_round_and_only_one_has_it(parts: ctypes.CDLL, tmp_path: Path):
    turns = Turns(parts, tmp_path)
    slots = [turns.join(tenant, MS) for tenant in (11, 12, 13)]
    order = []
    for now in range(MS, 10 * MS, MS):
        holders = [slot for slot in slots if turns.ask(slot, now)]
        assert len(holders) == 1
        order.append(holders[0])
        turns.go(holders[0], now)
    assert order == slots * 3


def test_a_holder_that_does_not_show_itself_loses_the_turn(parts: ctypes.CDLL, tmp_path: Path):
    turns = Turns(parts, tmp_path)
    first, second = turns.join(11, MS), turns.join(12, MS)
    assert turns.ask(first, MS) and not turns.ask(second, 90 * MS)
    turns.show(first, 90 * MS)
    assert not turns.ask(second, 150 * MS)
    assert turns.ask(second, 200 * MS)


def test_the_higher_priority_is_next(parts: ctypes.CDLL, tmp_path: Path):
    turns = Turns(parts, tmp_path)
    holder, low, high = (turns.join(tenant, MS) for tenant in (11, 12, 13))
    turns.show(low, MS, priority=1)
    assert turns.ask(holder, MS) and not turns.ask(low, MS) and not turns.ask(high, MS)
    turns.go(holder, MS)
    assert not turns.ask(low, MS) and turns.ask(high, MS)


def test_a_slot_of_the_dead_is_taken_again(parts: ctypes.CDLL, tmp_path: Path):
    turns = Turns(parts, tmp_path)
    slots = [turns.join(1, MS) for _ in range(128)]
    assert sorted(slots) == list(range(128)) and turns.join(2, MS) == -1
    assert turns.join(2, 4000 * MS) in slots


# The whole library --------------------------------------------------------------------------------------------------


def timed(card: Card, *words: object, **settings: object) -> float:
    start = time.monotonic()
    card.run(*words, GPU_CORE_UTILIZATION_POLICY="force", **settings)
    return time.monotonic() - start


@pytest.mark.parametrize("streams", [1, 4])
def test_a_limited_tenant_takes_as_long_as_its_share_says(card: Card, streams: int):
    """200 ms of work at 25 per cent last 800 ms, less what may be used at once; a loaded machine only adds."""
    passed = timed(card, "launch", 200, 1000, streams, CUDA_DEVICE_SM_LIMIT="25")
    region = read_region(card.region())
    assert passed >= 0.8 - 0.1
    assert region.devices[0].throttled_ns > 0 and region.devices[0].core_limit == 25
    assert region.processes[0].busy_ns[0] >= 150 * MS


def test_without_a_limit_no_event_is_recorded(card: Card):
    card.run("launch", 100, 100, 2, CUDA_DEVICE_MEMORY_LIMIT="2g")
    assert (card.count("launches"), card.count("events")) == (100, 0)


def test_short_kernels_share_their_events(card: Card):
    card.run("launch", 4000, 1, 1, CUDA_DEVICE_SM_LIMIT="95")
    assert 0 < card.count("events") < 4000 * 0.75, "most launches have no event of their own"


def test_a_captured_stream_is_never_touched(card: Card):
    card.run("capture", CUDA_DEVICE_SM_LIMIT="30")
    assert (card.count("launches"), card.count("captured_events")) == (1001, 0)


def test_two_tenants_take_turns_and_both_end(card: Card):
    turns = card.folder / "turns"
    turns.mkdir()
    settings = {"MUSTER_TURNS": turns, "GPU_CORE_UTILIZATION_POLICY": "force"}
    start = time.monotonic()
    first = card.start("launch", 90, 1000, 1, tenant="first", CUDA_DEVICE_SM_LIMIT="30", **settings)
    second = card.start("launch", 210, 1000, 1, tenant="second", CUDA_DEVICE_SM_LIMIT="70", **settings)
    for process in (first, second):
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    assert time.monotonic() - start >= 0.3 - 0.1


def test_a_killed_holder_holds_nobody_up(card: Card):
    turns = card.folder / "turns"
    turns.mkdir()
    settings = {"MUSTER_TURNS": turns, "GPU_CORE_UTILIZATION_POLICY": "force"}
    holder = card.start("launch", 1_000_000, 1000, 1, tenant="first", CUDA_DEVICE_SM_LIMIT="50", **settings)
    try:
        until = time.monotonic() + PATIENCE_S
        while not (card.folder / "card").exists() or card.count("launches") < 20:
            assert time.monotonic() < until
        holder.kill()
        holder.communicate()
        card.run("launch", 20, 1000, 1, tenant="second", CUDA_DEVICE_SM_LIMIT="50", **settings)
    finally:
        holder.kill()
        holder.wait()


def test_dlsym_keeps_the_scope_of_its_caller(built: Built, tmp_path: Path):
    """RTLD_NEXT means the library after the one that asks, whoever stands between."""
    asking = 'int number(void) { return ((int (*)(void))dlsym(RTLD_NEXT, "number"))() + 1; }'
    asking = f"#define _GNU_SOURCE\n#include <dlfcn.h>\n{asking}\n"
    (tmp_path / "asks.c").write_text(asking)
    (tmp_path / "answers.c").write_text("int number(void) { return 41; }\n")
    (tmp_path / "main.c").write_text("int number(void);\nint main(void) { return number(); }\n")
    for name in ("asks", "answers"):
        call(compiler(), "-shared", "-fPIC", "-O1", "-o", tmp_path / f"lib{name}.so", tmp_path / f"{name}.c", "-ldl")
    linked = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lasks", "-lanswers", f"-Wl,-rpath,{tmp_path}"]
    call(compiler(), "-o", tmp_path / "main", tmp_path / "main.c", *linked)
    assert subprocess.run([tmp_path / "main"], env={"LD_PRELOAD": str(built.library)}).returncode == 42


def test_the_library_is_small_and_needs_no_driver(built: Built):
    names = subprocess.run(["nm", "-D", "--defined-only", built.library], capture_output=True, text=True, check=True)
    exported = [line.split()[-1] for line in names.stdout.splitlines()]
    needed = subprocess.run(["objdump", "-p", built.library], capture_output=True, text=True, check=True).stdout
    assert len(exported) <= 60 and all(name.startswith(("cu", "nvml", "dlsym")) for name in exported)
    assert "libcuda" not in needed and "libnvidia" not in needed
    assert built.library.stat().st_size < 100 << 10
