"""The autoscaler of an embedded server: finds whatever the API serves with a scale. Called by `living`."""

from __future__ import annotations

from muster.apiserver.api import Api
from muster.apiserver.definitions.scales import ScalePaths, scale_of, scaled
from muster.apiserver.selectors import read_labels
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem
from muster.controllers.builtin.autoscaler import Autoscalers
from muster.controllers.builtin.autoscaler_sources import WrittenMetrics
from muster.controllers.builtin.autoscaler_targets import KINDS, BuiltinTargets, NoScale, Scale
from muster.controllers.view import View
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.records import Key


def autoscalers(api: Api, view: View) -> Autoscalers:
    """The controller of autoscalers; `view` is the one that it runs on."""
    found = _Objects(api)
    return Autoscalers(WrittenMetrics(view, api.usages, found.find), _Targets(found))


class _Objects:
    """The objects of the API by the names that people give."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def served(self, api_version: str, kind: str) -> Served | None:
        """A kind as it is served."""
        every = (one for one in self._api.catalog.all if one.kind.kind == kind and one.rules is not None)
        return next((one for one in every if one.api_version == api_version), None)

    def find(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """An object, if there is one."""
        served = self.served(api_version, kind)
        if served is None:
            return None
        key = Key(served.resource, namespace if served.kind.is_namespaced else "", name)
        try:
            return decode(self._api.store.store.get(key))
        except NotFound:
            return None


class _Targets:
    """The kinds of every cluster, and those of definitions that have a scale."""

    def __init__(self, objects: _Objects) -> None:
        self._objects = objects
        self._builtin = BuiltinTargets()

    def find(self, view: View, reference: Object, namespace: str) -> Scale:
        version, kind, name = reference.get("apiVersion") or "v1", reference["kind"], reference["name"]
        group = version.partition("/")[0] if "/" in version else ""
        served = self._objects.served(version, kind)
        if served is None or (group, kind) in KINDS:
            return self._builtin.find(view, reference, namespace)
        paths = served.custom.scale if served.custom is not None else None
        given = self._objects.find(version, kind, namespace, name)
        if paths is None or given is None:
            raise NoScale(f'{served.resource} "{name}" not found')
        return _custom_scale(Key(served.resource, namespace, name), given, paths)


def _custom_scale(key: Key, given: Object, paths: ScalePaths) -> Scale:
    try:
        found = scale_of(given, paths)
        selector = read_labels(found["status"].get("selector") or "")
    except Problem as problem:
        raise NoScale(str(problem)) from None
    return Scale(
        key=key,
        given=given,
        wanted=int(found["spec"].get("replicas") or 0),
        running=int(found["status"]["replicas"]),
        selector=selector if selector.requirements else None,
        scaled=lambda count: scaled(given, paths, count),
    )
