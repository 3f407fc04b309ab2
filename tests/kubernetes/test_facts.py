"""The checked-in tables are what the tools write: nobody edited them, and the real server still says so."""

from __future__ import annotations

from muster.apiserver.facts import FOLDER
from tests.kubernetes.plane import started
from tools import kubernetes_roles
from tools.kubernetes_facts import tables

ROLES = "roles.json"


def test_the_tables_are_those_of_the_real_server(plane):
    written = {path.relative_to(FOLDER).as_posix(): path.read_text() for path in FOLDER.rglob("*.json")}
    del written[ROLES]
    assert tables(plane.client) == written, "write them anew: python -m tools.kubernetes_facts"


def test_the_roles_are_those_of_a_new_server(plane, tmp_path):
    # One of its own: other tests make roles.
    with started(tmp_path) as fresh:
        text = kubernetes_roles.table(fresh.client)
    assert text == (FOLDER / ROLES).read_text(), "write them anew: python -m tools.kubernetes_roles"
