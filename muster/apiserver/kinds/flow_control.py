"""Flow schemas and priority levels: judged as in Kubernetes and kept. Whose turn it is, `limits` says without them."""

from __future__ import annotations

from typing import Any

from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import at_least, between, dns_label, dns_subdomain, each, fields, not_negative
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, not_supported, required

Object = dict[str, Any]

_GROUP = "flowcontrol.apiserver.k8s.io"
_ALL = "*"
_VERBS = frozenset(("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"))
_OTHER_VERBS = frozenset(("connect", "delete", "get", "head", "options", "patch", "post", "put", "trace"))
_SUBJECTS = {"User": "user", "Group": "group", "ServiceAccount": "serviceAccount"}
_PRECEDENCE_MOST = 10_000
_MOST_ENTROPY_BITS = 60


# Flow schemas --------------------------------------------------------------------------------------------------------


def _fill_schema(schema: Object) -> None:
    if not schema["spec"].get("matchingPrecedence"):
        schema["spec"]["matchingPrecedence"] = 1000


def _given_or_all(values: list[str], path: str) -> Problems:
    if not values:
        yield required(path)
    elif len(values) > 1 and _ALL in values:
        yield invalid(path, values, "if '*' is present, must not specify others")


def _verbs(values: list[str], path: str, known: frozenset[str]) -> Problems:
    yield from _given_or_all(values, path)
    if values != [_ALL] and not known.issuperset(values) and _ALL not in values:
        yield not_supported(path, values, known)


def _resource_rule(rule: Object, path: str) -> Problems:
    yield from _verbs(rule.get("verbs") or [], f"{path}.verbs", _VERBS)
    for name in ("apiGroups", "resources"):
        yield from _given_or_all(rule.get(name) or [], f"{path}.{name}")
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        yield required(f"{path}.namespaces", "resource rules that are not cluster scoped must name namespaces")
    elif len(namespaces) > 1 and _ALL in namespaces:
        yield invalid(f"{path}.namespaces", namespaces, "if '*' is present, must not specify others")
    for index, one in enumerate(namespaces):
        if one != _ALL:
            yield from dns_label(one, f"{path}.namespaces[{index}]")


def _path(text: str, path: str) -> Problems:
    is_path = text.startswith("/") and " " not in text and "//" not in text
    if text != _ALL and (not is_path or "*" in text[:-1] or (text.endswith("*") and not text.endswith("/*"))):
        yield invalid(path, text, "must be a path, whose last part may be a star")


def _other_rule(rule: Object, path: str) -> Problems:
    yield from _verbs(rule.get("verbs") or [], f"{path}.verbs", _OTHER_VERBS)
    paths = rule.get("nonResourceURLs") or []
    yield from _given_or_all(paths, f"{path}.nonResourceURLs")
    yield from each(_path)(paths, f"{path}.nonResourceURLs")


def _subject(subject: Object, path: str) -> Problems:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, _SUBJECTS)
        return
    for other, name in _SUBJECTS.items():
        if other != kind and subject.get(name) is not None:
            yield forbidden(f"{path}.{name}", f"{name} is forbidden when subject kind is not '{other}'")
    name = _SUBJECTS[kind]
    found = subject.get(name)
    if found is None:
        yield required(f"{path}.{name}", f"{name} is required when subject kind is '{kind}'")
    elif kind == "ServiceAccount":
        if found.get("name") != _ALL:
            yield from _named(found, f"{path}.{name}.name", dns_subdomain)
        yield from _named({"name": found.get("namespace")}, f"{path}.{name}.namespace", dns_label)
    elif not found.get("name"):
        yield required(f"{path}.{name}.name")


def _named(given: Object, path: str, check: Any) -> Problems:
    if not given.get("name"):
        yield required(path)
    else:
        yield from check(given["name"], path)


def _rule(rule: Object, path: str) -> Problems:
    subjects = rule.get("subjects") or []
    if not subjects:
        yield required(f"{path}.subjects", "subjects must contain at least one value")
    yield from each(_subject)(subjects, f"{path}.subjects")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    yield from each(_resource_rule)(rule.get("resourceRules") or [], f"{path}.resourceRules")
    yield from each(_other_rule)(rule.get("nonResourceRules") or [], f"{path}.nonResourceRules")


