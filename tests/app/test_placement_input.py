"""What nobody should write of nodes, cards and pods: each gets its verdict or refusal, soon, and the rest goes on."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from muster.app.config import Configuration
from muster.app.plan import Admitted, PlanOptions, PlanReport, plan_objects
from muster.model.documents import Document
from muster.model.reason import Code

NOW = 1_772_442_000.0
SOON_S = 2.0  # each takes a few hundredths; what grows with an amount takes hours
PROFILES = ("muster", "kube-default")
BILLION = 10**9
CARD, MEMORY = "nvidia.com/gpu", "nvidia.com/gpumem"
ALLOCATED = "hami.io/vgpu-devices-allocated"
REGISTER = "hami.io/node-nvidia-register"

Object = dict[str, Any]


def node(name: str = "n1", allocatable: Object | None = None, **metadata: Any) -> Object:
    amounts = {"cpu": "64", "memory": "512Gi", CARD: "8", "pods": "110"} if allocatable is None else allocatable
    labels = {"kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, **metadata},
        "status": {"allocatable": amounts},
    }


def registering(register: str | None = None, cards: int = 2) -> Object:
    """A node whose cards are registered by HAMi's annotation."""
    return node(
        allocatable={"cpu": "64", CARD: "20"}, annotations={REGISTER: register or json.dumps(register_of(cards))}
    )


def register_of(cards: int, **changes: Any) -> list[Object]:
    card = {"count": 10, "devmem": 32768, "devcore": 100, "type": "NVIDIA-V100", "health": True, "mode": "hami-core"}
    return [{"id": f"GPU-{number}", "index": number, **card, **changes} for number in range(cards)]


def pod(name: str = "p", limits: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:
    resources = {"limits": {CARD: "1"} if limits is None else limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main", "image": "example.com/x:1", "resources": resources}], **spec},
    }


def job(pods: int, annotations: Object | None = None, **spec: Any) -> Object:
    template = {"restartPolicy": "Never", **pod()["spec"], **spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "annotations": annotations or {}},
        "spec": {"parallelism": pods, "template": {"spec": template}},
    }


def planned(*objects: Object, profile: str = "muster") -> PlanReport:
    """The plan, which has to be there soon whatever it is asked about."""
    options = PlanOptions(now=NOW, configuration=Configuration().with_profile(profile, "profile"))
    plan_objects([Document(node(), "warm.yaml", 1)], options)  # what is loaded at first is not what is measured
    before = time.process_time()
    report = plan_objects([Document(one, "f.yaml", 1) for one in objects], options)
    assert time.process_time() - before < SOON_S
    assert report.is_settled
    return report


def refused(report: PlanReport) -> list[str]:
    return [f"{one.object}: {one.path}" for one in report.refused]


def waiting(report: PlanReport) -> list[tuple[Code, str]]:
    found = [(one.verdict.code, "; ".join(reason.text for reason in one.verdict.details)) for one in report.waiting]
    return [(code, text.rpartition(": ")[2]) for code, text in found]


def placed_on(report: PlanReport) -> dict[str, list[str]]:
    """By workload, the cards that its pods got."""
    found: dict[str, list[str]] = {}
    for step in report.steps:
        assert isinstance(step, Admitted)
        slots = [slot for one in step.pod_sets for slot in one.slots if slot.slices is not None]
        found[report.owners[step.workload]] = [share.uuid for slot in slots for share in slot.slices.shares]
    return found


# Gangs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pods", [9, 10**6, BILLION, 2**31 - 1])
def test_a_gang_larger_than_the_cluster_never_starts(pods):
    text = f"{pods} pods of main must start together, 8 is the most that could ever fit"
    assert waiting(planned(node(), job(pods))) == [(Code.WAITING_FOR_NODES, text)]


