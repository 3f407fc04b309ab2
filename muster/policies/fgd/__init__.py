"""fgd: place where the fragmentation of cards grows least (fragmentation gradient descent, USENIX ATC 2023).

Free cards of a node are fragmented for a kind of pod when it cannot run there: all of them where the node lacks cpu,
cards or the model, else those with less free than one of its cards needs. The fragmentation of a node is the mean over
typical pods, weighted by how frequent they are; pods without cards count all free cards as lost to them. The score of a
node is how much its fragmentation shrinks, put on a scale of whole numbers from 0 to 100: near ties are ties on
purpose, finer scores place worse. Everything is counted in whole numbers, so the order of summing cannot matter.

One thing the published rule does not see: that a node has cpu for one more pod does not mean that it has cpu for a pod
on each of its free cards. So cards count in full for a kind of pod only where cpu is left for as many of them as whole
cards are free, and half where it is left for one pod (`counts_cpu`; without it the rule is the published one).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from muster.engine.node_table_rows import Demand, demand
from muster.engine.policy import Hooks, Policy
from muster.model.pod_rules import ANYWHERE
from muster.model.resources import CPU
from muster.policies.fgd.scores import Scorer
from muster.policies.fgd.tables import TypicalPod

KINDS_MOST = 512  # that are learned; what is looked up grows with them

# A mix for clusters whose pods are not known yet: mostly single cards, some parts of cards, some big jobs.
USUAL_MIX = (
    TypicalPod(demand({CPU: 8_000}, cards=1), 50),
    TypicalPod(demand({CPU: 4_000}, cards=1, milli=500), 20),
    TypicalPod(demand({CPU: 2_000}, cards=1, milli=250), 10),
    TypicalPod(demand({CPU: 16_000}, cards=2), 5),
    TypicalPod(demand({CPU: 32_000}, cards=4), 5),
    TypicalPod(demand({CPU: 64_000}, cards=8), 10),
)


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What is expected to come, unless that is learned from the pods that come; weight multiplies the score."""

    typical: tuple[TypicalPod, ...] = USUAL_MIX
    learns: bool = True
    counts_cpu: bool = True  # whether cards count in full only with cpu for all of them
    weight: int = 1


def typical_pods(demands: Iterable[Demand], *, percent: int = 95) -> tuple[TypicalPod, ...]:
    """The most frequent kinds among pods, as many as make up `percent` of them."""
    return typical_of(Counter(demands), percent=percent)


def typical_of(seen: Mapping[Demand, int], *, percent: int = 95) -> tuple[TypicalPod, ...]:
    """The same from how often each demand came; only cpu and cards tell kinds apart."""
    kinds: Counter[Demand] = Counter()
    for one, count in seen.items():
        kinds[_kind(one)] += count
    wanted = sum(kinds.values()) * percent
    typical: list[TypicalPod] = []
    covered = 0
    # Of equally frequent kinds the bigger go first: it decides which of them are still taken in.
    for kind, count in sorted(kinds.items(), key=lambda item: (item[1], _size(item[0])), reverse=True):
        if covered * 100 >= wanted:
            break
        covered += count
        typical.append(TypicalPod(kind, count))
    return tuple(typical)


def _learned(seen: Mapping[Demand, int]) -> tuple[TypicalPod, ...]:
    """The kinds of pods that came: of few pods even the rare ones tell something, of many kinds only the rough ones."""
    kinds: Counter[Demand] = Counter()
    for one, count in seen.items():
        kinds[_kind(one)] += count
    if len(kinds) > KINDS_MOST:
        rough: Counter[tuple[int, int, int, tuple[str, ...]]] = Counter()
        for kind, count in kinds.items():
            cpu = kind.amount(CPU)
            rough[1 << (cpu - 1).bit_length() if cpu else 0, kind.cards, kind.milli, kind.models] += count
        kinds = Counter(
            {
                demand({CPU: cpu}, cards=cards, milli=milli, models=models): count
                for (cpu, cards, milli, models), count in rough.items()
            }
        )
    return typical_of(dict(kinds.most_common(KINDS_MOST)), percent=100)


def _kind(one: Demand) -> Demand:
    amounts = tuple([pair for pair in one.amounts if pair[0] == CPU])
    is_plain = len(amounts) == len(one.amounts) and one.rules is ANYWHERE and one.ask is None
    return one if is_plain else Demand(amounts, one.cards, one.milli, one.models)


def _size(kind: Demand) -> tuple[int, int, int, tuple[str, ...]]:
    return kind.amount(CPU), kind.milli, kind.cards, kind.models


def build(arguments: Arguments) -> Hooks:
    def adapt(seen: Mapping[Demand, int]) -> Hooks:
        return build(replace(arguments, typical=_learned(seen) or USUAL_MIX))

    scorer = Scorer(arguments.typical, counts_cpu=arguments.counts_cpu, weight=arguments.weight)
    return Hooks(score=scorer.score, adapt=adapt if arguments.learns else None)


POLICY = Policy(name="fgd", arguments=Arguments, build=build)
