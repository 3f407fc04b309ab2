"""ResourceFlavor, Topology and the smaller kinds, and the metadata of all of them."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.gates import FeatureGates
from muster.dialects.kueue.kinds import HUB, KINDS, OLDER, VERSIONS
from muster.dialects.kueue.validate import problems_of, unknown_fields_of
from tests.dialects.kueue.objects import obj


def refused(made: Any, *, old: Any = None) -> list[str]:
    return [error.path for error in problems_of(made, old=old)[0]]


def tolerated(**toleration: Any) -> Any:
    return {"tolerations": [toleration]}


FIRST = "spec.tolerations[0]"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, [], id="all nodes"),
        pytest.param({"nodeLabels": {"gpu": "a100"}, "topologyName": "t"}, [], id="nodes with a topology"),
        pytest.param({"topologyName": "t"}, ["spec.nodeLabels"], id="a topology of no nodes"),
        pytest.param({"nodeLabels": {"a b": "c"}}, ["spec.nodeLabels"], id="no label"),
        pytest.param({"nodeLabels": {"a": "c d"}}, ["spec.nodeLabels[a]"], id="no label's value"),
        pytest.param({"nodeLabels": {str(i): "x" for i in range(9)}}, ["spec.nodeLabels"], id="nine labels"),
        pytest.param({"nodeLabels": {"a": 5}}, ["spec.nodeLabels[a]"], id="a label that is a number"),
        pytest.param({"nodeTaints": [{"key": "a", "effect": "NoSchedule"}]}, [], id="a taint"),
        pytest.param({"nodeTaints": [{"key": "a", "effect": "No"}]}, ["spec.nodeTaints[0].effect"], id="no effect"),
        pytest.param(
            {"nodeTaints": [{"key": "a b", "value": "c d", "effect": "NoSchedule"}]},
            ["spec.nodeTaints[0].key", "spec.nodeTaints[0].value"],
            id="no taint",
        ),
        pytest.param(
            {"nodeTaints": [{"key": "a", "value": v, "effect": "NoSchedule"} for v in "xy"]},
            ["spec.nodeTaints[1]"],
            id="a taint twice",
        ),
        pytest.param(
            {"nodeTaints": [{"key": "a", "effect": e} for e in ("NoSchedule", "NoExecute")]}, [], id="two effects"
        ),
        pytest.param({"nodeTaints": [{"key": "a"}]}, ["spec.nodeTaints[0].effect"], id="an effect is due"),
        pytest.param(tolerated(operator="Exists"), [], id="everything"),
        pytest.param(tolerated(value="x"), [f"{FIRST}.key"], id="no key and no Exists"),
        pytest.param(tolerated(key="", value="x"), [], id="an empty key is a key"),
        pytest.param(tolerated(key="a b"), [f"{FIRST}.key"], id="no key"),
        pytest.param(tolerated(key="a", operator="Lt", value="1"), [f"{FIRST}.operator"], id="Lt"),
        pytest.param(tolerated(key="a", operator="Exists", value=""), [f"{FIRST}.value"], id="Exists with a value"),
        pytest.param(tolerated(key="a", tolerationSeconds=5), [f"{FIRST}.effect"], id="seconds without NoExecute"),
        pytest.param(tolerated(key="a", tolerationSeconds=5, effect="NoExecute"), [], id="seconds with NoExecute"),
        pytest.param(tolerated(key="a", effect="x"), [f"{FIRST}.effect"], id="no effect at all"),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_resource_flavors(spec: Any, want: list[str], version: str) -> None:
    assert refused(obj("ResourceFlavor", spec, version=version)) == want


LABELS = {"nodeLabels": {"a": "b"}}


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(LABELS, LABELS | {"topologyName": "t"}, [], id="given later"),
        pytest.param(LABELS | {"topologyName": "t"}, LABELS, ["spec.topologyName"], id="taken away"),
        pytest.param(
            LABELS | {"topologyName": "t"}, LABELS | {"topologyName": "u"}, ["spec.topologyName"], id="changed"
        ),
        pytest.param({}, LABELS, [], id="labels may change"),
    ],
)
def test_resource_flavor_updates(old: Any, new: Any, want: list[str]) -> None:
    assert refused(obj("ResourceFlavor", new), old=obj("ResourceFlavor", old)) == want


HOST = "kubernetes.io/hostname"


def levels(*names: str) -> Any:
    return {"levels": [{"nodeLabel": name} for name in names]}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(levels("rack", HOST), [], id="racks and hosts"),
        pytest.param(levels("rack", "rack"), ["spec.levels[1].nodeLabel"], id="a level twice"),
        pytest.param(levels(HOST, "rack"), ["spec.levels[0].nodeLabel"], id="hosts not last"),
        pytest.param(levels(), ["spec.levels"], id="no level"),
        pytest.param(levels(*(f"l{i}" for i in range(17))), ["spec.levels"], id="17 levels"),
        pytest.param(levels("a b"), ["spec.levels[0].nodeLabel"], id="no label"),
        pytest.param({}, ["spec.levels"], id="levels are due"),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_topologies(spec: Any, want: list[str], version: str) -> None:
    assert refused(obj("Topology", spec, version=version)) == want


@pytest.mark.parametrize(
    ("old", "new", "newer", "older"),
    [
        pytest.param(levels("a"), levels("a"), [], [], id="unchanged"),
        pytest.param(levels("a"), levels("b"), ["spec.levels"], ["spec.levels"], id="changed"),
        pytest.param(levels("a", HOST), levels("b", HOST), [], ["spec.levels"], id="changed above hosts"),
        pytest.param(levels("a"), levels("a", HOST), ["spec.levels"], ["spec.levels"], id="hosts only after"),
    ],
)
def test_topology_updates(old: Any, new: Any, newer: list[str], older: list[str]) -> None:
    before = obj("Topology", old)
    assert refused(obj("Topology", new), old=before) == newer
    assert refused(obj("Topology", new, version=OLDER), old=before) == older


PARAMETERS = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "c"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"controllerName": "c"}, [], id="a controller"),
        pytest.param({}, ["spec.controllerName"], id="a controller is due"),
        pytest.param({"controllerName": "c", "parameters": PARAMETERS}, [], id="parameters"),
        pytest.param(
            {"controllerName": "c", "parameters": {"apiGroup": "A", "kind": "1", "name": "x.y"}},
            ["spec.parameters.apiGroup", "spec.parameters.kind", "spec.parameters.name"],
            id="no parameters",
        ),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_admission_checks(spec: Any, want: list[str], version: str) -> None:
    assert refused(obj("AdmissionCheck", spec, version=version)) == want


def test_a_check_keeps_its_controller() -> None:
    old = obj("AdmissionCheck", {"controllerName": "a"})
    assert refused(obj("AdmissionCheck", {"controllerName": "b"}), old=old) == ["spec.controllerName"]
    assert refused(old, old=old) == []


@pytest.mark.parametrize(
    ("kind", "version", "spec", "want"),
    [
        pytest.param("MultiKueueConfig", HUB, {"clusters": ["a", "b"]}, [], id="clusters"),
        pytest.param("MultiKueueConfig", HUB, {"clusters": ["a", "a"]}, ["spec.clusters[1]"], id="a cluster twice"),
        pytest.param("MultiKueueConfig", OLDER, {"clusters": ["a", "a"]}, ["spec.clusters[1]"], id="twice before"),
        pytest.param("MultiKueueConfig", HUB, {"clusters": []}, ["spec.clusters"], id="no cluster"),
        pytest.param("MultiKueueConfig", HUB, {"clusters": [str(i) for i in range(21)]}, ["spec.clusters"], id="21"),
        pytest.param(
            "MultiKueueConfig", HUB, {"clusters": ["a"], "quotaManagement": "x"}, ["spec.quotaManagement"], id="no mode"
        ),
        pytest.param(
            "MultiKueueCluster", HUB, {"clusterSource": {"kubeConfig": {"location": "s"}}}, [], id="credentials"
        ),
        pytest.param("MultiKueueCluster", HUB, {"clusterSource": {}}, ["spec.clusterSource"], id="no source"),
        pytest.param(
            "MultiKueueCluster",
            HUB,
            {"clusterSource": {"kubeConfig": {"location": "s"}, "clusterProfileRef": {"name": "p"}}},
            ["spec.clusterSource"],
            id="two sources",
        ),
        pytest.param("MultiKueueCluster", HUB, {}, ["spec.clusterSource"], id="a source is due"),
        pytest.param(
            "MultiKueueCluster",
            OLDER,
            {"kubeConfig": {"location": "s"}, "clusterProfileRef": {"name": "p"}},
            [],
            id="two sources before",
        ),
        pytest.param("MultiKueueCluster", OLDER, {}, ["spec.kubeConfig"], id="credentials were due"),
        pytest.param("ProvisioningRequestConfig", HUB, {"provisioningClassName": "a"}, [], id="a class"),
        pytest.param("ProvisioningRequestConfig", HUB, {}, ["spec.provisioningClassName"], id="a class is due"),
        pytest.param(
            "ProvisioningRequestConfig",
            HUB,
            {"provisioningClassName": "a", "parameters": {"a": "x" * 256}},
            ["spec.parameters[a]"],
            id="a long parameter",
        ),
        pytest.param(
            "ProvisioningRequestConfig",
            HUB,
            {"provisioningClassName": "a", "managedResources": ["x", "x"]},
            ["spec.managedResources[1]"],
            id="a resource twice",
        ),
    ],
)
def test_other_kinds(kind: str, version: str, spec: Any, want: list[str]) -> None:
    assert refused(obj(kind, spec, version=version)) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [(5, []), (-(2**31), []), (None, ["value"]), (2**31, ["value"]), ("5", ["value"]), (5.5, ["value"])],
)
def test_priority_classes(value: Any, want: list[str]) -> None:
    assert refused(obj("WorkloadPriorityClass", value=value)) == want
    assert refused(obj("WorkloadPriorityClass", value=value, version=OLDER)) == want


@pytest.mark.parametrize(
    ("location", "is_warned"),
    [
        ("/etc/multikueue/kubeconfigs/a", False),
        ("/etc/multikueue/kubeconfigs/", True),
        ("/etc/multikueue/kubeconfigs/../a", True),
        ("/srv/kubeconfig", True),
    ],
)
def test_credentials_lie_in_one_folder(location: str, is_warned: bool) -> None:
    config = {"location": location, "locationType": "Path"}
    for made in (
        obj("MultiKueueCluster", {"clusterSource": {"kubeConfig": config}}),
        obj("MultiKueueCluster", {"kubeConfig": config}, version=OLDER),
    ):
        errors, warnings = problems_of(made)
        assert not errors
        assert bool(warnings) is is_warned
        assert not problems_of(made, gates=FeatureGates({"MultiKueueKubeConfigPathValidation": False}))[1]


# Metadata ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param({"name": "a.b-c"}, [], id="a name"),
        pytest.param({"name": "", "generateName": "a-"}, [], id="a prefix"),
        pytest.param({"name": None}, ["metadata.name"], id="no name"),
        pytest.param({"name": "A"}, ["metadata.name"], id="capitals"),
        pytest.param({"name": "a" * 254}, ["metadata.name"], id="too long"),
        pytest.param({"name": "", "generateName": "A-"}, ["metadata.generateName"], id="capitals in a prefix"),
        pytest.param({"name": "", "generateName": "-"}, ["metadata.generateName"], id="a dash alone"),
        pytest.param({"name": 5}, ["metadata.name"], id="a number"),
        pytest.param({"labels": {"a/b": "c"}}, [], id="labels"),
        pytest.param({"labels": {"a": "x" * 64}}, ["metadata.labels[a]"], id="a long value"),
        pytest.param({"labels": {"a": 5}}, ["metadata.labels[a]"], id="a number as a label"),
        pytest.param({"labels": []}, ["metadata.labels"], id="a list of labels"),
        pytest.param({"labels": None, "annotations": None}, [], id="nulls"),
        pytest.param({"annotations": {"A/b": "anything at all"}}, [], id="annotations"),
        pytest.param({"annotations": {"a b": "c"}}, ["metadata.annotations"], id="no annotation's key"),
        pytest.param({"annotations": {"a": "x" * 2**18}}, ["metadata.annotations"], id="too much text"),
        pytest.param({"annotations": {"a": "é" * 2**17}}, ["metadata.annotations"], id="too many bytes"),
        pytest.param({"finalizers": ["a/b"]}, [], id="a finalizer"),
        pytest.param({"finalizers": ["a b"]}, ["metadata.finalizers[0]"], id="no finalizer"),
        pytest.param({"ownerReferences": [{"name": "a"}]}, [
            f"metadata.ownerReferences[0].{name}" for name in ("apiVersion", "kind", "uid")
        ], id="half an owner"),
        pytest.param({"creationTimestamp": "now"}, ["metadata.creationTimestamp"], id="no time"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["ResourceFlavor", "LocalQueue"])
def test_metadata(metadata: Any, want: list[str], kind: str) -> None:
    assert refused(obj(kind, {}, metadata=metadata)) == want


def test_no_metadata_at_all() -> None:
    made = obj("ResourceFlavor", {})
    del made["metadata"]
    assert refused(made) == ["metadata.name"]


def test_namespaces() -> None:
    assert refused(obj("LocalQueue", {}, metadata={"namespace": "a.b"})) == ["metadata.namespace"]
    errors, warnings = problems_of(obj("ResourceFlavor", {}, metadata={"namespace": "a.b"}))
    assert not errors
    assert [warning.path for warning in warnings] == ["metadata.namespace"]


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_fields_are_told_apart(kind: str) -> None:
    made = obj(kind, {"clustrQueue": "x"}, metadata={"queue": "x"}, spce={})
    found = {problem.path for problem in unknown_fields_of(made)}
    assert {"metadata.queue", "spce"} <= found
    assert not any("spce" in error.path for error in problems_of(made)[0])
    assert unknown_fields_of({"kind": "Pod"}) == ()


def test_a_name_of_the_other_version_is_unknown() -> None:
    problems = unknown_fields_of(obj("ClusterQueue", {"cohortName": "a"}, version=OLDER))
    assert [str(problem) for problem in problems] == ["spec.cohortName: is not a known field; did you mean cohort?"]
