"""`muster manage`: admits, places and runs the jobs of a real cluster, beside its own control plane."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.inputs import Config, Profile, configured
from muster.cli.output import Exit

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="How to reach the cluster [default: $KUBECONFIG, the pod's service account, or ~/.kube/config].",
    ),
]
Context = Annotated[str, typer.Option("--context", metavar="NAME", help="Use this context of the kubeconfig.")]
SimulatedNodes = Annotated[
    Path | None,
    typer.Option("--simulated-nodes", metavar="FILE", help="Play the simulated nodes that this file describes."),
]
Webhooks = Annotated[
    str,
    typer.Option(
        "--webhooks",
        metavar="WHERE",
        help="Answer the cluster's webhooks, which it reaches by the 'service' of the configuration or at a URL.",
    ),
]
InFlight = Annotated[int, typer.Option("--requests-in-flight", min=1, help="Send at most so many requests at once.")]
Timeout = Annotated[float, typer.Option("--request-timeout", min=0.1, help="Give a request up after so many seconds.")]
LeaderElect = Annotated[
    bool | None,
    typer.Option(
        "--leader-elect/--no-leader-elect",
        help="Act only while holding the lease, so that several may run [default: as configured, else yes].",
        show_default=False,
    ),
]

IN_FLIGHT = 24
TIMEOUT_S = 30.0


def manage(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    *,
    requests_in_flight: InFlight = IN_FLIGHT,
    request_timeout: Timeout = TIMEOUT_S,
    leader_elect: LeaderElect = None,
    simulated_nodes: SimulatedNodes = None,
    webhooks: Webhooks = "",
    config: Config = "",
    profile: Profile = "",
) -> None:
    """Manage the jobs of a cluster until Ctrl-C."""
    # Loaded here, so that no other command pays for it.
    from muster.model.errors import InvalidObject
    from muster.store.kube_config import default_access, read_kubeconfig

    configuration = configured(config, profile=profile, strict=False)
    if leader_elect is not None:
        configuration = replace(configuration, election=replace(configuration.election, is_on=leader_elect))
    try:
        access = read_kubeconfig(kubeconfig, context=context) if kubeconfig else default_access(context=context)
        # What takes longest to load comes last: a wrong file is said at once.
        import logging

        from muster.apiserver.server import run
        from muster.app.hooks import reached_at
        from muster.app.manage import ManageOptions, run_beside
        from muster.app.node_pools import read_pools
        from muster.store.kube import Limits

        options = ManageOptions(
            access=access,
            limits=Limits(in_flight=requests_in_flight, timeout_s=request_timeout),
            configuration=configuration,
            pools=read_pools(simulated_nodes) if simulated_nodes is not None else (),
            hooks=reached_at(webhooks, configuration) if webhooks else None,
        )
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        run(lambda: run_beside(options, lambda: _say_ready(access.url)))
    except InvalidObject as problem:
        typer.echo(f"muster manage: {problem}", err=True)
        raise typer.Exit(Exit.REFUSED) from None


def _say_ready(url: str) -> None:
    sys.stdout.write(f"Muster manages {url}; Ctrl-C stops it.\n")
    sys.stdout.flush()
