"""The shape of a condition in a status, as Kubernetes has it since there is one for all kinds."""

from __future__ import annotations

from muster.model.shapes import Moment, Struct, Text, Whole
from muster.model.texts import CONDITION_REASON, QUALIFIED_NAME

CONDITION = Struct(
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
