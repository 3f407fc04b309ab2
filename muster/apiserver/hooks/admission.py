"""What the rules say of a write that a real API server asks about: the embedded server's own, one by one. For `asgi`.

`complete` is asked by webhooks that change objects, `judge` by those that come last and only allow or refuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.apiserver.admission.cards import with_cards
from muster.apiserver.admission.jobs import JobAdmission, Look
from muster.apiserver.hooks.cluster import Cluster, check_use, looked_up
from muster.apiserver.hooks.reviews import Asked
from muster.apiserver.kinds.kueue import KUEUE
from muster.dialects.hami.webhook import Webhook
from muster.dialects.kueue.defaults import apply_defaults
from muster.dialects.kueue.forgiving import forgive, queue_name_of_job
from muster.dialects.kueue.job_admission import JobRules
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.validate import check
from muster.engine.contracts import JobKind
from muster.model.errors import InvalidObject
from muster.store.kinds import Object
from muster.store.records import Key

_WORKLOADS = f"workloads.{GROUP}"
_LOOSE = InvalidObject(
    "spec", "lets it start before its queue does", "leave out what undoes Muster's own changes to it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRules:
    """What the configuration says of objects on their way in."""

    kinds: tuple[JobKind, ...]
    jobs: JobRules
    checks_use: bool = False  # whether submitting to a queue needs the right to use it
    own_user: str = ""  # Muster's own, who submits on behalf of others that were asked
    cards: Webhook | None = None  # what completes pods that ask for cards; None: nobody does


class Rules:
    """The rules on a cluster."""

    def __init__(self, rules: HookRules, cluster: Cluster) -> None:
        self._rules = rules
        self._cluster = cluster
        self._job_resources = frozenset(kind.resource for kind in rules.kinds)

    async def complete(self, asked: Asked) -> Object | None:
        """The object as it is to be kept; None where nothing is to be said about it. Raises `InvalidObject`."""
        given = asked.object
        if given is None or asked.subresource or asked.operation not in ("CREATE", "UPDATE"):
            return None
        if asked.resource in KUEUE and asked.is_new:
            return apply_defaults(given, self._rules.jobs.gates, is_strict=self._rules.jobs.is_strict)
        if asked.resource in self._job_resources:
            job = _in_namespace(given, asked)

            def rule(look: Look) -> Object:
                jobs = self._jobs(look)
                return jobs.complete_new(asked.resource, job) if asked.is_new else jobs.complete(asked.resource, job)

            return await looked_up(self._cluster, rule)
        return None

    def complete_cards(self, asked: Asked) -> Object | None:
        """A new pod with what it needs for the cards that it asks for. Raises `InvalidObject` and `Forbidden`.

        What a namespace may use of them is counted by the API server, as of everything else that pods ask for.
        """
        given, webhook = asked.object, self._rules.cards
        if webhook is None or given is None or asked.resource != "pods" or asked.subresource or not asked.is_new:
            return None
        return with_cards(Key("pods", asked.namespace, asked.name), given, webhook, {})

    def read_as_meant(self, asked: Asked) -> Iterable[str]:
        """What the author of a new workload should know that the completed one no longer shows."""
        if asked.object is None or not asked.is_new or asked.resource != _WORKLOADS or self._rules.jobs.is_strict:
            return ()
        return [str(one) for one in forgive(asked.object)[1]]

    async def judge(self, asked: Asked) -> Iterable[str]:
        """What the author of an object should know; raises `InvalidObject` or `Problem` where it must not be kept."""
        given = asked.object
        if given is None or asked.operation not in ("CREATE", "UPDATE"):
            return ()
        warnings: Iterable[str] = ()
        if asked.resource in KUEUE:
            rules = self._rules.jobs
            found = check(given, old=asked.before, gates=rules.gates, strict=rules.is_strict)
            warnings = [str(one) for one in found] if not asked.subresource else ()
        elif asked.resource in self._job_resources and not asked.subresource:
            await self._judge_job(asked, _in_namespace(given, asked))
            warnings = [str(one) for one in queue_name_of_job(given, strict=self._rules.jobs.is_strict)[1]]
        if self._rules.checks_use and not asked.subresource and asked.user.name != self._rules.own_user:
            await self._check_use(asked, _in_namespace(given, asked))
        return warnings

    async def _judge_job(self, asked: Asked, job: Object) -> None:
        before = asked.before

        def rule(look: Look) -> bool:
            jobs = self._jobs(look)
            if before is None:
                return jobs.is_loose(asked.resource, job)
            jobs.check_change(asked.resource, job, _in_namespace(before, asked))
            return False

        if await looked_up(self._cluster, rule):
            raise _LOOSE

    async def _check_use(self, asked: Asked, given: Object) -> None:
        queue = await looked_up(
            self._cluster, lambda look: self._jobs(look).queue_asked_for(asked.resource, given, asked.before)
        )
        if queue:
            await check_use(self._cluster, asked.user, asked.namespace, queue)

    def _jobs(self, look: Look) -> JobAdmission:
        return JobAdmission(look, self._rules.kinds, self._rules.jobs)


def _in_namespace(given: Object, asked: Asked) -> Object:
    """An object that says where it is: new ones need not."""
    metadata = given.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return given
    return {**given, "metadata": {**metadata, "namespace": asked.namespace}}
