"""The command line: how long a user waits for `muster plan`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 7


def quickstart() -> list[str]:
    """Kueue's quickstart where it lies beside the checkout, else the worked example, which is larger."""
    folder = Path(os.environ.get("MUSTER_SHARED") or ROOT.parent / "shared") / "manifests"
    files = sorted(str(path) for path in folder.glob("kueue-quickstart-*.yaml"))
    return files or [str(ROOT / "examples" / "worked-example")]


def plan_wall_s() -> float:
    """Median wall seconds of the whole command, interpreter start included."""
    command = [str(Path(sys.executable).parent / "muster"), "plan", "-f", *quickstart()]
    taken = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)
