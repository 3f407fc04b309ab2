"""`muster plan` as a user meets it: forms of output, exit statuses, messages, and how soon it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
import yaml
from typer.testing import CliRunner

from muster.app.plan import plan_objects
from muster.cli.main import app
from tests import support
from tests.app.test_plan import QUEUES

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, labels: {kueue.x-k8s.io/queue-name: jobs}}
spec:
  parallelism: PODS
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "example.com/x:1", resources: {requests: {cpu: 1}}}]
"""
NOW = ["--now", "2026-01-01T08:00:00Z"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder to work in, with a queue and two jobs of which one fits."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queues.yaml").write_text(QUEUES)
    for name, pods in (("first", 6), ("second", 7)):
        (tmp_path / f"{name}.yaml").write_text(JOB.replace("NAME", name).replace("PODS", str(pods)))
    return tmp_path


def muster(*arguments: str, stdin: str | None = None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def test_the_page_says_what_and_why(files):
    result = muster("plan", "-f", ".", *NOW)
    assert result.exit_code == 0
    assert result.stderr == ""
    for part in (
        "As of 2026-01-01T08:00:00Z: 1 admitted, 1 waiting",
        "admit default/job-first-",
        "(Job default/first)",
        "main: 6 pods, cpu 6 in default",
        "WaitingForQuota, in queue solo",
        "cpu in default: asks for 7, 4 free, 3 short, held by default/job-first-",
        "solo  -       active  1        1",
    ):
        assert part in result.stdout
    assert all(len(line) <= 100 for line in result.stdout.splitlines())
    assert "\x1b" not in result.stdout, "no colours where there is no terminal"


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_same_in_full(files, form, parse):
    result = muster("plan", "-f", ".", "-o", form, *NOW)
    value = parse(result.stdout)
    assert value["settled"] is True
    (decision,) = value["decisions"]
    assert decision["decision"] == "admit" and decision["job"] == "Job default/first"
    assert decision["podSets"] == [
        {"name": "main", "count": 6, "asked": 6, "flavors": {"cpu": "default"}, "usage": {"cpu": "6"}, "slots": []}
    ]
    (waiting,) = value["waiting"]
    assert waiting["code"] == "WaitingForQuota"
    assert waiting["asks"] == {"cpu": "7"}
    (shortage,) = waiting["shortages"]
    assert (shortage["free"], shortage["short"], shortage["heldBy"]) == ("4", "3", [decision["workload"]])
    assert waiting["unblockedBy"]


def test_the_same_each_time(files):
    assert muster("plan", "-f", ".", *NOW).stdout == muster("plan", "-f", ".", *NOW).stdout


def test_f_takes_what_a_shell_makes_of_a_pattern(files):
    spread = muster("plan", "-f", "first.yaml", "queues.yaml", "-o", "json", *NOW)
    repeated = muster("plan", "-f", "first.yaml", "--file", "queues.yaml", *NOW, "-o", "json")
    assert spread.exit_code == 0
    assert spread.stdout == repeated.stdout


def test_a_file_named_twice_is_read_once(files):
    result = muster("plan", "-f", ".", "first.yaml", *NOW)
    assert (result.exit_code, result.stderr) == (0, "")


def test_standard_input(files):
    result = muster("plan", "-f", "-", "queues.yaml", *NOW, stdin=JOB.replace("NAME", "piped").replace("PODS", "1"))
    assert "Job default/piped" in result.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("kind: [", ": is not YAML: ", id="not YAML"),
        pytest.param(JOB.replace("PODS", "-1"), "spec.parallelism: is -1; give a number from 0", id="a wrong number"),
        pytest.param("a: 1", "bad.yaml: object without a name: apiVersion: is missing", id="no object"),
        pytest.param(QUEUES.replace("solo}", "Solo!}"), "metadata.name", id="a wrong name"),
        pytest.param("&a [*a]", "bad.yaml", id="a loop"),
    ],
)
def test_what_is_refused_is_said_and_the_rest_goes_on(files, text, said):
    (files / "bad.yaml").write_text(text)
    result = muster("plan", "-f", "bad.yaml", "first.yaml", "queues.yaml", *NOW)
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert "admit default/job-first" in result.stdout


def test_a_file_that_is_not_there(files):
    result = muster("plan", "-f", "absent.yaml", "first.yaml", *NOW)
    assert result.exit_code == 1
    assert "absent.yaml: does not exist; check the name" in result.stderr
    assert "Job default/first" in result.stdout


def test_warnings_do_not_fail_a_plan_unless_it_is_strict(files):
    (files / "open.yaml").write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: c}\nspec: {x: 1}"
    )
    lenient, strict = (muster("plan", "-f", "open.yaml", *NOW, *more) for more in ([], ["--strict"]))
    assert (lenient.exit_code, strict.exit_code) == (0, 1)
    assert lenient.stderr == "warning: " + strict.stderr


