"""Kubeflow's TFJob: a chief or master, parameter servers, workers, an evaluator. Found by `app` through INTEGRATION."""

from __future__ import annotations

from muster.engine.kubeflow_jobs import training_kind

INTEGRATION = training_kind("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator"))
