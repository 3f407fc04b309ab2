"""The `muster` command. The console script of the package points here; each command loads only what it needs."""

from __future__ import annotations

import typer

from muster import __version__
from muster.cli.agent import agent
from muster.cli.backup import backup, restore
from muster.cli.clusters import clusters
from muster.cli.demo import demo
from muster.cli.extender import extender
from muster.cli.inputs import FilesCommand
from muster.cli.lint import lint
from muster.cli.manage import manage
from muster.cli.plan import plan
from muster.cli.up import up
from muster.cli.user import user

app = typer.Typer(
    help="Queues, quota, gangs and shares of cards for AI and batch clusters.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(cls=FilesCommand)(plan)
app.command(cls=FilesCommand)(lint)
app.command()(up)
app.command()(manage)
app.command()(clusters)
app.command()(extender)
app.command()(agent)
app.command()(demo)
app.command()(backup)
app.command()(restore)
app.command()(user)


@app.command()
def version() -> None:
    """Say which version this is."""
    typer.echo(__version__)


if __name__ == "__main__":
    app()
