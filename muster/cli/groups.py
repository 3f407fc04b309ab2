"""Groups of pods in the output of `muster plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from muster.cli.output import Page
from muster.cli.places import slot_object, slots_text

if TYPE_CHECKING:
    from muster.app.groups import GroupView

SHOWN_MOST = 8


def write_groups(groups: Sequence[GroupView], page: Page) -> None:
    """A line for each group, and where its pods go."""
    if not groups:
        return
    page.line()
    page.line("GROUPS", "bold")
    rows = [
        (one.key, one.queue, one.phase, str(one.minimum), str(len(one.binds)), str(len(one.promised)), str(one.waiting))
        for one in groups
    ]
    page.table(("NAME", "QUEUE", "PHASE", "MINIMUM", "START", "PROMISED", "WAIT"), rows, indent=2)
    for one in groups:
        for said, places in (("start", one.binds), ("promised", one.promised)):
            if places:
                shown = [
                    f"{pod.rpartition('/')[2]} on {slots_text([one.slots[pod]])}" for pod in list(places)[:SHOWN_MOST]
                ]
                more = [f"and {len(places) - SHOWN_MOST} more"] if len(places) > SHOWN_MOST else []
                page.sentence(f"{one.key}: {said} {', '.join([*shown, *more])}", indent=2)
        if one.evicted:
            page.sentence(f"{one.key}: told to go {', '.join(one.evicted[:SHOWN_MOST])}", indent=2)
        if one.why:
            page.sentence(f"{one.key} waits: {one.why}", indent=2)


def group_object(group: GroupView) -> dict[str, Any]:
    """A group as plain data."""
    return {
        "name": group.key,
        "queue": group.queue,
        "phase": group.phase,
        "minimum": group.minimum,
        "binds": dict(group.binds),
        "promised": dict(group.promised),
        "slots": {pod: slot_object(slot) for pod, slot in group.slots.items()},
        "evicted": list(group.evicted),
        "waiting": group.waiting,
        "why": group.why,
    }