_PRECEDENCE = between(1, _PRECEDENCE_MOST)


def _check_schema(schema: Object) -> Problems:
    spec = schema["spec"]
    precedence = spec["matchingPrecedence"]
    yield from _PRECEDENCE(precedence, "spec.matchingPrecedence")
    if precedence == 1 and schema["metadata"].get("name") != "exempt":
        yield invalid("spec.matchingPrecedence", precedence, "only the schema named 'exempt' may have precedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        yield not_supported("spec.distinguisherMethod.type", method.get("type") or "", ("ByNamespace", "ByUser"))
    yield from _named(
        spec.get("priorityLevelConfiguration") or {}, "spec.priorityLevelConfiguration.name", dns_subdomain
    )
    yield from each(_rule)(spec.get("rules") or [], "spec.rules")


# Priority levels -----------------------------------------------------------------------------------------------------


def _fill_level(level: Object) -> None:
    exempt, limited = level["spec"].get("exempt"), level["spec"].get("limited")
    if exempt is not None:
        fill(exempt, {"nominalConcurrencyShares": 0, "lendablePercent": 0})
    if limited is not None:
        fill(limited, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        for name, count in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
            if queuing is not None and not queuing.get(name):
                queuing[name] = count


_SHARES = fields("", {"nominalConcurrencyShares": not_negative, "lendablePercent": between(0, 100)})
_BORROWING = fields("", {"borrowingLimitPercent": not_negative})
_COUNTS = fields("", {"queueLengthLimit": at_least(1), "queues": at_least(1)})


def _check_level(level: Object) -> Problems:
    spec, path = level["spec"], "spec"
    kind = spec.get("type") or ""
    is_exempt_name = level["metadata"].get("name") == "exempt"
    if kind and is_exempt_name != (kind == "Exempt"):
        yield invalid("spec.type", kind, "must be 'Exempt' if and only if the name is 'exempt'")
    if kind not in ("Exempt", "Limited"):
        yield not_supported("spec.type", kind, ("Exempt", "Limited")) if kind else required("spec.type")
        return
    own, other = ("exempt", "limited") if kind == "Exempt" else ("limited", "exempt")
    if spec.get(other) is not None:
        yield forbidden(f"{path}.{other}", f"must be nil if the type is {kind}")
    found = spec.get(own)
    if found is None:
        if own == "limited":
            yield required("spec.limited", "must not be empty when type is Limited")
        return
    yield from _SHARES(found, f"spec.{own}")
    if own == "limited":
        yield from _BORROWING(found, "spec.limited")
        yield from _response(found.get("limitResponse") or {}, "spec.limited.limitResponse")


def _response(response: Object, path: str) -> Problems:
    kind, queuing = response.get("type") or "", response.get("queuing")
    match kind:
        case "":
            yield required(f"{path}.type")
        case "Reject":
            if queuing is not None:
                yield forbidden(f"{path}.queuing", "must be nil if limited.limitResponse.type is not Limited")
        case "Queue":
            if queuing is None:
                yield required(f"{path}.queuing", "must not be empty if limited.limitResponse.type is Limited")
            else:
                yield from _queuing(queuing, f"{path}.queuing")
        case _:
            yield not_supported(f"{path}.type", kind, ("Queue", "Reject"))


def _queuing(queuing: Object, path: str) -> Problems:
    yield from _COUNTS(queuing, path)
    hand, queues = queuing["handSize"], queuing["queues"]
    if hand <= 0:
        yield invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        yield invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif _entropy_bits(queues, hand) > _MOST_ENTROPY_BITS:
        yield invalid(f"{path}.handSize", hand, f"more than {_MOST_ENTROPY_BITS} bits are needed to deal such a hand")


def _entropy_bits(queues: int, hand: int) -> int:
    """How many bits it takes to deal a hand; as many as are asked about."""
    ways = 1
    for card in range(min(hand, _MOST_ENTROPY_BITS + 1)):
        ways *= max(1, queues - card)
    return (ways - 1).bit_length()


KINDS = (
    kind_rules((_GROUP, "v1", "FlowSchema"), fill=_fill_schema, check=_check_schema, status_metadata=()),
    kind_rules((_GROUP, "v1", "PriorityLevelConfiguration"), fill=_fill_level, check=_check_level, status_metadata=()),
)
