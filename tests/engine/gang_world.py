"""Builders for tests of gangs: small clusters, gangs and running pods with good defaults. Imported by tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from muster.engine.gang_domains import NO_WISH, Domains, DomainWish
from muster.engine.gangs import Gang, Member, Task
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import WHOLE, Demand, Placed, TableNode, demand
from muster.engine.policy import Hooks
from muster.engine.running_pods import RunningPods
from muster.policies import binpack


def pod(cards: int = 1, milli: int = WHOLE, *, cpu: int = 1) -> Demand:
    """A pod of cards, or parts of them, and a little cpu."""
    return demand({"cpu": cpu, "pods": 1}, cards=cards, milli=milli)


def task(wanted: int, least: int = 0, *, of: Demand | None = None, name: str = "worker") -> Task:
    return Task(name=name, demand=of or pod(), count=wanted, count_least=least)


def gang(*tasks: Task, least: int = 0, key: str = "new", priority: int = 10, wish: DomainWish = NO_WISH) -> Gang:
    return Gang(key=key, tasks=tasks, count_least=least, priority=priority, domains=wish)


def table_of(cards: Mapping[str, int], *, cpu: int = 64) -> NodeTable:
    """Nodes by name, each with so many cards."""
    return NodeTable(
        TableNode(name=name, amounts={"cpu": cpu, "pods": 20}, cards=number) for name, number in cards.items()
    )


def placer_of(table: NodeTable, hooks: Hooks | None = None) -> Placer:
    return Placer(table, [hooks or binpack.POLICY.hooks()])


def racks_of(table: NodeTable, racks: Mapping[str, Iterable[str]]) -> Domains:
    """Domains of one zone: which nodes stand in which rack."""
    domains = Domains(("zone", "rack"))
    for rack, nodes in racks.items():
        for name in nodes:
            domains.put(table.row_of(name), {"zone": "here", "rack": rack})
    return domains


def facts(table: NodeTable) -> list[list[int]]:
    """Everything that charges change, but for when."""
    rows = table.row_count
    parts = (table.free[:, :rows], table.cards[:rows], table.kinds[:rows], table.card_most[:rows])
    return [part.tolist() for part in (*parts, table.card_sum[:rows], table.sharers[:rows])]


class World:
    """A table with running pods on it, which are started one by one."""

    def __init__(self, cards: Mapping[str, int], *, cpu: int = 64) -> None:
        self.table = table_of(cards, cpu=cpu)
        self.placer = placer_of(self.table)
        self.pods = RunningPods()
        self._numbers = count()

    def run(
        self, node: str, *cards: int, of: Demand | None = None, pod_name: str = "", **facts_of_member: object
    ) -> Member:
        """Start a pod on these cards of a node."""
        row = self.table.row_of(node)
        wanted = of or pod(len(cards))
        name = pod_name or f"pod-{next(self._numbers)}"
        known: dict[str, object] = {"task": "worker", **facts_of_member}
        member = Member(pod=name, demand=wanted, place=Placed(row, cards), **known)  # type: ignore[arg-type]
        self.placer.charge(row, wanted, cards)
        self.pods.put(member)
        self.placer.commit()
        return member
