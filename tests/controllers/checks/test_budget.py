"""The check by money: what is spent is written down, and whoever cannot pay does not start."""

from __future__ import annotations

import pytest

from muster.store.kinds import Propagation
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.stories.lives import CHECKS, NODES, a_job, an_object, lives

BUDGETS = "budgetchecks.muster.dev"
PER_CORE = [{"flavor": "any", "resource": "cpu", "perHour": 6}]
QUEUE = {"admissionChecksStrategy": {"admissionChecks": [{"name": "money"}]}}


def prepare(story, **spec):
    named = {"apiGroup": "muster.dev", "kind": "BudgetCheck", "name": "team"}
    story.create(an_object("AdmissionCheck", "money", {"controllerName": "muster.dev/budget", "parameters": named}))
    made = {"apiVersion": "muster.dev/v1", "kind": "BudgetCheck", "metadata": {"name": "team"}, "spec": spec}
    story.create(made)
    story.run(1)


def for_an_hour(name, count=1, seconds=3600):
    """A job that says how long it runs at most."""
    job = a_job(name, count)
    job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = str(seconds)
    return job


def accounts(story):
    found = story.world.get(BUDGETS, "team").get("status", {}).get("accounts", [])
    return {one["name"]: (round(float(one["spent"]), 2), float(one["perHour"])) for one in found}


def message(story, job):
    (check,) = story.workload(job)["status"]["admissionChecks"]
    return check["message"]


def test_a_job_starts_while_the_money_lasts_and_time_spends_it():
    with lives(**QUEUE) as story:
        prepare(story, amount=20, prices=PER_CORE)
        story.create(for_an_hour("first", 2))
        story.run(5)
        assert story.has("Admitted", "first")
        assert message(story, "first") == "default has spent 0.00 and promised 0.00 of 20.00; 12.00 more is expected"
        story.create(for_an_hour("second", 2))
        story.run(5)
        assert story.status("Evicted", "second") == ("True", "DeactivatedDueToAdmissionCheck"), "12 of 20 are promised"
        story.create(for_an_hour("third", 1))
        story.run(600)
        assert story.has("Admitted", "third"), "6 are left for it"
        assert accounts(story) == {"default": (pytest.approx(3.0, abs=0.4), 18.0)}
        for name in ("first", "third"):
            story.world.delete(Key("jobs.batch", "default", name), Deletion(propagation=Propagation.BACKGROUND))
        story.run(1_200)
        assert accounts(story) == {"default": (pytest.approx(3.1, abs=0.4), 0.0)}, "what does not run costs nothing"
        story.create(for_an_hour("fourth", 2))
        story.run(5)
        assert story.has("Admitted", "fourth"), "what was promised and not spent is free again"


def test_no_two_are_granted_the_same_money():
    with lives(**QUEUE) as story:
        prepare(story, amount=13, prices=PER_CORE)
        for number in range(4):
            story.create(for_an_hour(f"job{number}"))
        story.run(10)
        assert sum(story.has("Admitted", f"job{number}") for number in range(4)) == 2


def test_who_waits_for_money_starts_when_there_is_more():
    with lives(**QUEUE) as story:
        prepare(story, amount=3, prices=PER_CORE, whenExceeded="Wait", scope="ClusterQueue", expectedSeconds=3600)
        story.create(a_job("train"))
        story.run(20)
        assert story.status("Evicted") == ("True", "AdmissionCheck") and story.workload()["spec"]["active"]
        story.change(BUDGETS, "team", amount=7)
        story.run(400)
        assert story.has("Admitted")
        assert message(story, "train").startswith("main has spent")


def test_nodes_that_say_what_they_cost_are_the_price():
    pools = {"pools": [{**NODES["pools"][0], "price": 16, "capacity": {"cpu": "8", "memory": "32Gi"}}]}
    with lives(nodes=pools, **QUEUE) as story:
        prepare(story, amount=7)
        story.create(for_an_hour("large", 4))
        story.create(for_an_hour("small", 3))
        story.run(10)
        assert not story.has("Admitted", "large"), "half of a node is 8"
        assert story.has("Admitted", "small") and message(story, "small").endswith("6.00 more is expected")


def test_a_budget_below_zero_makes_the_check_inactive():
    with lives(**QUEUE) as story:
        prepare(story, amount=-1)
        (condition,) = story.world.get(CHECKS, "money")["status"]["conditions"]
        assert (condition["status"], condition["message"]) == ("False", "an amount and prices are at least 0")
