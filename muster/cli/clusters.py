"""`muster clusters`: the clusters that workloads are sent to, and what each of them has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.output import Exit, Page

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="How to reach the cluster that sends [default: as manage]."),
]
Context = Annotated[str, typer.Option("--context", metavar="NAME", help="Use this context of the kubeconfig.")]
HEAD = ("NAME", "STATE", "OFFERED", "RUNNING", "FINISHED", "PROBLEM")


def clusters(kubeconfig: Kubeconfig = None, context: Context = "") -> None:
    """Show the clusters that workloads are sent to."""
    import asyncio

    from muster.app.clusters import look
    from muster.model.errors import InvalidObject
    from muster.store.errors import StoreError
    from muster.store.kube_config import default_access, read_kubeconfig

    try:
        access = read_kubeconfig(kubeconfig, context=context) if kubeconfig else default_access(context=context)
        lines = asyncio.run(look(access))
    except (InvalidObject, StoreError) as problem:
        typer.echo(f"muster clusters: {problem}", err=True)
        raise typer.Exit(Exit.REFUSED) from None
    if not lines:
        typer.echo("There are no MultiKueueClusters.")
        return
    rows = [(one.name, one.state, str(one.offered), str(one.running), str(one.finished), one.problem) for one in lines]
    Page(sys.stdout).table(HEAD, rows)
