"""Writing a status only where it says something new. Used by all controllers of this folder."""

from __future__ import annotations

from muster.controllers.loop import Turn
from muster.store.kinds import Object


async def put_status(turn: Turn, owner: Object, status: Object) -> None:
    """Write the status of the object that a turn is about, unless it has it already."""
    if (owner.get("status") or {}) != status:
        await turn.update_status(turn.key, {**owner, "status": status})
