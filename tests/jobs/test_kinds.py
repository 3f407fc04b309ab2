"""All kinds of job that have a switch: holding, starting, stopping and restoring, each twice as good as once."""

from __future__ import annotations

from pathlib import Path

import pytest

import muster.jobs
from muster.app.plugins import integrations, job_kinds
from muster.engine.contracts import Integration, PodSetStart
from muster.engine.job_forms import STOPPING
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from tests.stories.job_kinds import SAMPLES, Sample

FOLDER = Path(muster.jobs.__file__).parent
LINES_MOST = 120
TOLERATION = {"key": "spot", "operator": "Exists"}


@pytest.fixture(params=SAMPLES, ids=lambda sample: sample.kind_name)
def sample(request) -> Sample:
    return request.param


@pytest.fixture
def kind(sample) -> Integration:
    return integrations()[sample.kind]


@pytest.fixture
def job(sample, kind) -> Fields:
    runtimes = {one["metadata"]["name"]: one for one in sample.others}
    return Fields(kind.settle(Fields(sample.job), lambda _resource, _namespace, name: runtimes.get(name)))


def starts(kind: Integration, job: Fields, **nodes: str) -> tuple[PodSetStart, ...]:
    return tuple(
        PodSetStart(
            name=one.name,
            count=one.count,
            node_labels=nodes or {"instance": "spot"},
            tolerations=(TOLERATION,),
            labels={"kueue.x-k8s.io/podset": one.name},
            annotations={"kueue.x-k8s.io/workload": "train"},
            gates=("kueue.x-k8s.io/topology",),
        )
        for one in kind.pod_sets(job)
    )


def test_a_new_job_is_held(kind, job):
    held = kind.hold(job)
    assert kind.is_suspended(Fields(held)) and not kind.is_suspended(job)
    assert kind.hold(Fields(held)) == held
    assert kind.pod_sets(Fields(held)) == kind.pod_sets(job), "how it stands has no say in what it asks for"


def test_it_goes_back_to_what_it_was(kind, job):
    held = Fields(kind.hold(job))
    begun = Fields(kind.start(held, starts(kind, held)))
    assert not kind.is_suspended(begun) and begun.values["spec"] != held.values["spec"]
    stopping = Fields(kind.suspend(begun))
    assert stopping.values["metadata"]["annotations"][STOPPING] == "true" and not kind.is_suspended(stopping)
    assert kind.suspend(stopping) == stopping.values
    restored = kind.restore(stopping, kind.pod_sets(held))
    assert restored == held.values
    assert kind.restore(Fields(restored), kind.pod_sets(held)) == restored


def test_a_place_that_contradicts_its_pods_is_refused(sample, kind, job):
    where = kind.pod_sets(job)[0].template
    spec = {**where["spec"], "nodeSelector": {"instance": "large"}}
    held = Fields(_changed(sample, kind, job, spec))
    with pytest.raises(InvalidObject, match="instance"):
        kind.start(held, starts(kind, held))


def _changed(sample: Sample, kind: Integration, job: Fields, spec: dict) -> dict:
    """The job with another pod in its first set, wherever that is written."""
    held = kind.hold(job)
    if sample.kind_name == "TrainJob":
        runtime = sample.others[0]
        inner = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]
        other = {**inner, "spec": {"template": {"spec": spec}}}
        jobs = {"replicatedJobs": [{"name": "node", "template": other}]}
        changed = {**runtime, "spec": {**runtime["spec"], "template": {"spec": jobs}}}
        return kind.settle(Fields(held), lambda *_: changed)
    if sample.kind_name == "SparkApplication":
        driver = {**held["spec"]["driver"], "nodeSelector": spec["nodeSelector"]}
        return {**held, "spec": {**held["spec"], "driver": driver}}
    return _with_first_pod(held, spec)


def _with_first_pod(values: dict, spec: dict) -> dict:
    """The first object on the way that has containers, replaced."""

    def walk(value):
        nonlocal is_done
        if isinstance(value, dict):
            if "containers" in value and not is_done:
                is_done = True
                return spec
            return {name: walk(one) for name, one in value.items()}
        return [walk(one) for one in value] if isinstance(value, list) else value

    is_done = False
    return walk(values)


def test_how_it_stands(sample, kind, job):
    for status, want in ((sample.ready, (True, True)), (sample.stopped, (False, False))):
        told = Fields({**job.values, "status": status})
        assert (kind.is_active(told), kind.is_ready(told)) == want
        assert kind.finished(told) is None
    if sample.done is not None:
        ending = kind.finished(Fields({**job.values, "status": sample.done}))
        assert ending is not None and ending.has_succeeded
    assert not kind.is_active(job) and kind.finished(job) is None


# The containers of others follow from other fields and objects.
WITH_TEMPLATES = [one for one in SAMPLES if one.kind_name not in ("SparkApplication", "TrainJob")]


@pytest.mark.parametrize("sample", WITH_TEMPLATES, ids=lambda sample: sample.kind_name)
def test_pods_without_containers_are_refused_with_their_place(sample):
    with pytest.raises(InvalidObject, match=r"spec\..*containers: is missing"):
        integrations()[sample.kind].pod_sets(Fields(_with_first_pod(sample.job, {})))


def test_a_kind_is_one_short_file_or_folder():
    for path in sorted(FOLDER.rglob("*.py")):
        assert len(path.read_text().splitlines()) <= LINES_MOST, f"{path.name} is too long for one kind of job"


def test_what_rights_and_hooks_need_is_said():
    for kind in job_kinds().values():
        assert kind.gvk.version and kind.gvk.kind and kind.plural and kind.resource.startswith(kind.plural)
    with_status = {kind.name for kind in job_kinds().values() if kind.writes_status}
    assert with_status == {"batch/job"}, "the only one whose status a stop changes"
