"""Says of each check that sends workloads to other clusters whether it works: whether one of its clusters is there."""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.loop import Turn
from muster.controllers.multikueue.clusters import CLUSTERS
from muster.controllers.multikueue.local import CHECKS, CONFIGS, Local
from muster.controllers.view import Seen, View
from muster.dialects.kueue.write import Setting, status_with
from muster.model.fields import Fields
from muster.store.records import Key

_FINE = Setting(type="Active", is_true=True, reason="Active", message="The admission check is active")


class Checks:
    """The controller of those checks."""

    name = "multikueue-checks"

    def __init__(self, local: Local) -> None:
        self._local = local

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == CHECKS:
            yield seen.key
        elif seen.key.resource in (CONFIGS, CLUSTERS):
            yield from view.keys(CHECKS)

    async def reconcile(self, turn: Turn) -> None:
        check = turn.view.get(turn.key)
        if check is None or not self._local.is_ours(check):
            return
        status = status_with(check, self._setting(turn), turn.now_s)
        if status != check.get("status"):
            await turn.update_status(turn.key, {**check, "status": status})

    def _setting(self, turn: Turn) -> Setting:
        if self._local.config_of(turn.key.name) is None:
            return _inactive("BadConfig", "The MultiKueueConfig that spec.parameters names is not there")
        clusters = self._local.clusters_of(turn.key.name)
        found = {name: turn.view.get(Key(CLUSTERS, "", name)) for name in clusters}
        missing = [name for name, obj in found.items() if obj is None]
        away = [name for name, obj in found.items() if obj is not None and not _is_active(Fields(obj))]
        parts = (("Missing clusters", missing), ("Inactive clusters", away))
        told = ", ".join(f"{word}: [{' '.join(some)}]" for word, some in parts if some)
        if len(missing) + len(away) == len(clusters):
            return _inactive("NoUsableClusters", told)
        return Setting(type="Active", is_true=True, reason="SomeActiveClusters", message=told) if told else _FINE


def _inactive(reason: str, message: str) -> Setting:
    return Setting(type="Active", is_true=False, reason=reason, message=message)


def _is_active(cluster: Fields) -> bool:
    conditions = cluster.child("status").children("conditions")
    return any(one.text("type") == "Active" and one.text("status") == "True" for one in conditions)
