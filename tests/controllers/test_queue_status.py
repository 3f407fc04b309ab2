"""The status of queues and cohorts as a cluster lives: counts, usage, shares, and why a queue takes nobody."""

from __future__ import annotations

from tests.stories.lives import QUEUES, SUBMIT_QUEUES, Lives, a_job, an_object, configured, lives

COHORTS = "cohorts.kueue.x-k8s.io"


def active(story: Lives, resource: str = QUEUES, name: str = "main", namespace: str = "") -> tuple[str, str]:
    (condition,) = story.world.get(resource, name, namespace)["status"]["conditions"]
    return condition["status"], condition["reason"]


def test_a_queue_says_whether_it_takes_workloads_and_why_not():
    with lives(admissionChecksStrategy={"admissionChecks": [{"name": "scan"}]}) as story:
        story.run(1)
        assert active(story) == ("False", "CheckNotFoundOrInactive")
        assert active(story, SUBMIT_QUEUES, "main", "default") == ("False", "ClusterQueueIsInactive")
        story.change(QUEUES, "main", admissionChecksStrategy=None)
        story.run(1)
        assert active(story) == ("True", "Ready")
        story.change(QUEUES, "main", stopPolicy="Hold")
        story.run(1)
        assert active(story) == ("False", "Stopped")
        story.create(an_object("LocalQueue", "lost", {"clusterQueue": "nowhere"}, namespace="default"))
        story.run(1)
        assert active(story, SUBMIT_QUEUES, "lost", "default") == ("False", "ClusterQueueDoesNotExist")


def test_counts_and_usage_follow_workloads():
    with lives() as story:
        for number in range(3):
            story.create(a_job(f"job{number}", 2))
        story.run(10)
        assert story.counts() == (1, 2, 2)
        for resource, namespace in ((QUEUES, ""), (SUBMIT_QUEUES, "default")):
            status = story.world.get(resource, "main", namespace)["status"]
            for usage in (status["flavorsReservation"], status["flavorsUsage"]):
                ((cpu,),) = (flavor["resources"] for flavor in usage)
                assert (cpu["name"], cpu["total"]) == ("cpu", "4")
        story.change(QUEUES, "main", stopPolicy="HoldAndDrain")
        story.run(60)
        assert story.counts() == (3, 0, 0)


def test_shares_are_told_where_they_are_fair():
    with lives(configured(fairSharing={"preemptionStrategies": ["LessThanInitialShare"]}), cohortName="all") as story:
        story.create(an_object("Cohort", "all", {}))
        group = story.world.get(QUEUES, "main")["spec"]["resourceGroups"]
        story.create(an_object("ClusterQueue", "lender", {"cohortName": "all", "resourceGroups": group}))
        story.create(a_job("train", 6))
        story.run(10)
        assert story.has("Admitted")
        status = story.world.get(QUEUES, "main")["status"]
        assert status["fairSharing"] == {"weightedShare": 250}, "2 of the 8 in the cohort are borrowed"
        assert status["flavorsUsage"][0]["resources"][0]["borrowed"] == "2"
        assert story.world.get(QUEUES, "lender")["status"]["fairSharing"] == {"weightedShare": 0}
        assert story.world.get(COHORTS, "all")["status"]["fairSharing"] == {"weightedShare": 0}
    with lives() as story:
        story.run(1)
        assert "fairSharing" not in story.world.get(QUEUES, "main")["status"]


def test_a_job_whose_queue_nobody_has_made_waits_and_is_told_so():
    with lives() as story:
        job = a_job("train")
        job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "nowhere"
        story.create(job)
        story.run(60)
        assert story.job()["spec"]["suspend"] is True and not story.pods()
        told = [one["message"] for one in story.world.all("events") if one["involvedObject"]["name"] == "train"]
        assert "LocalQueue nowhere doesn't exist" in told
        story.create(an_object("LocalQueue", "nowhere", {"clusterQueue": "main"}, namespace="default"))
        story.run(30)
        assert story.has("Admitted"), "and starts when it is there"
