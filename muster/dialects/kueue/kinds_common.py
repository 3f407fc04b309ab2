"""Pieces of shape that several of Kueue's kinds share: references, labels, taints, tolerations and conditions."""

from __future__ import annotations

from muster.model.shapes import Amount, ListOf, MapOf, Moment, Schema, Struct, Text, Whole
from muster.model.shapes_pod import TOLERATION
from muster.model.texts import CONDITION_REASON, DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

PLAIN_TEXT = Text()
NAME_REFERENCE = Text(most=253, form=DNS_SUBDOMAIN)
POD_SET_NAME = Text(most=63, form=DNS_LABEL)
LABELS = MapOf(item=PLAIN_TEXT)
QUANTITIES = MapOf(item=Amount())
STOP_POLICY = Text(choices=("None", "Hold", "HoldAndDrain"))

TAINTS = ListOf(
    item=Struct(
        fields={"effect": PLAIN_TEXT, "key": PLAIN_TEXT, "timeAdded": Moment(), "value": PLAIN_TEXT},
        required=("effect", "key"),
    ),
    most=8,
    is_atomic=True,
)
TOLERATIONS = ListOf(item=TOLERATION, most=8, is_atomic=True)


def conditions(*, is_hub: bool) -> Schema:
    """The list of conditions in a status; the newer version bounds its length."""
    condition = Struct(
        fields={
            "lastTransitionTime": Moment(),
            "message": Text(most=32768),
            "observedGeneration": Whole(least=0, is_long=True),
            "reason": Text(least=1, most=1024, form=CONDITION_REASON),
            "status": Text(choices=("True", "False", "Unknown")),
            "type": Text(most=316, form=QUALIFIED_NAME),
        },
        required=("lastTransitionTime", "message", "reason", "status", "type"),
    )
    return ListOf(item=condition, most=16 if is_hub else None, keys=("type",))
