"""The webhook: which pods are taken over, changed or refused."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.hami.quota import QuotaLine
from muster.dialects.hami.settings import HamiSettings
from muster.dialects.hami.webhook import Webhook
from muster.vendors import metax
from muster.vendors.nvidia import VENDOR, vendor
from muster.vendors.nvidia.settings import NvidiaSettings
from tests.dialects.hami.builders import CORES, GPU, MEM, limits


def spec(*containers: dict[str, str], **parts: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"limits": one}} for one in containers], **parts}


def verdict(given: dict[str, Any], quota: dict[str, QuotaLine] | None = None, **settings: Any):
    return Webhook(vendors=(VENDOR,), settings=HamiSettings(**settings)).admit({"spec": given}, quota or {})


def test_a_pod_with_cards_is_taken_over():
    admission = verdict(spec(limits(gpus=1)))
    assert admission.is_allowed
    assert admission.pod["spec"]["schedulerName"] == "hami-scheduler"
    assert admission.pod["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1", CORES: "100"}


def test_a_pod_without_cards_is_left_alone():
    given = spec({})
    assert verdict(given).pod == {"spec": given}


@pytest.mark.parametrize(
    ("scheduler", "settings", "want"),
    [
        pytest.param("", {}, "hami-scheduler", id="no scheduler"),
        pytest.param("default-scheduler", {}, "hami-scheduler", id="the default one is replaced"),
        pytest.param("volcano", {}, "volcano", id="another one is respected"),
        pytest.param(
            "default-scheduler", {"is_default_scheduler_replaced": False}, "default-scheduler", id="not replaced"
        ),
        pytest.param("", {"scheduler": ""}, "", id="nobody to take it over"),
    ],
)
def test_schedulers(scheduler, settings, want):
    admission = verdict(spec(limits(gpus=1), schedulerName=scheduler), **settings)
    assert (admission.is_allowed, admission.pod["spec"]["schedulerName"]) == (True, want)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param(spec(), 403, id="no containers"),
        pytest.param(spec(limits(gpus=1), nodeName="x"), 403, id="a node of its own"),
        pytest.param(spec(limits(gpus=1, percent=101)), 500, id="more than a card"),
        pytest.param({"containers": "many"}, 400, id="not a pod"),
        pytest.param(
            {
                "containers": [
                    {"name": "c", "resources": {"limits": {GPU: "1"}}, "securityContext": {"privileged": True}}
                ]
            },
            403,
            id="privileged",
        ),
    ],
)
def test_refusals(given, code):
    admission = verdict(given)
    assert (admission.is_allowed, admission.code) == (False, code)
    assert admission.message


@pytest.mark.parametrize(
    ("containers", "init", "is_allowed"),
    [
        pytest.param([limits(gpus=2, mem=50)], [], True, id="all of it"),
        pytest.param([limits(gpus=2, mem=51)], [], False, id="one more for each card"),
        pytest.param([limits(gpus=1, mem=60)], [limits(gpus=1, mem=100)], True, id="init containers go before"),
        pytest.param([limits(gpus=1, mem=60)], [limits(gpus=1, mem=101)], False, id="the hungriest init container"),
        pytest.param([limits(gpus=1, percent=90)], [], True, id="a percentage is of an unknown card"),
    ],
)
def test_quota(containers, init, is_allowed):
    given = spec(*containers, initContainers=[{"resources": {"limits": one}} for one in init])
    assert verdict(given, {MEM: QuotaLine(limit=100)}).is_allowed is is_allowed


def test_a_limit_of_nothing_blocks_and_no_limit_does_not():
    assert not verdict(spec(limits(gpus=1, mem=1)), {MEM: QuotaLine(limit=0)}).is_allowed
    assert verdict(spec(limits(gpus=1, mem=1)), {MEM: QuotaLine(used=99)}).is_allowed


def test_the_runtime_class():
    webhook = Webhook(vendors=(vendor(NvidiaSettings(runtime_class="nvidia")),))
    assert webhook.admit({"spec": spec(limits(gpus=1))}, {}).pod["spec"]["runtimeClassName"] == "nvidia"
    own = {"spec": spec(limits(gpus=1), runtimeClassName="own")}
    assert webhook.admit(own, {}).pod["spec"]["runtimeClassName"] == "own"
    assert "schedulerName" not in own["spec"], "the pod given is not changed"


def test_what_vendors_note_on_a_pod():
    webhook = Webhook(vendors=metax.VENDORS)
    admitted = webhook.admit({"metadata": {"name": "p"}, "spec": spec({"metax-tech.com/sgpu": "1"})}, {})
    assert admitted.pod["metadata"] == {"name": "p", "annotations": {"metax-tech.com/sgpu-qos-policy": "best-effort"}}
    assert webhook.admit({"metadata": {"name": "p"}, "spec": spec({})}, {}).pod["metadata"] == {"name": "p"}
