"""Example files of the projects that Muster does the work of are taken and refused as a real Kubernetes did.

`verdicts.json` beside them says what a real server, with the definitions that users have installed, said to each.
"""

from __future__ import annotations

import json

import pytest

from tests.apiserver.definitions.servers import DEFINITIONS, Here, given_definitions
from tests.kubernetes.manifests import Resources, documents, make_namespaces, problems
from tests.support import shared

FOLDER = "manifests/real-world"


@pytest.fixture(scope="module")
def here():
    """Muster with the definitions that users have installed."""
    server = Here()
    for definition in given_definitions().values():
        answer = server.request("POST", DEFINITIONS, definition)
        assert answer.status == 201, answer.json["message"]
    yield server
    server.close()


def test_files_of_other_projects_get_the_verdict_of_a_real_server(here):
    folder = shared(FOLDER)
    resources = Resources(here)
    wrong = []
    for name, verdict in json.loads((folder / "verdicts.json").read_text()).items():
        items = documents(folder / name)
        make_namespaces(here, items)
        found = list(problems(here, resources, items))
        if verdict["accepted"] != (not found):
            wrong.append(f"{name}: {found or 'taken'}, really {verdict['error'] or 'taken'}")
    assert not wrong, "\n".join(wrong)
