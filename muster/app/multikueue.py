"""Sending workloads to other clusters, put together: what the configuration says of it becomes rules here.

Called wherever jobs are controlled. How another cluster is reached is said by whoever calls.
"""

from __future__ import annotations

from muster.app.config import Configuration
from muster.app.job_control import managed_kinds
from muster.controllers.feed import Changes
from muster.controllers.jobs import indexes
from muster.controllers.multikueue.clusters import Open
from muster.controllers.multikueue.parts import MultiKueue, sent_kinds
from muster.controllers.multikueue.remote import ReadSecret, Ways, opener
from muster.controllers.multikueue.sender import CLUSTER_QUEUES, LOCAL_QUEUES
from muster.dialects.kueue.multikueue import SendingRules
from muster.engine.dispatch import Dispatch, Preference
from muster.store.client import Client
from muster.store.clock import Clock

_ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
_INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
BEST = {
    "muster.dev/multikueue-dispatcher-free-capacity": Preference.FREE_CAPACITY,
    "muster.dev/multikueue-dispatcher-price": Preference.PRICE,
    "muster.dev/multikueue-dispatcher-data": Preference.DATA,
}


def sending_rules(configuration: Configuration) -> SendingRules:
    """What a configuration says of several clusters."""
    chosen, kinds = configuration.multikueue, sent_kinds(managed_kinds(configuration))
    if chosen is None:
        return SendingRules(kinds=kinds)
    return SendingRules(
        kinds=kinds,
        dispatch=_dispatch(chosen.dispatcher, chosen.step_size),
        origin=chosen.origin,
        lost_s=chosen.worker_lost_timeout_s,
    )


def _dispatch(name: str, step: int) -> Dispatch:
    if name == _ALL_AT_ONCE:
        return Dispatch()
    if name == _INCREMENTAL:
        return Dispatch(step=step)
    if name in BEST:
        return Dispatch(step=1, preference=BEST[name])
    return Dispatch(is_outside=True)


def ways_out(configuration: Configuration, clock: Clock, secret: ReadSecret) -> Open:
    """The way to other clusters by the kubeconfigs in Secrets of this one, and in files."""
    rules = sending_rules(configuration)
    is_by_best = rules.dispatch.preference is not Preference.AS_LISTED
    return opener(
        Ways(
            secret=secret,
            clock=clock,
            origin=rules.origin,
            jobs=tuple(kind.resource for kind in rules.kinds),
            queues=(LOCAL_QUEUES, CLUSTER_QUEUES) if is_by_best else (),
            indexes=indexes(rules.kinds),
        )
    )


def multikueue(feed: Changes, client: Client, clock: Clock, *, configuration: Configuration, open_: Open) -> MultiKueue:
    """What sends workloads of one cluster to others."""
    return MultiKueue(feed, client, clock, rules=sending_rules(configuration), open_=open_)
