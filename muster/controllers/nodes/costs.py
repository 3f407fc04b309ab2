"""What pools of nodes have cost so far, kept in a config map that anybody may read. Used by the pools' controller."""

from __future__ import annotations

from collections.abc import Mapping

from muster.controllers.loop import Turn
from muster.model.errors import InvalidObject
from muster.model.times import moment_text, parse_moment
from muster.store.kinds import Object
from muster.store.records import Key

COSTS = Key("configmaps", "kube-system", "node-pools")
RENEW_S = 60.0
_HOUR_S = 3600.0


async def with_costs(turn: Turn, pools: Mapping[str, tuple[int, float]]) -> None:
    """Bring the costs up to date, given how many nodes each pool has and what one costs for an hour."""
    known = turn.view.get(COSTS)
    data: Mapping[str, str] = (known or {}).get("data") or {}
    priced = {name: one for name, one in pools.items() if one[1] > 0}
    if not priced:
        return
    turn.look_again(RENEW_S)
    if not any(_is_stale(data.get(name), count, turn.now_s) for name, (count, _) in priced.items()):
        return
    wanted = {name: _text(data.get(name), priced[name], turn.now_s) for name in sorted(priced)}
    metadata = {"namespace": COSTS.namespace, "name": COSTS.name}
    if known is None:
        made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": wanted}
        await turn.create(COSTS.resource, made)
    else:
        await turn.update(COSTS, {**known, "data": {**data, **wanted}})


def _is_stale(text: str | None, count: int, now_s: float) -> bool:
    nodes, _, at_s = _read(text)
    return nodes != count or at_s + RENEW_S <= now_s


def _text(before: str | None, pool: tuple[int, float], now_s: float) -> str:
    count, price = pool
    nodes, cost, at_s = _read(before)
    cost += max(nodes, 0) * price * max(0.0, now_s - at_s) / _HOUR_S
    return f"nodes: {count}\nprice: {price:g}\ncost: {cost:.6f}\nat: {moment_text(now_s)}\n"


def _read(text: str | None) -> tuple[int, float, float]:
    """Nodes, cost and time as they were written; what cannot be read begins anew."""
    fields = dict(line.split(": ", 1) for line in (text or "").splitlines()[:10] if ": " in line)
    try:
        return int(fields["nodes"]), float(fields["cost"]), parse_moment(fields["at"], "at")
    except (KeyError, ValueError, InvalidObject):
        return -1, 0.0, 0.0
