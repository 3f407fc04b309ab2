"""The objects that have a real API server ask Muster: made of the kinds there are and of what the configuration says.

Pure. Called by `app` for a cluster, and for the files of an installation. Two rules hold for all of them: what has no
queue never depends on Muster, and what has one does not start without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from muster.apiserver.admission.cards import IGNORED, OPT_OUT
from muster.apiserver.hooks.asgi import CONVERT, MUTATE, MUTATE_CARDS, VALIDATE
from muster.dialects.kueue.defaults import DEFAULTED_WHEN_CREATED
from muster.dialects.kueue.kinds import KINDS, VERSIONS
from muster.dialects.kueue.names import GROUP, HAS_DEFAULT_QUEUE, NAMESPACE_NAME_LABEL, QUEUE_NAME
from muster.engine.contracts import JobKind
from muster.model.labels import Requirement, Selector
from muster.store.kinds import Object

NAME = "muster"
TIMEOUT_S = 10
SYSTEM = "kube-system"
_JUDGED_STATUS = "workloads"  # whose status holds what is decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Where an API server finds the webhooks: a service of the cluster, or an address."""

    service: str = ""
    namespace: str = ""
    port: int = 443
    url: str = ""  # instead of a service
    bundle: str = ""  # base64 of the authorities that sign the server's certificate; empty: put in later

    def client_config(self, path: str) -> Object:
        """The part of a configuration that says where."""
        where: Object = {"url": self.url + path}
        if not self.url:
            named = {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}
            where = {"service": named}
        return {**where, "caBundle": self.bundle} if self.bundle else where

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that the server's certificate has to be for."""
        if self.url:
            return (urlsplit(self.url).hostname or "",)
        name = f"{self.service}.{self.namespace}"
        return (f"{name}.svc", f"{name}.svc.cluster.local", name)

    def is_named_by(self, client_config: Object) -> bool:
        """Whether a configuration means these webhooks."""
        service = client_config.get("service")
        if service is None:
            return bool(self.url) and str(client_config.get("url") or "").startswith(f"{self.url}/")
        return not self.url and (service.get("name"), service.get("namespace")) == (self.service, self.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What an API server asks about."""

    kinds: Sequence[JobKind]
    namespace: str = "muster-system"  # Muster's own, which never waits for Muster
    managed_namespaces: Selector = field(default_factory=Selector)
    manages_without_queue: bool = False
    own_user: str = ""  # whose changes were made by the same rules already
    has_cards: bool = False  # whether pods that ask for cards are completed


def webhook_configurations(asking: Asking, reached: Reached, *, annotations: Object | None = None) -> list[Object]:
    """The configuration of the webhooks that change objects, and of those that judge them."""
    metadata: Object = {"name": NAME, "labels": {"app.kubernetes.io/name": NAME}}
    if annotations:
        metadata["annotations"] = annotations
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": metadata,
            "webhooks": list(webhooks),
        }
        for kind, webhooks in (
            ("MutatingWebhookConfiguration", _mutating(asking, reached)),
            ("ValidatingWebhookConfiguration", _validating(asking, reached)),
        )
    ]


def conversion(reached: Reached) -> Object:
    """The `conversion` of the definitions of Kueue's kinds."""
    webhook = {"clientConfig": reached.client_config(CONVERT), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def definition_names() -> list[str]:
    """The definitions that have such a conversion."""
    return [f"{kind.plural}.{GROUP}" for kind in KINDS.values()]


def _mutating(asking: Asking, reached: Reached) -> Iterable[Object]:
    settings = {**_common(reached, MUTATE), "reinvocationPolicy": "IfNeeded"}
    rules = [rule for kind in asking.kinds for rule in _job_rules([kind], list(kind.completed_when))]
    yield {"name": "jobs.mutate.muster.dev", **settings, **_queued(asking), "rules": rules}
    yield {"name": "jobs-without-queue.mutate.muster.dev", **settings, **_unqueued(asking), "rules": rules}
    kinds = [KINDS[name].plural for name in sorted(DEFAULTED_WHEN_CREATED)]
    yield {"name": "kueue.mutate.muster.dev", **settings, "rules": [_kueue_rule(kinds, ["CREATE"])]}
    if asking.has_cards:
        yield _cards(asking, reached)


def _cards(asking: Asking, reached: Reached) -> Object:
    """All new pods but those that are left alone; none waits for Muster, as none waits for HAMi."""
    left_alone = {"key": OPT_OUT, "operator": "NotIn", "values": [IGNORED]}
    spared = {"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": sorted({SYSTEM, asking.namespace})}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    return {
        "name": "cards.mutate.muster.dev",
        **_common(reached, MUTATE_CARDS),
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",  # what it adds to a container's variables it would add again
        "namespaceSelector": {"matchExpressions": [spared, left_alone]},
        "objectSelector": {"matchExpressions": [left_alone]},
        "rules": [{**rule, "scope": "Namespaced"}],
    }


def _validating(asking: Asking, reached: Reached) -> Iterable[Object]:
    settings = _common(reached, VALIDATE)
    rules = _job_rules(asking.kinds, ["CREATE", "UPDATE"])
    queued, unqueued = _queued(asking), _unqueued(asking)
    others = _changes_of_others(asking)
    for one in (queued, unqueued):
        one["matchConditions"] += others
    yield {"name": "jobs.validate.muster.dev", **settings, **queued, "rules": rules}
    yield {"name": "jobs-without-queue.validate.muster.dev", **settings, **unqueued, "rules": rules}
    kinds = [*sorted(kind.plural for kind in KINDS.values()), f"{_JUDGED_STATUS}/status"]
    judged: Object = {
        "name": "kueue.validate.muster.dev",
        **settings,
        "rules": [_kueue_rule(kinds, ["CREATE", "UPDATE"])],
    }
    yield {**judged, "matchConditions": others} if others else judged


def _common(reached: Reached, path: str) -> Object:
    return {
        "admissionReviewVersions": ["v1"],
        "clientConfig": reached.client_config(path),
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
    }


def _job_rules(kinds: Iterable[JobKind], operations: list[str]) -> list[Object]:
    return [
        {
            "apiGroups": [kind.gvk.group],
            "apiVersions": [kind.gvk.version],
            "resources": [kind.plural],
            "operations": operations,
            "scope": "Namespaced",
        }
        for kind in kinds
    ]


def _kueue_rule(resources: list[str], operations: list[str]) -> Object:
    # Both versions by name: mistakes are then named by the fields that their author knows.
    versions = sorted(VERSIONS, reverse=True)
    return {
        "apiGroups": [GROUP],
        "apiVersions": versions,
        "resources": resources,
        "operations": operations,
        "scope": "*",
    }


# Which jobs ----------------------------------------------------------------------------------------------------------


def _queued(asking: Asking) -> Object:
    """Jobs that name a queue, or that had one."""
    condition = {"name": "has-queue", "expression": f"{_names_queue('object')} || {_names_queue('oldObject')}"}
    return {"namespaceSelector": _namespaces(asking), "matchConditions": [condition]}


def _unqueued(asking: Asking) -> Object:
    """Jobs that name none, where those are managed: everywhere, or in namespaces that have a queue for them."""
    condition = {"name": "has-no-queue", "expression": f"!{_names_queue('object')} && !{_names_queue('oldObject')}"}
    selector = _namespaces(asking)
    if not asking.manages_without_queue:
        wanted = {"key": HAS_DEFAULT_QUEUE, "operator": "In", "values": ["true"]}
        selector = {"matchExpressions": [*selector["matchExpressions"], wanted]}
    return {"namespaceSelector": selector, "matchConditions": [condition]}


def _names_queue(object_name: str) -> str:
    """Whether an object names a queue, by its label or as it was done before there was one."""
    metadata = f"{object_name}.metadata"
    parts = (f"has({metadata}.{part}) && '{QUEUE_NAME}' in {metadata}.{part}" for part in ("labels", "annotations"))
    return f"({object_name} != null && ({' || '.join(f'({one})' for one in parts)}))"


def _changes_of_others(asking: Asking) -> list[Object]:
    """Muster's own changes are made by the same rules: asking once more would only double their cost."""
    if not asking.own_user:
        return []
    quoted = asking.own_user.replace("\\", "\\\\").replace("'", "\\'")
    expression = f"request.operation == 'CREATE' || request.userInfo.username != '{quoted}'"
    return [{"name": "not-by-muster", "expression": expression}]


def _namespaces(asking: Asking) -> Object:
    """The namespaces whose jobs are managed; never those that the cluster and Muster themselves need."""
    spared = {"key": NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": sorted({SYSTEM, asking.namespace})}
    wanted = [_expression(one) for one in asking.managed_namespaces.requirements]
    return {"matchExpressions": [spared, *(one for one in wanted if one != spared)]}


def _expression(requirement: Requirement) -> Object:
    given: Object = {"key": requirement.key, "operator": requirement.operator.value}
    return {**given, "values": sorted(requirement.values)} if requirement.values else given
