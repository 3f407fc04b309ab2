"""Where a pod may and would rather run, beside its resources: everything that Kubernetes lets it say about its place.

Read once from a Pod object and carried in the pod's `Demand`; `muster/engine/fit_nodes.py` answers what depends on the
node alone and `muster/engine/fit_pods.py` what depends on the pods that are there. All of it is frozen and hashable, so
that pods with equal rules share what was worked out for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster.model.fields import INT32_MAX, Fields, shown
from muster.model.labels import (
    Labels,
    NodeTerms,
    Operator,
    PreferredTerm,
    Requirement,
    Selector,
    Toleration,
    read_preferred_terms,
    read_required_terms,
    read_selector,
    read_tolerations,
    selects,
)

ANY_ADDRESS = "0.0.0.0"
NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the label by which Kubernetes names every namespace
PORT_MOST = 65_535
WEIGHT_MOST = 100
TERMS_MOST = 1000
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LabelPairs = tuple[tuple[str, str], ...]  # sorted by key


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """What decides by the node alone."""

    selector: LabelPairs = ()
    affinity: NodeTerms | None = None  # one term is enough; None: anywhere
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[NodeTerms, ...] = ()  # of each bound volume the nodes that can reach it


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node itself."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def clashes(self, other: HostPort) -> bool:
        """Whether both cannot be taken on one node; the address for all of them clashes with every address."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIdentity:
    """By what other pods' rules know a pod."""

    namespace: str = ""
    labels: LabelPairs = ()
    is_terminating: bool = False  # spreading does not count it any more


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """The pods that a rule is about."""

    selector: Selector | None  # None: no pod at all
    namespaces: frozenset[str] = frozenset()  # by name
    namespace_selector: Selector | None = None  # and by label; None: none but those named

    def takes(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod with these labels in this namespace is one of them."""
        if namespace not in self.namespaces and not selects(self.namespace_selector, namespace_labels):
            return False
        return selects(self.selector, labels)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Near these pods, or away from them: near means that the nodes have the same value of a label."""

    group: PodGroup
    topology_key: str


@dataclass(frozen=True, slots=True)
class PreferredPods:
    """A place near these pods is liked that much better, or worse where the weight is below zero."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRule:
    """How evenly a group of pods is spread over the values of a label."""

    topology_key: str
    group: PodGroup
    max_skew: int = 1
    is_required: bool = True  # else it is a preference
    min_domains: int = 1  # with fewer domains than this the emptiest one counts as empty
    has_self: bool = True  # the pod itself is one of the group
    is_by_affinity: bool = True  # nodes that the pod's selector and affinity rule out do not count
    is_by_taints: bool = False  # nor those whose taints it does not tolerate


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """All rules of a pod, and what other pods' rules see of it."""

    who: PodIdentity = PodIdentity()
    nodes: NodeRules = NodeRules()
    preferred_nodes: tuple[PreferredTerm, ...] = ()
    ports: frozenset[HostPort] = frozenset()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_pods: tuple[PreferredPods, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    # Worked out when first asked for: demands are looked up by their rules again and again.
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)
    _of_nodes: PodRules | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if self._hash is None:
            parts = (self.who, self.nodes, self.preferred_nodes, self.ports, self.affinity)
            value = hash((*parts, self.anti_affinity, self.preferred_pods, self.spread))
            object.__setattr__(self, "_hash", value)
            return value
        return self._hash

    @property
    def of_nodes(self) -> PodRules:
        """Only what decides by the node alone: pods that differ in nothing else share their columns."""
        if self._of_nodes is None:
            object.__setattr__(self, "_of_nodes", PodRules(nodes=self.nodes) if self.nodes != NodeRules() else ANYWHERE)
        assert self._of_nodes is not None, "it has just been set"
        return self._of_nodes

    @property
    def of_kind(self) -> PodRules:
        """The rules without whose they are, unless they are about pods: jobs that differ in name only are alike."""
        is_about_pods = bool(self.affinity or self.anti_affinity or self.preferred_pods or self.spread)
        return self if is_about_pods else replace(self, who=PodIdentity())

    @property
    def is_moved_by_its_like(self) -> bool:
        """Whether each such pod changes where the next one may go, so that they are placed one at a time."""
        is_spread = any(rule.is_required for rule in self.spread)
        return bool(self.ports or self.affinity or self.anti_affinity or is_spread)


ANYWHERE = PodRules()  # of pods that say nothing, and that no other pod's rule is about


# Reading -------------------------------------------------------------------------------------------------------------


def read_pod_rules(pod: Fields, *, volumes: tuple[NodeTerms, ...] = ()) -> PodRules:
    """The rules of a Pod object; of its bound volumes the node terms are passed in."""
    metadata, spec = pod.child("metadata"), pod.child("spec")
    who = PodIdentity(
        namespace=metadata.text("namespace"),
        labels=tuple(sorted(metadata.text_map("labels").items())),
        is_terminating=metadata.has("deletionTimestamp"),
    )
    nodes = NodeRules(
        selector=tuple(sorted(spec.text_map("nodeSelector").items())),
        affinity=read_required_terms(spec),
        tolerations=read_tolerations(spec),
        volumes=volumes,
    )
    affinity = spec.child("affinity")
    near, away = affinity.child("podAffinity"), affinity.child("podAntiAffinity")
    _check_lengths(spec)
    return PodRules(
        who=who,
        nodes=nodes,
        preferred_nodes=read_preferred_terms(spec),
        ports=_read_ports(spec),
        affinity=_read_required_pods(near, who),
        anti_affinity=_read_required_pods(away, who),
        preferred_pods=(*_read_preferred_pods(near, who, 1), *_read_preferred_pods(away, who, -1)),
        spread=tuple(_read_spread(item, who) for item in spec.children("topologySpreadConstraints")),
    )


def _check_lengths(spec: Fields) -> None:
    """Refuse what nobody writes by hand: every term is asked of every node."""
    affinity = spec.child("affinity")
    of_nodes, near, away = (affinity.child(name) for name in ("nodeAffinity", "podAffinity", "podAntiAffinity"))
    lists = [(one, each) for one in (near, away) for each in (_REQUIRED, _PREFERRED)]
    lists += [(of_nodes.child(_REQUIRED), "nodeSelectorTerms"), (of_nodes, _PREFERRED)]
    lists.append((spec, "topologySpreadConstraints"))
    for fields, name in lists:
        if (count := len(fields.items(name))) > TERMS_MOST:
            raise fields.error(name, f"holds {count} entries", f"give at most {TERMS_MOST}")


def _read_ports(spec: Fields) -> frozenset[HostPort]:
    """The host ports of everything that keeps running: containers, and init containers that stay beside them."""
    lasting = [one for one in spec.children("initContainers") if one.text("restartPolicy") == "Always"]
    is_on_host = spec.flag("hostNetwork")
    found = set()
    for container in (*lasting, *spec.children("containers")):
        for fields in container.children("ports"):
            # Kubernetes: in the network of its node a container has every port that it names.
            own = fields.integer("containerPort", least=0, most=PORT_MOST) if is_on_host else 0
            port = fields.integer("hostPort", least=0, most=PORT_MOST) or own
            protocol = fields.choice("protocol", ("TCP", "UDP", "SCTP"), "TCP")
            if port:
                found.add(HostPort(port, protocol, fields.text("hostIP") or ANY_ADDRESS))
    return frozenset(found)


def _read_required_pods(affinity: Fields, who: PodIdentity) -> tuple[PodTerm, ...]:
    terms = affinity.children(_REQUIRED)
    return tuple(_read_pod_term(fields, who) for fields in terms)


def _read_preferred_pods(affinity: Fields, who: PodIdentity, sign: int) -> tuple[PreferredPods, ...]:
    found = []
    for fields in affinity.children(_PREFERRED):
        if not fields.has("weight"):
            raise fields.error("weight", "is missing", f"give a number from 1 to {WEIGHT_MOST}")
        weight = fields.integer("weight", least=1, most=WEIGHT_MOST)
        found.append(PreferredPods(sign * weight, _read_pod_term(fields.child("podAffinityTerm"), who)))
    return tuple(found)


def _read_pod_term(fields: Fields, who: PodIdentity) -> PodTerm:
    selector = read_selector(fields, "labelSelector")
    selector = _with_own_values(selector, fields, who, name="matchLabelKeys", operator=Operator.IN)
    selector = _with_own_values(selector, fields, who, name="mismatchLabelKeys", operator=Operator.NOT_IN)
    namespaces, namespace_selector = fields.texts("namespaces"), read_selector(fields, "namespaceSelector")
    if not namespaces and namespace_selector is None:
        namespaces = (who.namespace,)
    group = PodGroup(selector=selector, namespaces=frozenset(namespaces), namespace_selector=namespace_selector)
    return PodTerm(group, _read_topology_key(fields))


def _read_spread(fields: Fields, who: PodIdentity) -> SpreadRule:
    wish = fields.choice("whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"))
    if not wish:
        raise fields.error("whenUnsatisfiable", "is missing", "give DoNotSchedule or ScheduleAnyway")
    if not fields.has("maxSkew"):
        raise fields.error("maxSkew", "is missing", "give how uneven it may be, 1 or more")
    if fields.has("minDomains") and wish != "DoNotSchedule":
        raise fields.error("minDomains", "is given", "leave it out, or say whenUnsatisfiable: DoNotSchedule")
    selector = read_selector(fields, "labelSelector")
    selector = _with_own_values(selector, fields, who, name="matchLabelKeys", operator=Operator.IN)
    # Kubernetes: for an empty selector it counts no pod, although the pod itself is selected by it.
    counted = selector if selector is not None and selector.requirements else None
    policies = ("Honor", "Ignore")
    return SpreadRule(
        topology_key=_read_topology_key(fields),
        group=PodGroup(selector=counted, namespaces=frozenset([who.namespace])),
        max_skew=fields.integer("maxSkew", least=1, most=INT32_MAX),
        is_required=wish == "DoNotSchedule",
        min_domains=fields.integer("minDomains", 1, least=1, most=INT32_MAX),
        has_self=selects(selector, dict(who.labels)),
        is_by_affinity=fields.choice("nodeAffinityPolicy", policies, "Honor") == "Honor",
        is_by_taints=fields.choice("nodeTaintsPolicy", policies, "Ignore") == "Honor",
    )


def _read_topology_key(fields: Fields) -> str:
    key = fields.text("topologyKey")
    if not key:
        raise fields.error("topologyKey", "is missing", "give the label of nodes that tells places apart")
    return key


def _with_own_values(
    selector: Selector | None, fields: Fields, who: PodIdentity, *, name: str, operator: Operator
) -> Selector | None:
    """The selector narrowed to pods with, or without, the pod's own values of labels; those it lacks are skipped."""
    keys = fields.texts(name)
    if not keys:
        return selector
    if selector is None:
        raise fields.error(name, f"is given as {shown(list(keys))} without a labelSelector", "give a labelSelector too")
    own: Mapping[str, str] = dict(who.labels)
    more = (Requirement(key, operator, frozenset([own[key]])) for key in keys if key in own)
    # The API server may have added them already.
    return Selector((*selector.requirements, *(one for one in more if one not in selector.requirements)))
