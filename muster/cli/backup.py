"""`muster backup` and `muster restore`: copies of what an embedded server keeps, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.output import Exit

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Where the server keeps its state.")]
Copy = Annotated[Path, typer.Argument(metavar="FILE", help="The copy.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the state that is there.")]


def backup(folder: Folder, file: Copy) -> None:
    """Copy all objects of a server to a new file, whether the server runs or not."""
    from muster.app.backups import make_backup
    from muster.app.state_folder import WrongFolder
    from muster.store.errors import Unavailable

    try:
        revision = make_backup(folder.absolute(), file.absolute())
    except (Unavailable, WrongFolder) as problem:
        raise _refused("backup", problem) from None
    typer.echo(f"{file} holds everything up to revision {revision}.")


def restore(file: Copy, folder: Folder, force: Force = False) -> None:
    """Make a server's state out of a copy; the server must not run."""
    from muster.app.backups import restore_backup
    from muster.app.state_folder import WrongFolder
    from muster.store.errors import Unavailable

    try:
        revision = restore_backup(file.absolute(), folder.absolute(), is_overwriting=force)
    except (Unavailable, WrongFolder) as problem:
        raise _refused("restore", problem) from None
    typer.echo(f"{folder} is restored; it goes on from revision {revision}.")


def _refused(command: str, problem: Exception) -> typer.Exit:
    typer.echo(f"muster {command}: {problem}", err=True)
    return typer.Exit(Exit.REFUSED)