@pytest.mark.parametrize("pods", [100_001, BILLION, 2**31 - 1])
def test_more_pods_than_are_placed_one_by_one_never_start(pods):
    """They ask for nothing, and the node does not say how many it takes: only their number is absurd."""
    bare = job(pods)
    bare["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    text = f"{pods} pods are more than the 100000 that one workload gets nodes for"
    assert waiting(planned(node(allocatable={"cpu": "64"}), bare)) == [(Code.WAITING_FOR_NODES, text)]


def test_one_by_one_only_the_first_of_very_many_pods_are_decided_on():
    report = planned(node(), job(BILLION), profile="kube-default")
    assert len(report.steps) == 8 and len(report.steps) + len(report.waiting) == 5000
    (warning,) = report.warnings
    assert "has 1000000000 pods; the first 5000 are decided on one by one" in str(warning)


@pytest.mark.parametrize("pods", [2**31, 10**30])
@pytest.mark.parametrize("profile", PROFILES)
def test_more_pods_than_kubernetes_counts(pods, profile):
    assert refused(planned(node(), job(pods), profile=profile)) == ["Job default/j: spec.parallelism"]


@pytest.mark.parametrize("least", ["0", "-1", "3", "1e9", "x"])
def test_a_minimum_that_is_none(least):
    report = planned(node(), job(2, {"kueue.x-k8s.io/job-min-parallelism": least}))
    assert refused(report) == ["Job default/j: metadata.annotations[kueue.x-k8s.io/job-min-parallelism]"]


# Amounts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"example.com/npu": "1"}, id="a kind of card that no node has"),
        pytest.param({CARD: "9"}, id="more cards than a node has"),
        pytest.param({CARD: str(BILLION)}, id="very many cards"),
        pytest.param({CARD: "1e30"}, id="absurdly many cards"),
        pytest.param({"cpu": "1e30"}, id="absurdly much"),
        pytest.param({"memory": "9" * 400}, id="an absurdly long number"),
    ],
)
def test_what_no_node_has_is_said_to_fit_nowhere(limits, profile):
    assert waiting(planned(node(), pod(limits=limits), profile=profile)) == [
        (Code.WAITING_FOR_NODES, "no node could ever hold it")
    ]


@pytest.mark.parametrize("limits", [{CARD: "1e30", MEMORY: "100"}, {CARD: str(BILLION), MEMORY: "100"}])
@pytest.mark.parametrize("profile", PROFILES)
def test_absurdly_many_slices(limits, profile):
    assert waiting(planned(registering(), pod(limits=limits), profile=profile)) == [
        (Code.WAITING_FOR_NODES, "no node could ever hold it")
    ]


@pytest.mark.parametrize("memory", ["1e30", str(2**62)])
def test_more_memory_than_any_card_has_is_the_card_for_itself(memory):
    """HAMi passes such a request over; the count still stands, and nobody else gets a part of that card."""
    report = planned(
        registering(cards=1), pod(limits={CARD: "1", MEMORY: memory}), pod("other", {CARD: "1", MEMORY: "1"})
    )
    assert [report.owners[step.workload] for step in report.steps] == ["Pod default/p"]
    assert [code for code, _ in waiting(report)] == [Code.WAITING_FOR_NODES]


@pytest.mark.parametrize("limits", [{CARD: "-1"}, {"cpu": "-1E30"}, {MEMORY: "-5"}, {"cpu": "1 Gi"}, {"cpu": "NaN"}])
def test_amounts_that_are_none_are_refused(limits):
    (name,) = limits
    report = planned(node(), pod(limits=limits), pod("sound"))
    assert refused(report) == [f"Pod default/p: spec.containers[0].resources.limits[{name}]"]
    assert [report.owners[step.workload] for step in report.steps] == ["Pod default/sound"], "the rest goes on"


# Nodes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "allocatable",
    [{CARD: str(BILLION)}, {CARD: "1e30"}, {"cpu": "-4"}, {CARD: "-8"}, {"memory": "-1E30"}, {"cpu": "1 Gi"}],
)
def test_a_node_that_cannot_be_is_refused(allocatable):
    (name,) = allocatable
    report = planned(node("absurd", allocatable), node(), job(8))
    assert refused(report) == [f"Node absurd: status.allocatable[{name}]"]
    assert len(report.steps) == 1, "the sound node serves"


def test_a_node_may_have_more_of_other_things_than_can_be_counted():
    report = planned(node(allocatable={"cpu": "1e30", "memory": "9" * 400, CARD: "8"}), job(8))
    assert (len(report.steps), refused(report)) == (1, [])


