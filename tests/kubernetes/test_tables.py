"""Tables of the same objects, made by a real server and by Muster, have the same columns and the same cells."""

from __future__ import annotations

import json
import math
import random
import time
from collections import defaultdict
from copy import deepcopy

import pytest
import yaml

from muster.apiserver.facts import KINDS
from muster.apiserver.tables import Include, table
from muster.dialects.kueue import kinds as kueue
from tests.apiserver.table_stories import Story, kueue_stories, stories
from tests.kubernetes.plane import started
from tests.support import shared

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# What the older version of an autoscaler has no fields for is in here; Muster keeps autoscalers in the newer one.
ELSEWHERE = "autoscaling.alpha.kubernetes.io/metrics"
LISTED = [kind for kind, facts in KINDS.items() if "list" in facts.verbs]
LEARNS_S = 20.0
POD = ("", "v1", "Pod")
STORIES, RANDOM = "stories", "random"  # namespaces


@pytest.fixture(scope="module")
def server(real_program, tmp_path_factory):
    """A server of our own: default classes and priorities would change what other tests create."""
    with started(tmp_path_factory.mktemp("tables")) as plane:
        for name in (STORIES, RANDOM):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            assert plane.client.request("POST", "/api/v1/namespaces", namespace).status == 201
        yield plane.client


def collection(kind, namespace=STORIES):
    group, version, name = kind
    facts = KINDS[kind] if kind in KINDS else kueue.KINDS[name]
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{facts.plural}" if facts.is_namespaced else f"{root}/{facts.plural}"


def has_status(kind):
    return "status" in KINDS[kind].subresources if kind in KINDS else kueue.KINDS[kind[2]].has_status


def create(client, story, namespace=STORIES):
    """Create the object, ask for its deletion, which something holds up, and write its status."""
    path = collection(story.kind, namespace)
    item = deepcopy(story.object)
    for about in ("involvedObject", "regarding"):
        if about in item:
            item[about]["namespace"] = namespace
    made = client.request("POST", path, item)
    assert made.status == 201, f"{story.kind[2]} {story.name}: {made.json['message']}"
    if story.is_deleted:
        assert client.request("DELETE", f"{path}/{story.name}").status in (200, 202)
    if "status" in item and has_status(story.kind):
        patch, merge = {"status": item["status"]}, "application/merge-patch+json"
        answer = client.request("PATCH", f"{path}/{story.name}/status", patch, content_type=merge)
        assert answer.status == 200, f"{story.kind[2]} {story.name}: {answer.json['message']}"


def wait_until_served(client, path):
    """A server needs a moment to learn of a new kind."""
    deadline_s = time.monotonic() + LEARNS_S
    while client.request("GET", f"{path}?limit=1").status != 200:
        assert time.monotonic() < deadline_s, f"{path} is not served"


def moments(begin_s, end_s):
    """Every moment at which an age may have changed between two others, and both."""
    return [begin_s, *range(math.ceil(begin_s), math.floor(end_s) + 1), end_s]


def compare(client, kind, path):
    """One list as the server's table and as ours; cells that tell an age may be of any moment of the request."""
    begin_s = time.time()
    answer = client.request("GET", f"{path}?includeObject=Object", accept=TABLE)
    end_s = time.time()
    theirs = {**answer.json, "rows": answer.json["rows"] or []}
    theirs["rows"] = [
        row for row in theirs["rows"] if ELSEWHERE not in row["object"]["metadata"].get("annotations", {})
    ]
    objects = [row["object"] for row in theirs["rows"]]
    by_moment = [
        table(kind, objects, now_s=now_s, include=Include.OBJECT, metadata=theirs["metadata"])
        for now_s in moments(begin_s, end_s)
    ]
    ours = by_moment[0]
    for column in theirs["columnDefinitions"]:
        column["description"] = ""
    assert ours["columnDefinitions"] == theirs["columnDefinitions"]
    assert {name: ours[name] for name in ("kind", "apiVersion", "metadata")} == {
        name: theirs[name] for name in ("kind", "apiVersion", "metadata")
    }
    names = [column["name"] for column in theirs["columnDefinitions"]]
    for number, row in enumerate(theirs["rows"]):
        for index, name in enumerate(names):
            possible = [one["rows"][number]["cells"][index] for one in by_moment]
            assert row["cells"][index] in possible, (
                f"{kind[2]} {row['object']['metadata']['name']}, {name}: {json.dumps(row['object'].get('status'))}"
            )
        assert [one["reason"] for one in row.get("conditions", ())] == [
            one["reason"] for one in ours["rows"][number].get("conditions", ())
        ]
    return theirs


@pytest.fixture(scope="module")
def created(server):
    """All stories, on the server."""
    by_kind = defaultdict(list)
    for story in stories():
        create(server, story)
        by_kind[story.kind].append(story.name)
    return by_kind


