"""Kubeflow's MPIJob: a launcher and the workers that it starts processes on. Found by `app` through INTEGRATION."""

from __future__ import annotations

from muster.engine.kubeflow_jobs import training_kind

INTEGRATION = training_kind("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"), "v2beta1")
