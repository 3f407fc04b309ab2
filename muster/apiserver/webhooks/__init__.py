"""Webhooks and policies of admission: who is asked before a write is kept. See docs/admission.md.

`Webhooks` is the way in: `mutate` and `validate`, awaited by the handlers of writes, outside of any transaction.
"""

from muster.apiserver.webhooks.attributes import Attributes, Operation
from muster.apiserver.webhooks.dispatch import Webhooks

__all__ = ["Attributes", "Operation", "Webhooks"]
