"""openb: the published placement experiment, through Muster's own table and policies.

`python -m bench.openb --policy fgd --seed 42` prints the share of cards given out, last and alone on its line, in per
cent; `--all` prints every policy and seed beside the published values. Pods come one by one, are placed at once or
never, and stay; they stop coming when 130 % of all cards have been asked for.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from dataclasses import dataclass

from bench.openb_trace import SEEDS, Trace, TraceMissing, published, read_trace
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.policy import AnyPolicy, Hooks
from muster.policies import bestfit, clustering, dotproduct, fgd, packing

PUBLISHED_NAMES = {
    "fgd": "FGD",
    "bestfit": "BestFit",
    "packing": "GpuPacking",
    "clustering": "GpuClustering",
    "dotproduct": "DotProd",
}
DEFAULT = "default"  # the profile as it is shipped: it is told nothing, and learns from the pods that come
OTHER_NAMES = {"gpupacking": "packing", "gpuclustering": "clustering", "dotprod": "dotproduct"}
POLICIES: dict[str, AnyPolicy] = {one.POLICY.name: one.POLICY for one in (bestfit, packing, clustering, dotproduct)}
TOLERANCE = 0.05  # points between our mean and the published one


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run ended."""

    allocated_percent: float
    placed: int
    pods: int
    cpu_s: float

    @property
    def pods_per_cpu_s(self) -> float:
        return self.pods / self.cpu_s


def hooks_for(policy: str, trace: Trace) -> Hooks:
    """The policy as the experiment sets it up: fgd learns what is typical from the list of pods."""
    if policy == fgd.POLICY.name:
        return fgd.POLICY.hooks(fgd.Arguments(typical=fgd.typical_pods(trace.listed), learns=False, counts_cpu=False))
    return POLICIES[policy].hooks()


def run(policy: str, trace: Trace) -> Outcome:
    """Plays the trace once; setting up the table and the policy counts too, reading the files does not."""
    gc.collect()
    started = time.process_time()
    table = NodeTable(trace.nodes)
    placer = Placer(table, [hooks_for(policy, trace)])
    given = placed = 0
    for pod in trace.arrivals:
        if placer.place(pod) is not None:
            given += pod.card_milli
            placed += 1
            table.commit()
    cpu_s = time.process_time() - started
    return Outcome(100 * given / trace.card_milli, placed, len(trace.arrivals), cpu_s)


def print_one(policy: str, seed: int, variant: str) -> int:
    if policy == DEFAULT:
        return print_default(seed, variant)
    outcome = run(policy, read_trace(seed, variant))
    expected = published(PUBLISHED_NAMES[policy], variant).get(seed)
    print(
        f"{policy}, seed {seed}, {variant}: {outcome.placed:,} of {outcome.pods:,} pods placed, published {expected} %"
    )
    print(f"{outcome.cpu_s:.2f} CPU-seconds, {outcome.pods_per_cpu_s:,.0f} pods per CPU-second")
    print(f"{outcome.allocated_percent:.3f}")
    return 0


def print_default(seed: int, variant: str) -> int:
    """The default profile through the whole engine, beside the published value of fgd."""
    from bench.engine_places import openb_rate  # which builds on this file

    share, rate = openb_rate(DEFAULT, read_trace(seed, variant))
    expected = published(PUBLISHED_NAMES[fgd.POLICY.name], variant).get(seed)
    print(f"default, seed {seed}, {variant}: published for fgd {expected} %")
    print(f"{rate:,.0f} pods per CPU-second through the whole engine")
    print(f"{share:.3f}")
    return 0


def print_all(seeds: tuple[int, ...]) -> int:
    """Every policy and seed; fails when a mean is further from the published one than it may be."""
    print(
        f"{'policy':<12}"
        + "".join(f"{seed:>8}" for seed in seeds)
        + "    mean  published  difference  worst seed  pods/CPU-s"
    )
    traces = {seed: read_trace(seed) for seed in seeds}
    is_near = True
    for policy, name in PUBLISHED_NAMES.items():
        expected = published(name)
        outcomes = {seed: run(policy, trace) for seed, trace in traces.items()}
        values = {seed: outcome.allocated_percent for seed, outcome in outcomes.items()}
        mean = statistics.mean(values.values())
        wanted = statistics.mean(expected[seed] for seed in seeds)
        worst = max(abs(values[seed] - expected[seed]) for seed in seeds)
        rate = sum(outcome.pods for outcome in outcomes.values()) / sum(outcome.cpu_s for outcome in outcomes.values())
        cells = "".join(f"{values[seed]:8.2f}" for seed in seeds)
        print(
            f"{policy:<12}{cells}{mean:8.3f}{wanted:11.3f}{mean - wanted:+12.3f}{worst:12.3f}{rate:12,.0f}", flush=True
        )
        is_near = is_near and abs(mean - wanted) <= TOLERANCE
    return 0 if is_near else 1


def policy_named(word: str) -> str:
    """The policy that a word means, however it is written: best-fit, BestFit and bestfit are the same."""
    plain = word.lower().replace("-", "").replace("_", "")
    name = OTHER_NAMES.get(plain, plain)
    known = (*PUBLISHED_NAMES, DEFAULT)
    if name not in known:
        raise argparse.ArgumentTypeError(f"there is no policy {word!r}; known are {', '.join(known)}")
    return name


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.openb", description=__doc__)
    parser.add_argument("--policy", type=policy_named, default="fgd", help=", ".join((*PUBLISHED_NAMES, DEFAULT)))
    parser.add_argument("--seed", type=int, choices=SEEDS, default=SEEDS[0])
    parser.add_argument(
        "--variant", default="default", help="another list of pods; all but the default have seed 42 only"
    )
    parser.add_argument("--all", action="store_true", help="all policies and seeds")
    arguments = parser.parse_args(words)
    try:
        return print_all(SEEDS) if arguments.all else print_one(arguments.policy, arguments.seed, arguments.variant)
    except TraceMissing as missing:
        print(missing, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
