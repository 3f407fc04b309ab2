"""Kubeflow's PaddleJob: a master and its workers. Found by `app` through INTEGRATION."""

from __future__ import annotations

from muster.engine.kubeflow_jobs import training_kind

INTEGRATION = training_kind("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker"))
