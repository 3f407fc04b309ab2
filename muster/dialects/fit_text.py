"""Why a pod fits nowhere, in the words that Kubernetes' scheduler uses and its users know. Used by the scheduler."""

from __future__ import annotations

from muster.engine.fit import FitReport
from muster.engine.fit_reasons import Misfit, Refusal

_WORDS = {
    Misfit.UNSCHEDULABLE: "node(s) were unschedulable",
    Misfit.NOT_READY: "node(s) were not ready",
    Misfit.NODE_SELECTOR: "node(s) didn't match Pod's node affinity/selector",
    Misfit.NODE_AFFINITY: "node(s) didn't match Pod's node affinity/selector",
    Misfit.PORTS: "node(s) didn't have free ports for the requested pod ports",
    Misfit.RESOURCE: "Insufficient {about}",
    Misfit.POD_COUNT: "Too many pods",
    Misfit.CARDS: "Insufficient {card}",
    Misfit.MODEL: "node(s) had no card of the models {about}",
    Misfit.VOLUME: "node(s) had volume node affinity conflict",
    Misfit.SPREAD_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
    Misfit.SPREAD: "node(s) didn't match pod topology spread constraints",
    Misfit.POD_AFFINITY: "node(s) didn't match pod affinity rules",
    Misfit.POD_ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    Misfit.REPELLED: "node(s) didn't satisfy existing pods anti-affinity rules",
    Misfit.POLICY: "node(s) were ruled out by a policy",
}


def unavailable_text(report: FitReport, card: str) -> str:
    """How many nodes refuse a pod for which reason, in one line; `card` is the resource that its cards are asked by."""
    counts: dict[str, int] = {}
    for refusal, count in report.refusals:
        words = _words(refusal, card)
        counts[words] = counts.get(words, 0) + count
    reasons = ", ".join(sorted(f"{count} {words}" for words, count in counts.items()))
    line = f"{report.fitting}/{report.nodes} nodes are available"
    return f"{line}: {reasons}." if reasons else f"{line}."


def _words(refusal: Refusal, card: str) -> str:
    if refusal.misfit is Misfit.TAINT:
        key, _, value = refusal.about.rpartition(":")[0].partition("=")
        return f"node(s) had untolerated taint {{{key}: {value}}}"
    return _WORDS[refusal.misfit].format(about=refusal.about, card=card)
