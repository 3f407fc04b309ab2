"""`muster user`: a kubeconfig for somebody other than the administrator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.output import Exit
from muster.cli.up import Data

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name, as roles are bound to it.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The kubeconfig to write.")]
Groups = Annotated[list[str] | None, typer.Option("--group", metavar="GROUP", help="A group of the user; repeatable.")]
Days = Annotated[int, typer.Option("--days", min=1, max=365, help="For how long it is good.")]


def user(name: Name, file: File, group: Groups = None, days: Days = 30, data: Data = None) -> None:
    """Write a kubeconfig with a certificate for a user of the server in a folder."""
    from muster.apiserver.requests import User
    from muster.app.state_folder import WrongFolder, default_folder
    from muster.app.users import make_user

    folder = (data or default_folder()).absolute()
    try:
        make_user(folder, User(name, tuple(group or ())), file.absolute(), days=days)
    except WrongFolder as problem:
        typer.echo(f"muster user: {problem}", err=True)
        raise typer.Exit(Exit.REFUSED) from None
    typer.echo(f"{file} is for {name}, for {days} days. What {name} may do is for roles to say.")
