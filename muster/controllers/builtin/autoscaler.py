"""HorizontalPodAutoscalers: give a target as many pods as its metrics ask for. Made by `app`, which has the metrics.

Each autoscaler is looked at every 15 s. What was recommended and done lately is remembered in memory alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from muster.controllers.builtin.autoscaler_counts import TOLERANCE, Tolerances
from muster.controllers.builtin.autoscaler_limits import Memory, Recommended, Step, Told, Wish, limited
from muster.controllers.builtin.autoscaler_metrics import Failed, Found, Target, evaluated
from muster.controllers.builtin.autoscaler_sources import MAPS, MetricSource
from muster.controllers.builtin.autoscaler_targets import NoScale, Scale, Targets
from muster.controllers.builtin.conditions import condition_of
from muster.controllers.builtin.service_ports import selected
from muster.controllers.builtin.statuses import put_status
from muster.controllers.events import NORMAL, WARNING, Events, Note
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.model.errors import InvalidObject
from muster.model.quantity import parse_quantity
from muster.model.times import moment_text
from muster.store.errors import StoreError
from muster.store.kinds import Object
from muster.store.records import Key

AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
RESOURCES = frozenset({AUTOSCALERS, MAPS})
PERIOD_S = 15.0
_STEPS_S = 1_800.0  # the longest period that a policy may have
_ABLE, _ACTIVE, _LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
_UNABLE = "the HPA controller was unable to"


class Decision(NamedTuple):
    """What a look at a target comes to."""

    desired: int
    reason: str  # why it changes
    found: list[Found]
    told: list[Told]


class NoDecision(Exception):
    """The metrics do not say what to do."""

    def __init__(self, failed: Failed, whole: str, found: list[Found]) -> None:
        super().__init__(whole)
        self.failed = failed
        self.whole = whole
        self.found = found


class Autoscalers:
    """The controller of autoscalers."""

    name = "horizontal pod autoscaler"

    def __init__(self, source: MetricSource, targets: Targets) -> None:
        self._source = source
        self._targets = targets
        self._memories: dict[Key, Memory] = {}
        self._events = Events("horizontal-pod-autoscaler")

    def keys(self, seen: Seen, _view: View) -> Iterator[Key]:
        # Its own writes are none of a reason: it looks again by the clock.
        if seen.key.resource == AUTOSCALERS and _asked(seen.before) != _asked(seen.now):
            yield seen.key

    async def reconcile(self, turn: Turn) -> None:
        autoscaler = turn.view.get(turn.key)
        if autoscaler is None:
            self._memories.pop(turn.key, None)
            return
        turn.look_again(PERIOD_S)
        status = _Status(autoscaler, turn.now_s)
        try:
            scale = self._targets.find(turn.view, autoscaler["spec"]["scaleTargetRef"], turn.key.namespace)
        except NoScale as problem:
            await self._tell(turn, autoscaler, WARNING, "FailedGetScale", str(problem))
            text = f"{_UNABLE} get the target's current scale: {problem}"
            status.tell(Told(_ABLE, False, "FailedGetScale", text))
            await put_status(turn, autoscaler, status.whole(None, status.desired, []))
            return
        text = "the HPA controller was able to get the target's current scale"
        status.tell(Told(_ABLE, True, "SucceededGetScale", text))
        memory = self._memories.setdefault(turn.key, Memory())
        if not memory.recommended:
            memory.recommended.append(Recommended(turn.now_s, scale.wanted))
        try:
            decision = self._decided(turn, autoscaler, scale, memory)
        except NoDecision as problem:
            await self._refuse(turn, autoscaler, problem, status, scale.wanted)
            return
        for told in decision.told:
            status.tell(told)
        if decision.desired != scale.wanted:
            await self._rescale(turn, autoscaler, scale, decision, status)
        await put_status(turn, autoscaler, status.whole(scale.wanted, decision.desired, decision.found))

    def _decided(self, turn: Turn, autoscaler: Object, scale: Scale, memory: Memory) -> Decision:
        spec, current = autoscaler["spec"], scale.wanted
        least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
        if current == 0 and least != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            return Decision(0, "", [], [Told(_ACTIVE, False, "ScalingDisabled", text)])
        if current > most:
            return Decision(most, "Current number of replicas above Spec.MaxReplicas", [], [])
        if current < least:
            return Decision(least, "Current number of replicas below Spec.MinReplicas", [], [])
        best, found = self._by_metrics(turn, autoscaler, scale)
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        told = [Told(_ACTIVE, True, "ValidMetricFound", text)]
        reason = f"{best.name} above target" if best.replicas > current else "All metrics below target"
        wish = Wish(current=current, desired=best.replicas, least=least, most=most, now_s=turn.now_s)
        desired, limits = limited(wish, spec.get("behavior"), memory)
        return Decision(desired, reason, found, [*told, *limits])

    def _by_metrics(self, turn: Turn, autoscaler: Object, scale: Scale) -> tuple[Found, list[Found]]:
        """What the metric asks for that asks for most; where some say nothing, the others may only make it grow."""
        spec = autoscaler["spec"]
        target = Target(
            namespace=turn.key.namespace,
            current=scale.wanted,
            running=scale.running,
            pods=[] if scale.selector is None else selected(turn.view, turn.key.namespace, scale.selector),
            now_s=turn.now_s,
            tolerances=_tolerances(spec.get("behavior") or {}),
        )
        found: list[Found] = []
        failures: list[Failed] = []
        for metric in spec["metrics"]:
            try:
                found.append(evaluated(metric, target, self._source))
            except Failed as failed:
                failures.append(failed)
        best = max(found, key=lambda one: one.replicas, default=None)
        if best is None or (failures and best.replicas < scale.wanted):
            count, first = len(failures), failures[0]
            whole = f"invalid metrics ({count} invalid out of {len(spec['metrics'])}), first error is: {first.whole}"
            raise NoDecision(first, whole, found)
        return best, found

    async def _refuse(self, turn: Turn, autoscaler: Object, problem: NoDecision, status: _Status, current: int) -> None:
        failed = problem.failed
        text = f"the HPA was unable to compute the replica count: {failed.problem}"
        status.tell(Told(_ACTIVE, False, failed.reason, text))
        await put_status(turn, autoscaler, status.whole(current, status.desired, problem.found))
        await self._tell(turn, autoscaler, WARNING, failed.reason, failed.problem)
        await self._tell(turn, autoscaler, WARNING, "FailedComputeMetricsReplicas", problem.whole)

    async def _rescale(self, turn: Turn, autoscaler: Object, scale: Scale, decision: Decision, status: _Status) -> None:
        try:
            await turn.update(scale.key, scale.scaled(decision.desired))
        except (StoreError, InvalidObject) as problem:
            text = f"{_UNABLE} update the target scale: {problem}"
            status.tell(Told(_ABLE, False, "FailedUpdateScale", text))
            await put_status(turn, autoscaler, status.whole(scale.wanted, status.desired, decision.found))
            told = f"New size: {decision.desired}; reason: {decision.reason}; error: {problem}"
            await self._tell(turn, autoscaler, WARNING, "FailedRescale", told)
            raise
        text = f"the HPA controller was able to update the target scale to {decision.desired}"
        status.tell(Told(_ABLE, True, "SucceededRescale", text))
        status.has_scaled = True
        told = f"New size: {decision.desired}; reason: {decision.reason}"
        await self._tell(turn, autoscaler, NORMAL, "SuccessfulRescale", told)
        memory = self._memories[turn.key]
        memory.steps = [one for one in memory.steps if one.at_s > turn.now_s - _STEPS_S]
        memory.steps.append(Step(turn.now_s, decision.desired - scale.wanted))

    async def _tell(self, turn: Turn, about: Object, kind: str, reason: str, text: str) -> None:
        await self._events.tell(turn, about, Note(kind, reason, text))


class _Status:
    """The status of an autoscaler, as it is put together."""

    def __init__(self, autoscaler: Object, now_s: float) -> None:
        self._before: Object = autoscaler.get("status") or {}
        self._conditions: list[Object] = list(self._before.get("conditions") or ())
        self._now = moment_text(now_s)
        self.has_scaled = False

    @property
    def desired(self) -> int:
        return int(self._before.get("desiredReplicas") or 0)

    def tell(self, told: Told) -> None:
        """Set a condition; its time is that of the last change of its status."""
        new = {"type": told.kind, "status": str(told.is_true), "reason": told.reason, "message": told.message}
        known = condition_of(self._conditions, told.kind)
        has_changed = known is None or known["status"] != new["status"]
        new["lastTransitionTime"] = self._now if has_changed or known is None else known["lastTransitionTime"]
        if known is None:
            self._conditions.append(new)
        else:
            self._conditions[self._conditions.index(known)] = new

    def whole(self, current: int | None, desired: int, found: list[Found]) -> Object:
        """The status with all that was found."""
        status: Object = {"desiredReplicas": desired, "conditions": self._conditions}
        if current is not None:
            status["currentReplicas"] = current
        if found:
            status["currentMetrics"] = [one.status for one in found]
        last = self._now if self.has_scaled else self._before.get("lastScaleTime")
        return {**status, "lastScaleTime": last} if last else status


def _asked(autoscaler: Object | None) -> object:
    return None if autoscaler is None else autoscaler["spec"]


def _tolerances(behavior: Object) -> Tolerances:
    return Tolerances(down=_tolerance(behavior.get("scaleDown")), up=_tolerance(behavior.get("scaleUp")))


def _tolerance(rules: Object | None) -> float:
    given = (rules or {}).get("tolerance")
    return TOLERANCE if given is None else parse_quantity(str(given)).scaled(9, 2**53) / 1e9
