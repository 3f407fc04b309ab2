"""`muster lint` as a user meets it: findings, exit statuses, and the set that --fix writes."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from muster.cli.main import app
from tests import support

QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: open}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 10}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs}
spec: {clusterQueue: open}
"""
FAULTY_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: jobs}}
spec: {template: {spec: {containers: [{name: main, image: "example.com/x:1"}]}}}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder to work in, with a queue that admits nobody."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "queue.yaml").write_text(QUEUE)
    return tmp_path


def muster(*arguments: str):
    return CliRunner().invoke(app, ["lint", *arguments])


def test_a_finding_names_the_file_and_what_to_write(files):
    result = muster("-f", "in")
    assert "in/queue.yaml" in result.stdout
    assert "ClusterQueue open: spec.namespaceSelector" in result.stdout
    assert "write: " in result.stdout
    assert all(len(line) <= 100 for line in result.stdout.splitlines())


def test_a_sound_set_has_no_findings(files):
    (files / "in" / "queue.yaml").write_text(
        QUEUE.replace("spec:\n  resource", "spec:\n  namespaceSelector: {}\n  resource")
    )
    result = muster("-f", "in")
    assert (result.exit_code, result.stdout) == (0, "0 findings.\n")


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_findings_for_programs(files, form, parse):
    found = parse(muster("-f", "in", "-o", form).stdout)["findings"]
    assert {"severity", "code", "source", "object", "path", "problem", "whatToWrite"} == set(found[0])
    assert "spec.namespaceSelector" in [one["path"] for one in found]


def test_errors_are_the_exit_status_and_each_field_is_named_once(files):
    (files / "in" / "job.yaml").write_text(FAULTY_JOB)
    result = muster("-f", "in", "-o", "json")
    paths = [one["path"] for one in json.loads(result.stdout)["findings"] if one["severity"] == "error"]
    assert paths.count("spec.template.spec.restartPolicy") == 1
    assert result.exit_code == 1


def test_what_is_refused_by_itself_is_a_finding(files):
    (files / "in" / "bad.yaml").write_text(QUEUE.replace("nominalQuota: 10", "nominalQuota: lots"))
    result = muster("-f", "in/bad.yaml", "-o", "json")
    found = json.loads(result.stdout)["findings"]
    assert [one["path"].rpartition(".")[2] for one in found if one["code"] == "Invalid"] == ["nominalQuota"]
    assert result.exit_code == 1


def test_fix_writes_the_set_to_standard_output(files):
    result = muster("-f", "in", "--fix")
    documents = list(yaml.safe_load_all(result.stdout))
    (queue,) = (one for one in documents if one["kind"] == "ClusterQueue")
    assert queue["spec"]["namespaceSelector"] is not None
    assert "None is left in the set as written" in result.stderr
    assert result.exit_code == 0
    assert (files / "in" / "queue.yaml").read_text() == QUEUE, "what was given stays as it is"


def test_fix_writes_into_a_folder_and_over_nothing(files):
    first = muster("-f", "in", "--fix", "--output", "out")
    assert first.exit_code == 0
    written = (files / "out" / "queue.yaml").read_text()
    assert "namespaceSelector" in written
    again = muster("-f", "in", "--fix", "--output", "out")
    assert again.exit_code == 2
    assert "out/queue.yaml: is there already; give --force" in again.stderr
    assert muster("-f", "in", "--fix", "--output", "out", "--force").exit_code == 0
    assert (files / "out" / "queue.yaml").read_text() == written
    assert muster("-f", "out").stdout.startswith("0 findings")


def test_fix_keeps_the_tree_of_the_files_and_the_form_of_each(files):
    (files / "in" / "deep").mkdir()
    job = yaml.safe_load(FAULTY_JOB)
    (files / "in" / "deep" / "jobs.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [job, job]})
    )
    assert muster("-f", "in", "--fix", "--output", "out").exit_code in (0, 1)
    items = json.loads((files / "out" / "deep" / "jobs.json").read_text())["items"]
    assert items[0]["spec"]["template"]["spec"]["restartPolicy"] in ("Never", "OnFailure")
    assert (files / "out" / "queue.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["-f", "in", "--output", "out"], "--output and --force are for --fix", id="a folder for nothing"),
        pytest.param(["-f", "in", "--fix", "--output", "in/queue.yaml"], "cannot be written", id="a file for a folder"),
        pytest.param([], "'-f'", id="no files"),
    ],
)
def test_usage_errors(files, arguments, said):
    result = muster(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_the_scenario_is_repaired_and_then_runs(files):
    folder = support.shared("manifests")
    names = [str(path) for path in sorted(folder.glob("scenario-*.yaml"))]
    found = muster("-f", *names)
    assert found.exit_code == 1
    for part in (
        "borrowingLimit",
        "namespaceSelector",
        "completions",
        "training-data-pvc",
        "priority-class",
        "gpucores",
    ):
        assert part in found.stdout
    assert muster("-f", *names, "--fix", "--output", "out").exit_code == 0
    result = CliRunner().invoke(app, ["plan", "-f", "out"])
    assert "2 admitted, 0 waiting" in result.stdout
