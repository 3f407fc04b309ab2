"""Who may bind pods with cards to a node right now: HAMi's lock on the node, and Muster's own list of binders. Pure.

A plugin is asked for cards without being told by which pod. HAMi's plugin asks the lock, so only one pod at a time is
on its way to a node. Muster's agent finds the pod itself, so several may be: all where the agent settles shares by the
pod's own uid, else those that nobody could mistake for one another. Every binder gets a number (a fence) that grows
with each; the agent serves a pod only while its number stands, so whoever was overtaken gives out nothing. Called by
the extender and by the agent.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from muster.engine.devices_text import read_json
from muster.model.device import ContainerShares
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.times import moment_text, parse_moment

LOCK = "hami.io/mutex.lock"
BINDERS = "muster.dev/binders"  # on a node: who is on the way to it
FENCE = "muster.dev/bind-fence"  # on a pod: its number
AGENT = "muster.dev/agent"  # on a node: how its agent gives out cards
BY_UID, BY_COUNT = "cdi", "env"  # by the pod's own uid when a container starts; by the number of cards when it is asked
EXPIRY_S = 300
MOST_BINDERS = 64
_MOST = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Binder:
    """A pod on its way to a node."""

    namespace: str
    name: str
    uid: str
    fence: int
    since_s: int
    asks: tuple[tuple[str, ...], ...] = ()  # the cards of each container that has any, in order

    @property
    def pod(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binders:
    """All pods on their way to a node, and the last number that was given out."""

    fence: int = 0
    binders: tuple[Binder, ...] = ()

    def of(self, uid: str) -> Binder | None:
        """The pod's entry, if it has one."""
        return next((one for one in self.binders if one.uid == uid), None)

    def without(self, uid: str) -> Binders:
        """The same after a pod has arrived, or has given up."""
        return replace(self, binders=tuple(one for one in self.binders if one.uid != uid))


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The lock as a pod got it: what is written on the node."""

    annotations: Mapping[str, str]
    fence: int = 0  # 0: the node's plugin is not Muster's and knows of no numbers


@dataclass(frozen=True, slots=True)
class Busy:
    """Why a pod has to wait."""

    why: str


def asks_of(containers: ContainerShares) -> tuple[tuple[str, ...], ...]:
    """What the agent will be asked for: the cards of each container that has any."""
    return tuple(tuple(sorted(share.uuid for share in shares)) for shares in containers if shares)


def holders(annotations: Mapping[str, str]) -> tuple[Binder, ...]:
    """All who are on their way to a node, by either text."""
    alone = read_lock(annotations.get(LOCK, ""))
    return (*read_binders(annotations.get(BINDERS, "")).binders, *((alone,) if alone is not None else ()))


def take(annotations: Mapping[str, str], asking: Binder, *, now_s: int, gone: Collection[str] = ()) -> Taken | Busy:
    """The lock for one more pod, by what its node says; the pod's `fence` and `since_s` are set here.

    `gone` are pods, as namespace/name, that are known to be on their way no longer.
    """
    mode = annotations.get(AGENT, "")
    asking = replace(asking, since_s=now_s)
    if mode not in (BY_UID, BY_COUNT):
        return _take_alone(annotations.get(LOCK, ""), asking, now_s=now_s, gone=gone)
    known = read_binders(annotations.get(BINDERS, ""))
    waiting = [one for one in known.binders if _is_live(one, now_s, gone) and one.uid != asking.uid]
    if len(waiting) >= MOST_BINDERS:
        return Busy(f"{len(waiting)} pods are on their way to the node")
    other = next((one for one in waiting if mode == BY_COUNT and _is_alike(one, asking)), None)
    if other is not None:
        return Busy(f"pod {other.pod} is on its way to other cards of the node")
    fence = known.fence + 1
    binders = Binders(fence=fence, binders=(*waiting, replace(asking, fence=fence)))
    return Taken(annotations={BINDERS: binders_text(binders)}, fence=fence)


def _take_alone(lock: str, asking: Binder, *, now_s: int, gone: Collection[str]) -> Taken | Busy:
    holder = read_lock(lock)
    is_own = holder is not None and (holder.namespace, holder.name) == (asking.namespace, asking.name)
    if holder is not None and not is_own and _is_live(holder, now_s, gone):
        return Busy(f"pod {holder.pod} is on its way to the node")
    return Taken(annotations={LOCK: lock_text(asking)})


def _is_live(one: Binder, now_s: int, gone: Collection[str]) -> bool:
    return now_s - one.since_s <= EXPIRY_S and one.pod not in gone


def _is_alike(one: Binder, other: Binder) -> bool:
    """Whether a plugin that is told a number of cards could take one pod for the other, and give it other cards."""
    return any(len(mine) == len(theirs) and mine != theirs for mine in one.asks for theirs in other.asks)


def released(annotations: Mapping[str, str], asking: Binder) -> Mapping[str, str | None]:
    """What changes on a node once a pod is no longer on its way; `None` takes an annotation away."""
    changed: dict[str, str | None] = {}
    holder = read_lock(annotations.get(LOCK, ""))
    if holder is not None and (holder.namespace, holder.name) == (asking.namespace, asking.name):
        changed[LOCK] = None
    known = read_binders(annotations.get(BINDERS, ""))
    if known.of(asking.uid) is not None:
        changed[BINDERS] = binders_text(known.without(asking.uid))
    return changed


# The texts -----------------------------------------------------------------------------------------------------------


def lock_text(binder: Binder) -> str:
    """The lock in HAMi's form: since when, and by whom."""
    return f"{moment_text(binder.since_s)},{binder.namespace},{binder.name}"


def read_lock(text: str) -> Binder | None:
    """Who holds HAMi's lock; an older form tells only since when. What cannot be read holds nothing."""
    since, _, pod = text.partition(",")
    namespace, _, name = pod.partition(",")
    try:
        since_s = int(parse_moment(since, LOCK))
    except InvalidObject:
        return None
    return Binder(namespace=namespace, name=name, uid="", fence=0, since_s=since_s)


def binders_text(binders: Binders) -> str:
    """All who are on their way, as JSON."""
    items = [
        {
            "namespace": one.namespace,
            "name": one.name,
            "uid": one.uid,
            "fence": one.fence,
            "since": one.since_s,
            "cards": [list(cards) for cards in one.asks],
        }
        for one in binders.binders
    ]
    return json.dumps({"fence": binders.fence, "binders": items}, separators=(",", ":"))


def read_binders(text: str) -> Binders:
    """Who is on the way; what cannot be read is nobody: a lock that nobody can read must not hold for ever."""
    if not text:
        return Binders()
    try:
        fields = Fields.of(read_json(text, BINDERS, "leave it to the scheduler"))
        return Binders(
            fence=fields.integer("fence", least=0, most=_MOST), binders=tuple(_read_binders(fields.children("binders")))
        )
    except InvalidObject:
        return Binders()


def _read_binders(items: Iterable[Fields]) -> Iterable[Binder]:
    for one in items:
        yield Binder(
            namespace=one.text("namespace"),
            name=one.text("name"),
            uid=one.text("uid"),
            fence=one.integer("fence", least=0, most=_MOST),
            since_s=one.integer("since", least=0, most=_MOST),
            asks=tuple(tuple(str(card) for card in cards) for cards in one.items("cards") if isinstance(cards, list)),
        )
