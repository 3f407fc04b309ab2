"""Writes down what a real server says, for the tests that do without one: `python -m tests.kubernetes.record`.

The files are tests/apiserver/kinds/defaults.jsonl (an object for each of objects.yaml, as it comes back) and
verdicts.jsonl (a code and causes for some of the broken ones), tests/apiserver/definitions/verdicts.jsonl (the same
for definitions), and tests/controllers/builtin/job_stories.jsonl (the states that jobs go through).
"""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.apiserver.definitions.servers import DEFINITIONS
from tests.apiserver.definitions.stories import stories
from tests.controllers.builtin.job_stories import STORIES
from tests.controllers.builtin.muster_side import RECORDED
from tests.kubernetes.added import added
from tests.kubernetes.client import Client
from tests.kubernetes.comparison import Question, Theirs, asked, broken, label_of, samples
from tests.kubernetes.job_side import told
from tests.kubernetes.plane import started
from tests.support import ROOT

FOLDER = ROOT / "tests" / "apiserver" / "kinds"
DEFAULTS, VERDICTS = FOLDER / "defaults.jsonl", FOLDER / "verdicts.jsonl"
OF_DEFINITIONS = ROOT / "tests" / "apiserver" / "definitions" / "verdicts.jsonl"
EVERY = 8
_STORIES_AT_ONCE = 8


def questions() -> list[Question]:
    """The objects, broken or with a field added, whose verdicts are kept."""
    changed = [(item, *one) for change in (broken, added) for item in samples() for one in change(item)]
    return [Question(f"{label_of(item)}: {what}", one) for item, what, one in changed[::EVERY]]


def main() -> None:
    """Ask a real server and write the files anew."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as plane:
        theirs = Theirs(plane.client)
        _write(DEFAULTS, [theirs.create(item).body for item in samples()])
        verdicts = asked(lambda one: theirs.create(one.item), questions())
        _write(VERDICTS, [[one.code, sorted(map(list, one.causes))] for one in verdicts])
        _write(OF_DEFINITIONS, [definition_verdict(plane.client, name, one) for name, one in stories()])
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder), has_controllers=True) as plane,
        ThreadPoolExecutor(_STORIES_AT_ONCE) as pool,
    ):
        states = pool.map(lambda name: told(plane, name), STORIES)
        _write(RECORDED, [{"story": name, "states": one} for name, one in zip(STORIES, states, strict=True)])


def definition_verdict(client: Client, name: str, definition: Any) -> list[Any]:
    """What a server says of one definition."""
    answer = client.request("POST", f"{DEFINITIONS}?dryRun=All", definition)
    causes = (answer.json.get("details") or {}).get("causes") or ()
    return [name, answer.status, sorted([one.get("field", ""), one["reason"]] for one in causes)]


def _write(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))


if __name__ == "__main__":
    main()
