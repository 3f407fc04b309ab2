"""Volcano's job plugins, by name: what each adds to pods, and the objects it has beside them. Used by `steps`."""

from __future__ import annotations

from collections.abc import Mapping

from muster.dialects.volcano.job.plugins import env, hcclrank, mpi, pytorch, ray, ssh, svc, tensorflow
from muster.dialects.volcano.job.plugins.contract import Flags, JobPlugin, Keys, PluginObject, read_flags

# Those that others build on come first: what svc and ssh add is there when the frameworks look at a pod. hcclrank reads
# the rank that pytorch writes.
PLUGINS: Mapping[str, JobPlugin] = {
    one.name: one
    for one in (
        svc.PLUGIN,
        ssh.PLUGIN,
        env.PLUGIN,
        tensorflow.PLUGIN,
        pytorch.PLUGIN,
        mpi.PLUGIN,
        ray.PLUGIN,
        hcclrank.PLUGIN,
    )
}

__all__ = ["PLUGINS", "Flags", "JobPlugin", "Keys", "PluginObject", "read_flags"]
