"""shuffle: running pods that policies want elsewhere are told to go. Volcano's action of that name."""

from __future__ import annotations

from muster.engine.session import Session
from muster.model.groups import PodStatus


def shuffle(session: Session) -> None:
    """Evict what the policies name, each pod by itself."""
    running = [pod for pod in session.pods.values() if pod.status is PodStatus.RUNNING and pod.row >= 0]
    for pod in session.tiers.wanted(running):
        session.evict(pod)
