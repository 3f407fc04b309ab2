"""HAMi's extender filter as a pure function: the one node that a pod gets, its shares of the cards, or why not.

Nothing is changed; the answer says what would be, and holds the state as it is afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.dialects.hami.policy import pod_policy
from muster.dialects.hami.quota import Quotas, amounts_of, charged, fits_quota, released
from muster.dialects.hami.requests import init_count, requests_of
from muster.dialects.hami.settings import ASSIGNED_AT, ASSIGNED_NODE, DEFAULTS, HamiSettings
from muster.engine.contracts import Assigned, Vendor
from muster.engine.devices_pod import CardsTry, PodCards, try_pod
from muster.model.device import Card, Cards, ContainerShares, Device, Share, standing_shares, take
from muster.model.fields import Fields

UNREGISTERED = "node unregistered"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldShares:
    """What a pod that was placed before holds, by vendor."""

    uid: str
    namespace: str
    node: str
    shares: Mapping[str, tuple[Share, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterState:
    """What the filter knows of the cluster."""

    nodes: Mapping[str, tuple[Device, ...]]
    pods: tuple[HeldShares, ...] = ()
    quotas: Quotas = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterAnswer:
    """The node that the pod gets, or what is wrong with each; and what is known afterwards."""

    nodes: tuple[str, ...] = ()  # all of those asked for where the pod needs no card
    refused: Mapping[str, str] = field(default_factory=dict)  # by node: how many cards failed for which reason
    annotations: Mapping[str, str] = field(default_factory=dict)  # to write on the pod; empty: nothing
    shares: Mapping[str, ContainerShares] = field(default_factory=dict)  # by vendor
    state: FilterState


@dataclass(frozen=True, slots=True)
class _Ask:
    """A pod that is to be placed."""

    pod: Fields
    cards: PodCards
    is_spread_over_nodes: bool

    @property
    def uid(self) -> str:
        return self.pod.child("metadata").text("uid")

    @property
    def namespace(self) -> str:
        return self.pod.child("metadata").text("namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """The filter under its settings."""

    vendors: tuple[Vendor, ...]
    settings: HamiSettings = DEFAULTS

    def filter(self, pod: Fields, nodes: Sequence[str], *, state: FilterState, now_s: int) -> FilterAnswer:
        """The node for a pod among those named; the best one takes it at once, so that the next pod sees it taken."""
        ask = self._ask(pod)
        if ask is None:
            return FilterAnswer(nodes=tuple(nodes), state=state)
        state = without_pod(state, ask.uid, ask.cards.vendors)
        tries = _tries(ask, nodes, state)
        fitting = {name: one for name, one in tries.items() if one is not None and one.refusal is None}
        if not fitting:
            return FilterAnswer(refused={name: _refusal_text(one) for name, one in tries.items()}, state=state)
        sign = 1 if ask.is_spread_over_nodes else -1
        best = min(fitting, key=lambda name: (sign * fitting[name].score, name))
        return _placed(ask, _Placed(best, fitting[best].shares), state=state, now_s=now_s)

    def fitting(self, pod: Fields, nodes: Sequence[str], state: FilterState) -> FilterAnswer:
        """Every node of those named that the pod would fit, for those who only want to know; nothing is taken."""
        ask = self._ask(pod)
        if ask is None:
            return FilterAnswer(nodes=tuple(nodes), state=state)
        tries = _tries(ask, nodes, state)
        refused = {name: one for name, one in tries.items() if one is None or one.refusal is not None}
        return FilterAnswer(
            nodes=tuple(name for name in tries if name not in refused),
            refused={name: _refusal_text(one) for name, one in refused.items()},
            state=state,
        )

    def _ask(self, pod: Fields) -> _Ask | None:
        """What the pod asks for; `None`: no card."""
        requests = requests_of(pod, self.vendors)
        if not any(requests):
            return None
        policy = pod_policy(pod.child("metadata").text_map("annotations"), self.settings)
        cards = PodCards(
            requests=requests,
            vendors={vendor.name: vendor for vendor in self.vendors},
            init_count=init_count(pod),
            wishes={vendor.name: policy.wishes(vendor) for vendor in self.vendors},
            orders={vendor.name: policy.order(vendor) for vendor in self.vendors},
            weights=policy.weights,
        )
        return _Ask(pod, cards, policy.is_spread_over_nodes)


def _tries(ask: _Ask, nodes: Iterable[str], state: FilterState) -> dict[str, CardsTry | None]:
    """How the pod fares on each node; `None`: nobody registered the node."""
    quota = state.quotas.get(ask.namespace, {})
    shares = _shares_by_node(state.pods)

    def is_within_quota(vendor: Vendor, held: tuple[Share, ...]) -> bool:
        return fits_quota(quota, vendor.resources, amounts_of(held))

    return {
        name: try_pod(_cards(state.nodes[name], shares.get(name, ())), ask.cards, is_within_quota)
        if name in state.nodes
        else None
        for name in nodes
    }


def _refusal_text(one: CardsTry | None) -> str:
    if one is None:
        return UNREGISTERED
    assert one.refusal is not None, "a node that fits has no refusal"
    return one.refusal.text


# The answer -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Placed:
    """The shares that a pod gets, and where."""

    node: str
    shares: Mapping[str, ContainerShares]


def _placed(ask: _Ask, got: _Placed, *, state: FilterState, now_s: int) -> FilterAnswer:
    """The answer that gives the pod its node and its shares."""
    vendors = ask.cards.vendors
    assigned = Assigned(node=got.node, now_s=now_s, devices=state.nodes[got.node])
    annotations = {ASSIGNED_NODE: got.node, ASSIGNED_AT: str(now_s)}
    for name, containers in got.shares.items():
        written = written_shares(containers, name, assigned.devices)
        annotations.update(vendors[name].annotate(ask.pod, written, assigned))
    held = HeldShares(
        uid=ask.uid,
        namespace=ask.namespace,
        node=got.node,
        shares={name: standing_shares(containers, ask.cards.init_count) for name, containers in got.shares.items()},
    )
    after = with_pod(state, held, vendors)
    return FilterAnswer(nodes=(got.node,), annotations=annotations, shares=got.shares, state=after)


def written_shares(containers: ContainerShares, vendor: str, devices: tuple[Device, ...]) -> ContainerShares:
    """The entries that are written on the pod.

    HAMi keeps the place of a container that asks for nothing under the model of the node's cards, and finds it again
    only where the model is the vendor's bare word. Its plugins go by the order of the entries, so both forms work.
    """
    if any(device.model == vendor for device in devices):
        return containers
    return tuple(shares for shares in containers if shares)


# What pods hold ---------------------------------------------------------------------------------------------------


def without_pod(state: FilterState, uid: str, vendors: Mapping[str, Vendor]) -> FilterState:
    """The state without what a pod held before: it asks anew. A pod that has no uid yet held nothing."""
    before = [held for held in state.pods if uid and held.uid == uid]
    if not before:
        return state
    quotas = state.quotas
    for held in before:
        for name, shares in held.shares.items():
            if name in vendors:
                quotas = released(quotas, held.namespace, vendors[name].resources, amounts_of(shares))
    pods = tuple(held for held in state.pods if held.uid != uid)
    return FilterState(nodes=state.nodes, pods=pods, quotas=quotas)


def with_pod(state: FilterState, held: HeldShares, vendors: Mapping[str, Vendor]) -> FilterState:
    """The state with what a pod got."""
    quotas = state.quotas
    for name, shares in held.shares.items():
        quotas = charged(quotas, held.namespace, vendors[name].resources, amounts_of(shares))
    return FilterState(nodes=state.nodes, pods=(*state.pods, held), quotas=quotas)


def cards_of(node: str, state: FilterState) -> Cards:
    """The cards of a node with what its pods hold taken."""
    return _cards(state.nodes[node], _shares_by_node(state.pods).get(node, ()))


def _cards(devices: Iterable[Device], shares: Iterable[Share]) -> Cards:
    return take(tuple(Card(device) for device in devices), shares)


def _shares_by_node(pods: Iterable[HeldShares]) -> dict[str, list[Share]]:
    result: dict[str, list[Share]] = {}
    for held in pods:
        shares = (share for group in held.shares.values() for share in group)
        result.setdefault(held.node, []).extend(shares)
    return result
