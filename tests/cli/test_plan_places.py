"""Nodes and cards on the pages and in the objects of `muster plan`, and the outputs that docs/placement.md shows."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from typer.testing import CliRunner

from muster.cli.main import app
from muster.cli.places import slots_text
from muster.model.device import Share
from muster.model.slices import Slices
from muster.model.workload import Slot
from tests.support import ROOT

PAGE = (ROOT / "docs" / "placement.md").read_text(encoding="utf-8")
LEFT_OUT = "…"
NODE = """
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: 8, nvidia.com/gpu: 2}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: main, image: "example.com/x:1", resources: {limits: {nvidia.com/gpu: CARDS}}}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  parallelism: 3
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "example.com/x:1", resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def muster(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Runs `muster plan` on some manifests, given as text."""
    monkeypatch.chdir(tmp_path)

    def run(*manifests: str, options: tuple[str, ...] = ()) -> str:
        (tmp_path / "all.yaml").write_text("---".join(manifests))
        return muster("plan", "-f", "all.yaml", "--now", "2026-01-01T08:00:00Z", *options)

    return run


def pod(name: str, cards: int = 1) -> str:
    return POD.replace("NAME", name).replace("CARDS", str(cards))


def commands_shown() -> list[tuple[str, str]]:
    """Every command of the page with the output that is shown below it."""
    blocks = re.findall(r"^    \$ (muster .*)\n((?:    (?!\$).*\n|\n(?=    ))+)", PAGE, re.MULTILINE)
    return [(command, re.sub(r"^    ", "", text, flags=re.MULTILINE)) for command, text in blocks]


@pytest.mark.parametrize(("command", "shown"), commands_shown(), ids=[command for command, _ in commands_shown()])
def test_the_page_shows_what_the_command_writes(command, shown, monkeypatch):
    monkeypatch.chdir(ROOT)
    written = muster(*shlex.split(command)[1:])
    place = 0
    for part in shown.rstrip("\n").split(f"{LEFT_OUT}\n"):
        part = part.removesuffix(LEFT_OUT).strip("\n")
        assert part in written[place:], f"{command} does not write\n{part}"
        place = written.index(part, place) + len(part)


def test_the_page_shows_every_story_of_the_examples():
    told = {shlex.split(command)[3] for command, _ in commands_shown()}
    assert told == {f"examples/placement/{one.name}" for one in (ROOT / "examples" / "placement").iterdir()}


def test_a_page_names_nodes_and_cards(planned):
    page = planned(NODE, pod("a"), pod("b", 2))
    assert "nodes    node-1 (card 0)" in page
    assert "code     WaitingForNodes\n" in page, "without a queue where there is none"
    assert "0 of 1 nodes fit, 1 short of cards; nearest node-1: 1 card short" in page


def test_programs_get_nodes_and_cards(planned):
    value = json.loads(planned(NODE, pod("a"), pod("b", 2), options=("-o", "json")))
    assert value["placed"] is True
    (decision,) = value["decisions"]
    assert decision["podSets"][0]["slots"] == [{"node": "node-1", "cards": [0]}]
    (waiting,) = value["waiting"]
    assert waiting["nodes"]["main"] == {
        "nodes": 1,
        "fitting": 0,
        "refusals": [{"reason": "short of cards", "nodes": 1}],
        "nearest": [{"node": "node-1", "lacks": ["1 card short"]}],
    }


def test_those_alike_do_not_repeat_the_nodes(planned):
    page = planned(NODE, pod("a", 3), pod("b", 3))
    assert page.count("one pod of main") == 1 and "AlikeWaits" in page


def test_pods_that_were_decided_on_one_by_one_are_counted_by_job(planned):
    assert "Job default/j  2                1" in planned(NODE, JOB, options=("--profile", "kube-default"))
    assert "POD BY POD" not in planned(NODE, JOB)


def test_a_plan_without_nodes_is_about_quota(planned):
    page = planned(pod("a"))
    assert "0 admitted, 0 waiting" in page and "Pod default/a: names no queue" in page


def test_the_queue_of_those_without_one_is_shown_only_when_somebody_is_in_it(planned):
    assert "(no queue)" in planned(NODE, pod("a"))
    assert "(no queue)" not in planned(NODE)


def slot(node: str, *shares: tuple[str, int]) -> Slot:
    held = tuple(Share(uuid=uuid, vendor="NVIDIA", index=0, memory_mib=mib, cores=30) for uuid, mib in shares)
    return Slot(node, (), Slices(held))


@pytest.mark.parametrize(
    ("slots", "text"),
    [
        ([], ""),
        ([Slot("a")], "a"),
        ([Slot("a"), Slot("a"), Slot("b")], "a x2, b"),
        ([Slot("a", (3,)), Slot("a", (0, 1))], "a x2 (cards 0-1, 3)"),
        (
            [slot("a", ("G", 8)), slot("a", ("F", 8)), slot("a", ("G", 8))],
            "a x3 (F: 8 MiB, 30 % of cores; G x2: 8 MiB, 30 % of cores)",
        ),
        ([Slot(f"n{number}") for number in range(10)], "n0, n1, n2, n3, n4, n5, n6, n7, and 2 more nodes"),
    ],
)
def test_slots_in_one_line(slots, text):
    assert slots_text(slots) == text
