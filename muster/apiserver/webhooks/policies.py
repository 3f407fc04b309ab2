"""Which policies and bindings a write meets, with which parameters, and what follows. Called by `dispatch`.

Policies and bindings are read from the store as they are when the write comes, in the order of their names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from muster.apiserver.kinds.checks import matches_labels
from muster.apiserver.rights.access import Access
from muster.apiserver.served import Catalog, Served
from muster.apiserver.statuses import Problem, forbidden
from muster.apiserver.webhooks.asking import authorizer_of
from muster.apiserver.webhooks.attributes import Attributes, labels_of
from muster.apiserver.webhooks.kept import Kept
from muster.apiserver.webhooks.matching import in_version, is_selected, matched
from muster.apiserver.webhooks.policy_expressions import Failure, Outcome, evaluate
from muster.apiserver.webhooks.reviews import request_of
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.records import Key, Scope

_GROUP = "admissionregistration.k8s.io"
POLICIES = f"validatingadmissionpolicies.{_GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{_GROUP}"
FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_PARAMETERS_MOST = 1_000  # that one binding selects


class _Misset(Exception):
    """Why a policy cannot be evaluated at all; its failure policy says what follows."""

    def __init__(self, problem: str, *, is_of_policy: bool = False) -> None:
        super().__init__(problem)
        self.is_of_policy = is_of_policy  # rather than of the binding


class Found(NamedTuple):
    """What one binding of a policy says against a write."""

    policy: Object
    binding: Object
    failure: Failure

    def told(self, start: str) -> str:
        """A sentence about it that begins as a refusal or a warning does."""
        bound = "" if self.failure.is_of_policy else f" with binding '{self.binding['metadata']['name']}'"
        return f"ValidatingAdmissionPolicy '{self.policy['metadata']['name']}'{bound}{start}: {self.failure.message}"


class Listener(Protocol):
    """Who is told what is said about a write beside a refusal: its request."""

    def warn(self, sentences: tuple[str, ...]) -> None: ...

    def annotate(self, annotations: Iterable[tuple[str, str]]) -> None:
        """Note something in the audit log."""


class Policies:
    """All policies that are in effect at a time."""

    def __init__(self, kept: Kept, catalog: Catalog, access: Access) -> None:
        self._kept = kept
        self._access = access
        self._catalog = catalog

    def concern(self, asked: Attributes) -> bool:
        """Whether any policy may have a say in a write: then it takes the longer way."""
        return any(self._rules_match(policy, asked) for policy, _ in self._bound())

    def check(self, asked: Attributes, listener: Listener) -> None:
        """Tell what is to be warned of and what is noted in the audit log; raise the first refusal."""
        annotations: dict[str, str] = {}
        failed: list[Object] = []
        denied: Found | None = None
        for policy, binding in self._bound():
            outcome = self._outcome(policy, binding, asked)
            actions = binding["spec"].get("validationActions") or ()
            for failure in outcome.failures:
                found = Found(policy, binding, failure)
                if "Deny" in actions or failure is outcome.misset:
                    denied = denied or found
                if "Warn" in actions:
                    listener.warn(("Validation failed for " + found.told(""),))
                if "Audit" in actions:
                    failed.append(_noted(found))
            for key, text in outcome.annotations.items():
                annotations[f"{policy['metadata']['name']}/{key}"] = text
        if failed:
            annotations[FAILURE_ANNOTATION] = json.dumps(failed, separators=(",", ":"))
        listener.annotate(annotations.items())
        if denied is not None:
            raise _refusal(denied, asked)

    def _outcome(self, policy: Object, binding: Object, asked: Attributes) -> Outcome:
        """What a policy says under one binding; where it has no answer, its failure policy decides."""
        whole = Outcome()
        try:
            for outcome in self._outcomes(policy, binding, asked):
                whole.failures += outcome.failures
                whole.errors += outcome.errors
                whole.annotations |= outcome.annotations
        except _Misset as problem:
            at_fault = "policy" if problem.is_of_policy else "binding"
            whole.misset = Failure(f"failed to configure {at_fault}: {problem}", is_of_policy=problem.is_of_policy)
        if policy["spec"].get("failurePolicy") != "Ignore":
            whole.failures += [Failure(error) for error in whole.errors]
            whole.failures += [whole.misset] if whole.misset is not None else []
        return whole

    def _outcomes(self, policy: Object, binding: Object, asked: Attributes) -> Iterator[Outcome]:
        spec = policy["spec"]
        named = self._matched(spec.get("matchConstraints") or {}, asked)
        if named is None or not self._is_bound(binding["spec"].get("matchResources"), asked):
            return
        named = in_version(named, asked)
        values = {
            "object": named.object,
            "oldObject": named.before,
            "request": {name: one for name, one in request_of(asked, named, "").items() if name != "uid"},
            "authorizer": authorizer_of(self._access, asked.user),
            "namespaceObject": self._kept.namespace(asked.namespace) if not asked.is_namespace else None,
        }
        for parameters in self._parameters(spec.get("paramKind"), binding["spec"].get("paramRef"), asked):
            outcome = evaluate(spec, {**values, "params": parameters})
            if outcome is not None:
                yield outcome

    # Which ones ------------------------------------------------------------------------------------------------------

    def _bound(self) -> Iterator[tuple[Object, Object]]:
        bindings = self._kept.all(BINDINGS)
        if not bindings:
            return
        for policy in self._kept.all(POLICIES):
            for binding in bindings:
                if binding["spec"].get("policyName") == policy["metadata"]["name"]:
                    yield policy, binding

    def _rules_match(self, policy: Object, asked: Attributes) -> bool:
        return self._named(policy["spec"].get("matchConstraints") or {}, asked) is not None

    def _named(self, match: Object, asked: Attributes) -> Attributes | None:
        versions = self._kept.versions(asked.served)
        if matched({**match, "rules": match.get("excludeResourceRules")}, asked, versions) is not None:
            return None
        return matched({**match, "rules": match.get("resourceRules")}, asked, versions)

    def _matched(self, match: Object, asked: Attributes) -> Attributes | None:
        named = self._named(match, asked)
        return named if named is not None and is_selected(match, asked, self._kept.namespace_labels) else None

    def _is_bound(self, match: Object | None, asked: Attributes) -> bool:
        """Whether a binding is for a write; one that names no resources is for all that its policy is for."""
        if match is None:
            return True
        if match.get("resourceRules"):
            return self._matched(match, asked) is not None
        versions = self._kept.versions(asked.served)
        is_excluded = matched({**match, "rules": match.get("excludeResourceRules")}, asked, versions) is not None
        return not is_excluded and is_selected(match, asked, self._kept.namespace_labels)

    # Parameters ------------------------------------------------------------------------------------------------------

    def _parameters(self, kind: Object | None, reference: Object | None, asked: Attributes) -> list[Object | None]:
        """The objects that a policy is evaluated with; one of none where it takes no parameters."""
        if kind is None or reference is None:
            return [None]
        served = self._parameter_kind(kind)
        namespace = _parameter_namespace(served, reference, asked)
        found = self._referred(served, reference, namespace)
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            raise _Misset("no params found for policy binding with `Deny` parameterNotFoundAction")
        return list(found)

    def _parameter_kind(self, kind: Object) -> Served:
        for served in self._catalog.all:
            if served.api_version == kind.get("apiVersion") and served.kind.kind == kind.get("kind"):
                return served
        named = f"'{kind['apiVersion']}, Kind={kind['kind']}'"
        raise _Misset(f"failed to find resource referenced by paramKind: {named}", is_of_policy=True)

    def _referred(self, served: Served, reference: Object, namespace: str) -> list[Object]:
        store = self._kept.store
        if name := reference.get("name"):
            try:
                records = [store.get(Key(served.resource, namespace, name))]
            except NotFound:
                return []
        else:
            records = list(store.page(Scope(served.resource, namespace)).records)[:_PARAMETERS_MOST]
        objects = [decode(record) for record in records]
        selector = reference.get("selector") or {}
        chosen = [one for one in objects if reference.get("name") or matches_labels(selector, labels_of(one))]
        return [one if served.is_stored_version else served.kept.convert(one, served.api_version) for one in chosen]


def _parameter_namespace(served: Served, reference: Object, asked: Attributes) -> str:
    given = reference.get("namespace") or ""
    if not served.kind.is_namespaced:
        if given:
            raise _Misset("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not given and (not asked.namespace or asked.is_namespace):
        raise _Misset("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    return given or asked.namespace


# What follows --------------------------------------------------------------------------------------------------------


def _refusal(found: Found, asked: Attributes) -> Problem:
    told = found.told(" denied request")
    problem = forbidden(Key(asked.served.resource, asked.namespace, asked.name), told)
    reason = found.failure.reason
    details = {**(problem.details or {}), "causes": [{"message": told}]}
    return Problem(_CODES[reason], reason, problem.message, details=details)


def _noted(found: Found) -> Object:
    return {
        "message": found.failure.message,
        "policy": found.policy["metadata"]["name"],
        "binding": found.binding["metadata"]["name"],
        "expressionIndex": found.failure.place,
        "validationActions": found.binding["spec"]["validationActions"],
    }
