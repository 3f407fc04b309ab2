"""Where the pods of a pod set go, in the two ways Kueue writes it: a list of domains, or slices that share text.

Readers take any valid form; `compacted` writes the single-slice form. A slice can say "two thousand million domains"
in a few bytes, so expanding is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from muster.dialects.kueue.kinds_workload import DOMAINS_MOST
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

EXPANDED_MOST = 200_000  # domains of one assignment; the largest clusters have a tenth of that in nodes


@dataclass(frozen=True, slots=True)
class AssignedDomain:
    """One domain, by its value on every level, and how many pods go there."""

    values: tuple[str, ...]
    count: int


def domains_of(assignment: Mapping[str, Any], path: str = "topologyAssignment") -> tuple[AssignedDomain, ...]:
    """The domains of an assignment in either form, in order."""
    fields = Fields.of(assignment, path)
    levels = len(fields.texts("levels"))
    if fields.has("slices"):
        return tuple(_sliced_domains(fields, levels))
    domains = []
    for domain in fields.children("domains"):
        values = domain.texts("values")
        if len(values) != levels:
            raise domain.error("values", f"has {len(values)} values for {levels} levels", "give one for each level")
        domains.append(AssignedDomain(values, domain.integer("count")))
    return tuple(domains)


def expanded(assignment: Mapping[str, Any], path: str = "topologyAssignment") -> dict[str, Any]:
    """The assignment as a list of domains, which is how v1beta1 has it."""
    domains = [{"values": list(domain.values), "count": domain.count} for domain in domains_of(assignment, path)]
    return {"levels": list(Fields.of(assignment, path).texts("levels")), "domains": domains}


def compacted(assignment: Mapping[str, Any], path: str = "topologyAssignment") -> dict[str, Any]:
    """The assignment as slices, which is how v1beta2 has it: one slice, as long as one may hold all domains."""
    domains = domains_of(assignment, path)
    runs = [domains[start : start + DOMAINS_MOST] for start in range(0, len(domains), DOMAINS_MOST)]
    return {"levels": list(Fields.of(assignment, path).texts("levels")), "slices": [_slice(run) for run in runs]}


def _sliced_domains(fields: Fields, levels: int) -> Iterator[AssignedDomain]:
    total = 0
    for piece in fields.children("slices"):
        count = piece.integer("domainCount", least=1)
        total += count
        if total > EXPANDED_MOST:
            raise fields.error("slices", f"stand for more than {EXPANDED_MOST} domains", "give fewer")
        columns = [_level_values(level, count) for level in piece.children("valuesPerLevel")]
        if len(columns) != levels:
            raise piece.error("valuesPerLevel", f"has {len(columns)} entries", f"give one for each of {levels} levels")
        counts = _pod_counts(piece.child("podCounts"), count)
        for index, pods in enumerate(counts):
            yield AssignedDomain(tuple(column[index] for column in columns), pods)


def _level_values(level: Fields, count: int) -> Sequence[str]:
    """The value of one level in each domain of a slice."""
    if level.has("universal") == level.has("individual"):
        raise InvalidObject(level.path, "has both or neither of universal and individual", "give one of them")
    if level.has("universal"):
        return [level.text("universal")] * count
    individual = level.child("individual")
    roots = individual.texts("roots")
    if len(roots) != count:
        raise individual.error("roots", f"has {len(roots)} items", f"give one for each of the {count} domains")
    prefix, suffix = individual.text("prefix"), individual.text("suffix")
    return [prefix + root + suffix for root in roots]


def _pod_counts(counts: Fields, count: int) -> Iterator[int]:
    if counts.has("universal") == counts.has("individual"):
        raise InvalidObject(counts.path, "has both or neither of universal and individual", "give one of them")
    if counts.has("universal"):
        return repeat(counts.integer("universal", least=1), count)
    items = counts.items("individual")
    if len(items) != count:
        raise counts.error("individual", f"has {len(items)} items", f"give one for each of the {count} domains")
    named = Fields({f"individual[{index}]": item for index, item in enumerate(items)}, counts.path)
    return iter([named.integer(name, 0, least=1) for name in named.values])


def _slice(domains: Sequence[AssignedDomain]) -> dict[str, Any]:
    """One slice over all the given domains."""
    columns = zip(*(domain.values for domain in domains), strict=True)
    counts = [domain.count for domain in domains]
    is_uniform = all(count == counts[0] for count in counts)
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_level(column) for column in columns],
        "podCounts": {"universal": counts[0]} if is_uniform else {"individual": counts},
    }


def _level(values: Sequence[str]) -> dict[str, Any]:
    """One level of a slice: what all values share is written once."""
    if all(value == values[0] for value in values):
        return {"universal": values[0]}
    suffix = _common_start([value[::-1] for value in values])[::-1]
    prefix = _common_start(values)
    # What both ends claim goes to the suffix, as Kueue has it.
    prefix = prefix[: max(0, min(map(len, values)) - len(suffix))]
    roots = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    individual: dict[str, Any] = {"roots": roots}
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    return {"individual": individual}


def _common_start(values: Sequence[str]) -> str:
    first, last = min(values), max(values)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]
