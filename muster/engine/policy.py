"""Policies: what a plugin file in `muster/policies` fills, and the eight questions that it may answer.

A policy is one file with the constant `POLICY`. `build(arguments)` gives hooks; a hook not given is not asked. `fit`
and `score` answer for whole columns of nodes at once, see `muster/engine/node_table_columns.py`; the other six compare,
share out and name victims, and are asked by the stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from muster.engine.node_table_rows import BoolArray, Demand, NodeRows, Scores
from muster.model.resources import Amounts
from muster.model.workload import PodSet, Workload

Arguments = TypeVar("Arguments")

Shares = Callable[[Mapping[str, Amounts]], Mapping[str, Amounts]]  # what each queue deserves, from what each asks for
CompareQueues = Callable[[str, str], int]  # below zero: the first goes first; zero: no opinion
CompareWorkloads = Callable[[Workload, Workload], int]
ComparePods = Callable[[PodSet, PodSet], int]
Admit = Callable[[Workload], bool | None]  # None: abstains
Fit = Callable[[Demand, NodeRows], BoolArray]
Score = Callable[[Demand, NodeRows], Scores]
Victims = Callable[[Workload, frozenset[str]], frozenset[str] | None]  # of these, who may go; None: abstains


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The answers of one policy, built with its arguments."""

    shares: Shares | None = None
    compare_queues: CompareQueues | None = None
    compare_workloads: CompareWorkloads | None = None
    compare_pods: ComparePods | None = None
    admit: Admit | None = None
    fit: Fit | None = None
    score: Score | None = None
    victims: Victims | None = None
    # Whether the best node stays the best while alike pods fill it; where not, they are placed one at a time.
    fills_nodes: bool = True


@dataclass(frozen=True, slots=True)
class Policy(Generic[Arguments]):
    """A policy as its file offers it."""

    name: str
    arguments: type[Arguments]  # a frozen dataclass with a default for every field
    build: Callable[[Arguments], Hooks]

    def hooks(self, arguments: Arguments | None = None) -> Hooks:
        """The hooks with these arguments, or with the default ones."""
        return self.build(self.arguments() if arguments is None else arguments)


AnyPolicy = Policy[Any]
