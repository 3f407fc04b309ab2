"""`muster demo`: three stories of a cluster, played in simulated time and told step by step."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.output import Exit, Page, complain

if TYPE_CHECKING:
    from muster.app.demo.shown import Table
    from muster.app.demo.story import Story

PAUSE_S = 2.0  # for people to read what was said

Name = Annotated[str, typer.Argument(metavar="[NAME]", help="Which one; all of them without it.", show_default=False)]
Listing = Annotated[bool, typer.Option("--list", help="Say which there are.")]
PauseS = Annotated[
    float | None,
    typer.Option(
        "--pause", metavar="SECONDS", min=0, help="Wait that long after each step [default: 2 on a terminal, else 0]."
    ),
]


def demo(name: Name = "", *, list_them: Listing = False, pause_s: PauseS = None) -> None:
    """Play stories that explain what Muster does: real objects and controllers, in simulated time."""
    from muster.app.demo.telling import DEMOS, stories_of

    if name and name not in DEMOS:
        complain(f"muster demo: there is no story {name!r}; known are {', '.join(DEMOS)}")
        raise typer.Exit(Exit.USAGE)
    page = Page(sys.stdout)
    if list_them:
        page.table(("NAME", "WHAT IT TELLS"), [(one, stories_of(one)[-1].title) for one in DEMOS])
        return
    wait_s = pause_s if pause_s is not None else PAUSE_S if sys.stdout.isatty() else 0.0
    for one in [name] if name else DEMOS:
        for story in stories_of(one):
            _tell(story, page, wait_s)


def _tell(story: Story, page: Page, pause_s: float) -> None:
    from muster.app.demo.telling import told

    page.line(f"=== {story.title} ===", "bold")
    number = 0
    for one in told(story):
        if one.say:
            number += 1
            page.line()
            page.sentence(one.say, label=f"{number}. ")
        for line in one.did:
            page.sentence(line, indent=4, label="- ", style="dim")
        for table in one.tables:
            _show(table, page)
        sys.stdout.flush()
        if one.say and pause_s:
            time.sleep(pause_s)
    page.line()


def _show(table: Table, page: Page) -> None:
    if table.header:
        page.table(table.header, table.rows, indent=4)
        return
    for row in table.rows:
        page.sentence(row[0], indent=4)
