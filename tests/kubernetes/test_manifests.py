"""Example files of the projects that Muster does the work of are taken and refused as a real Kubernetes did.

`verdicts.json` beside them says what a real server, with the definitions that users have installed, said to each.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.apiserver.definitions.servers import DEFINITIONS, Here, given_definitions
from tests.kubernetes.manifests import Resources, documents, make_namespaces, problems, verdict
from tests.support import shared

FOLDER = "manifests/real-world"
OWN = Path(__file__).with_name("own_manifests.yaml")
OWN_VERDICTS = OWN.with_name("own_verdicts.jsonl")


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
    for name, real in json.loads((folder / "verdicts.json").read_text()).items():
        items = documents(folder / name)
        make_namespaces(here, items)
        found = list(problems(here, resources, items))
        if real["accepted"] != (not found):
            wrong.append(f"{name}: {found or 'taken'}, really {real['error'] or 'taken'}")
    assert not wrong, "\n".join(wrong)


def _verdicts(server):
    items = documents(OWN)
    make_namespaces(server, items)
    resources = Resources(server)
    return [verdict(server, resources, item) for item in items]


def test_manifests_of_the_sorts_that_people_apply_get_the_verdict_of_a_real_server():
    here = Here()
    wanted = [json.loads(line) for line in OWN_VERDICTS.read_text().splitlines()]
    items = documents(OWN)
    assert len(items) == len(wanted)
    found = zip(items, _verdicts(here), wanted, strict=True)
    wrong = [f"{one['kind']} {one['metadata']}: {ours}, really {real}" for one, ours, real in found if ours != real]
    here.close()
    assert not wrong, "\n".join(wrong)


def test_a_real_server_still_says_so(plane):
    real = _verdicts(plane.client)
    if os.environ.get("MUSTER_RECORD"):
        OWN_VERDICTS.write_text("".join(json.dumps(one) + "\n" for one in real))
    assert real == [json.loads(line) for line in OWN_VERDICTS.read_text().splitlines()]
