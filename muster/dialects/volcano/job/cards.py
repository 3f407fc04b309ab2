"""Cards in the templates of jobs, as a pod can ask for them: whole counts, and as much as limit as is requested.

Kubernetes refuses a pod that asks for half a card, and one that requests cards without a limit. People write both in
jobs, and mean a part of a card's memory and cores. Used wherever a job is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.quantity import Quantity

CARDS = "nvidia.com/gpu"
MEMORY, MEMORY_SHARE, CORES = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
_AMOUNTS = ("requests", "limits")
_THOUSANDTHS_MOST = 10**9
_AMOUNT_MAPS = frozenset((*_AMOUNTS, "overhead"))  # where pods and claims have amounts by resource
_SINGLE_AMOUNTS = frozenset(("sizeLimit", "divisor"))

Object = dict[str, Any]


def whole_cards(template: Fields) -> Mapping[str, Any]:
    """A template whose pods ask for cards as Kubernetes takes it; the same one where there is nothing to change."""
    spec = template.child("spec")
    made: Object = {}
    for kind in ("initContainers", "containers"):
        containers = list(spec.children(kind))
        changed = [_whole(one) for one in containers]
        if any(now is not had.values for now, had in zip(changed, containers, strict=True)):
            made[kind] = changed
    return {**template.values, "spec": {**spec.values, **made}} if made else template.values


def with_texts(part: Any) -> Any:
    """A part of a pod with its amounts as text, as pods are stored; in custom objects they may be numbers."""
    if isinstance(part, list):
        return [with_texts(one) for one in part]
    if not isinstance(part, Mapping):
        return part
    made: Object = {}
    for name, value in part.items():
        if name in _AMOUNT_MAPS and isinstance(value, Mapping):
            made[name] = {resource: _text(amount) for resource, amount in value.items()}
        else:
            made[name] = _text(value) if name in _SINGLE_AMOUNTS else with_texts(value)
    return made


def _text(amount: Any) -> Any:
    return str(amount) if isinstance(amount, (int, float)) and not isinstance(amount, bool) else amount


def card_remarks(job: Fields) -> Iterator[str]:
    """What is said to whoever submits a job that asks for parts of cards, or for cards without a limit."""
    try:
        for task in job.child("spec").children("tasks"):
            for container in task.child("template").child("spec").children("containers"):
                now = Fields(_whole(container), container.path)
                if now.values is not container.values:
                    asked = now.child("resources").child("limits").values
                    said = ", ".join(f"{name}: {asked[name]}" for name in sorted(asked) if "/" in name)
                    yield f"{container.at('resources')}: pods cannot ask so, they get limits {said}"
    except InvalidObject:
        return  # the job is refused


def _whole(container: Fields) -> Mapping[str, Any]:
    resources = container.child("resources")
    requests, limits = (resources.quantities(name) for name in _AMOUNTS)
    only_requested = {name: amount for name, amount in requests.items() if "/" in name and name not in limits}
    asked = limits.get(CARDS, requests.get(CARDS))
    part = asked is not None and _thousandths(asked) % 1000 != 0
    if not only_requested and not part:
        return container.values
    made = {name: dict(resources.child(name).values) for name in _AMOUNTS}
    made["limits"] |= {name: str(amount) for name, amount in only_requested.items()}
    if part and asked is not None:
        shares = _shares(asked, {**requests, **limits})
        made["limits"] |= shares
        if made["requests"]:
            made["requests"] |= shares
    return {**container.values, "resources": {**resources.values, **{name: one for name, one in made.items() if one}}}


def _shares(asked: Quantity, named: Mapping[str, Quantity]) -> dict[str, str]:
    """So many whole cards, and of each the part that makes up what is asked for."""
    thousandths = _thousandths(asked)
    count = -(-thousandths // 1000)
    percent = str(max(1, thousandths // (10 * count)))
    found = {CARDS: str(count)}
    if MEMORY not in named and MEMORY_SHARE not in named:
        found[MEMORY_SHARE] = percent
    if CORES not in named:
        found[CORES] = percent
    return found


def _thousandths(amount: Quantity) -> int:
    return 0 if amount.is_negative else amount.scaled(3, _THOUSANDTHS_MOST)