def test_a_configuration_counts(files):
    (files / "conf").mkdir()
    (files / "conf" / "kueue.yaml").write_text("integrations: {frameworks: [pod]}")
    result = muster("plan", "-f", "first.yaml", "--config", "conf/kueue.yaml", *NOW)
    assert result.exit_code == 0
    assert "the configuration does not turn batch/job on" in result.stdout
    assert "conf/kueue.yaml: warning: apiVersion: is missing" in result.stderr


@pytest.mark.parametrize("name", ["muster", "kueue", "kube-default"])
def test_a_profile_goes_before_that_of_the_file(files, monkeypatch, name):
    (files / "muster.yaml").write_text("profile: kueue")
    seen = []

    def spied(documents, options):
        seen.append(options.configuration.profile.name)
        return plan_objects(documents, options)

    monkeypatch.setattr("muster.app.plan.plan_objects", spied)
    assert muster("plan", "-f", "first.yaml", "--config", "muster.yaml", "--profile", name).exit_code == 0
    assert seen == [name]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["plan"], "'-f'", id="no files"),
        pytest.param(["plan", "-f", "x", "-o", "xml"], "xml", id="an unknown form"),
        pytest.param(["plan", "-f", "x", "--now", "noon"], "--now: is 'noon'; give a time", id="no time"),
        pytest.param(["plan", "-f", "x", "--config", "absent"], "absent: does not exist", id="no such configuration"),
        pytest.param(["plan", "-f", "x", "--config", "bad"], "bad: strange: ", id="a wrong configuration"),
        pytest.param(["plan", "-f", "x", "--config", "worse"], "worse, line ", id="a configuration that is not YAML"),
        pytest.param(
            ["plan", "-f", "x", "--profile", "kueu"],
            "--profile: is 'kueu', which is no profile; did you mean kueue? known are kube-default, kueue, muster\n",
            id="an unknown profile",
        ),
        pytest.param(
            ["plan", "-f", "x", "--config", "mine.yaml"],
            "mine.yaml: policies[0].file: mine.py, line 1: ZeroDivisionError: division by zero; mend the file\n",
            id="a policy that cannot be used",
        ),
        pytest.param(["plan", "-f", "x", "--strict", "stray"], "stray", id="a stray argument"),
        pytest.param(["plot"], "plot", id="an unknown command"),
    ],
)
def test_usage_errors(files, arguments, said):
    (files / "bad").write_text("strange: 1")
    (files / "worse").write_text("{")
    (files / "mine.yaml").write_text("policies: [{file: mine.py}]")
    (files / "mine.py").write_text("1 / 0")
    result = muster(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_nothing_in_a_manifest_reaches_the_terminal_raw(files):
    value = {"apiVersion": "v1", "kind": "Pod\x1b[2J", "metadata": {"name": "x\x07"}}
    (files / "odd.json").write_text(json.dumps(value))
    result = muster("plan", "-f", "odd.json", *NOW)
    assert "\x1b" not in result.output and "\x07" not in result.output


def test_without_times_it_is_as_of_now(files):
    value = json.loads(muster("plan", "-f", "first.yaml", "-o", "json").stdout)
    now = time.strftime("%Y-%m-%dT%H", time.gmtime())
    assert value["now"][:13] in (now, time.strftime("%Y-%m-%dT%H", time.gmtime(time.time() - 60)))


# As a program --------------------------------------------------------------------------------------------------------


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from muster.cli.main import app; app()", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COV")} | variables
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=support.ROOT, env=environment)


def test_version_says_the_version():
    from muster import __version__

    assert muster("version").stdout.strip() == __version__


def test_commands_load_only_what_they_need():
    code = "import sys, muster.cli.main; print([m for m in sys.modules if m.startswith('muster.') and '.cli' not in m])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=support.ROOT)
    assert result.stdout.strip() == "[]"


def test_the_worked_example_runs():
    example = support.ROOT / "examples" / "worked-example"
    result = run("plan", "-f", str(example))
    assert (result.returncode, result.stderr) == (0, "")
    assert all(len(line) <= 100 for line in result.stdout.splitlines())


def test_the_quickstart_answers_at_once(tmp_path):
    folder = support.shared("manifests")
    names = [str(folder / f"kueue-quickstart-{name}.yaml") for name in ("queues", "job")]
    taken_s = []
    for _ in range(3):
        before = os.times()
        # As on any machine the modules are compiled once, whatever the tests run with.
        result = run("plan", "-f", *names, PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(tmp_path))
        after = os.times()
        assert (result.returncode, result.stderr) == (0, "")
        assert "1 admitted, 0 waiting" in result.stdout
        taken_s.append(after.children_user + after.children_system - before.children_user - before.children_system)
    # Half a second of waiting on a machine with nothing else to do. The tests share theirs, so here the time is what
    # the command itself computes, with room for a slower machine.
    assert min(taken_s) < 1.0, f"took {min(taken_s):.2f} s"