@pytest.mark.parametrize("name", ["", "UPPER", "a" * 254, "a/../b"])
def test_a_node_without_a_proper_name(name):
    (remark,) = planned(node(name), node()).refused
    assert remark.path == "metadata.name"


def test_of_two_nodes_by_one_name_the_later_counts():
    report = planned(node(), node(allocatable={CARD: "2"}), job(8))
    assert [one.path for one in report.warnings] == ["metadata.name"]
    assert waiting(report) == [
        (Code.WAITING_FOR_NODES, "8 pods of main must start together, 2 is the most that could ever fit")
    ]


def test_a_node_that_says_nothing_takes_nothing():
    report = planned(node("bare", {}), node(), job(9))
    assert "Node bare: status.allocatable: is missing, so no pod fits on the node" in str(report.warnings[0])
    assert report.waiting


def test_nulls_are_as_good_as_absent():
    bare = node(allocatable={"cpu": "4", CARD: None, "pods": None})
    bare["metadata"] |= {"annotations": None, "labels": None}
    bare["spec"], bare["status"]["conditions"] = None, None
    assert len(planned(bare, pod(limits={"cpu": "1"}, affinity=None, nodeSelector=None, tolerations=None)).steps) == 1


@pytest.mark.parametrize(
    ("register", "path"),
    [
        pytest.param("[[[", "", id="no JSON"),
        pytest.param('{"a": 1}', "", id="no list"),
        pytest.param(json.dumps(register_of(1, devmem=-5)), "[0].devmem", id="less than no memory"),
        pytest.param(json.dumps(register_of(1, devmem=10**40)), "[0].devmem", id="absurdly much memory"),
        pytest.param(json.dumps(register_of(1, count=10**40)), "[0].count", id="absurdly many sharers"),
        pytest.param("[" * 100_000, "", id="absurdly deep"),
    ],
)
def test_a_register_that_cannot_be_read_gives_no_cards_to_share(register, path):
    report = planned(registering(register), pod(limits={CARD: "1", MEMORY: "100"}))
    assert [one.path for one in report.warnings] == [f"metadata.annotations[{REGISTER}]{path}"]
    assert [code for code, _ in waiting(report)] == [Code.WAITING_FOR_NODES]


def test_absurdly_many_registered_cards_are_refused():
    report = planned(registering(cards=1025), node("sound"))
    assert refused(report) == ["Node n1: metadata.annotations"]


def test_a_card_of_an_unknown_type_is_waited_for_and_said():
    wish = {"nvidia.com/use-gputype": "H9000"}
    (one,) = planned(registering(), pod(limits={CARD: "1", MEMORY: "100"}, annotations=wish)).waiting
    assert "2/2 CardTypeMismatch" in one.fits["main"].text


# What pods claim -----------------------------------------------------------------------------------------------------


def holding(claim: str) -> Object:
    """A bound pod that asks for 16,000 MB of a card and says that it holds something."""
    return pod("holder", {CARD: "1", MEMORY: "16000"}, {"hami.io/vgpu-node": "n1", ALLOCATED: claim}, nodeName="n1")


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        pytest.param("GPU-0,NVIDIA,1,0:;", "less memory than the containers ask for", id="less than it asks for"),
        pytest.param("GPU-0,NVIDIA,-5,0:;", "holds the memory '-5'", id="less than nothing"),
        pytest.param(f"GPU-0,NVIDIA,{10**30},0:;", f"holds the memory '{10**30}'", id="more than any card has"),
        pytest.param("GPU-0,NVIDIA,99999,0:;", "more than the card 'GPU-0' has", id="more than this card has"),
        pytest.param("GPU-9,NVIDIA,16000,0:;", "the card 'GPU-9', which the node has not", id="another node's card"),
        pytest.param("x,y", "", id="nothing that can be read"),
    ],
)
def test_forged_claims_give_nobody_more_room(claim, problem):
    """Whatever a pod says that it holds, two others cannot have both cards nearly whole beside it."""
    large = {CARD: "1", MEMORY: "30000"}
    report = planned(registering(), holding(claim), pod("a", large), pod("b", large))
    assert len(report.steps) <= 1
    assert len(report.steps) + len(report.waiting) == 2
    assert any(problem in one.problem for one in report.warnings)


