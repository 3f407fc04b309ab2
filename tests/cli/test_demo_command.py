"""`muster demo`: what people read, line by line where it matters."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from muster.app.demo.telling import DEMOS, stories_of
from muster.cli.demo import PAUSE_S
from muster.cli.main import app

LINES = {
    "deadlock": [
        "=== Before: pod by pod, two jobs keep each other from working ===",
        "    default/foundation  8         6 running, 2 waiting  cannot work yet",
        "    default/recognizer  5         4 running, 1 waiting  cannot work yet",
        "=== After: the same jobs in a queue, each starts whole or not at all ===",
        "    default/foundation  8         none       waits in its queue",
        "    default/recognizer  5         5 running  works",
        "    default/foundation  8         8 running  works",
        "7. All three jobs are done. No card was ever held by a job that could not work.",
    ],
    "two-teams": [
        "    v100-0  GPU-v100-0-7  2       32,000 MB  100 %      llm-training 2",
        "    v100-0  GPU-v100-0-6  3       24,000 MB  90 %       inference 3",
        "    research    2    0     nvidia.com/gpu of gpu-v100-32gb  16   26    10",
        "    production  2    0     nvidia.com/gpu of gpu-v100-32gb  16   16    0",
        "8. The search comes back by itself, all 24 pods.",
    ],
    "taken-back": [
        "    red    2    0     nvidia.com/gpu of cards  2    4     2",
        "    blue/urgent  2         2 running  works",
        "    red/extra    2         none       waits in its queue",
        "    red/extra    2         2 done  complete",
    ],
}


def said(*arguments: str) -> str:
    answer = CliRunner().invoke(app, ["demo", *arguments])
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.mark.parametrize("name", DEMOS)
def test_it_tells_what_matters_in_this_order(name):
    lines = said(name).splitlines()
    places = [lines.index(line) for line in LINES[name]]
    assert places == sorted(places)
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.parametrize("name", DEMOS)
def test_a_story_takes_at_most_a_minute(name):
    for story in stories_of(name):
        assert PAUSE_S * sum(bool(step.say) for step in story.steps) < 50


def test_it_says_why_a_job_waits():
    text = " ".join(said("deadlock").split())
    assert "foundation waits: its pods do not all fit on nodes" in text
    assert "8 pods of main must start together, 6 would fit now" in text


def test_it_lists_the_stories():
    assert said("--list").splitlines() == [
        "NAME        WHAT IT TELLS",
        "deadlock    After: the same jobs in a queue, each starts whole or not at all",
        "two-teams   Two teams share cards in slices",
        "taken-back  A borrowed card is taken back",
    ]


def test_a_name_that_is_none_is_refused():
    answer = CliRunner().invoke(app, ["demo", "nothing"])
    assert answer.exit_code == 2
    assert "there is no story 'nothing'; known are deadlock, two-teams, taken-back" in answer.output
