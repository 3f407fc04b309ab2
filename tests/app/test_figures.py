"""What a manager counts of what it sees, and how it tells of it."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from muster.app.config import MonitoringSettings
from muster.app.figures import Figures
from muster.controllers.cache import CLUSTER_QUEUES, LOCAL_QUEUES
from muster.controllers.feed import Changes
from muster.controllers.view import Seen, View
from muster.store.records import Key, Record

WORKLOAD = Key("workloads.kueue.x-k8s.io", "team", "w")
LINE = re.compile(r"[a-z_]+(\{([a-z_]+=\"[^\"\n]*\",?)+\})? [0-9.e+]+")


def a_workload(*conditions: tuple[str, str, str], queue: str = "all") -> dict:
    return {
        "metadata": {"name": "w", "namespace": "team", "creationTimestamp": "2030-01-01T00:00:00Z"},
        "status": {
            "admission": {"clusterQueue": queue} if queue else None,
            "conditions": [
                {"type": kind, "status": status, "reason": "Preempted", "lastTransitionTime": f"2030-01-01T00:{at}Z"}
                for kind, status, at in conditions
            ],
        },
    }


RESERVED = ("QuotaReserved", "True", "00:03")
ADMITTED = ("Admitted", "True", "00:30")
LOST = (("QuotaReserved", "False", "01:00"), ("Admitted", "False", "01:00"), ("Evicted", "True", "01:00"))
AGAIN = (("QuotaReserved", "True", "01:07"), ("Evicted", "False", "01:07"))
LIFE = (
    a_workload(queue=""),
    a_workload(RESERVED),
    a_workload(RESERVED, ADMITTED),
    a_workload(*LOST, queue=""),
    a_workload(*AGAIN),
)


def values(figures: Figures) -> dict[str, float]:
    lines = [line for line in figures.page().splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines), lines
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def lived(figures: Figures, *states: dict | None) -> dict[str, float]:
    for before, now in pairwise(states):
        figures.hear(Seen(WORKLOAD, before, now))
    return values(figures)


def test_what_happens_to_a_workload_is_counted_once():
    found = lived(Figures(MonitoringSettings()), None, *LIFE, None)
    queue = '{cluster_queue="all"}'
    assert found[f"kueue_quota_reserved_workloads_total{queue}"] == 2
    assert found[f"kueue_admitted_workloads_total{queue}"] == 1
    assert found[f"kueue_quota_reserved_wait_time_seconds_sum{queue}"] == 3 + 7, "the second time since its eviction"
    assert found[f"kueue_admission_wait_time_seconds_sum{queue}"] == 30
    buckets = {
        bound: found[f'kueue_quota_reserved_wait_time_seconds_bucket{{cluster_queue="all",le="{bound}"}}']
        for bound in ("2.5", "5", "10", "+Inf")
    }
    assert buckets == {"2.5": 0, "5": 1, "10": 2, "+Inf": 2}
    assert found['kueue_evicted_workloads_total{cluster_queue="all",reason="Preempted"}'] == 1


def test_what_was_so_before_is_not_counted_again():
    found = lived(Figures(MonitoringSettings()), None, a_workload(RESERVED, ADMITTED), a_workload(RESERVED, ADMITTED))
    assert not any("_total{" in name for name in found)


@pytest.mark.parametrize("has_resources", [False, True])
def test_queues_tell_what_they_have_while_this_process_leads(has_resources):
    feed, figures = Changes(View()), Figures(MonitoringSettings(has_resources=has_resources))
    amounts = [{"name": "f", "resources": [{"name": "cpu", "total": "1500m"}]}]
    quota = {"name": "cpu", "nominalQuota": "4", "borrowingLimit": "what"}
    status = {
        "conditions": [{"type": "Active", "status": "True"}],
        "pendingWorkloads": 3,
        "reservingWorkloads": 2,
        "admittedWorkloads": 1,
        "flavorsReservation": amounts,
        "flavorsUsage": amounts,
    }
    spec = {"resourceGroups": [{"flavors": [{"name": "f", "resources": [quota]}]}]}
    for number, (resource, namespace, obj) in enumerate(
        (
            (CLUSTER_QUEUES, "", {"metadata": {"name": "all"}, "spec": spec, "status": status}),
            (CLUSTER_QUEUES, "", {"metadata": {"name": "new"}}),
            (LOCAL_QUEUES, "team", {"metadata": {"name": "main", "namespace": "team"}, "status": status}),
        )
    ):
        key = Key(resource, namespace, obj["metadata"]["name"])
        text = json.dumps(obj).encode()
        record = Record(key=key, uid="", revision=number + 1, created=number + 1, value=text)
        feed.view.learn_all(resource, [*feed.view.records(resource), record], number + 1)
    with figures.of(feed):
        found = values(figures)
    assert found["muster_leading"] == 1
    assert found['kueue_pending_workloads{cluster_queue="all",status="active"}'] == 3
    assert found['kueue_pending_workloads{cluster_queue="new",status="inadmissible"}'] == 0
    assert found['kueue_reserving_active_workloads{cluster_queue="all"}'] == 2
    assert found['kueue_cluster_queue_status{cluster_queue="new",status="pending"}'] == 1
    assert found['kueue_local_queue_admitted_active_workloads{name="main",namespace="team"}'] == 1
    own = '{cohort="",cluster_queue="all",flavor="f",resource="cpu"}'
    assert found.get(f"kueue_cluster_queue_resource_usage{own}") == (1.5 if has_resources else None)
    assert found.get(f"kueue_cluster_queue_nominal_quota{own}") == (4 if has_resources else None)
    assert f"kueue_cluster_queue_borrowing_limit{own}" not in found, "what is no amount is left out"
    gone = values(figures)
    assert gone["muster_leading"] == 0 and not any("cluster_queue=" in name for name in gone)


def test_requests_of_all_connections_are_told_of():
    figures = Figures(MonitoringSettings())
    for count in (2, 3):
        figures.count_requests(lambda count=count: count)
    assert values(figures)["muster_requests_total"] == 5


def test_names_cannot_break_the_page():
    found = lived(Figures(MonitoringSettings()), LIFE[0], a_workload(RESERVED, queue="a\\b"))
    assert found['kueue_quota_reserved_workloads_total{cluster_queue="a\\\\b"}'] == 1
