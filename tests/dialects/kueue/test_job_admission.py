"""New jobs with a queue are held back, and what must not change of one that runs is refused."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.gates import DEFAULT_GATES
from muster.dialects.kueue.job_admission import Around, JobRules, admitted, check_change, is_managed
from muster.dialects.kueue.job_workloads import MAX_EXEC_TIME, PREBUILT
from muster.dialects.kueue.names import PRIORITY_CLASS, QUEUE_NAME
from muster.jobs.job import INTEGRATION
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields
from muster.model.labels import Operator, Requirement, Selector

ELSEWHERE = Selector((Requirement("kubernetes.io/metadata.name", Operator.NOT_IN, ("team",)),))


def job(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Fields:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/x:1"}]}
    metadata = {"name": "train", "namespace": "team", "labels": labels or {}, "annotations": annotations or {}}
    return Fields({"metadata": metadata, "spec": {"template": {"spec": pod}, **spec}})


QUEUED = job({QUEUE_NAME: "main"})


@pytest.mark.parametrize(
    ("given", "rules", "around", "want"),
    [
        pytest.param(QUEUED, JobRules(), Around(), True, id="a queue"),
        pytest.param(job(annotations={QUEUE_NAME: "main"}), JobRules(), Around(), True, id="a queue the old way"),
        pytest.param(
            job(annotations={QUEUE_NAME: "main"}), JobRules(is_strict=True), Around(), False, id="which is not read"
        ),
        pytest.param(job(), JobRules(), Around(), False, id="no queue"),
        pytest.param(job(), JobRules(), Around(has_default_queue=True), True, id="the queue of its namespace"),
        pytest.param(job(), JobRules(manages_without_queue=True), Around(), True, id="all jobs are managed"),
        pytest.param(QUEUED, JobRules(), Around(has_managed_owner=True), False, id="a part of another job"),
        pytest.param(QUEUED, JobRules(namespaces=ELSEWHERE), Around(), False, id="another namespace"),
    ],
)
def test_who_is_held_back(given, rules, around, want):
    stored = admitted(given, INTEGRATION, rules, around)
    assert stored["spec"].get("suspend", False) is want


def test_a_job_gets_the_defaults_of_its_namespace():
    rules = JobRules(gates=DEFAULT_GATES)
    stored = admitted(job(), INTEGRATION, rules, Around(has_default_queue=True, has_default_class=True))
    wanted = {QUEUE_NAME: "default"}
    if DEFAULT_GATES.is_on("WorkloadPriorityClassDefaulting"):
        wanted[PRIORITY_CLASS] = "default"
    assert stored["metadata"]["labels"] == wanted


def test_namespaces_are_chosen_by_their_labels():
    rules = JobRules(namespaces=Selector((Requirement("team", Operator.EXISTS, ()),)))
    assert is_managed(QUEUED, rules, {"team": "a"})
    assert not is_managed(QUEUED, rules, {})


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(job({QUEUE_NAME: "Not A Name"}), id="no name of a queue"),
        pytest.param(job({QUEUE_NAME: "main", MAX_EXEC_TIME: "-1"}), id="no time"),
        pytest.param(job({QUEUE_NAME: "main"}, parallelism=-1), id="no number of pods"),
    ],
)
def test_what_no_workload_could_be_made_of_is_refused(given):
    with pytest.raises(InvalidObject):
        admitted(given, INTEGRATION, JobRules(), Around())


def labelled(more: dict[str, str], *, suspend: bool, queue: str = "main", **kwargs: Any) -> Fields:
    return job({**({QUEUE_NAME: queue} if queue else {}), **more}, suspend=suspend, **kwargs)


RUNS, WAITS = labelled({}, suspend=False), labelled({}, suspend=True)
LABEL = "metadata.labels[{}]".format


@pytest.mark.parametrize(
    ("before", "new", "want"),
    [
        pytest.param(RUNS, labelled({}, suspend=False, queue="other"), [LABEL(QUEUE_NAME)], id="another queue"),
        pytest.param(WAITS, labelled({}, suspend=True, queue="other"), [], id="another queue while it waits"),
        pytest.param(WAITS, labelled({}, suspend=True, queue=""), [LABEL(QUEUE_NAME)], id="no queue"),
        pytest.param(RUNS, labelled({PREBUILT: "w"}, suspend=False), ["metadata"], id="another workload"),
        pytest.param(RUNS, labelled({MAX_EXEC_TIME: "9"}, suspend=False), [LABEL(MAX_EXEC_TIME)], id="another time"),
        pytest.param(WAITS, labelled({MAX_EXEC_TIME: "9"}, suspend=True), [], id="another time while it waits"),
        pytest.param(WAITS, labelled({MAX_EXEC_TIME: "x"}, suspend=True), [LABEL(MAX_EXEC_TIME)], id="no time"),
        pytest.param(RUNS, labelled({PRIORITY_CLASS: "a"}, suspend=False), [LABEL(PRIORITY_CLASS)], id="a class"),
        pytest.param(WAITS, labelled({PRIORITY_CLASS: "a"}, suspend=True), [], id="a class while it waits"),
        pytest.param(
            labelled({PRIORITY_CLASS: "a"}, suspend=False),
            labelled({PRIORITY_CLASS: "b"}, suspend=False),
            [],
            id="another class",
        ),
        pytest.param(
            labelled({PRIORITY_CLASS: "a"}, suspend=True), WAITS, [LABEL(PRIORITY_CLASS)], id="the class taken out"
        ),
        pytest.param(WAITS, RUNS, [], id="the start"),
        pytest.param(RUNS, WAITS, [], id="the stop"),
    ],
)
def test_changes(before, new, want):
    found: list[str] = []
    try:
        check_change(new, before, INTEGRATION, has_default_queue=True)
    except InvalidObjects as problem:
        found = [one.path for one in problem.problems]
    assert found == want
