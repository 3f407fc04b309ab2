"""The openb trace: nodes, pods, arrival orders and published results, read from files that are not part of Muster."""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass, replace
from pathlib import Path

from muster.engine.node_table_rows import Demand, TableNode, demand
from muster.model.resources import CPU

SEEDS = tuple(range(42, 52))
FOLDER_VARIABLE = "MUSTER_SHARED"
MEMORY = "memory"


class TraceMissing(Exception):
    """A file of the trace is not there."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One experiment: the nodes in the order that breaks ties, and the pods in the order of their arrival."""

    nodes: tuple[TableNode, ...]
    listed: tuple[Demand, ...]  # every pod of the list once: what typical pods are taken from
    arrivals: tuple[Demand, ...]

    @property
    def card_milli(self) -> int:
        return sum(1000 * node.cards for node in self.nodes)


def trace_folder() -> Path:
    """Where the traces lie: beside the checkout, or where the environment says."""
    shared = os.environ.get(FOLDER_VARIABLE)
    root = Path(shared) if shared else Path(__file__).resolve().parents[2] / "shared"
    return root / "traces" / "openb"


def read_trace(seed: int, variant: str = "default") -> Trace:
    """The trace with the arrival order and the tie order of one seed."""
    folder = trace_folder()
    nodes = [
        TableNode(
            name=row["sn"],
            amounts={CPU: int(row["cpu_milli"]), MEMORY: int(row["memory_mib"])},
            cards=int(row["gpu"]),
            model=row["model"],
        )
        for row in _rows(folder / "openb_node_list_gpu_node.csv")
    ]
    pods = tuple(_pod(row) for row in _rows(folder / f"openb_pod_list_{variant}.csv"))
    order, ranks = _orders(folder / "orders" / f"{variant}_seed{seed}.csv")
    ranked = sorted(zip(ranks, nodes, strict=True), key=lambda pair: pair[0])
    return Trace(tuple(node for _, node in ranked), pods, tuple(pods[index] for index in order))


def published(policy: str, variant: str = "default") -> dict[int, float]:
    """The published share of cards given out at 130 % arrived load, by seed, in per cent."""
    found = {}
    for row in _rows(trace_folder() / "expected_results_summary.csv"):
        is_wanted = row["workload"] == f"openb_pod_list_{variant}" and row["policy"].partition("-")[2] == policy
        if is_wanted and row["metric"] == "alloc_pct_of_gpu_capacity":
            found[int(row["seed"])] = float(row["130"])
    return found


def _pod(row: dict[str, str]) -> Demand:
    wanted = demand(
        {CPU: int(row["cpu_milli"]), MEMORY: int(row["memory_mib"])},
        cards=int(row["num_gpu"]),
        milli=int(row["gpu_milli"]),
    )
    # As the list writes them, repetitions included: the experiment told kinds of pods apart by that text. Some lists
    # have no such column.
    return replace(wanted, models=tuple(filter(None, row.get("gpu_spec", "").split("|"))))


def _orders(path: Path) -> tuple[list[int], list[int]]:
    lines = {line.partition(",")[0]: line.partition(",")[2] for line in _text(path).splitlines()}
    pods, nodes = ([int(part) for part in lines[name].split(",")] for name in ("pods", "nodes"))
    return pods, nodes


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(path).splitlines()))


def _text(path: Path) -> str:
    packed = path.with_name(path.name + ".gz")
    if path.is_file():
        return path.read_text()
    if packed.is_file():
        return gzip.decompress(packed.read_bytes()).decode()
    message = f"there is no {path}: set {FOLDER_VARIABLE} to the folder that holds traces/openb"
    raise TraceMissing(message)
