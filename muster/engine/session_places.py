"""Where one pod of a session may go and goes best. Asked by the stages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muster.engine.gangs import may_stand
from muster.engine.node_table_rows import BoolArray, FloatArray, IntArray, Placed
from muster.engine.session import Session
from muster.engine.standing import PodStanding


def fitting_rows(session: Session, pod: PodStanding, within: BoolArray | None = None) -> BoolArray:
    """The rows that will have room for a pod and let it in."""
    return _narrowed(session, pod, session.placer.fits(pod.demand), within)


def open_rows(session: Session, pod: PodStanding, within: BoolArray | None = None) -> BoolArray:
    """The rows that could let a pod in if others left."""
    rows = may_stand(session.placer, pod.demand)
    if pod.demand.rules.affinity:
        # Kubernetes: no pod's going brings others near that are wanted near.
        near = replace(pod.demand.rules, anti_affinity=(), ports=frozenset(), spread=())
        rows = rows & session.placer.fits(replace(pod.demand, amounts=(), cards=0, milli=0, ask=None, rules=near))
    return _narrowed(session, pod, rows, within)


def rule_rows(session: Session, pod: PodStanding) -> BoolArray:
    """The rows where all rules of a pod hold as things stand, whatever room there is."""
    return session.placer.fits(replace(pod.demand, amounts=(), cards=0, milli=0, ask=None))


def _narrowed(session: Session, pod: PodStanding, rows: BoolArray, within: BoolArray | None) -> BoolArray:
    for fit in session.fit_pods:
        allowed = fit(pod)
        if allowed is not None:
            rows = rows & allowed
    if within is not None:
        rows = rows & within
    if session.shard is not None and session.is_sharded_hard:
        rows = rows & session.shard
    return rows


def classes(session: Session, rows: BoolArray) -> list[BoolArray]:
    """Rows by how gladly they are taken: those of the own shard before others."""
    shard = session.shard
    return [rows] if shard is None else [rows & shard, rows & ~shard]


def best_place(session: Session, pod: PodStanding, rows: BoolArray) -> Placed | None:
    """The best of some rows for a pod, and its cards there."""
    if not rows.any():
        return None
    if not session.score_pods:
        return session.placer.find(pod.demand, within=rows)
    index = np.flatnonzero(rows)
    for row in index[np.argsort(-scores(session, pod, index), kind="stable")].tolist():
        placed = place_on(session, pod, row)
        if placed is not None:
            return placed
    return None


def place_on(session: Session, pod: PodStanding, row: int) -> Placed | None:
    """The cards that a pod gets on a row; `None` where it does not fit."""
    only = np.zeros(session.rows, np.bool_)
    only[row] = True
    return session.placer.find(pod.demand, within=only)


def scores(session: Session, pod: PodStanding, index: IntArray) -> FloatArray:
    """What some rows score for a pod, all policies together."""
    total = session.placer.scores(pod.demand, index)
    for score in session.score_pods:
        more = score(pod, index)
        if more is not None:
            total = total + more
    return total


def by_score(session: Session, pod: PodStanding, rows: BoolArray) -> list[int]:
    """Rows, the best first; those of the own shard before others."""
    found: list[int] = []
    for group in classes(session, rows):
        index = np.flatnonzero(group)
        found.extend(index[np.argsort(-scores(session, pod, index), kind="stable")].tolist())
    return found
