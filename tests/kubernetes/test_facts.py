"""The checked-in tables are what the tool writes: nobody edited them, and the real server still says so."""

from __future__ import annotations

from muster.apiserver.facts import FOLDER
from tools.kubernetes_facts import tables


def test_the_tables_are_those_of_the_real_server(plane):
    written = {path.relative_to(FOLDER).as_posix(): path.read_text() for path in FOLDER.rglob("*.json")}
    assert tables(plane.client) == written, "write them anew: python -m tools.kubernetes_facts"
