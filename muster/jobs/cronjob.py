"""Kubernetes' own CronJob: each Job that it makes waits. Found by `app` through INTEGRATION."""

from __future__ import annotations

from typing import Any

from muster.engine.contracts import Carried, Carrier, GroupVersionKind
from muster.engine.pod_templates import labelled
from muster.model.fields import Fields


def _carry(cron_job: Fields, carried: Carried) -> dict[str, Any]:
    spec = cron_job.child("spec")
    template = labelled(spec.child("jobTemplate"), carried.labels, {})
    return {**cron_job.values, "spec": {**spec.values, "jobTemplate": template}}


INTEGRATION = Carrier(
    name="batch/cronjob",
    gvk=GroupVersionKind("batch", "v1", "CronJob"),
    plural="cronjobs",
    carry=_carry,
    is_active=lambda _cron_job: False,  # the next Job may wait elsewhere
    makes="Job",
    made_as="batch/job",
)
