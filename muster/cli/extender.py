"""`muster extender`: gives shares of cards to pods of a cluster's own kube-scheduler, as HAMi's scheduler does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.manage import Context, Kubeconfig
from muster.cli.output import Exit

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Listen on this address.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Listen on this port.")]
Certificates = Annotated[
    Path, typer.Option("--certificates", metavar="FOLDER", help="Where tls.crt and tls.key are; they may change.")
]
ClientAuthority = Annotated[
    Path | None,
    typer.Option("--client-ca", metavar="FILE", help="Answer whoever shows a certificate of this authority."),
]
ClientNames = Annotated[
    list[str] | None,
    typer.Option("--client-name", metavar="NAME", help="Of those, answer only this one; may be given several times."),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Answer whoever sends this bearer token.")
]
DeviceConfig = Annotated[
    Path | None, typer.Option("--device-config", metavar="FILE", help="HAMi's device-config.yaml, as it is.")
]
SchedulerName = Annotated[
    str, typer.Option("--scheduler-name", metavar="NAME", help="The scheduler that pods with cards are given to.")
]


def extender(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    *,
    certificates: Certificates,
    host: Host = "0.0.0.0",
    port: Port = 9444,
    client_ca: ClientAuthority = None,
    client_name: ClientNames = None,
    token_file: TokenFile = None,
    device_config: DeviceConfig = None,
    scheduler_name: SchedulerName = "hami-scheduler",
) -> None:
    """Answer a stock kube-scheduler about shares of cards until Ctrl-C."""
    # Loaded here, so that no other command pays for it.
    import logging

    from muster.apiserver.server import run
    from muster.app.card_extender import CardOptions, callers_of, configured_vendors, run_extender
    from muster.dialects.hami.settings import HamiSettings
    from muster.model.errors import InvalidObject
    from muster.store.kube_config import default_access, read_kubeconfig

    try:
        callers, authorities = callers_of(token_file, client_ca, client_name or ())
        options = CardOptions(
            access=read_kubeconfig(kubeconfig, context=context) if kubeconfig else default_access(context=context),
            host=host,
            port=port,
            certificates=certificates,
            callers=callers,
            authorities=authorities,
            vendors=configured_vendors(device_config),
            settings=HamiSettings(scheduler=scheduler_name),
        )
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        run(lambda: run_extender(options, _say_ready))
    except InvalidObject as problem:
        typer.echo(f"muster extender: {problem}", err=True)
        raise typer.Exit(Exit.REFUSED) from None


def _say_ready(port: int) -> None:
    sys.stdout.write(f"Muster answers schedulers on port {port}; Ctrl-C stops it.\n")
    sys.stdout.flush()
