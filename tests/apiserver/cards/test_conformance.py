"""HAMi's recorded cases once more, through the endpoints: over TLS, with a token, as a scheduler and a server ask."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from muster.apiserver.cards.asgi import CardApp, CardRules
from muster.apiserver.patches import JSON_PATCH, apply_patch
from muster.dialects.hami.filter import FilterState
from muster.dialects.hami.settings import ASSIGNED_AT, HamiSettings
from muster.engine.contracts import Vendor
from muster.store.clock import VirtualClock
from muster.vendors.enflame.cut import CUT
from tests.apiserver.cards.serving import CALLERS, Served
from tests.conformance import hami_objects as objects
from tests.conformance import hami_vendors
from tests.conformance.cases import Case, Skip, expect_equal
from tests.conformance.hami_cards import MASKED_TIME, UNNAMED
from tests.conformance.hami_cases import hami_cases_in
from tests.support import shared

PROBE = "probe-scheduler"  # by which a pod shows that its container asks for cards
NOTHING = FilterState(nodes={})


class Told:
    """A cluster that is as a case tells it, and keeps what is written on pods."""

    def __init__(self, state: FilterState) -> None:
        self._state = state
        self.written: dict[str, str] = {}

    def state(self) -> FilterState:
        return self._state

    async def annotate_pod(self, _key: Any, _uid: str, annotations: Mapping[str, str]) -> None:
        self.written |= annotations


def asked_app(vendors: tuple[Vendor, ...], settings: HamiSettings, state: FilterState) -> tuple[CardApp, Told]:
    cluster = Told(state)
    return CardApp(CardRules.of(vendors, settings), cluster, clock=VirtualClock(), callers=CALLERS), cluster


# The webhook ---------------------------------------------------------------------------------------------------------


def review(pod: Any, namespace: str) -> dict[str, Any]:
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": namespace,
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def after_review(served: Served, pod: Any, namespace: str) -> tuple[bool, int, Any]:
    """Whether a pod is let in, with which code, and what it is then."""
    status, answer = served.post("/webhook", review(pod, namespace), token="")
    assert status == 200, answer
    response = answer["response"]
    if not response["allowed"]:
        return False, response["status"]["code"], None
    if "patch" not in response:
        return True, 200, pod
    return True, 200, apply_patch(JSON_PATCH, deepcopy(pod), base64.b64decode(response["patch"]), None)


def admit_pod(case: Case, served: Served) -> None:
    request = case.body["input"]["req"]
    state = FilterState(nodes={}, quotas=objects.quotas(case.body.get("quotas")))
    served.app, _ = asked_app(hami_vendors.of_config(case.body), objects.settings(case.body["_config"]), state)
    wanted = case.body["output"][0]
    is_allowed, code, pod = after_review(served, request["object"], request["namespace"])
    expect_equal("allowed", is_allowed, wanted["allowed"])
    expect_equal("code", code, wanted.get("code", 200))
    if is_allowed:
        expect_equal("pod", pod, case.body["mutated_pod"])


def admit_container(case: Case, served: Served) -> None:
    given = case.body["input"]
    vendor = hami_vendors.of_function(case.body)
    if (given["ctr"].get("securityContext") or {}).get("privileged"):
        raise Skip("a pod with it would be refused")
    key = "p" if "p" in given else "pod"
    metadata = {"name": "a", **given[key]["metadata"]}
    runtime = {name: value for name, value in given[key]["spec"].items() if name == "runtimeClassName"}
    pod = {"metadata": metadata, "spec": {**runtime, "containers": [given["ctr"]]}}
    served.app, _ = asked_app((vendor,), HamiSettings(scheduler=PROBE), NOTHING)
    is_allowed, code, admitted = after_review(served, pod, "default")
    if isinstance(case.body["output"][1], dict):
        expect_equal("answer", (is_allowed, code), (False, 500))
        return
    expect_equal("allowed", is_allowed, True)
    after = case.body.get("input_after") or {}
    expect_equal("asking", admitted["spec"].get("schedulerName") == PROBE, case.body["output"][0])
    expect_equal("container", admitted["spec"]["containers"][0], after.get("ctr", given["ctr"]))
    wanted = after.get(key, given[key])
    expect_equal(
        "annotations", admitted["metadata"].get("annotations") or {}, wanted["metadata"].get("annotations") or {}
    )


# The extender --------------------------------------------------------------------------------------------------------


def filter_nodes(case: Case, served: Served) -> None:
    vendors, settings = hami_vendors.of_config(case.body), objects.settings(case.body["_config"])
    served.app, cluster = asked_app(vendors, settings, objects.filter_state(case.body))
    wanted, error = case.body["output"]
    status, answer = served.post("/filter", case.body["input"]["args"])
    expect_equal("status", status, 200)
    expect_equal("error", bool(answer["Error"]), bool(error))
    if error:
        return
    expect_equal("refused", answer["FailedNodes"], wanted["FailedNodes"] or {})
    if case.body["input"]["args"]["Nodes"] is not None:
        names = [one["metadata"]["name"] for one in answer["Nodes"]["items"]]
        items = (wanted["Nodes"] or {}).get("items", [])
        expect_equal("nodes", names, [one["metadata"]["name"] for one in items])
        return
    expect_equal("nodes", answer["NodeNames"], wanted["NodeNames"] or [])
    written = {**cluster.written, **({ASSIGNED_AT: MASKED_TIME} if cluster.written else {})}
    expect_equal("annotations", written, case.body.get("pod_annotations_patched") or {})


def explain(served: Served, vendors: tuple[Vendor, ...], pod: Any, nodes: Any = None) -> Any:
    served.app, _ = asked_app(vendors, HamiSettings(), NOTHING)
    status, answer = served.post("/explain", {"Pod": pod, "Nodes": nodes})
    assert status == 200, answer
    return answer


def request_struct(vendor: str, said: Any) -> Any:
    if said is None:
        return objects.request_struct(None)
    percent = objects.PERCENT_NOT_GIVEN if said["memoryPercent"] is None else said["memoryPercent"]
    if vendor == CUT:
        percent = 0 if said["slices"] else objects.BY_AMOUNTS
    return {
        "Type": vendor,
        "Nums": said["count"],
        "Memreq": said["slices"] or said["memoryMiB"],
        "MemPercentagereq": percent,
        "Coresreq": said["cores"],
    }


def container_request(case: Case, served: Served) -> None:
    vendor = hami_vendors.of_function(case.body)
    wanted = case.body["output"][0]
    container = {"name": "a", **case.body["input"]["ctr"]}
    said = explain(served, (vendor,), {"metadata": {}, "spec": {"containers": [container]}})["requests"][0]
    if not said and not wanted["Nums"]:
        return  # whatever else it says, no card is asked for
    expect_equal("request", request_struct(vendor.name, said.get(vendor.name)), wanted)


def pod_requests(case: Case, served: Served) -> None:
    said = explain(served, hami_vendors.of_config(case.body), case.body["input"]["pod"])["requests"]
    shown = [{name: request_struct(name, one) for name, one in asked.items()} for asked in said]
    expect_equal("requests", shown, case.body["output"][0])


# Annotations ---------------------------------------------------------------------------------------------------------


def node_devices(case: Case, served: Served) -> None:
    vendor = hami_vendors.of_function(case.body)
    node = dict(case.body["input"]["n"])
    annotations = node["metadata"].get("annotations") or {}
    if UNNAMED in annotations:
        named = {vendor.register if name == UNNAMED else name: text for name, text in annotations.items()}
        node["metadata"] = {**node["metadata"], "annotations": named}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a"}]}}
    said = explain(served, (vendor,), pod, {"items": [node]})["nodes"][0][vendor.name]
    if isinstance(said, dict) or isinstance(case.body["output"][1], dict):
        expect_equal("refused", isinstance(said, dict), isinstance(case.body["output"][1], dict))
        return
    wanted = [objects.registered(item) for item in case.body["output"][0] or ()]
    shown = [(one["card"], one["index"], one["memoryMiB"], one["cores"], one["slots"], one["numa"]) for one in said]
    expect_equal("cards", shown, [(w.uuid, w.index, w.memory_mib, w.cores, w.slots, w.numa) for w in wanted])
    expect_equal("models", [one["model"] for one in said], [one.model for one in wanted])
    expect_equal("health", [one["isHealthy"] for one in said], [one.is_healthy for one in wanted])
    expect_equal("links", [one["links"] for one in said], [dict(one.pair_scores) for one in wanted])


def decode_pod(case: Case, served: Served) -> None:
    vendors = hami_vendors.of_config(case.body)
    given = case.body["input"]
    annotations = given.get("annos") or {}
    keys = given.get("checklist") or {}
    known = {vendor.name: vendor.allocated for vendor in vendors}
    if any(known.get(name) != key for name, key in keys.items()):
        raise Skip("the test had other names for the annotations")
    said = explain(served, vendors, {"metadata": {"annotations": annotations}, "spec": {}})["shares"]
    is_wrong = any("problem" in said[vendor.name] for vendor in vendors)
    expect_equal("refused", is_wrong, isinstance(case.body["output"][1], dict))
    if is_wrong:
        return
    for name, groups in (case.body["output"][0] or {}).items():
        if name not in said:
            raise Skip(f"nobody knows the vendor {name}")
        wanted = [[(i["UUID"], i["Type"], i["Usedmem"], i["Usedcores"]) for i in group or ()] for group in groups]
        got = [
            [(i["card"], i["vendor"], i["memoryMiB"], i["cores"]) for i in group] for group in said[name]["containers"]
        ]
        expect_equal("shares", got, wanted)
        # Written again it is the text that was read.
        text = annotations[keys.get(name, next(v.allocated for v in vendors if v.name == name))]
        if text.endswith(";"):
            expect_equal("text", said[name]["text"], text)


Driver = Callable[[Case, Served], None]
DRIVERS: Mapping[str, Driver] = {
    "pkg/scheduler:webhook.Handle": admit_pod,
    "pkg/scheduler:Scheduler.Filter": filter_nodes,
    "pkg/device:Resourcereqs": pod_requests,
    "pkg/device:DecodePodDevices": decode_pod,
}
VENDOR_DRIVERS: Mapping[str, Driver] = {
    "MutateAdmission": admit_container,
    "GenerateResourceRequests": container_request,
    "GetNodeDevices": node_devices,
}


def driver_of(case: Case) -> Driver | None:
    return DRIVERS.get(case.source) or VENDOR_DRIVERS.get(case.source.rpartition(".")[2])


CASES = tuple(case for case in hami_cases_in(shared("conformance/hami")) if driver_of(case) is not None)
GROUPS = sorted({case.name.partition("/")[0] for case in CASES})


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as one:
        yield one


@pytest.mark.parametrize("group", GROUPS)
def test_cases_through_the_endpoints(group: str, served: Served) -> None:
    counts: Counter[str] = Counter()
    failures = []
    for case in CASES:
        if case.name.partition("/")[0] != group:
            continue
        driver = driver_of(case)
        assert driver is not None
        try:
            if case.body.get("unstable"):
                raise Skip("the answer differed from call to call when it was recorded")
            driver(case, served)
            counts["passed"] += 1
        except Skip as reason:
            counts[str(reason)] += 1
        except AssertionError as problem:
            failures.append(f"{case}: {problem}"[:600])
        except Exception as problem:
            failures.append(f"{case}: {type(problem).__name__} {problem}"[:600])
    assert not failures, f"{len(failures)} of {sum(counts.values()) + len(failures)}:\n" + "\n".join(failures[:8])
    assert counts["passed"] > sum(counts.values()) * 3 // 4, counts
    print(json.dumps(counts))
