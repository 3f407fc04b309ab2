"""The rules of ResourceFlavor, Topology, AdmissionCheck and the kinds for several clusters."""

from __future__ import annotations

from muster.dialects.kueue.rules import (
    Problems,
    Rule,
    Subject,
    label_problems,
    taint_problems,
    toleration_problems,
)
from muster.model.fields import shown
from muster.model.plain import is_same

HOSTNAME = "kubernetes.io/hostname"
KUBECONFIG_FOLDER = "/etc/multikueue/kubeconfigs/"


def _flavor_selects_nodes(subject: Subject) -> Problems:
    spec = subject.spec
    yield from label_problems(spec.text_map("nodeLabels"), spec.at("nodeLabels"))
    yield from taint_problems(spec, "nodeTaints")
    yield from toleration_problems(spec, "tolerations")


def _flavor_topology(subject: Subject) -> Problems:
    spec = subject.spec
    if spec.has("topologyName") and not spec.text_map("nodeLabels"):
        yield spec.error("nodeLabels", "is empty although topologyName is set", "give at least one label")
    before = subject.old.child("spec").text("topologyName") if subject.old is not None else ""
    if before and before != spec.text("topologyName"):
        yield spec.error("topologyName", f"was {shown(before)} and cannot be changed", "make a new ResourceFlavor")


RESOURCE_FLAVOR_RULES: tuple[Rule, ...] = (_flavor_selects_nodes, _flavor_topology)


def _topology_levels(subject: Subject) -> Problems:
    labels = [level.text("nodeLabel") for level in subject.spec.children("levels")]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            yield subject.spec.error(f"levels[{index}].nodeLabel", f"repeats {shown(label)}", "name each level once")
        elif label == HOSTNAME and index < len(labels) - 1:
            yield subject.spec.error(f"levels[{index}].nodeLabel", f"is {HOSTNAME}", "put it last: hosts are lowest")


def _topology_levels_stay(subject: Subject) -> Problems:
    """Levels may change only where hosts are the lowest level before and after; v1beta1 never lets them."""
    if subject.old is None:
        return
    before, now = subject.old.child("spec").items("levels"), subject.spec.items("levels")
    if not before or not now or is_same(before, now):
        return
    ends_with_hosts = all(is_same(levels[-1], {"nodeLabel": HOSTNAME}) for levels in (before, now))
    if not (subject.is_hub and ends_with_hosts):
        hint = f"make a new Topology; levels may change only where {HOSTNAME} is the last, before and after"
        yield subject.spec.error("levels", "was changed", hint)


TOPOLOGY_RULES: tuple[Rule, ...] = (_topology_levels, _topology_levels_stay)


def _controller_stays(subject: Subject) -> Problems:
    before = subject.old.child("spec").text("controllerName") if subject.old is not None else ""
    now = subject.spec.text("controllerName")
    if before and now and before != now:
        yield subject.spec.error("controllerName", f"was {shown(before)} and cannot be changed", "make a new check")


ADMISSION_CHECK_RULES: tuple[Rule, ...] = (_controller_stays,)


def _clusters_once(subject: Subject) -> Problems:
    names = subject.spec.texts("clusters")
    for index, name in enumerate(names):
        # The older version's list is a set, whose shape says so already.
        if subject.is_hub and name in names[:index]:
            yield subject.spec.error(f"clusters[{index}]", f"repeats {shown(name)}", "name each cluster once")


MULTIKUEUE_CONFIG_RULES: tuple[Rule, ...] = (_clusters_once,)


def _one_cluster_source(subject: Subject) -> Problems:
    source = subject.spec.child("clusterSource")
    if (
        subject.is_hub
        and subject.spec.has("clusterSource")
        and source.has("kubeConfig") == source.has("clusterProfileRef")
    ):
        yield subject.spec.error(
            "clusterSource", "has both or neither of kubeConfig and clusterProfileRef", "give one of them"
        )


MULTIKUEUE_CLUSTER_RULES: tuple[Rule, ...] = (_one_cluster_source,)


def kubeconfig_path_problem(location: str) -> str:
    """What is wrong with the file of a cluster's credentials; Kueue's controller leaves such a cluster inactive."""
    parts = location.removeprefix(KUBECONFIG_FOLDER).split("/")
    if not location.startswith(KUBECONFIG_FOLDER) or not parts[-1] or any(part in ("..", ".") for part in parts):
        return f"does not lie under {KUBECONFIG_FOLDER}"
    return ""
