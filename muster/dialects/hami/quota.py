"""How much of cards a namespace may use: Kubernetes' ResourceQuotas on the memory and cores of cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from muster.engine.contracts import DeviceResources, Vendor
from muster.model.device import DeviceRequest, Share
from muster.model.fields import Fields
from muster.model.podspec import Quantities

LIMITS = "limits."  # a ResourceQuota names what it limits so
LIMIT_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One resource in one namespace, in units of the resource for the limit and in MiB or per cent for the use."""

    used: int = 0
    limit: int | None = None  # None: no quota names it; 0: nothing may be used


NamespaceQuota = Mapping[str, QuotaLine]  # by resource
Quotas = Mapping[str, NamespaceQuota]  # by namespace


@dataclass(frozen=True, slots=True)
class Amounts:
    """Memory and cores of cards."""

    memory_mib: int = 0
    cores: int = 0

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(self.memory_mib + other.memory_mib, self.cores + other.cores)

    def larger(self, other: Amounts) -> Amounts:
        return Amounts(max(self.memory_mib, other.memory_mib), max(self.cores, other.cores))


NOTHING = Amounts()


def amounts_of(shares: Iterable[Share]) -> Amounts:
    """What the shares come to."""
    total = NOTHING
    for share in shares:
        total = total.plus(Amounts(share.memory_mib, share.cores))
    return total


def fits_quota(quota: NamespaceQuota, resources: DeviceResources, asked: Amounts) -> bool:
    """Whether the namespace may use so much more."""
    memory, cores = quota.get(resources.memory), quota.get(resources.cores)
    return _fits(memory, asked.memory_mib, max(1, resources.memory_factor)) and _fits(cores, asked.cores, 1)


def _fits(line: QuotaLine | None, asked: int, factor: int) -> bool:
    return line is None or line.limit is None or line.used + asked <= line.limit * factor


def charged(quotas: Quotas, namespace: str, resources: DeviceResources, amounts: Amounts) -> Quotas:
    """The quotas after a namespace got so much more, or gave it back where the amounts are negative."""
    quota = dict(quotas.get(namespace, {}))
    for name, amount in zip(resources.quota_names, (amounts.memory_mib, amounts.cores), strict=True):
        if name:
            line = quota.get(name, QuotaLine())
            quota[name] = replace(line, used=max(0, line.used + amount))
    return {**quotas, namespace: quota}


def released(quotas: Quotas, namespace: str, resources: DeviceResources, amounts: Amounts) -> Quotas:
    """The quotas after a namespace gave so much back."""
    return charged(quotas, namespace, resources, Amounts(-amounts.memory_mib, -amounts.cores))


def pod_amounts(requests: Iterable[DeviceRequest | None], init_count: int) -> Amounts:
    """What a pod asks for at once: the larger of its hungriest init container and of all others together.

    Percentages count as nothing here: of which card they are is known only when it is placed.
    """
    peak, running = NOTHING, NOTHING
    for number, request in enumerate(requests):
        if request is None:
            continue
        amounts = Amounts(request.memory_mib * request.count, request.cores * request.count)
        if number < init_count:
            peak = peak.larger(amounts)
        else:
            running = running.plus(amounts)
    return peak.larger(running)


def read_limits(quota: Fields, vendors: Iterable[Vendor]) -> dict[str, int]:
    """The limits of a ResourceQuota that concern cards, by resource."""
    hard: Quantities = quota.child("spec").quantities("hard")
    names = {name for vendor in vendors for name in vendor.resources.quota_names if name}
    return {name: hard[LIMITS + name].scaled(0, LIMIT_MOST) for name in sorted(names) if LIMITS + name in hard}