def test_a_claim_of_a_pod_that_is_on_no_node_is_nothing():
    claim = {"hami.io/vgpu-node": "n1", ALLOCATED: "GPU-0,NVIDIA,32768,100:;GPU-1,NVIDIA,32768,100:;"}
    report = planned(
        registering(), pod("forger", {CARD: "1", MEMORY: "100"}, claim), pod("b", {CARD: "2", MEMORY: "30000"})
    )
    assert len(report.steps) == 2


@pytest.mark.parametrize(
    "name", ["muster.dev/card-affinity", "muster.dev/card-anti-affinity", "hami.io/device-scoring-weights"]
)
def test_wishes_that_cannot_be_read(name):
    wish = {name: "((("}
    report = planned(registering(), pod(limits={CARD: "1", MEMORY: "100"}, annotations=wish))
    assert refused(report) == [f"Pod default/p: metadata.annotations[{name}]"]


def test_a_running_pod_counts_whatever_it_wished_for():
    bound = holding("GPU-0,NVIDIA,16000,0:;")
    bound["metadata"]["annotations"]["muster.dev/card-affinity"] = "((("
    report = planned(registering(cards=1), bound, pod("a", {CARD: "1", MEMORY: "30000"}))
    assert not report.refused and not report.steps


# Rules ---------------------------------------------------------------------------------------------------------------

MANY = 2000
ENOUGH = 1000  # as many as are taken
_SELECTOR = {"matchLabels": {"app": "web"}}


def node_terms(count: int) -> Object:
    terms = [{"matchExpressions": [{"key": f"k{n}", "operator": "In", "values": ["v"]}]} for n in range(count)]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def pod_terms(count: int) -> Object:
    terms = [{"labelSelector": {"matchLabels": {f"k{n}": "v"}}, "topologyKey": "zone"} for n in range(count)]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def spreads(count: int) -> Object:
    common = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _SELECTOR}
    return {"topologySpreadConstraints": [{**common, "topologyKey": f"t{n}"} for n in range(count)]}


@pytest.mark.parametrize("rules", [node_terms, pod_terms, spreads])
@pytest.mark.parametrize("profile", PROFILES)
def test_thousands_of_rules_are_refused(rules, profile):
    report = planned(node(), job(8, **rules(MANY)), profile=profile)
    (remark,) = report.refused
    assert (remark.problem, remark.hint) == (f"holds {MANY} entries", f"give at most {ENOUGH}")
    assert remark.path.startswith("spec.template.spec."), "as the job has it"


@pytest.mark.parametrize("rules", [node_terms, pod_terms, spreads])
@pytest.mark.parametrize("profile", PROFILES)
def test_as_many_rules_as_are_taken_are_soon_answered(rules, profile):
    report = planned(node(), job(2, **rules(ENOUGH)), profile=profile)
    assert not report.refused
    assert report.steps or report.waiting


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param({"nodeSelector": {f"k{n}": "v" for n in range(20_000)}}, id="many labels"),
        pytest.param({"nodeSelector": {"zone": "x" * 100_000}}, id="a long value"),
        pytest.param(
            {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(10_000)]}, id="tolerations"
        ),
    ],
)
def test_monstrous_selectors_are_soon_answered(rules):
    report = planned(node(), pod(**rules))
    assert len(report.steps) + len(report.waiting) == 1


@pytest.mark.parametrize("text", ["a in (" * 20_000, "a" * 200_000, "(" * 200_000, ",".join(["a=b"] * 20_000)])
def test_monstrous_selectors_of_neighbours_are_refused_or_answered(text):
    wish = {"muster.dev/card-affinity": text}
    report = planned(registering(), pod(limits={CARD: "1", MEMORY: "100"}, annotations=wish))
    assert len(report.steps) + len(report.waiting) + len(report.refused) == 1


def test_a_node_that_is_not_ready_takes_nothing():
    sick = node()
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    (one,) = planned(sick, pod()).waiting
    assert "1 not ready" in one.fits["main"].text
