"""What an agent writes on its node: its cards, that it is alive, and the labels that flavors go by. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.dialects.hami.node_lock import AGENT
from muster.engine.devices_text import pair_scores_text, register_text
from muster.model.device import PARTITIONED, Device
from muster.model.times import moment_text
from muster.vendors.nvidia import LINKS, REGISTER

HANDSHAKE = "hami.io/node-handshake"
REPORTED = "Reported"
PREFIX = "nvidia.com/gpu"
_LABEL_MOST = 63


def node_annotations(devices: Sequence[Device], *, mode: str, now_s: float) -> dict[str, str]:
    """The register, the links, and the handshake: a time that says that the agent is alive."""
    scored = [device for device in devices if device.pair_scores]
    return {
        REGISTER: register_text(devices),
        **({LINKS: pair_scores_text(scored)} if scored else {}),
        HANDSHAKE: f"{REPORTED}_{moment_text(now_s)}",
        AGENT: mode,
    }


def node_labels(devices: Sequence[Device]) -> dict[str, str | None]:
    """The labels of NVIDIA's feature discovery, of the first card's model; `None` takes a label away."""
    names = ("product", "count", "memory", "present", "replicas", "sharing-strategy")
    if not devices:
        return dict.fromkeys((*(f"{PREFIX}.{name}" for name in names), "nvidia.com/mig.capable"))
    first = min(devices, key=lambda device: device.index)
    is_shared = first.slots > 1
    return {
        f"{PREFIX}.product": label_text(first.model + ("-SHARED" if is_shared else "")),
        f"{PREFIX}.count": str(len(devices)),
        f"{PREFIX}.memory": str(first.memory_mib),
        f"{PREFIX}.present": "true",
        f"{PREFIX}.replicas": str(first.slots),
        f"{PREFIX}.sharing-strategy": "muster" if is_shared else "none",
        "nvidia.com/mig.capable": str(any(one.mode == PARTITIONED or one.profiles for one in devices)).lower(),
    }


def label_text(text: str) -> str:
    """A text as the value of a label: letters, digits, `-`, `_` and `.`, with a letter or digit at either end."""
    kept = "".join(one if one.isascii() and (one.isalnum() or one in "-_.") else "-" for one in text)
    return kept[:_LABEL_MOST].strip("-_.")


def changed(before: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    """What has to be written so that a node says what is wanted; the time of the handshake alone is no news."""
    return {
        name: value
        for name, value in wanted.items()
        if (value is None and name in before) or (value is not None and before.get(name) != value)
    }
