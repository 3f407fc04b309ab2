"""deviceshare: how pods that ask for parts of cards choose nodes. Volcano's plugin of that name.

Which card a pod gets, and that no card is given twice, is the table's part, whoever asks. This policy says only how
much it counts that cards in use are filled first, or that pods keep apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import WHOLE, Demand, FloatArray, NodeRows, Scores
from muster.engine.policy import Hooks, Policy, argument

BEST = 100
BINPACK, SPREAD = "binpack", "spread"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How cards are filled and how much that counts; the switches of the kinds of cards are taken and mean nothing."""

    schedule_policy: str = argument(BINPACK, choices=(BINPACK, SPREAD), alias="deviceshare.SchedulePolicy")
    weight: int = argument(0, least=0, alias="deviceshare.ScheduleWeight")
    gpu_sharing: bool = argument(False, alias="deviceshare.GPUSharingEnable")
    gpu_number: bool = argument(False, alias="deviceshare.GPUNumberEnable")
    vgpu: bool = argument(False, alias="deviceshare.VGPUEnable")
    node_lock: bool = argument(False, alias="deviceshare.NodeLockEnable")
    ascend: bool = argument(False, alias="deviceshare.AscendHAMiVNPUEnable")
    ascend_mindcluster: bool = argument(False, alias="deviceshare.AscendMindClusterVNPUEnable")
    known_geometries: str = argument("", alias="deviceshare.KnownGeometriesCMName")
    known_geometries_namespace: str = argument("", alias="deviceshare.KnownGeometriesCMNamespace")


def build(arguments: Arguments) -> Hooks:
    if not arguments.weight:
        return Hooks()

    def score(pod: Demand, rows: NodeRows) -> Scores:
        if not pod.cards:
            return Scores(np.zeros(len(rows)))
        total = rows.card_count * WHOLE
        used: FloatArray = (total - rows.card_sum + pod.card_milli) / np.maximum(total, 1)
        share = used if arguments.schedule_policy == BINPACK else 1 - used
        return Scores(BEST * arguments.weight * share)

    return Hooks(score=score, fills_nodes=arguments.schedule_policy == BINPACK)


POLICY = Policy(name="deviceshare", arguments=Arguments, build=build)
