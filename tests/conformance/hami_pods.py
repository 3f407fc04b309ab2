"""Replays HAMi's cases on pods: requests, admission, quota and the filter over nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from muster.dialects.hami.filter import Extender, FilterAnswer
from muster.dialects.hami.quota import Amounts, QuotaLine, fits_quota
from muster.dialects.hami.read import node_cards
from muster.dialects.hami.requests import requests_of
from muster.dialects.hami.settings import ASSIGNED_AT
from muster.dialects.hami.webhook import Webhook, fits_pod_quota
from muster.engine.contracts import DeviceResources
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from tests.conformance import hami_objects as objects
from tests.conformance import hami_vendors
from tests.conformance.cases import Case, Skip, expect_equal
from tests.conformance.hami_cards import MASKED_TIME, or_error, wanted_or_error

Json = Mapping[str, Any]
# One answer of this test, about a quota that is being updated, contradicts the lines recorded with it: they show no
# limit, and everywhere else no limit lets everything pass.
RACING = "TestUpdateQuotaKeepsLimitEnforced"


def container_request(case: Case) -> None:
    vendor = hami_vendors.of_function(case.body)
    got = vendor.request_of(Fields(case.body["input"]["ctr"]))
    expect_equal("request", objects.request_struct(got), case.body["output"][0])


def pod_requests(case: Case) -> None:
    got = requests_of(Fields(case.body["input"]["pod"]), hami_vendors.of_config(case.body))
    shown = [{name: objects.request_struct(request) for name, request in asked.items()} for asked in got]
    expect_equal("requests", shown, case.body["output"][0])


# Quota ---------------------------------------------------------------------------------------------------------------


def quota_fit(case: Case) -> None:
    given = case.body["input"]
    if case.body["name"].startswith(RACING) and case.body["seq"] > 1:
        raise Skip("the quota recorded is not the one that the answer is about")
    names = ((case.body["_config"].get("devices") or {}).get(given["deviceName"]) or {}).get("names") or {}
    resources = DeviceResources(
        count=names.get("ResourceCountName", ""),
        memory=names.get("ResourceMemoryName", ""),
        cores=names.get("ResourceCoreName", ""),
        memory_factor=given["memoryFactor"],
    )
    quota = objects.quotas(case.body.get("receiver") or case.body.get("quotas")).get(given["ns"], {})
    got = fits_quota(quota, resources, Amounts(given["memreq"], given["coresreq"]))
    expect_equal("fits", got, case.body["output"][0])


def pod_quota(case: Case) -> None:
    pod = Fields(case.body["input"]["pod"])
    quota = objects.quotas(case.body.get("quotas")).get(pod.child("metadata").text("namespace"), {})
    got = fits_pod_quota(pod, hami_vendors.of_config(case.body), quota)
    expect_equal("fits", got, case.body["output"][0])


# Admission -----------------------------------------------------------------------------------------------------------


def admit_container(case: Case) -> None:
    given = case.body["input"]
    vendor = hami_vendors.of_function(case.body)
    assert vendor.admit is not None
    key = "p" if "p" in given else "pod"
    annotations = given[key]["metadata"].get("annotations") or {}
    got = or_error(lambda: vendor.admit(Fields(given["ctr"]), annotations))
    if got == "error":
        expect_equal("answer", got, wanted_or_error(case.body["output"], "no error"))
        return
    expect_equal("error", None, case.body["output"][1])
    after = case.body.get("input_after") or {}
    pod = after.get(key, given[key])
    expect_equal("asking", got.is_asking, case.body["output"][0])
    expect_equal("container", got.container, after.get("ctr", given["ctr"]))
    if "runtimeClassName" not in given[key]["spec"]:  # the webhook keeps a pod's own
        expect_equal("runtime class", got.runtime_class, pod["spec"].get("runtimeClassName", ""))
    expect_equal("annotations", {**annotations, **got.annotations}, pod["metadata"].get("annotations") or {})


def admit_pod(case: Case) -> None:
    webhook = Webhook(vendors=hami_vendors.of_config(case.body), settings=objects.settings(case.body["_config"]))
    request = case.body["input"]["req"]
    pod = request["object"]
    quota = objects.quotas(case.body.get("quotas")).get(request["namespace"], {})
    admission = webhook.admit(pod, quota)
    wanted = case.body["output"][0]
    expect_equal("allowed", admission.is_allowed, wanted["allowed"])
    expect_equal("code", admission.code, wanted.get("code", 200))
    if admission.is_allowed:
        expect_equal("pod", admission.pod, case.body["mutated_pod"])


# The filter ----------------------------------------------------------------------------------------------------------


def filter_nodes(case: Case) -> None:
    extender = Extender(vendors=hami_vendors.of_config(case.body), settings=objects.settings(case.body["_config"]))
    given = case.body["input"]["args"]
    wanted, error = case.body["output"]
    if given["Nodes"] is not None:
        _filter_templates(case, extender)
        return
    try:
        answer = extender.filter(
            Fields(given["Pod"]), given["NodeNames"] or [], state=objects.filter_state(case.body), now_s=0
        )
    except InvalidObject:
        expect_equal("error", True, bool(error))
        return
    expect_equal("error", False, bool(error))
    expect_equal("refused", dict(answer.refused), wanted["FailedNodes"] or {})
    expect_equal("nodes", list(answer.nodes), wanted["NodeNames"] or [])
    annotations = {**answer.annotations, **({ASSIGNED_AT: MASKED_TIME} if answer.annotations else {})}
    expect_equal("annotations", annotations, case.body.get("pod_annotations_patched") or {})
    _expect_quotas(case, answer)
    _expect_pods(case, answer)


def _filter_templates(case: Case, extender: Extender) -> None:
    """Nodes that do not exist yet are given as objects; what they register is in their annotations."""
    given = case.body["input"]["args"]
    nodes = {}
    for item in given["Nodes"]["items"]:
        devices = node_cards(Fields(item), extender.vendors).devices
        if devices:
            nodes[item["metadata"]["name"]] = devices
    names = [item["metadata"]["name"] for item in given["Nodes"]["items"]]
    state = replace(objects.filter_state(case.body), nodes=nodes)
    answer = extender.fitting(Fields(given["Pod"]), names, state)
    wanted = case.body["output"][0]
    expect_equal("refused", dict(answer.refused), wanted["FailedNodes"] or {})
    items = (wanted["Nodes"] or {}).get("items", [])
    expect_equal("nodes", list(answer.nodes), [item["metadata"]["name"] for item in items])


def _expect_quotas(case: Case, answer: FilterAnswer) -> None:
    after = case.body.get("quotas_after", case.body.get("quotas"))
    expect_equal("quotas", _lines(answer.state.quotas), _lines(objects.quotas(after)))


def _lines(quotas: Mapping[str, Mapping[str, QuotaLine]]) -> dict[tuple[str, str], QuotaLine]:
    """The lines that say anything."""
    return {
        (namespace, name): line
        for namespace, lines in quotas.items()
        for name, line in lines.items()
        if line != QuotaLine()
    }


def _expect_pods(case: Case, answer: FilterAnswer) -> None:
    after = case.body.get("receiver_after", case.body["receiver"])["pods"]
    expect_equal("held", _held(answer.state.pods), _held(map(objects.held, after)))


def _held(pods: Any) -> list[Any]:
    """What is held of which card, pod by pod; groups without a share say nothing."""
    return sorted(
        (pod.uid, pod.node, sorted((one.uuid, one.slots, one.memory_mib, one.cores) for one in shares))
        for pod in pods
        for shares in pod.shares.values()
        if shares
    )


DRIVERS: Mapping[str, Callable[[Case], None]] = {
    "pkg/device:Resourcereqs": pod_requests,
    "pkg/device:QuotaManager.FitQuota": quota_fit,
    "pkg/scheduler:fitResourceQuota": pod_quota,
    "pkg/scheduler:webhook.Handle": admit_pod,
    "pkg/scheduler:Scheduler.Filter": filter_nodes,
}

# Those that every vendor has, by what comes after its name.
VENDOR_DRIVERS: Mapping[str, Callable[[Case], None]] = {
    "GenerateResourceRequests": container_request,
    "MutateAdmission": admit_container,
}
