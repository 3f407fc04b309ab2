"""Sessions with few policies, and what those say of pods and nodes. Used by the tests of policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from muster.engine.profile import PolicyUse
from muster.engine.session import Session
from muster.engine.session_places import scores
from tests.groups import group, node, queue, session, snapshot


def uses(name: str, **arguments: object) -> PolicyUse:
    return PolicyUse(name=name, arguments=arguments)


def opened(*policies: str | PolicyUse, **given: Any) -> Session:
    """A session of one node, queue and group, as far as no others are given."""
    known = {"nodes": [node("n")], "queues": [queue()], "groups": [group("a")], "pods": [], **given}
    parts = [known.pop(name) for name in ("nodes", "queues", "groups", "pods")]
    found = session(snapshot(*parts, **known), *policies)
    found.use_policies()
    return found


def rows_let_in(given: Session, key: str) -> set[str]:
    """The nodes that policies let a pod go to."""
    allowed = np.ones(given.rows, np.bool_)
    for fit in given.fit_pods:
        mask = fit(given.pods[key])
        allowed = allowed if mask is None else allowed & mask
    return {name for name, is_allowed in zip(given.placer.table.names, allowed, strict=True) if is_allowed}


def score_of(given: Session, key: str) -> dict[str, float]:
    """What each node scores for a pod."""
    index = np.arange(given.rows)
    return dict(zip(given.placer.table.names, scores(given, given.pods[key], index).tolist(), strict=True))
