"""Which webhooks and policies a write meets: rules, selectors, conditions. Called by `dispatch` and `policies`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from muster.apiserver.cel import BOOL, RULE_STEPS, Budget, CelProblem, compile_expression
from muster.apiserver.cel.library_authorizer import AuthorizerValue
from muster.apiserver.kinds.admission_variables import OF_CONDITIONS
from muster.apiserver.kinds.checks import matches_labels
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem, forbidden
from muster.apiserver.webhooks.attributes import Attributes, Operation, Sort, labels_of
from muster.store.kinds import Object
from muster.store.records import Key

# These are never asked about: a webhook that is broken could else not be taken away.
EXEMPT = frozenset(
    f"{plural}.admissionregistration.k8s.io"
    for plural in (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    )
)


def matched(webhook: Object, asked: Attributes, versions: Iterable[Served]) -> Attributes | None:
    """The write as a webhook's rules name it, perhaps in another version; None where they do not."""
    if asked.served.resource in EXEMPT:
        return None
    rules = webhook.get("rules") or ()
    if any(_is_named(rule, asked, asked.resource) for rule in rules):
        return asked
    if webhook.get("matchPolicy") == "Exact":
        return None
    for served in versions:
        kind = served.kind
        if any(_is_named(rule, asked, Sort(kind.group, kind.version, kind.plural)) for rule in rules):
            return replace(asked, served=served)
    return None


def _is_named(rule: Object, asked: Attributes, resource: Sort) -> bool:
    if not _is_among(asked.operation.value, rule.get("operations")):
        return False
    if not (_is_among(resource.group, rule.get("apiGroups")) and _is_among(resource.version, rule.get("apiVersions"))):
        return False
    if rule.get("resourceNames") and asked.name not in rule["resourceNames"]:
        return False  # of policies
    scope = rule.get("scope") or "*"
    is_clusters = asked.is_namespace or not asked.namespace
    if scope != "*" and is_clusters != (scope == "Cluster"):
        return False
    for one in rule.get("resources") or ():
        plural, _, part = one.partition("/")
        if plural in ("*", resource.name) and part in ("*", asked.subresource):
            return True
    return False


def _is_among(value: str, choices: Iterable[str] | None) -> bool:
    return any(one in ("*", value) for one in choices or ())


def in_version(named: Attributes, asked: Attributes) -> Attributes:
    """The write with its objects in the version that rules have named it in."""
    if named.served is asked.served or asked.kind is not None:
        return named

    def converted(given: Object | None) -> Object | None:
        return named.served.kept.convert(deepcopy(given), named.served.api_version) if given is not None else None

    return replace(named, object=converted(asked.object), before=converted(asked.before))


def is_selected(webhook: Object, asked: Attributes, namespace_labels: Callable[[str], dict[str, str]]) -> bool:
    """Whether the labels of the object and of its namespace are those that a webhook is for."""
    selector = webhook.get("objectSelector") or {}
    if selector and not any(
        one is not None and matches_labels(selector, labels_of(one)) for one in (asked.object, asked.before)
    ):
        return False
    selector = webhook.get("namespaceSelector") or {}
    if not selector or (not asked.namespace and not asked.is_namespace):
        return True
    is_written = asked.is_namespace and not asked.subresource and asked.operation is not Operation.DELETE
    labels = labels_of(asked.object) if is_written else namespace_labels(asked.namespace or asked.name)
    return matches_labels(selector, labels)


def is_meant(webhook: Object, asked: Attributes, request: Object, authorizer: AuthorizerValue) -> bool:
    """Whether a webhook's conditions hold; one that has no answer refuses the write unless failures are ignored."""
    budget = Budget(RULE_STEPS)
    variables: dict[str, Any] = {"object": asked.object, "oldObject": asked.before, "request": request}
    variables["authorizer"] = authorizer
    problems = []
    for one in webhook.get("matchConditions") or ():
        try:
            program = compile_expression(one["expression"], OF_CONDITIONS, BOOL)
            if program.evaluate(variables, budget) is not True:
                return False
        except CelProblem as problem:
            problems.append(f"expression '{one['expression']}' resulted in error: {problem}")
    if problems and webhook.get("failurePolicy") == "Ignore":
        return False
    if problems:
        raise _undecided(asked, problems)
    return True


def _undecided(asked: Attributes, problems: list[str]) -> Problem:
    told = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return forbidden(Key(asked.served.resource, asked.namespace, asked.name), told)


def webhooks_in(configurations: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    """All webhooks in the order in which they are asked, each with a name of its own."""
    for one in configurations:
        for index, webhook in enumerate(one.get("webhooks") or ()):
            yield f"{one['metadata']['name']}/{webhook['name']}/{index}", webhook
