"""Quotas of namespaces: no write makes more than they allow, and what they say is used is exact at every revision.

Each write to an object changes what is used in the same transaction, so that no two can both take the last of
something. `QuotaKeeper` is asked by `Objects` for every write; `recounts` is for the start of the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from muster.controllers.quota_usage import (
    CLAIMS,
    PODS,
    SERVICES,
    Usage,
    is_in_scope,
    resource_of,
    unnamed_amounts,
    usage_of,
)
from muster.model.quantity import ZERO, Quantity, negated, parse_quantity, sum_of
from muster.store.errors import Forbidden
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Change, Store, Transaction
from muster.store.records import Key, Record, Scope

QUOTAS = "resourcequotas"
_CAN_GROW = frozenset({CLAIMS, SERVICES})  # a change of others is not asked about
_encode = msgspec.json.Encoder().encode


class QuotaKeeper:
    """Keeps every quota's status, and refuses what would go beyond one."""

    def check(self, write: Transaction, key: Key, new: Object | None, before: Record | None) -> None:
        """Count a write that has just been made; raises Forbidden where a quota does not allow it."""
        quotas = write.page(Scope(QUOTAS, key.namespace), 0) if key.namespace else []
        if not quotas:
            return
        old = decode(before) if before is not None else None
        if key.resource == QUOTAS and new is not None and _is_to_be_counted(new, old):
            _recount(write, key)
        for record in quotas:
            if record.key != key:
                _charge(write, record, key, (old, new))


def _is_to_be_counted(quota: Object, before: Object | None) -> bool:
    """Whether a write to a quota changes what it limits, or has touched the count."""
    return before is None or any(quota.get(part) != before.get(part) for part in ("spec", "status"))


def _charge(write: Transaction, record: Record, key: Key, change: tuple[Object | None, Object | None]) -> None:
    quota = decode(record)
    if not _is_counted(quota):
        _recount(write, record.key)  # it was kept by a version that did not count; the write is in this count
        quota = decode(write.get(record.key) or record)
        change = (None, None)
    names = [name for name in _hard(quota) if resource_of(name) == key.resource]
    if not names:
        return
    before, new = change
    had = _counted(quota, key.resource, before, names)
    has = _counted(quota, key.resource, new, names)
    if new is not None and (before is None or key.resource in _CAN_GROW):
        _check(quota, key, new, had, has)
    used = _used(quota)
    for name in had.keys() | has.keys():
        used[name] = _not_negative(_changed(used.get(name, ZERO), had.get(name, ZERO), has.get(name, ZERO)))
    _keep(write, record.key, quota, used)


def _check(quota: Object, key: Key, new: Object, had: Usage, has: Usage) -> None:
    """Raise where a quota has no room for what a write adds."""
    name, hard, used = quota["metadata"]["name"], _hard(quota), _used(quota)
    if key.resource == PODS and has and (missing := unnamed_amounts(new, hard)):
        raise Forbidden(key, f"failed quota: {name}: must specify {missing}")
    asked = {one: sum_of(has[one], negated(had.get(one, ZERO))) for one in has}
    over = sorted(
        one
        for one, more in asked.items()
        if not more.is_zero and not more.is_negative and sum_of(used.get(one, ZERO), more) > hard[one]
    )
    if over:
        raise Forbidden(
            key,
            f"exceeded quota: {name}, requested: {_told(asked, over)}, "
            f"used: {_told(used, over)}, limited: {_told(hard, over)}",
        )


def _told(amounts: Usage, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts.get(name, ZERO)}" for name in names)


def _counted(quota: Object, resource: str, given: Object | None, names: Iterable[str]) -> Usage:
    """What an object counts for in one quota."""
    if given is None or not is_in_scope(quota, resource, given):
        return {}
    usage = usage_of(resource, given)
    return {name: usage[name] for name in names if name in usage}


def _changed(used: Quantity, had: Quantity, has: Quantity) -> Quantity:
    return sum_of(used, sum_of(has, negated(had)))


def _not_negative(amount: Quantity) -> Quantity:
    return ZERO if amount.is_negative else amount


# The status ----------------------------------------------------------------------------------------------------------


def _hard(quota: Object) -> Usage:
    return {name: parse_quantity(text) for name, text in ((quota.get("spec") or {}).get("hard") or {}).items()}


def _used(quota: Object) -> Usage:
    return {name: parse_quantity(text) for name, text in ((quota.get("status") or {}).get("used") or {}).items()}


def _is_counted(quota: Object) -> bool:
    status, hard = quota.get("status") or {}, (quota.get("spec") or {}).get("hard") or {}
    return (status.get("hard") or {}) == hard and (status.get("used") or {}).keys() == hard.keys()


def _recount(write: Transaction, key: Key) -> None:
    """Count all that a quota is about."""
    record = write.get(key)
    assert record is not None, f"{key} was just written"
    quota = decode(record)
    used = dict.fromkeys(_hard(quota), ZERO)
    names: dict[str, list[str]] = {}
    for name in used:
        names.setdefault(resource_of(name), []).append(name)
    for resource, of_resource in names.items():
        for found in write.page(Scope(resource, key.namespace), 0) if resource else ():
            for name, amount in _counted(quota, resource, decode(found), of_resource).items():
                used[name] = sum_of(used[name], amount)
    _keep(write, key, quota, used)


def _keep(write: Transaction, key: Key, quota: Object, used: Usage) -> None:
    hard = (quota.get("spec") or {}).get("hard") or {}
    amounts = {name: str(used.get(name, ZERO)) for name in sorted(hard)}
    status = {"hard": hard, "used": amounts} if hard else {}
    if (quota.get("status") or {}) == status:
        return
    record = write.get(key)
    assert record is not None, f"{key} is there while it is counted"
    metadata = {**quota["metadata"], "resourceVersion": str(write.next_revision)}
    value = _encode({**quota, "metadata": metadata, "status": status})
    write.put(key, uid=record.uid, value=value, owners=record.owners)


def recounts(store: Store) -> Iterator[Change[None]]:
    """A write for each quota that counts it anew: what an older version has kept may be off."""
    for record in store.page(Scope(QUOTAS)).records:
        yield _recounting(record.key)


def _recounting(key: Key) -> Change[None]:
    def change(write: Transaction) -> None:
        if write.get(key) is not None:
            _recount(write, key)

    return change
