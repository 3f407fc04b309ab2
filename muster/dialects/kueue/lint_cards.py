"""What quotas of cards, and of shares of cards, imply of each other. Used by lint's rules and repairs.

A card has 100 per cent of cores and a fixed memory, so a quota of cores or memory that is counted beside a quota of
cards follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.dialects.kueue.lint_view import CONFIG_MAP, FLAVOR, FlavorView, ObjectSet, mapping, text

PERCENT_PER_CARD = 100
MIB_PER_GB = 1024
MEMORY_TOLERANCE = 0.1  # A card of 80 GB may be counted as 80,000 or as 81,920.

_PERCENT_OF = {
    "nvidia.com/gpucores": "nvidia.com/gpu",
    "nvidia.com/gpumem-percentage": "nvidia.com/gpu",
    "hygon.com/dcucores": "hygon.com/dcunum",
    "iluvatar.ai/vcuda-core": "iluvatar.ai/vgpu",
    "mthreads.com/sgpu-core": "mthreads.com/vgpu",
    "metax-tech.com/vcore": "metax-tech.com/sgpu",
    "enflame.com/vgcu-percentage": "enflame.com/vgcu",
}
_MEMORY_OF = {
    "nvidia.com/gpumem": "nvidia.com/gpu",
    "hygon.com/dcumem": "hygon.com/dcunum",
    "amd.com/gpumem": "amd.com/gpu",
}
_GIGABYTES = re.compile(r"(?<![0-9.])([1-9][0-9]{0,3})gi?b?(?![a-z0-9])")
_SPLIT_COUNT = re.compile(r"deviceSplitCount\"?\s*:\s*([1-9][0-9]{0,3})\b")


def is_extended(resource: str) -> bool:
    """Whether Kubernetes counts the resource in whole units that cannot be overcommitted."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def card_behind(resource: str) -> str:
    """The card that a resource is per cent of; nothing for other resources."""
    if resource in _PERCENT_OF:
        return _PERCENT_OF[resource]
    return resource.removesuffix("-cores") if is_extended(resource) and resource.endswith("-cores") else ""


def card_of_memory(resource: str) -> str:
    """The card whose memory a resource counts; nothing for other resources."""
    if resource in _MEMORY_OF:
        return _MEMORY_OF[resource]
    return resource.removesuffix("-memory") if is_extended(resource) and resource.endswith("-memory") else ""


def card_among(resources: Iterable[str]) -> str:
    """The resource of these that counts cards; nothing when none does."""
    whole = (name for name in resources if is_extended(name) and not card_behind(name) and not card_of_memory(name))
    return next(whole, "")


@dataclass(frozen=True, slots=True)
class Cards:
    """What a set of manifests says about its cards."""

    gigabytes: Mapping[str, int]  # per card, by flavor, where a name or label tells
    splits: tuple[int, ...]  # into how many shares a card may be split

    @staticmethod
    def of(objects: ObjectSet) -> Cards:
        gigabytes = {}
        for flavor in objects.of(FLAVOR):
            labels = [value for value in mapping(flavor.spec.get("nodeLabels")).values() if isinstance(value, str)]
            found = {int(size) for told in (*labels, flavor.name) for size in _GIGABYTES.findall(told[:253].lower())}
            if len(found) == 1:
                gigabytes[flavor.name] = found.pop()
        splits: set[int] = set()
        for config in objects.of(CONFIG_MAP):
            for content in mapping(config.value.get("data")).values():
                splits.update(int(count) for count in _SPLIT_COUNT.findall(text(content)))
        return Cards(gigabytes, tuple(sorted(splits)))

    def expected(self, resource: str, flavor: FlavorView) -> int | None:
        """What the quota of a resource should be, given the flavor's quota of cards; `None` where nothing follows."""
        nominals = flavor.nominals
        if cards := nominals.get(card_behind(resource)):
            return cards * PERCENT_PER_CARD
        cards = nominals.get(card_of_memory(resource))
        gigabytes = self.gigabytes.get(flavor.name)
        return cards * gigabytes * MIB_PER_GB if cards and gigabytes else None

    def agrees(self, resource: str, flavor: FlavorView) -> bool:
        """Whether a quota fits the cards beside it, counted whole or in the shares they are split into."""
        found, expected = flavor.nominals.get(resource), self.expected(resource, flavor)
        if found is None or expected is None:
            return True
        slack = expected * MEMORY_TOLERANCE if card_of_memory(resource) else 0
        return any(abs(found - expected / split) <= slack / split for split in (1, *self.splits))
