"""Flavors: the classes of nodes that quota is counted in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.model.labels import Taint, Toleration

ANY_FLAVOR = "any"  # where nobody tells classes of nodes apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A class of nodes: the labels they carry, the taints they have, what pods get to tolerate them."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""  # the topology its nodes are placed by; empty: quota alone
    topology_levels: tuple[str, ...] = ()  # that topology's node labels, widest first
