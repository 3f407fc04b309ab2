"""`muster up`: a Kubernetes API on this machine, in this process, that keeps everything it has acknowledged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.inputs import Config, Profile, configured
from muster.cli.output import Exit

if TYPE_CHECKING:
    from muster.app.run import Ready

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Keep the state there [default: muster in your state folder]."),
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Listen on this port; 0 takes any free one.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin anew: remove what an earlier server has kept there.")]
NoAudit = Annotated[bool, typer.Option("--no-audit", help="Do not write down who asks for what.")]
ApiOnly = Annotated[bool, typer.Option("--api-only", help="Serve the API alone: admit, bind and run nothing.")]
Pools = Annotated[
    Path | None, typer.Option("--nodes", metavar="FILE", help="Have the simulated nodes that this file describes.")
]
NoLocalNode = Annotated[bool, typer.Option("--no-local-node", help="Do not run pods as processes of this machine.")]

DEFAULT_PORT = 6443


def up(
    data: Data = None,
    port: Port = DEFAULT_PORT,
    *,
    fresh: Fresh = False,
    no_audit: NoAudit = False,
    api_only: ApiOnly = False,
    nodes: Pools = None,
    no_local_node: NoLocalNode = False,
    config: Config = "",
    profile: Profile = "",
) -> None:
    """Run a cluster on this machine until Ctrl-C."""
    # Loaded here, so that no other command pays for it.
    from muster.apiserver.server import CannotListen, run
    from muster.app.node_pools import read_pools
    from muster.app.nodes import NodeOptions
    from muster.app.run import UpOptions, run_embedded
    from muster.app.state_folder import WrongFolder, default_folder
    from muster.model.errors import InvalidObject
    from muster.store.errors import Unavailable

    folder = (data or default_folder()).absolute()
    configuration = configured(config, profile=profile, strict=False)
    try:
        pools = read_pools(nodes) if nodes is not None else ()
        there = None if api_only else NodeOptions(has_local=not no_local_node, pools=pools)
        options = UpOptions(
            folder=folder,
            port=port,
            is_fresh=fresh,
            has_audit=not no_audit,
            is_living=not api_only,
            nodes=there,
            configuration=configuration,
        )
        run(lambda: run_embedded(options, _say_ready))
    except (CannotListen, InvalidObject, Unavailable, WrongFolder) as problem:
        typer.echo(f"muster up: {problem}", err=True)
        raise typer.Exit(Exit.REFUSED) from None


def _say_ready(ready: Ready) -> None:
    lines = (
        f"Muster is ready at {ready.url}; Ctrl-C stops it. Kubeconfig: {ready.kubeconfig}",
        "Try, in another terminal:",
        f"  export KUBECONFIG={_quoted(ready.kubeconfig)}",
        "  kubectl get namespaces",
        "  kubectl create job hello --image=busybox -- echo hello",
    )
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))
