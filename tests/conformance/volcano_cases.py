"""Volcano's recorded cases: sessions whose actions run once, and answers of single plugins."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from muster.engine.session import Session, phase_at_close
from muster.engine.session_places import scores
from muster.engine.stages.groups import run_stages
from muster.model.groups import PodStatus
from tests.conformance.cases import Case, Mismatch, Skip, expect_equal
from tests.conformance.volcano_objects import open_session

TOLERANCE = 1e-8
TOPOLOGY_TOLERANCE = 0.1
CLAIM_KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
QUOTA_OF_CLAIMS = "deviceclass/"
NEEDS_CLAIMS = "needs dynamic resource allocation"


def run_volcano(case: Case) -> None:
    """Replay one case."""
    if case.body.get("testOnlyPlugins"):
        raise Skip(f"needs a plugin of Volcano's own tests: {', '.join(case.body['testOnlyPlugins'])}")
    if any(obj["kind"] in CLAIM_KINDS or QUOTA_OF_CLAIMS in str(obj.get("spec")) for obj in case.body["objects"]):
        raise Skip(NEEDS_CLAIMS)
    session, configuration = open_session(case)
    if case.body["kind"] == "session":
        run_stages(session, configuration.actions)
        _check_session(session, case.body)
    else:
        session.use_policies()
        _check_functions(session, case.body["expect"])


# Sessions ------------------------------------------------------------------------------------------------------------


def _check_session(session: Session, body: dict[str, Any]) -> None:
    expect, outcome = body["expect"], session.outcome
    check = expect.get("bindCheck")
    if check == "exact":
        expect_equal("binds", outcome.binds, expect["binds"])
    if check is not None:
        expect_equal(f"number of binds, {outcome.binds}", len(outcome.binds), expect["bindsNum"])
    if "bindNumsPerHyperNode" in expect:
        counts = Counter(session.domains.leaf_of(node).name for node in outcome.binds.values())
        expect_equal("binds per domain", sorted(counts.values()), sorted(expect["bindNumsPerHyperNode"]))
    if "evicted" in expect:
        expect_equal("evicted", Counter(outcome.evicted), Counter(expect["evicted"]))
    for group, nodes in expect.get("pipelined", {}).items():
        found = [pod.node for pod in session.groups[group].pods.values() if pod.status is PodStatus.PIPELINED]
        if not found or not set(found) <= set(nodes):
            raise Mismatch(f"pipelined of {group}\n      got  {found}\n      want {nodes}")
    for group, phase in expect.get("podGroupStatus", {}).items():
        standing = session.groups[group]
        closed = phase_at_close(standing, is_unschedulable=not session.tiers.is_ready(standing))
        # A case does not say whether its phase is that of the actions or of the close after them.
        if phase not in (standing.phase.value, closed.value):
            raise Mismatch(f"phase of {group}\n      got  {standing.phase.value}, {closed.value}\n      want {phase}")
    for group, numbers in expect.get("taskStatusNums", {}).items():
        counted = {status.value: count for status, count in session.groups[group].by_status.items() if count}
        expect_equal(f"pods of {group}", counted, numbers)
    if "jobAllocatedNotVerifiedByUpstream" in expect:
        for group, amounts in body["observed"]["jobAllocated"].items():
            held = session.groups[group].allocated
            want = {name: amount for name, amount in amounts.items() if amount}
            expect_equal(f"held by {group}", {name: held.get(name, 0) for name in want}, want)


# Functions -----------------------------------------------------------------------------------------------------------


def _check_functions(session: Session, expect: dict[str, Any]) -> None:
    for key, want in expect.get("nodeScores", {}).items():
        _compare_scores(session, key, want, TOLERANCE)
    if "pendingTaskNodeScores" in expect:
        [pending] = [pod.key for pod in session.pods.values() if pod.status is PodStatus.PENDING]
        _compare_scores(session, pending, expect["pendingTaskNodeScores"], TOPOLOGY_TOLERANCE)
    for key, scored in expect.get("hyperNodeScoresOfSubJob", {}).items():
        _check_domain_scores(session, key, scored)
    for key, want in expect.get("predicateStatus", {}).items():
        fits = _fits(session, key)
        got = {node: fits[node] for node in want}
        expect_equal(f"where {key} is let in", got, {node: code == 0 for node, code in want.items()})
    if "feasibleNodes" in expect:
        for key in session.pods:
            wanted = sorted(node for node, is_wanted in expect["feasibleNodes"].items() if is_wanted)
            expect_equal(f"nodes of {key}", sorted(_allowed(session, key)), wanted)
    if "feasible" in expect:
        for key in session.pods:
            expect_equal(f"whether {key} fits", set(_fits(session, key).values()), {expect["feasible"]})
    if "allJobsEnqueueable" in expect:
        answers = []
        for group in session.groups.values():
            answers.append(session.tiers.is_enqueueable(group))
            session.tiers.note_enqueued(group)
        expect_equal("all groups are taken up", all(answers), expect["allJobsEnqueueable"])
    if "victimsNum" in expect:
        running = [pod for pod in session.pods.values() if pod.status is PodStatus.RUNNING]
        expect_equal("victims", len(session.tiers.wanted(running)), expect["victimsNum"])


def _compare_scores(session: Session, key: str, want: dict[str, float], tolerance: float) -> None:
    pod = session.pods[key]
    rows = [session.placer.table.row_of(node) for node in want]
    got = dict(zip(want, scores(session, pod, np.array(rows)).tolist(), strict=True))
    if any(abs(got[node] - value) > tolerance for node, value in want.items()):
        raise Mismatch(f"scores of {key}\n      got  {got}\n      want {want}")


def _check_domain_scores(session: Session, key: str, want: dict[str, float]) -> None:
    [sub] = [sub for group in session.groups.values() for sub in group.subs.values() if sub.key == key]
    got = session.domain_scores(sub, [session.domains.nodes[name] for name in want])
    if any(abs(got[name] - value) > TOPOLOGY_TOLERANCE for name, value in want.items()):
        raise Mismatch(f"scores of domains for {key}\n      got  {got}\n      want {want}")


def _fits(session: Session, key: str) -> dict[str, bool]:
    return {node: node in _allowed(session, key) for node in session.snapshot.nodes}


def _allowed(session: Session, key: str) -> set[str]:
    """Where policies let a pod in, whatever room there is."""
    pod = session.pods[key]
    rows = np.ones(session.rows, np.bool_)
    for fit in session.fit_pods:
        mask = fit(pod)
        if mask is not None:
            rows &= mask
    for hook in session.placer.fit_hooks:
        rows &= hook(pod.demand, session.placer.table.rows())
    return {session.placer.table.names[row] for row in np.flatnonzero(rows).tolist()}
