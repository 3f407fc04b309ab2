"""The `muster` command. The console script of the package points here."""

from __future__ import annotations

import typer

from muster import __version__

app = typer.Typer(help="Queues, quota, gangs and shares of cards for AI and batch clusters.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """Keep `version` a command of its own: with a single command typer would take its name away."""


@app.command()
def version() -> None:
    """Say which version this is."""
    typer.echo(__version__)
