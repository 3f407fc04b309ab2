"""The scheduler: takes in what has changed, lets the engine decide, and carries the decisions out. Started by `app`.

A pass runs cycles until nothing more is decided, then makes all writes at once, each on the state of the object that
the decision was made on. The engine's state acts as if all of it had come true; of what could not be written, the
object is read anew, so that nothing is ever counted twice. A write without an answer counts as made until it is known
what has become of it. The next pass begins when its own writes have come back.
What changes while it is thought about is not written over: it is decided on anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, TypeVar

from muster.controllers.belonging import PODS
from muster.controllers.cache import Cache
from muster.controllers.carrying_out import Annotate, Removal, StatusWrite, Write, Writer, key_of, unscheduled
from muster.controllers.checks_waited_for import Waiting, checked, status_with, with_other_checks
from muster.controllers.deciding import Decided, run_cycles
from muster.controllers.events import WARNING, Events, Note, note_of
from muster.controllers.feed import Changes
from muster.controllers.group_writes import ABOVE_MAXIMUM, GroupWrite, GroupWriter, bound_to, evicted
from muster.controllers.news import News
from muster.controllers.pace import AT_ONCE, Allowance, Pace
from muster.controllers.pod_claims import claim_state, told, unreached, with_node
from muster.controllers.queue_status import QueueStatus
from muster.controllers.sessions import SessionReport, Sessions
from muster.controllers.telling import SCHEDULER, Refusals, events_of_decision, events_of_refusal
from muster.controllers.view import Seen
from muster.controllers.volume_matching import CLAIMS
from muster.dialects.kueue.write import Event, status_after_checks
from muster.dialects.pods import workload_key
from muster.engine.explain import untried
from muster.engine.state import EngineState
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.plan import Amend, Decision, Evict, Reserve
from muster.model.reason import Verdict
from muster.model.workload import Slot, Workload
from muster.store.binding import Binding
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.errors import Conflict, NotFound, StoreError, Unavailable
from muster.store.kinds import Object
from muster.store.records import Key
from muster.store.rules import Deletion

log = logging.getLogger(__name__)
PAUSE_S = 1.0  # after a fault
_NEWS_MOST = 60  # pauses until news of an object comes that somebody else has written
LATER_MOST = 10_000  # objects of which there is still something to tell; what is older is not told
_LEAST_WAIT_S = 0.05  # until it is time for something: clocks are not exact

Result = TypeVar("Result")
Think = Callable[[Callable[[], Result]], Awaitable[Result]]


async def at_once(work: Callable[[], Result]) -> Result:
    """Think where one is; a server thinks in a thread of its own instead."""
    return work()


class Unanswered(NamedTuple):
    """A write that may have been made, or may yet be."""

    write: Write
    revision: int  # of the object that was decided on


class Scheduler:
    """The loop around the engine."""

    def __init__(self, cache: Cache, feed: Changes, client: Client, clock: Clock, *, annotate: Annotate) -> None:
        self.cache = cache
        self._view = feed.view
        self._client = client
        self._clock = clock
        self._annotate = annotate
        self._news = News(clock)
        self._written: dict[str, int] = {}  # the newest revision of own writes, by resource
        self._events = Events(SCHEDULER)
        self._queues = QueueStatus(feed.view, client)
        self._sessions = Sessions(cache.groups)
        self._notes: list[tuple[Key, Note]] = []  # what is to be told of the objects of groups
        self.think: Think[Decided] = at_once
        self.is_idle = False
        self._telling: asyncio.Future[list[BaseException | None]] | None = None  # what has become of the last pass
        self._is_to_pause = False  # the store could not be written to
        self._pace = AT_ONCE
        self._untold: dict[str, tuple[float, Verdict]] = {}  # since when, and why, those wait that were not told yet
        self._later: list[list[Event]] = []  # what came up while others were told
        self._allowance = Allowance(0.0, 0)
        self.is_pausing = False
        self._unanswered: dict[Key, Unanswered] = {}  # writes of which nobody knows whether they were made
        feed.listen(self._hear)

    def keep(self, pace: Pace) -> None:
        """Have people told no more often than that."""
        self._pace = pace
        self._allowance = Allowance(pace.refusals_per_s, pace.refusals_at_once)
        self._queues.pace_s = pace.queue_s

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self._run()
        finally:
            if self._telling is not None:
                self._telling.cancel()
                await asyncio.gather(self._telling, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._news.clear()
            try:
                await self.run_once()
            except StoreError as problem:
                log.warning("the scheduler waits for the store: %s", problem)
                await self._pause()
                continue
            except Exception:
                # A fault of Muster's own must not stop everybody's work: what is known is read anew from the objects.
                log.exception("a fault in the scheduler itself")
                self.cache.forget()
                await self._pause()
                continue
            if self._is_to_pause:
                await self._pause()
            if not self.cache.has_news:
                self.is_idle = True
                await self._wait()
                self.is_idle = False

    @property
    def is_at_rest(self) -> bool:
        """Whether it has taken in all that it has heard, and all that it has written has come true."""
        has_news = self.cache.has_news or not self.is_idle
        return not has_news and all(self._view.has_reached(*written) for written in self._written.items())

    def remind(self, cache: Cache) -> None:
        """Let another cache know what no object says: places that are kept for pods to come."""
        cache.applications.remember(self.cache.applications)
        cache.sync(self.cache.state.now)
        for held in self._sessions.promises:
            cache.state.put_pod(held)

    async def _pause(self) -> None:
        self._is_to_pause, self.is_pausing = False, True
        await self._clock.sleep(PAUSE_S)
        self.is_pausing = False

    def _hear(self, seen: Seen) -> None:
        self.cache.hear(seen)
        if self.cache.has_news:
            self._news.set()

    async def _wait(self) -> None:
        """Until something happens, or it has become time for somebody."""
        now = self._clock.now_s()
        of_state = (self.cache.state.next_due(), self._queues.next_due(), self._next_told(now))
        known = (*of_state, self._sessions.next_due, self.cache.applications.next_due)
        due = min((one for one in known if one is not None), default=None)
        await self._news.wait(None if due is None else max(_LEAST_WAIT_S, due - now))

    def _next_told(self, now: float) -> float | None:
        if not self._untold:
            return None
        since_s = next(iter(self._untold.values()))[0]
        young_s = since_s + self._pace.refusal_s - self._clock.monotonic_s()
        return now + max(young_s, self._allowance.wait_s())

    # One pass --------------------------------------------------------------------------------------------------------

    async def run_once(self) -> None:
        """Take in, decide, carry out; own writes are seen before anything is taken in."""
        await self._find_out()
        for resource, revision in self._written.items():
            await self._view.reaches(resource, revision)
        now = max(self._clock.now_s(), self.cache.state.now)
        self.cache.sync(now)
        state = self.cache.state
        decided = await self.think(lambda: self._decide(state, now))
        events = await self._carry_out(state, decided, now)
        touched, self.cache.touched = self.cache.touched | decided.decisions.keys(), set()
        self._queues.count(state, sorted(touched))
        await self._tell_beside(events, now)
        if decided.is_cut_short:
            self._news.set()

    async def _find_out(self) -> None:
        """Learn what has become of writes without an answer, before anything else is given away.

        Each is made once more: it asks for the state that it was decided on, so only one of the two takes effect,
        however late the other arrives. Where that is refused, there is news of the object on its way.
        """
        for key, one in list(self._unanswered.items()):
            try:
                await self._write(one.write)
            except (Conflict, NotFound):
                await self._changed(key, one.revision)
            except Unavailable:
                raise
            except (StoreError, InvalidObject) as problem:
                log.warning("%s was not written: %s", key, problem)
            del self._unanswered[key]
            self.cache.look_again(key)

    async def _changed(self, key: Key, revision: int) -> None:
        """Wait until an object is known to have changed; for a while only, since not every refusal comes of that."""
        for _ in range(_NEWS_MOST):
            record = self._view.record(key)
            if record is None or record.revision != revision:
                return
            await self._clock.sleep(PAUSE_S)

    def _decide(self, state: EngineState, now: float) -> Decided:
        """Let queues decide first, and groups then on what is left."""
        decided = run_cycles(state, now, self._pace.decisions_at_once)
        decided.session = self._sessions.run(state, now, self.cache.nodes)
        return decided

    async def _carry_out(self, state: EngineState, decided: Decided, now: float) -> list[list[Event]]:
        """Write all that was decided, at once: each write is about one object and asks for the state it was seen in.

        Gives what is to be told.
        """
        writer = Writer(state, now, self._annotate)
        writes: list[Awaitable[list[Event]]] = []
        for workload, decisions in decided.decisions.items():
            for decision in decisions:
                if self.cache.applications.is_gang(workload):
                    self._carry_out_gang(workload, decision)
                else:
                    writes.append(self._carried_out(writer, workload, decision))
        refusals = Refusals(state)
        for workload, verdict in self._to_tell(state, decided):
            if self.cache.applications.is_gang(workload):
                members = self.cache.applications.members(workload)
                self.cache.held_back.update((key, verdict.told) for key in members)
                continue
            obj = self.cache.seen(key_of(workload))
            if obj is None:
                continue
            told = refusals.told(verdict)
            write = writer.refusal(state.workloads[workload], verdict, obj, told=told)
            if write is not None:
                writes.append(self._told(write, events_of_refusal(verdict, told)))
        writes += [self._checks_changed(one, now) for one in with_other_checks(state, self.cache.touched)]
        writes += [self._admitted(workload, now) for workload in checked(state, self.cache.touched)]
        writes += [self._held_back(key, text, now) for key, text in self.cache.held_back.items()]
        self.cache.held_back = {}
        writes += self._session_writes(decided.session, now)
        writes += [self._seated(key, slot, now) for key, slot in self.cache.applications.seats()]
        for key in self.cache.applications.leaving():
            if (pod := self.cache.seen(key)) is not None:
                writes.append(self._session_written(evicted(key, pod, ABOVE_MAXIMUM, now), now))
        written = await asyncio.gather(*writes, return_exceptions=True)
        for one in written:
            if isinstance(one, BaseException):
                raise one  # when all writes are done, not before
        if decided.decisions:
            log.info("cycles=%d decided=%d waiting=%d", decided.cycles, len(decided.decisions), len(decided.verdicts))
        return [one for one in written if one and not isinstance(one, BaseException)]

    async def _carried_out(self, writer: Writer, workload: str, decision: Decision) -> list[Event]:
        """Make the write of a decision, and say what to tell; where it fails the object is read anew, and counts so."""
        key = key_of(workload)
        sent: Write | None = None
        obj = self.cache.seen(key)
        if obj is None:
            self.cache.look_again(key)  # it has changed while it was thought about
            return []
        try:
            write = writer.write_of(decision, obj)
            if (
                isinstance(write, Binding)
                and (waits := await self._without_volumes(obj, write, writer.now)) is not None
            ):
                return waits
            if write is not None:
                sent = write
                await self._write(sent)
                return events_of_decision(decision)
        except (Conflict, NotFound) as problem:
            log.debug("%s was not written: %s", workload, problem)
            self.cache.look_again(key)
        except StoreError as problem:
            log.warning("%s was not written: %s", workload, problem)
            if isinstance(problem, Unavailable) and sent is not None:
                self._unanswered[key] = Unanswered(sent, int(obj["metadata"]["resourceVersion"]))
            self.cache.look_again(key)
            self._is_to_pause = True
        except InvalidObject as problem:
            log.error("%s is left out until it changes, what was decided cannot be written: %s", workload, problem)
            self.cache.leave_out(key)
        return []

    def _session_writes(self, report: SessionReport | None, now: float) -> list[Awaitable[list[Event]]]:
        """The writes of a session; what is told of objects that are no pods is gathered."""
        refused = self.cache.groups.refused | self.cache.applications.refused
        self.cache.groups.refused, self.cache.applications.refused = {}, {}
        self._notes += [(key, Note(WARNING, "Invalid", text)) for key, text in refused.items()]
        if report is None:
            return []
        writer = GroupWriter(self._seen_by_session, self._annotate, now)
        return [self._session_written(one, now) for one in writer.all(report)]

    def _seen_by_session(self, key: Key) -> Object | None:
        return self.cache.seen(key) if key.resource == PODS else self._view.get(key)

    async def _session_written(self, one: GroupWrite, now: float) -> list[Event]:
        """Make the writes of a session on one object; where one fails, it is looked at again."""
        pod = self.cache.seen(one.key) if one.key.resource == PODS else None
        sent: Write | None = None
        try:
            for write in one.writes:
                if isinstance(write, Binding) and pod is not None:
                    waits = await self._without_volumes(pod, write, now)
                    if waits is not None:
                        return waits
                sent = write
                await self._write(write)
        except InvalidObject as problem:
            log.error("what a session decided on %s cannot be written: %s", one.key, problem)
            return []
        except StoreError as problem:
            log.debug("%s was not written: %s", one.key, problem)
            self._is_to_pause = self._is_to_pause or not isinstance(problem, (Conflict, NotFound))
            if isinstance(problem, Unavailable) and isinstance(sent, Binding) and pod is not None:
                self._unanswered[one.key] = Unanswered(sent, int(pod["metadata"]["resourceVersion"]))
            if one.key.resource == PODS:
                self.cache.look_again(one.key)
            self._sessions.forget(one.key)
            return []
        self._notes += [(one.key, note) for note in one.notes]
        return []

    def _carry_out_gang(self, gang: str, decision: Decision) -> None:
        """Keep the places of a gang of an application, or let them go: there is no object to write them on."""
        if isinstance(decision, (Reserve, Amend)):
            self.cache.applications.hold(gang, decision.admission)
        elif isinstance(decision, Evict):
            self.cache.applications.give_up(gang)

    async def _seated(self, key: Key, slot: Slot, now: float) -> list[Event]:
        """Bind a pod to the place that its gang keeps for it."""
        pod = self.cache.seen(key)
        if pod is None:
            self.cache.look_again(key)
            return []
        return await self._session_written(bound_to(key, pod, slot, dict(self._annotate(Fields(pod), slot, now))), now)

    async def _without_volumes(self, pod: Object, binding: Binding, now: float) -> list[Event] | None:
        """What is told of a pod whose volumes do not let it be bound now; claims that wait for its node hear of it."""
        claims = claim_state(pod, self._view)
        if not claims.unplaced:
            return None
        node = self._view.get(Key("nodes", "", binding.node))
        if problem := unreached(pod, claims, node, self._view):
            self.cache.leave_out(binding.key)
            return await self._held_back(binding.key, told(problem, self._view), now)
        for claim in claims.unplaced:
            key = Key(CLAIMS, binding.key.namespace, claim["metadata"]["name"])
            kept = await self._client.update(key, with_node(claim, binding.node))
            self._note(CLAIMS, int(kept["metadata"]["resourceVersion"]))
        self.cache.look_again(binding.key)  # it is decided on anew when its claims are bound
        return []

    async def _held_back(self, key: Key, text: str, now: float) -> list[Event]:
        """Say of a pod that its claims let it go nowhere, unless it says so already; gives what is to be told."""
        pod = self._view.get(key)
        status = None if pod is None else unscheduled(pod, text, now)
        if pod is None or status == pod.get("status"):
            return []
        event = Event("Warning", workload_key(key.namespace, key.name), "FailedScheduling", text)
        return await self._told(StatusWrite(key, {**pod, "status": status}), [event])

    async def _told(self, write: Write, events: list[Event]) -> list[Event]:
        try:
            await self._write(write)
        except (StoreError, InvalidObject) as problem:
            log.debug("a refusal was not written: %s", problem)
            return []
        return events

    async def _write(self, write: Write) -> None:
        if isinstance(write, StatusWrite):
            kept = await self._client.update(write.key, write.obj, write.part)
            revision = int(kept["metadata"]["resourceVersion"])
        elif isinstance(write, Binding):
            revision = await self._client.bind(write)
        else:
            assert isinstance(write, Removal), "there are three kinds of writes"
            kept = await self._client.delete(write.key, Deletion(uid=write.uid))
            revision = int(kept["metadata"]["resourceVersion"])
        self._note(write.key.resource, revision)

    def _note(self, resource: str, revision: int) -> None:
        self._written[resource] = max(revision, self._written.get(resource, 0))

    # Those that wait -------------------------------------------------------------------------------------------------

    def _to_tell(self, state: EngineState, decided: Decided) -> Iterator[tuple[str, Verdict]]:
        """Those who are told why they wait; who is told later is told what holds then."""
        now_s = self._clock.monotonic_s()
        for workload, verdict in self._refused(state, decided).items():
            self._untold[workload] = (self._untold.get(workload, (now_s, verdict))[0], verdict)
        while self._untold:
            workload, (since_s, verdict) = next(iter(self._untold.items()))
            is_waiting = self._waits(state, workload)
            if is_waiting and (now_s < since_s + self._pace.refusal_s or not self._allowance.has_one(now_s)):
                return
            del self._untold[workload]
            if is_waiting:
                yield workload, verdict

    def _refused(self, state: EngineState, decided: Decided) -> dict[str, Verdict]:
        """Why those wait that were tried in vain, and those that were looked at and are in no line."""
        verdicts = {key: one for key, one in decided.verdicts.items() if self._waits(state, key)}
        for key in sorted(self.cache.touched):
            workload = state.workloads.get(key)
            if workload is None or key in verdicts or not self._waits(state, key):
                continue
            if not state.should_wait(workload):
                verdicts[key] = untried(state, workload)
        return verdicts

    def _waits(self, state: EngineState, key: str) -> bool:
        workload = state.workloads.get(key)
        return workload is not None and workload.admission is None and not workload.is_finished

    async def _checks_changed(self, waiting: Waiting, now: float) -> list[Event]:
        key = key_of(waiting[0].key)
        obj = self.cache.seen(key)
        if obj is None:
            return []
        return await self._told(StatusWrite(key, {**obj, "status": status_with(obj, waiting, now)}), [])

    async def _admitted(self, workload: Workload, now: float) -> list[Event]:
        key = key_of(workload.key)
        obj = self.cache.seen(key)
        if obj is None:
            return []
        write = StatusWrite(key, {**obj, "status": status_after_checks(obj, now)})
        return await self._told(write, [Event("Normal", workload.key, "Admitted", "The workload is admitted")])

    # Events ----------------------------------------------------------------------------------------------------------

    async def _tell_beside(self, events: list[list[Event]], now: float) -> None:
        """Tell what was done, in events and in the status of queues, while the next passes begin; one after another."""
        self._later += events
        del self._later[:-LATER_MOST], self._notes[:-LATER_MOST]
        if self._telling is not None and not self._telling.done():
            return  # the rest is told when that is over
        for problem in await self._telling if self._telling is not None else ():
            if problem is not None:
                raise problem
        events, self._later = self._later, []
        notes, self._notes = self._notes, []
        told = (*(self._tell(one, now) for one in events), *(self._tell_of(*one, now) for one in notes))
        telling = (self._queues.write(now), *told)
        self._telling = asyncio.gather(*telling, return_exceptions=True)
        self._telling.add_done_callback(self._tell_more)

    def _tell_more(self, _: object) -> None:
        if self._later or self._notes:
            self._news.set()

    async def _tell(self, events: list[Event], now: float) -> None:
        for event in events:
            obj = self._view.get(key_of(event.object))
            if obj is not None:
                await self._events.write(self._client, obj, note_of(event), now)

    async def _tell_of(self, key: Key, note: Note, now: float) -> None:
        obj = self._view.get(key)
        if obj is not None:
            await self._events.write(self._client, obj, note, now)
