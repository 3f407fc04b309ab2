"""Configurations of webhooks that have a say in writes: their defaults and rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from muster.apiserver.cel import BOOL, CelProblem, compile_expression
from muster.apiserver.kinds.admission_variables import OF_CONDITIONS
from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import between, label_selector, one_of, qualified_name
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.problems import (
    Problems,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from muster.model.labels import dns1123_subdomain_problem

Object = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEWS = ("v1", "v1beta1")
_MOST_CONDITIONS = 64
_DEFAULTS = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10}


def _filled(more: Object) -> Callable[[Object], None]:
    def fill_configuration(configuration: Object) -> None:
        for webhook in configuration.get("webhooks") or ():
            fill(webhook, {**_DEFAULTS, **more})
            webhook.setdefault("namespaceSelector", {})
            webhook.setdefault("objectSelector", {})
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
            if (service := (webhook.get("clientConfig") or {}).get("service")) is not None:
                service.setdefault("port", 443)

    return fill_configuration


def _check(configuration: Object) -> Problems:
    seen = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        where = f"webhooks[{index}]"
        name = webhook.get("name") or ""
        yield from _name(name, f"{where}.name")
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        yield from _settings(webhook, where)
        yield from _conditions(webhook.get("matchConditions") or [], f"{where}.matchConditions")
        for number, rule in enumerate(webhook.get("rules") or ()):
            yield from _rule(rule, f"{where}.rules[{number}]")
        yield from _client(webhook.get("clientConfig") or {}, f"{where}.clientConfig")


def _name(name: str, path: str) -> Problems:
    if not name:
        yield required(path)
    elif problem := dns1123_subdomain_problem(name):
        yield invalid(path, name, problem)
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _settings(webhook: Object, path: str) -> Problems:
    versions = webhook.get("admissionReviewVersions") or []
    if not versions:
        yield required(f"{path}.admissionReviewVersions", f"must specify one of {', '.join(_REVIEWS)}")
    elif not set(versions) & set(_REVIEWS):
        yield invalid(
            f"{path}.admissionReviewVersions", versions, f"must include at least one of {', '.join(_REVIEWS)}"
        )
    for index, one in enumerate(versions):
        if one in versions[:index]:
            yield invalid(f"{path}.admissionReviewVersions[{index}]", one, "duplicate version")
    yield from one_of("Fail", "Ignore")(webhook["failurePolicy"], f"{path}.failurePolicy")
    yield from one_of("Equivalent", "Exact")(webhook["matchPolicy"], f"{path}.matchPolicy")
    effects = webhook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in ("None", "NoneOnDryRun"):
        yield not_supported(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    if not 1 <= webhook["timeoutSeconds"] <= 30:
        yield from between(1, 30)(webhook["timeoutSeconds"], f"{path}.timeoutSeconds")
    if "reinvocationPolicy" in webhook:
        yield from one_of("IfNeeded", "Never")(webhook["reinvocationPolicy"], f"{path}.reinvocationPolicy")
    for name in ("namespaceSelector", "objectSelector"):
        yield from label_selector(webhook[name], f"{path}.{name}")


def _conditions(conditions: list[Object], path: str) -> Problems:
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, len(conditions), _MOST_CONDITIONS)
        return
    seen = set()
    for index, one in enumerate(conditions):
        where = f"{path}[{index}]"
        name, expression = one.get("name") or "", (one.get("expression") or "").strip()
        if not expression:
            yield required(f"{where}.expression")
        else:
            try:
                compile_expression(expression, OF_CONDITIONS, BOOL, is_strict=True)
            except CelProblem as problem:
                yield invalid(f"{where}.expression", one["expression"], str(problem))
        if not name:
            yield required(f"{where}.name")
        else:
            yield from qualified_name(name, f"{where}.name")
        if name and name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)


def _rule(rule: Object, path: str) -> Problems:
    for name in ("operations", "apiGroups", "apiVersions", "resources"):
        values = rule.get(name) or []
        if not values:
            yield required(f"{path}.{name}")
        if len(values) > 1 and "*" in values and name != "resources":
            yield invalid(f"{path}.{name}", values, "if '*' is present, must not specify other values")
        if name in ("apiVersions", "resources"):
            for index, one in enumerate(values):
                if not one:
                    yield required(f"{path}.{name}[{index}]")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    yield from one_of("*", "Cluster", "Namespaced")(rule["scope"], f"{path}.scope")
    yield from _resources(rule.get("resources") or [], f"{path}.resources")


def _resources(resources: list[str], path: str) -> Problems:
    """A resource that a wildcard beside it names already is a mistake."""
    known = set(resources)
    for index, one in enumerate(resources):
        plural, slash, part = one.partition("/")
        is_twice = one != "*/*" and "*/*" in known and (slash or plural)
        is_covered = bool(slash) and part != "*" and f"{plural}/*" in known
        is_covered = is_covered or (bool(slash) and plural != "*" and f"*/{part}" in known)
        if is_twice or is_covered:
            yield invalid(f"{path}[{index}]", one, "must not be there beside a wildcard that includes it")


def _client(config: Object, path: str) -> Problems:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, f"{path}.url")
    else:
        yield from _service(service or {}, f"{path}.service")


def _url(url: str, path: str) -> Problems:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError as problem:
        yield required(path, f"url must be a valid URL: {problem}; desired format: https://host[/path]")
        return
    form = "; desired format: https://host[/path]"
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not parts.hostname or not has_port:
        yield invalid(path, parts.netloc, f"host must be specified{form}")
    if "@" in parts.netloc:
        yield invalid(path, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service(service: Object, path: str) -> Problems:
    for name in ("name", "namespace"):
        if not service.get(name):
            yield required(f"{path}.{name}")
    yield from between(1, 65_535)(service.get("port", 443), f"{path}.port")
    given = service.get("path")
    if given and (not given.startswith("/") or "//" in given.rstrip("/") or "?" in given):
        yield invalid(f"{path}.path", given, "must be a path that begins with '/' and has no empty step")


KINDS = (
    kind_rules(
        (_GROUP, "v1", "MutatingWebhookConfiguration"), fill=_filled({"reinvocationPolicy": "Never"}), check=_check
    ),
    kind_rules((_GROUP, "v1", "ValidatingWebhookConfiguration"), fill=_filled({}), check=_check),
)
