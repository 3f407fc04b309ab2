"""New pods that ask for cards: completed and refused alike by the embedded server and by the webhooks of a real one."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from random import Random

import msgspec
import pytest

from muster.apiserver.admission import Admission
from muster.apiserver.hooks.configurations import Reached
from muster.app.card_admission import card_webhook
from muster.app.config import CardSettings, Configuration, parse_configuration
from muster.app.hooks import SCHEDULER, configurations
from muster.model.errors import InvalidObject
from muster.store.clock import VirtualClock
from muster.store.errors import Forbidden
from muster.store.memory import MemoryStore
from muster.store.records import Key
from tests.apiserver.hooks.world import Hooks, patched

SETTINGS = CardSettings(completes_pods=True)
GPU, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"


def a_pod(limits, *, labels=None, annotations=None, **container):
    metadata = {"name": "p", "namespace": "ns", "labels": labels or {}, "annotations": annotations or {}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": limits}, **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def put(store, key, item):
    store.write(lambda write: write.put(key, uid="u", value=msgspec.json.encode(item)))


def embedded(pod, *others, settings=SETTINGS):
    """The pod as the embedded server would keep it, or why it does not."""
    store = MemoryStore(VirtualClock(0))
    for key, item in others:
        put(store, key, item)
    try:
        return Admission(store, Random(1), cards=card_webhook(settings, "")).complete_new("pods", deepcopy(pod))
    except (Forbidden, InvalidObject) as problem:
        return str(problem)


def hooked(pod, settings=SETTINGS):
    """The same by the webhooks of `muster manage`."""
    hooks = Hooks(replace(Configuration(), cards=settings))
    response = hooks.review("/mutate-cards", "pods", pod)
    return patched(pod, response) if response["allowed"] else response["status"]["message"]


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param({MEMORY: "8000"}, {MEMORY: "8000", GPU: "1"}, id="a part of a card is one card"),
        pytest.param({GPU: "2"}, {GPU: "2", CORES: "100"}, id="a whole card has all its cores"),
        pytest.param({GPU: "1", MEMORY: "8000", CORES: "30"}, None, id="all is said"),
        pytest.param({"cpu": "1"}, None, id="no card"),
    ],
)
def test_what_a_pod_asks_for_is_completed_alike_on_both_ways(limits, want):
    for after in (embedded(a_pod(limits)), hooked(a_pod(limits))):
        assert after["spec"]["containers"][0]["resources"]["limits"] == (want or limits)


def test_variables_runtime_class_and_scheduler():
    device_config = {"nvidia": {"gpuCorePolicy": "force", "runtimeClassName": "nvidia"}}
    settings = replace(SETTINGS, device_config=device_config)
    after = hooked(a_pod({GPU: "1", "nvidia.com/priority": "1"}), settings)
    assert after["spec"]["schedulerName"] == SCHEDULER and after["spec"]["runtimeClassName"] == "nvidia"
    variables = {one["name"]: one["value"] for one in after["spec"]["containers"][0]["env"]}
    assert variables == {"CUDA_TASK_PRIORITY": "1", "GPU_CORE_UTILIZATION_POLICY": "force"}
    assert "schedulerName" not in embedded(a_pod({GPU: "1"}))["spec"]  # there everybody's pods are Muster's
    own = hooked(a_pod({GPU: "1"}), replace(settings, scheduler="hami-scheduler"))
    assert own["spec"]["schedulerName"] == "hami-scheduler"


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        pytest.param(a_pod({GPU: "1"}, securityContext={"privileged": True}), "is privileged", id="privileged"),
        pytest.param(a_pod({"nvidia.com/gpumem-percentage": "200"}), "from 0 to 100", id="no percentage"),
        pytest.param(a_pod({}, annotations={"hami.io/vgpu-node": "n"}), "leave them out", id="forged"),
    ],
)
def test_what_is_refused_is_refused_on_both_ways(pod, problem):
    for told in (embedded(pod), hooked(pod)):
        assert problem in told


def test_pods_and_namespaces_that_opt_out_are_left_alone():
    left = a_pod({GPU: "1"}, labels={"hami.io/webhook": "ignore"})
    assert hooked(left) == left
    limits = embedded(left)["spec"]["containers"][0]["resources"]["limits"]
    namespace = {"metadata": {"name": "ns", "labels": {"hami.io/webhook": "ignore"}}}
    spared = embedded(a_pod({GPU: "1"}), (Key("namespaces", "", "ns"), namespace))
    assert limits == spared["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}


@pytest.mark.parametrize(
    ("limit", "is_refused"),
    [
        pytest.param("9000", True, id="above"),
        pytest.param("12000", False, id="within"),
        pytest.param("0", True, id="0"),
    ],
)
def test_quotas_on_the_memory_of_cards_count_the_pods_there_are(limit, is_refused):
    quota = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {f"limits.{MEMORY}": limit}}}
    running = a_pod({GPU: "1", MEMORY: "4000"})
    ended = {**a_pod({GPU: "1", MEMORY: "50000"}), "status": {"phase": "Succeeded"}}
    after = embedded(
        a_pod({GPU: "2", MEMORY: "4000", CORES: "10"}),
        (Key("resourcequotas", "ns", "q"), quota),
        (Key("pods", "ns", "a"), running),
        (Key("pods", "ns", "b"), ended),
    )
    assert isinstance(after, str) == is_refused


def test_nothing_happens_unless_it_is_turned_on():
    pod = a_pod({GPU: "1"})
    assert hooked(pod, CardSettings()) == pod
    assert embedded(pod, settings=CardSettings())["spec"]["containers"] == pod["spec"]["containers"]


# The configuration ---------------------------------------------------------------------------------------------------


def test_the_block_of_a_configuration():
    text = "cards: {completePods: true, schedulerName: mine, deviceConfig: {nvidia: {resourceCountName: a.b/gpu}}}"
    settings = parse_configuration(text, "muster.yaml").cards
    webhook = card_webhook(settings, "other")
    assert webhook.settings.scheduler == "mine"
    assert next(one for one in webhook.vendors if one.name == "NVIDIA").resources.count == "a.b/gpu"
    broken = replace(settings, device_config={"nvidia": {"deviceSplitCount": 0}})
    with pytest.raises(InvalidObject, match=r"cards\.deviceConfig.*deviceSplitCount"):
        card_webhook(broken, "")


def test_an_api_server_asks_only_where_it_is_turned_on_and_never_waits_for_the_answer():
    reached = Reached(url="https://muster:9443")

    def names(settings):
        mutating, _ = configurations(replace(Configuration(), cards=settings), reached)
        return {one["name"]: one for one in mutating["webhooks"]}

    assert "cards.mutate.muster.dev" not in names(CardSettings())
    asked = names(SETTINGS)["cards.mutate.muster.dev"]
    assert (asked["failurePolicy"], asked["reinvocationPolicy"]) == ("Ignore", "Never")
    assert asked["clientConfig"]["url"].endswith("/mutate-cards")
    assert asked["objectSelector"]["matchExpressions"][0]["key"] == "hami.io/webhook"
