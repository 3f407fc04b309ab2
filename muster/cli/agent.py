"""`muster agent`: finds the cards of a node, tells the kubelet of them, and gives containers their shares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.manage import Context, Kubeconfig
from muster.cli.output import Exit

NodeName = Annotated[str, typer.Option("--node", envvar="NODE_NAME", metavar="NAME", help="The node that this is.")]
HamiConfig = Annotated[
    str,
    typer.Option("--hami-config", metavar="NAMESPACE/NAME", help="Give cards out as this ConfigMap of HAMi's says."),
]
Runtime = Annotated[
    str,
    typer.Option(
        "--runtime",
        metavar="cdi|env",
        help="How containers get their shares: by CDI files, or by variables where the runtime knows no CDI.",
    ),
]
Evict = Annotated[
    bool, typer.Option("--evict", help="Evict pods that use 110 % of what they were given for 10 seconds.")
]
Metrics = Annotated[
    Path | None, typer.Option("--metrics", metavar="FILE", help="Write figures for Prometheus' node exporter here.")
]
State = Annotated[Path, typer.Option("--state", metavar="FOLDER", help="What the agent keeps on its machine.")]


def agent(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    *,
    node: NodeName,
    hami_config: HamiConfig = "",
    runtime: Runtime = "cdi",
    evict: Evict = False,
    metrics: Metrics = None,
    state: State = Path("/var/lib/muster/agent"),
) -> None:
    """Serve the cards of this node until Ctrl-C; needs the extra muster[node]."""
    # Loaded here, so that no other command pays for it.
    import asyncio
    import importlib.util
    import logging

    from muster.agent.inventories.nvidia import NvidiaInventory
    from muster.agent.plugin.containers import Places
    from muster.app.agent import AgentOptions, run_agent, settings_for
    from muster.dialects.hami.node_lock import BY_COUNT, BY_UID
    from muster.model.errors import InvalidObject
    from muster.store.errors import StoreError
    from muster.store.kube_config import default_access, read_kubeconfig

    try:
        if runtime not in (BY_UID, BY_COUNT):
            raise InvalidObject("--runtime", f"is {runtime[:80]!r}", f"give {BY_UID} or {BY_COUNT}")
        if importlib.util.find_spec("grpc") is None:
            raise InvalidObject("muster[node]", "is not installed", "pip install 'muster[node]'")
        access = read_kubeconfig(kubeconfig, context=context) if kubeconfig else default_access(context=context)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        options = AgentOptions(
            access=access,
            node=node,
            settings=asyncio.run(settings_for(access, hami_config, node)),
            mode=runtime,
            places=Places(state=str(state)),
            evicts=evict,
            metrics=metrics,
        )
        asyncio.run(run_agent(options, NvidiaInventory(), lambda: _say_ready(node)))
    except (InvalidObject, StoreError) as problem:
        typer.echo(f"muster agent: {problem}", err=True)
        raise typer.Exit(Exit.REFUSED) from None


def _say_ready(node: str) -> None:
    sys.stdout.write(f"Muster serves the cards of {node}; Ctrl-C stops it.\n")
    sys.stdout.flush()
