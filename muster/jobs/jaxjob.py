"""Kubeflow's JAXJob: workers that find each other. Found by `app` through INTEGRATION."""

from __future__ import annotations

from muster.engine.kubeflow_jobs import training_kind

INTEGRATION = training_kind("JAXJob", "jaxReplicaSpecs", ("Worker",))