@pytest.mark.parametrize("kind", LISTED, ids=lambda kind: "-".join(filter(None, kind)))
def test_a_table_says_what_the_real_server_says(server, created, kind):
    theirs = compare(server, kind, collection(kind))
    assert {row["object"]["metadata"]["name"] for row in theirs["rows"]} >= set(created[kind])


@pytest.mark.parametrize("include", list(Include))
def test_rows_carry_what_is_asked_for(server, created, include):
    path = f"{collection(POD)}/pod-06"
    item = server.request("GET", path).json
    theirs = server.request("GET", f"{path}?includeObject={include.value}", accept=TABLE).json
    version = {"resourceVersion": item["metadata"]["resourceVersion"]}
    ours = table(POD, [item], now_s=time.time(), include=include, metadata=version)
    assert theirs["metadata"] == ours["metadata"]
    assert theirs["rows"][0]["object"] == ours["rows"][0]["object"]
    assert theirs.keys() == ours.keys() and theirs["rows"][0].keys() == ours["rows"][0].keys()


def test_the_scale_of_an_object_has_a_table_too(server, created):
    path = f"{collection(('apps', 'v1', 'Deployment'))}/done/scale"
    item = server.request("GET", path).json
    theirs = server.request("GET", path, accept=TABLE).json
    ours = table(("autoscaling", "v1", "Scale"), [item], now_s=time.time(), metadata=theirs["metadata"])
    for column in theirs["columnDefinitions"]:
        column["description"] = ""
    assert ours["columnDefinitions"] == theirs["columnDefinitions"]
    assert ours["rows"][0]["cells"][:3] == theirs["rows"][0]["cells"][:3] == ["done", 2, 3]


@pytest.fixture(scope="module")
def kueue_created(server):
    """The stories about Kueue's kinds, on a server that has been taught them; versions are not converted."""
    for path in sorted(shared("crds").glob("*.kueue.x-k8s.io.yaml")):
        definition = yaml.safe_load(path.read_text())
        definition["spec"]["conversion"] = {"strategy": "None"}
        answer = server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        assert answer.status == 201, answer.json["message"]
    for story in kueue_stories():
        wait_until_served(server, collection(story.kind))
        create(server, story)


@pytest.mark.parametrize("version", kueue.VERSIONS)
@pytest.mark.parametrize("name", kueue.KINDS)
def test_kueue_s_kinds_have_the_columns_of_its_own_definitions(server, kueue_created, name, version):
    kind = ("kueue.x-k8s.io", version, name)
    wait_until_served(server, collection(kind))
    compare(server, kind, collection(kind))


def random_state(dice):
    """What a container does now, or did before."""
    ended = {"exitCode": dice.choice([0, 0, 1, 137]), "finishedAt": f"2026-01-01T11:{dice.randrange(60):02}:00Z"}
    ended |= dice.choice([{}, {"reason": "Completed"}, {"reason": "Error"}, {"signal": 9}])
    waiting = dice.choice([{}, {"reason": "PodInitializing"}, {"reason": "CrashLoopBackOff"}])
    return dice.choice([{}, {"running": {}}, {"running": {}}, {"waiting": waiting}, {"terminated": ended}])


def random_statuses(dice, containers):
    return [
        {
            "name": container["name"],
            "image": "",
            "imageID": "",
            "ready": dice.random() < 0.5,
            "started": dice.choice([None, False, True]),
            "restartCount": dice.choice([0, 0, 1, 7]),
            "state": random_state(dice),
            "lastState": random_state(dice),
        }
        for container in containers
    ]


def random_pod(number):
    """A pod in a state that may never occur, but that the server takes."""
    dice = random.Random(number)
    init = [{"name": f"i{one}", "image": "i"} for one in range(dice.randrange(4))]
    for container in init:
        container |= dice.choice([{}, {"restartPolicy": "Always"}])
    main = [{"name": f"c{one}", "image": "c"} for one in range(dice.randrange(1, 4))]
    gates = [{"conditionType": name} for name in ("Ready", "a", "b") if dice.random() < 0.2]
    kinds = [kind for kind in ("Ready", "Initialized", "PodScheduled", "a") if dice.random() < 0.4]
    conditions = [{"type": kind, "status": dice.choice(["True", "False"])} for kind in kinds]
    status = {
        "phase": dice.choice(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        "reason": dice.choice(["", "", "Evicted", "NodeLost"]),
        "conditions": conditions,
        "initContainerStatuses": random_statuses(dice, init[: dice.randrange(len(init) + 1)]),
        "containerStatuses": random_statuses(dice, main[: dice.randrange(len(main) + 1)]),
    }
    spec = {"containers": main, "initContainers": init, "readinessGates": gates, "nodeName": "n1"}
    metadata = {"name": f"random-{number:04}", "finalizers": ["example.com/hold"]}
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return Story({**item, "status": status}, is_deleted=dice.random() < 0.2, cells=[])


@pytest.mark.prove
def test_pods_in_any_state_are_summed_up_as_the_real_server_does(server, proof_count):
    for number in range(proof_count(5000)):
        create(server, random_pod(number), RANDOM)
    compare(server, POD, collection(POD, RANDOM))
