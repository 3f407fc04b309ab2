"""Nobody gives rights that they do not have: what stands in the way of writing a role or a binding. Called by writes.

Kubernetes' rules: who may `escalate` a role, or `bind` to it, is asked no further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from muster.apiserver.requests import Target, User
from muster.apiserver.rights.access import MASTERS, Access
from muster.apiserver.rights.rbac import (
    ALL,
    BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    RESOURCES,
    ROLES,
    Question,
    Rule,
    quoted,
)
from muster.apiserver.statuses import forbidden, named
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.records import Key

MOST_PARTS = 20_000  # single rights that a role is taken apart into, where no rule covers it whole
MOST_CHARACTERS = 64 * 1024
_EVERYTHING = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), paths=(ALL,)))


def check_grant(access: Access, user: User, target: Target, new: Object, before: Object | None) -> None:
    """Refuse a role or a binding that would give more than its writer has."""
    resource = target.served.resource
    if resource not in RESOURCES or MASTERS in user.groups:
        return
    if before is not None and _content(before) == _content(new) and _is_let_go(new, before):
        return
    if resource in (ROLES, CLUSTER_ROLES):
        _check_role(access, user, target, new, before)
    else:
        _check_binding(access, user, target, new)


def check_signing(access: Access, user: User, target: Target, new: Object, before: Object) -> None:
    """Refuse to approve or to sign a request for a certificate for whom its signer does not trust with that."""
    verb = {"approval": "approve", "status": "sign"}.get(target.subresource, "")
    if not verb or (verb == "sign" and _certificate(new) == _certificate(before)):
        return
    signer = str(before["spec"].get("signerName") or "")
    group, domain = target.served.kind.group, signer.partition("/")[0]
    questions = (Question(verb, group, "signers", name=name) for name in (signer, f"{domain}/{ALL}"))
    if not any(access.verdict(user, one).is_allowed for one in questions):
        raise forbidden(target.key, f'user not permitted to {verb} requests with signerName "{signer}"')


def _certificate(given: Object) -> object:
    status = given.get("status")
    return status.get("certificate") if isinstance(status, dict) else None


def _content(given: Object) -> Object:
    """All but the metadata."""
    return {name: value for name, value in given.items() if name not in ("metadata", "kind", "apiVersion") and value}


def _is_let_go(new: Object, before: Object) -> bool:
    """Whether only what the garbage collector needs has changed, as it must be able to."""
    ours, theirs = new.get("metadata") or {}, before["metadata"]
    names = ("labels", "annotations")
    return all((ours.get(name) or {}) == (theirs.get(name) or {}) for name in names)


def _check_role(access: Access, user: User, target: Target, new: Object, before: Object | None) -> None:
    name = (new.get("metadata") or {}).get("name") or ""
    asked = Question("escalate", GROUP, target.served.kind.plural, namespace=target.namespace, name=name)
    if access.verdict(user, asked).is_allowed:
        return
    key = Key(target.served.resource, target.namespace, name)
    rules = tuple(Rule.of(one) for one in new.get("rules") or ())
    _check_held(access, user, key, rules)
    if new.get("aggregationRule") or (before or {}).get("aggregationRule"):
        held, _ = access.rules_of(user, "")
        if any(True for _ in _not_held(held, _EVERYTHING)):
            raise forbidden(key, "must have cluster-admin privileges to use the aggregationRule")


def _check_binding(access: Access, user: User, target: Target, new: Object) -> None:
    reference = new.get("roleRef") or {}
    is_local = reference.get("kind") == "Role" and target.served.resource == BINDINGS
    if not is_local and reference.get("kind") != "ClusterRole":
        return  # its own rules refuse it
    role = Key(ROLES if is_local else CLUSTER_ROLES, target.namespace if is_local else "", reference.get("name") or "")
    plural = role.resource.partition(".")[0]
    asked = Question("bind", GROUP, plural, namespace=target.namespace, name=role.name)
    if access.verdict(user, asked).is_allowed:
        return
    rules = access.rules_in(role)
    resource = target.served.resource
    if rules is None:
        raise NotFound(Key(resource, "", role.name))
    name = (new.get("metadata") or {}).get("name") or ""
    _check_held(access, user, Key(resource, target.namespace, name), rules)


def _check_held(access: Access, user: User, key: Key, wanted: Iterable[Rule]) -> None:
    held, missing = access.rules_of(user, key.namespace)
    try:
        lacking = list(_not_held(held, wanted))
    except OverflowError:
        why = f"it gives more than {MOST_PARTS} single rights that no rule of yours gives together: split it"
        raise forbidden(key, why) from None
    if not lacking:
        return
    groups = " ".join(map(quoted, user.groups))
    start = f"user {quoted(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:"
    problem = "\n".join([start, *sorted(map(_shown, _compact(lacking)))])
    if missing:
        texts = " ".join(f"{one.resource} {quoted(one.name)} not found" for one in missing)
        problem += f"; resolution errors: [{texts}]"
    refused = forbidden(key, problem)
    refused.message = f"{named(key)} is forbidden: {problem}"[:MOST_CHARACTERS]  # a line for each right that is missing
    raise refused


def _not_held(held: list[Rule], wanted: Iterable[Rule]) -> Iterator[Rule]:
    """The single rights of some rules that no rule of the others covers."""
    parts = 0
    for rule in wanted:
        if any(one.covers(rule) for one in held):
            continue
        parts += _count(rule)
        if parts > MOST_PARTS:
            raise OverflowError
        yield from (one for one in _apart(rule) if not any(mine.covers(one) for mine in held))


def _count(rule: Rule) -> int:
    of_resources = len(rule.groups) * len(rule.resources) * max(1, len(rule.names))
    return len(rule.verbs) * (of_resources + len(rule.paths))


def _apart(rule: Rule) -> Iterator[Rule]:
    names: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    for group, resource, name, verb in product(rule.groups, rule.resources, names, rule.verbs):
        yield Rule((verb,), (group,), (resource,), name)
    for path, verb in product(rule.paths, rule.verbs):
        yield Rule((verb,), paths=(path,))


def _compact(rules: Iterable[Rule]) -> Iterator[Rule]:
    """The rules with those for the same objects made one; those for paths stay apart."""
    verbs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for rule in rules:
        if rule.paths:
            yield rule
        else:
            verbs.setdefault((rule.groups, rule.resources, rule.names), []).extend(rule.verbs)
    for (groups, resources, names), its in verbs.items():
        yield Rule(tuple(its), groups, resources, names)


def _shown(rule: Rule) -> str:
    lists = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.names),
        ("NonResourceURLs", rule.paths),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:[{' '.join(map(quoted, values))}]" for name, values in lists if values) + "}"
