"""Pieces of shape that several of Kueue's kinds share: references, labels, taints, tolerations and conditions."""

from __future__ import annotations

from muster.model.shapes import Amount, ListOf, MapOf, Moment, Schema, Struct, Text
from muster.model.shapes_conditions import CONDITION
from muster.model.shapes_pod import TOLERATION
from muster.model.texts import DNS_LABEL, DNS_SUBDOMAIN

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
    return ListOf(item=CONDITION, most=16 if is_hub else None, keys=("type",))
