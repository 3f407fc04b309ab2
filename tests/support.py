"""What tests share: how much of a long proof to run, and where the reference material lies. Imported by tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRACTION = 50  # an ordinary run proves one case of this many
FEWEST = 20  # and never fewer than this, as long as there are as many


def is_full_proof() -> bool:
    """Whether the long proofs run all their cases: `make prove` says so through the environment."""
    wanted = os.environ.get("MUSTER_PROVE", "")
    if wanted not in ("", "full"):
        raise pytest.UsageError(f"MUSTER_PROVE is {wanted!r}: leave it unset, or say 'full'")
    return wanted == "full"


def proof_count(full: int) -> int:
    """How many of a proof's cases to run now. Cases are seeded by their number: a fraction is always the same one."""
    return full if is_full_proof() else max(min(full, FEWEST), full // FRACTION)


def assert_sound(check: Callable[[Random], None], seeds: Iterable[int]) -> None:
    """Run a check once for each seed; says of every failure how to see it again."""
    problems = []
    for seed in seeds:
        try:
            check(Random(seed))
        except Exception as problem:  # a broken invariant, or a fault on the way to it
            problems.append(f"seed {seed}: {type(problem).__name__}: {problem}")
    assert not problems, "\n".join(problems)


def shared(path: str = "") -> Path:
    """A file or folder of the reference material beside the checkout; skips the test, or the module, without it."""
    base = Path(os.environ.get("MUSTER_SHARED") or ROOT.parent / "shared")
    wanted = base / path
    if not wanted.exists():
        reason = (
            f"needs the reference material {path or 'folder'!r}: not beside this checkout, and MUSTER_SHARED names none"
        )
        pytest.skip(reason, allow_module_level=True)
    return wanted


def outputs_under_hash_seeds(program: str) -> set[str]:
    """What a program prints in two processes whose sets and dictionaries of texts differ in their order."""
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
