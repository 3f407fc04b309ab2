"""How a pod wants its node and its cards chosen: its annotations, read, with the scheduler's settings as defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muster.dialects.hami.settings import CARD_POLICY, NODE_POLICY, WEIGHTS, HamiSettings
from muster.engine.contracts import Vendor
from muster.engine.devices import CardWishes
from muster.engine.devices_order import EVEN_WEIGHTS, MUTEX, SPREAD, TOPOLOGY, CardOrder, ScoreWeights
from muster.model.errors import InvalidObject
from muster.model.fields import shown

WEIGHT_NAMES = ("slot", "core", "memory")
WEIGHT_MOST = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPolicy:
    """What a pod's annotations say about choosing."""

    annotations: Mapping[str, str]
    is_spread_over_nodes: bool
    card_policy: str
    weights: ScoreWeights

    def wishes(self, vendor: Vendor) -> CardWishes:
        """The cards that the pod wants of one vendor."""
        order = CardOrder(self.card_policy)
        return replace(vendor.wishes_of(self.annotations), is_alone=order.has(MUTEX), is_by_links=order.has(TOPOLOGY))

    def order(self, vendor: Vendor) -> CardOrder:
        """The order in which cards of one vendor are tried."""
        return CardOrder(self.card_policy, vendor.wishes_of(self.annotations).is_on_one_numa)


def pod_policy(annotations: Mapping[str, str], settings: HamiSettings) -> PodPolicy:
    """Reads a pod's annotations; weights that are not of the form are the pod's mistake."""
    return PodPolicy(
        annotations=annotations,
        is_spread_over_nodes=annotations.get(NODE_POLICY, settings.node_policy) == SPREAD,
        card_policy=annotations.get(CARD_POLICY, settings.card_policy),
        weights=read_weights(annotations[WEIGHTS]) if WEIGHTS in annotations else EVEN_WEIGHTS,
    )


def read_weights(text: str) -> ScoreWeights:
    """Weights such as "slot=1,core=1,memory=3": all three, once each, whole, and not all of them zero."""
    path = f"metadata.annotations[{WEIGHTS}]"
    hint = 'give three weights that are not all 0, such as "slot=1,core=1,memory=3"'
    weights: dict[str, int] = {}
    for entry in text.split(","):
        name, _, value = (part.strip() for part in entry.partition("="))
        if name not in WEIGHT_NAMES or name in weights or not _is_weight(value):
            raise InvalidObject(path, f"holds {shown(entry)}", hint)
        weights[name] = int(value)
    if len(weights) < len(WEIGHT_NAMES) or not any(weights.values()):
        raise InvalidObject(path, f"is {shown(text)}", hint)
    return ScoreWeights(slots=weights["slot"], cores=weights["core"], memory=weights["memory"])


def _is_weight(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(WEIGHT_MOST))
