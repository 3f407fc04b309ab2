"""Placing groups whose pods have to be near each other, or are divided into sub groups. Called by `allocate`.

Domains are tried tier by tier, the nearest first: in each the whole group is placed and taken back, and of those that
could take it the best of the first tier is taken.
"""

from __future__ import annotations

from functools import cmp_to_key

from muster.engine.session import Session
from muster.engine.session_domains import DomainNode
from muster.engine.session_order import Ordered
from muster.engine.stages.allocate import Sheet, place_pods
from muster.engine.standing import PodStanding, Standing, SubStanding


def place_near(session: Session, group: Standing, sheet: Sheet) -> bool:
    """Place a group in the best domain of the lowest tier that can take it; what was tried is off the sheet."""
    for domains in session.gradient(group, session.domains.top):
        scores: dict[str, float] = {}
        for domain in domains:
            mark = session.checkpoint()
            score = _place_in(session, group, _copied(sheet), domain)
            session.rollback(mark)
            if score is not None:
                scores[domain.name] = score
        if scores:
            best = max(domains, key=lambda domain: scores.get(domain.name, float("-inf")))
            _place_in(session, group, sheet, best)
            _settle(session, group, best)
            return True
    for pods in sheet.values():
        pods.clear()
    return False


def _place_in(session: Session, group: Standing, sheet: Sheet, domain: DomainNode) -> float | None:
    """Place sub groups in a domain until the group is ready; the score, or `None` where it comes to nothing."""
    mark = session.checkpoint()
    line = _SubLine(session, [group.subs[key] for key in sheet if sheet[key]])
    total, has_placed = 0.0, False
    while line:
        sub = line.pop()
        score = _place_sub(session, sub, sheet[sub.key], domain)
        if score is None:
            sheet[sub.key].clear()  # it is not tried again in this session
            continue
        total, has_placed = total + score, True
        if session.tiers.is_ready(group):
            break
        if sheet[sub.key]:
            line.push(sub)
    if has_placed and (session.tiers.is_ready(group) or session.tiers.is_promised(group)):
        return total
    session.rollback(mark)
    return None


class _SubLine:
    """Sub groups in line: those first that their rule still needs, then as policies have it."""

    def __init__(self, session: Session, subs: list[SubStanding]) -> None:
        self._session = session
        self._lines: dict[str, Ordered[SubStanding]] = {}
        for sub in subs:
            self.push(sub)

    def __bool__(self) -> bool:
        return any(self._lines.values())

    def push(self, sub: SubStanding) -> None:
        name = sub.rule.name if sub.rule is not None else ""
        self._lines.setdefault(name, Ordered(self._session.compare_subs)).push(sub)

    def pop(self) -> SubStanding:
        heads = [line.pop() for line in self._lines.values() if line]
        needed = [sub for sub in heads if self._is_needed(sub)] or heads
        best = min(needed, key=cmp_to_key(self._session.compare_subs))
        for sub in heads:
            if sub is not best:
                self.push(sub)
        return best

    def _is_needed(self, sub: SubStanding) -> bool:
        if sub.rule is None or not sub.rule.least:
            return False
        others = (other for other in sub.owner.subs.values() if other.rule is sub.rule)
        return sum(self._session.tiers.is_sub_ready(other) for other in others) < sub.rule.least


def _place_sub(session: Session, sub: SubStanding, pods: list[PodStanding], below: DomainNode) -> float | None:
    """Place a sub group in the best domain of the lowest tier that can take it."""
    gradient = session.gradient(sub, below) if sub.near is not None and sub.near.tier is not None else [[below]]
    for domains in gradient:
        able = [domain for domain in domains if _could_take(session, sub, pods, domain)]
        if not able:
            continue
        scores = session.domain_scores(sub, able)
        best = max(able, key=lambda domain: scores[domain.name])
        place_pods(session, sub, pods, session.rows_in(best))
        before = sub.domain
        common = session.domains.common(before, best.name)
        sub.domain = common.name if common is not None else ""

        def undo(was: str = before) -> None:
            sub.domain = was

        session.note(undo)
        return scores[best.name]
    return None


def _could_take(session: Session, sub: SubStanding, pods: list[PodStanding], domain: DomainNode) -> bool:
    mark, before = session.checkpoint(), sub.ready + sub.promised
    is_taken = place_pods(session, sub, list(pods), session.rows_in(domain)) and sub.ready + sub.promised > before
    session.rollback(mark)
    return is_taken


def _settle(session: Session, group: Standing, domain: DomainNode) -> None:
    common = session.domains.common(group.domain, domain.name)
    group.domain = common.name if common is not None else ""


def _copied(sheet: Sheet) -> Sheet:
    return {key: list(pods) for key, pods in sheet.items()}
