"""What an agent measures, in the form that Prometheus reads, under HAMi's names and Muster's own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from muster.agent.cards import FoundCard
from muster.agent.watching import Line

_MIB = 1 << 20


def figures_text(node: str, cards: Sequence[FoundCard], lines: Sequence[Line], violations: int) -> str:
    """All figures of a node."""
    return "".join((*_cards(node, cards), *_pods(node, lines), *_own(node, cards, violations)))


def _cards(node: str, cards: Sequence[FoundCard]) -> Iterator[str]:
    labels = [
        (one, _labels(nodeid=node, deviceuuid=one.uuid, deviceidx=str(one.index), devicetype=one.model))
        for one in cards
    ]
    yield _head("hami_host_gpu_memory_used_bytes", "Memory of a card that is in use.")
    yield from (f"hami_host_gpu_memory_used_bytes{text} {one.used_mib * _MIB}\n" for one, text in labels)
    yield _head("muster_card_memory_bytes", "Memory of a card.")
    yield from (f"muster_card_memory_bytes{text} {one.memory_mib * _MIB}\n" for one, text in labels)
    yield _head("muster_card_temperature_celsius", "How warm a card is.")
    yield from (
        f"muster_card_temperature_celsius{text} {one.temperature_c}\n"
        for one, text in labels
        if one.temperature_c is not None
    )
    yield _head("muster_card_power_watts", "What a card takes.")
    yield from (f"muster_card_power_watts{text} {one.power_w}\n" for one, text in labels if one.power_w is not None)


def _pods(node: str, lines: Iterable[Line]) -> Iterator[str]:
    known = []
    for line in lines:
        namespace, _, name = line.pod.partition("/")
        known.append((line, _labels(nodeid=node, podnamespace=namespace, podname=name, deviceuuid=line.card)))
    for name, said, of in (
        ("hami_vgpu_memory_used_bytes", "Memory of a card that a pod uses.", "used_mib"),
        ("hami_vgpu_memory_limit_bytes", "Memory of a card that a pod was given.", "given_mib"),
    ):
        yield _head(name, said)
        yield from (f"{name}{text} {getattr(line, of) * _MIB}\n" for line, text in known)


def _own(node: str, cards: Sequence[FoundCard], violations: int) -> Iterator[str]:
    yield _head("muster_card_healthy", "Whether a card can be given out.")
    yield from (
        f"muster_card_healthy{_labels(nodeid=node, deviceuuid=one.uuid)} {int(one.is_healthy)}\n" for one in cards
    )
    yield "# HELP muster_share_violations_total Times that a pod was found to use more than it was given.\n"
    yield "# TYPE muster_share_violations_total counter\n"
    yield f"muster_share_violations_total{_labels(nodeid=node)} {violations}\n"


def _head(name: str, said: str) -> str:
    return f"# HELP {name} {said}\n# TYPE {name} gauge\n"


def _labels(**values: str) -> str:
    quoted = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, value in values.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in quoted.items()) + "}"
