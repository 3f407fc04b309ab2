"""Why a node does not take a pod: the kinds of refusal and their words. Given by the fit filters, told by `fit.py`."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from muster.engine.node_table_rows import BoolArray


class Misfit(Enum):
    """What keeps a pod off a node; the value is said of nodes, with what it is about."""

    UNSCHEDULABLE = "cordoned"
    NOT_READY = "not ready"
    TAINT = "with the taint {about}"
    NODE_SELECTOR = "without the labels that the pod or its flavor asks for"
    NODE_AFFINITY = "outside the node affinity"
    PORTS = "where a host port is taken"
    RESOURCE = "short of {about}"
    POD_COUNT = "full of pods"
    CARDS = "short of cards"
    MODEL = "without a card of the models {about}"
    VOLUME = "with a volume node affinity conflict"
    SPREAD_LABEL = "without the label {about} to spread over"
    SPREAD = "where the spread over {about} would be too uneven"
    POD_AFFINITY = "away from the pods that it must be near"
    POD_ANTI_AFFINITY = "near pods that it must be away from"
    REPELLED = "near pods that must be away from it"
    POLICY = "ruled out by a policy"


class Refusal(NamedTuple):
    """One reason for which nodes refuse a pod."""

    misfit: Misfit
    about: str = ""

    @property
    def text(self) -> str:
        return self.misfit.value.format(about=self.about)


RefusedRows = tuple[Refusal, BoolArray]  # a reason and the rows that it holds for
