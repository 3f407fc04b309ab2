"""HAMi's scheduler settings with its defaults, and the names by which pods and nodes speak to it."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.devices_order import BINPACK, SPREAD

NODE_POLICY = "hami.io/node-scheduler-policy"
CARD_POLICY = "hami.io/gpu-scheduler-policy"
WEIGHTS = "hami.io/device-scoring-weights"
ASSIGNED_NODE, ASSIGNED_AT = "hami.io/vgpu-node", "hami.io/vgpu-time"
DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiSettings:
    """How the extender and the webhook behave where a pod does not say otherwise."""

    scheduler: str = "hami-scheduler"  # empty: pods keep the scheduler they name
    node_policy: str = BINPACK
    card_policy: str = SPREAD
    is_default_scheduler_replaced: bool = True


DEFAULTS = HamiSettings()
