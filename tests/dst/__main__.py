"""Run storms: `python -m tests.dst --seeds 100`, or one of them step by step: `python -m tests.dst --seed 17`."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from muster.app.simulation import storm_ground
from muster.sim.storm import STEPS, Report, run_storm


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.dst", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many storms")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--seed", type=int, help="only this one, with all its steps")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each storm")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _tell(_run((options.seed, options.steps)))
    failed = writes = count = 0
    points: Counter[str] = Counter()
    seeds = range(options.first, options.first + options.seeds)
    for report in _reports(((seed, options.steps) for seed in seeds), options.workers):
        count += 1
        writes += report.writes
        points += report.points
        if report.violations:
            failed += 1
            print(
                f"seed {report.seed} ({report.mix}): {report.violations[0]}\n    make dst SEED={report.seed}",
                flush=True,
            )
    print(f"{writes} writes; processes died at {len(points)} points, {sum(points.values())} times")
    print(f"{count} seeds, {failed} violations")
    return 1 if failed or not count else 0


def _run(asked: tuple[int, int]) -> Report:
    seed, steps = asked
    return run_storm(seed, storm_ground, steps=steps)


def _reports(asked: Iterable[tuple[int, int]], workers: int) -> Iterator[Report]:
    if workers < 2:
        yield from map(_run, asked)
        return
    with multiprocessing.get_context("fork").Pool(workers, gc.freeze) as pool:
        yield from pool.imap(_run, asked, chunksize=4)


def _tell(report: Report) -> int:
    for number, step in enumerate(report.steps, 1):
        print(f"{number:4}  {step}")
    for violation in report.violations:
        print(violation)
    print(f"{report.mix}, {report.writes} writes, {report.digest}")
    print(f"1 seeds, {len(report.violations)} violations")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
