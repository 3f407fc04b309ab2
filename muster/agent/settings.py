"""How a node gives out its cards: how many may share one, how much of it, in which way. Pure; read by `app`.

HAMi's ConfigMaps are read as they are: `device-config.yaml` (its section `nvidia`), `config.yaml` of the device plugin,
and `config.json` with its list `nodeconfig`, whose entry for this node comes last and wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from muster.agent.cards import FoundCard
from muster.model.device import AMOUNT_MAX, WHOLE_CORES, Device
from muster.model.documents import parse_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors.nvidia.settings import NvidiaSettings, read_settings

DEVICE_CONFIG, PLUGIN_CONFIG, NODE_CONFIG = "device-config.yaml", "config.yaml", "config.json"
LIMITER, MIG, MPS = "hami-core", "mig", "mps"
MODES = (LIMITER, MIG, MPS)
SPLIT_MOST = 1_000
SCALING_MOST = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What one node does with its cards."""

    resource: str = "nvidia.com/gpu"
    split_count: int = 10  # containers that may share a card
    memory_scaling: float = 1.0  # above 1: more memory is given out than there is
    core_scaling: float = 1.0
    mode: str = LIMITER
    hidden_uuids: frozenset[str] = frozenset()  # cards that are not given out
    hidden_indexes: frozenset[int] = frozenset()
    disables_core_limit: bool = False
    vendor: NvidiaSettings = field(default_factory=NvidiaSettings)

    def given_out(self, cards: Sequence[FoundCard]) -> tuple[Device, ...]:
        """The cards as the node registers them."""
        return tuple(
            self._registered(card)
            for card in cards
            if card.uuid not in self.hidden_uuids and card.index not in self.hidden_indexes
        )

    def _registered(self, card: FoundCard) -> Device:
        is_cut = card.mode == MIG
        memory = card.memory_mib if is_cut else int(card.memory_mib * self.memory_scaling)
        return Device(
            uuid=card.uuid,
            index=card.index,
            vendor=card.vendor,
            model=card.model,
            memory_mib=min(AMOUNT_MAX, memory),
            cores=WHOLE_CORES if is_cut else int(WHOLE_CORES * self.core_scaling),
            slots=self.split_count,
            numa=card.numa,
            mode=card.mode or self.mode,
            is_healthy=card.is_healthy,
            profiles=card.profiles,
            pair_scores=card.links,
        )


def read_node_settings(config_map: object, node: str) -> NodeSettings:
    """What a ConfigMap of HAMi's says of a node; raises `InvalidObject` with the path."""
    data = Fields.of(config_map).child("data")
    settings = NodeSettings()
    if data.has(DEVICE_CONFIG):
        vendor = read_settings(_inside(data, DEVICE_CONFIG).child("nvidia"))
        settings = replace(
            settings,
            resource=vendor.count_resource,
            split_count=vendor.split_count,
            memory_scaling=vendor.memory_scaling,
            core_scaling=vendor.core_scaling,
            vendor=vendor,
        )
    if data.has(PLUGIN_CONFIG):
        settings = _read_plugin(_inside(data, PLUGIN_CONFIG), settings)
    if data.has(NODE_CONFIG):
        for one in _inside(data, NODE_CONFIG).children("nodeconfig"):
            if one.text("name") == node:
                settings = _read_node(one, settings)
    return settings


def _inside(data: Fields, key: str) -> Fields:
    return Fields.of(parse_value(data.text(key), f"data[{key}]"))


def _read_plugin(given: Fields, settings: NodeSettings) -> NodeSettings:
    vendor = replace(
        settings.vendor,
        count_resource=given.text("resourceName", settings.vendor.count_resource),
        memory_resource=given.text("resourceMemoryName", settings.vendor.memory_resource),
        cores_resource=given.text("resourceCoreName", settings.vendor.cores_resource),
    )
    return replace(
        settings,
        resource=vendor.count_resource,
        split_count=given.integer("deviceSplitCount", settings.split_count, least=1, most=SPLIT_MOST),
        memory_scaling=_scaling(given, "deviceMemoryScaling", settings.memory_scaling),
        core_scaling=_scaling(given, "deviceCoreScaling", settings.core_scaling),
        disables_core_limit=given.flag("disableCoreLimit", settings.disables_core_limit),
        vendor=vendor,
    )


def _read_node(given: Fields, settings: NodeSettings) -> NodeSettings:
    hidden = given.child("filterdevices")
    indexes = hidden.items("index")
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in indexes):
        raise hidden.error("index", "is no list of numbers", "give the numbers of cards")
    return replace(
        settings,
        mode=given.choice("operatingmode", MODES, settings.mode),
        split_count=given.integer("devicesplitcount", settings.split_count, least=1, most=SPLIT_MOST),
        memory_scaling=_scaling(given, "devicememoryscaling", settings.memory_scaling),
        core_scaling=_scaling(given, "devicecorescaling", settings.core_scaling),
        hidden_uuids=frozenset(hidden.texts("uuid")),
        hidden_indexes=frozenset(indexes),
    )


def _scaling(given: Fields, name: str, default: float) -> float:
    factor = given.number(name, default)
    if not 0 < factor <= SCALING_MOST:
        raise InvalidObject(given.at(name), f"is {factor}", f"give a number above 0, at most {SCALING_MOST:g}")
    return factor
