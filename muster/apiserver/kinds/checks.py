"""Small checks that the rules of kinds are put together from: a kind's rules are mostly a table of these.

A check takes a value of the right type (`field_checks.read` sees to that) and its path, and gives what is wrong with
it. What is absent is not checked; what must be there is named in the first argument of `fields`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, not_supported, required
from muster.model.fields import INT32_MAX
from muster.model.labels import (
    dns1035_label_problem,
    dns1123_label_problem,
    dns1123_subdomain_problem,
    label_key_problem,
    label_value_problem,
)
from muster.model.quantity import Quantity, parse_quantity

Object = dict[str, Any]
Check = Callable[[Any, str], Problems]

PORTS_MOST = 65535
PORT_NAME_LENGTH = 15
KEY_LENGTH = 253
_SMALL_OF_PORTS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_OF_KEYS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")


# How checks are put together -----------------------------------------------------------------------------------------


def fields(needed: str, checks: Mapping[str, Check]) -> Check:
    """Checks of an object's fields by name; `needed` are the names of those that must be there."""
    names = tuple(needed.split())
    rows = tuple(checks.items())

    def check(value: Object, path: str) -> Problems:
        for name in names:
            if not value.get(name):
                yield required(f"{path}.{name}")
        for name, one in rows:
            found = value.get(name)
            if found is not None and (found or name not in names):
                yield from one(found, f"{path}.{name}")

    return check


def each(check: Check) -> Check:
    """The same check of every item of a list."""

    def check_all(values: list[Any], path: str) -> Problems:
        for index, value in enumerate(values):
            yield from check(value, f"{path}[{index}]")

    return check_all


def unique(key: str = "") -> Check:
    """No two items of a list are the same, or have the same value of a key."""

    def check(values: list[Any], path: str) -> Problems:
        seen = set()
        for index, value in enumerate(values):
            identity = value.get(key) if key else value
            if identity in seen:
                yield duplicate(f"{path}[{index}].{key}" if key else f"{path}[{index}]", identity)
            elif identity:
                seen.add(identity)

    return check


def needed(check: Check) -> Check:
    """A value that has to be there, and then obeys a check."""

    def check_needed(value: Any, path: str) -> Problems:
        yield from check(value, path) if value else iter([required(path)])

    return check_needed


def keyed(key: str, check: Check) -> Check:
    """A list of objects that each obey a check and differ in a key."""
    return both(each(check), unique(key))


def both(*checks: Check) -> Check:
    """All of the checks."""

    def check(value: Any, path: str) -> Problems:
        for one in checks:
            yield from one(value, path)

    return check


def exactly_one(names: Iterable[str], *, is_forbidding: bool = True) -> Check:
    """Of some fields one is given and no more."""
    known = tuple(names)

    def check(value: Object, path: str) -> Problems:
        given = [name for name in known if value.get(name) is not None]
        if not given:
            yield required(path, "one of its forms has to be given")
        for name in given[1:]:
            if is_forbidding:
                yield forbidden(f"{path}.{name}", "only one form may be given")
            else:
                yield invalid(f"{path}.{name}", "", "only one form may be given")

    return check


def anything(_value: Any, _path: str) -> Problems:
    """Nothing is wrong with any value."""
    yield from ()


# Values --------------------------------------------------------------------------------------------------------------


def one_of(*choices: str) -> Check:
    def check(value: str, path: str) -> Problems:
        if value not in choices:
            yield not_supported(path, value, choices)

    return check


def between(least: int, most: int) -> Check:
    def check(value: int, path: str) -> Problems:
        if not least <= value <= most:
            yield invalid(path, value, f"must be between {least} and {most}, inclusive")

    return check


def at_least(least: int) -> Check:
    def check(value: int, path: str) -> Problems:
        if value < least:
            yield invalid(path, value, f"must be greater than or equal to {least}")

    return check


def named(problem_of: Callable[[str], str]) -> Check:
    """A text that obeys one of the rules for names."""

    def check(value: str, path: str) -> Problems:
        if problem := problem_of(value):
            yield invalid(path, value, problem)

    return check


not_negative = at_least(0)
user_or_group = between(0, INT32_MAX)
dns_label = named(dns1123_label_problem)
dns_subdomain = named(dns1123_subdomain_problem)
dns_1035_label = named(dns1035_label_problem)
qualified_name = named(label_key_problem)


def port_name_problem(text: str) -> str:
    """What is wrong with the name of a port."""
    if len(text) > PORT_NAME_LENGTH:
        return f"is longer than {PORT_NAME_LENGTH} characters"
    if not text or not _SMALL_OF_PORTS.issuperset(text):
        return "has characters other than small letters, digits and '-'"
    if not any(one.isalpha() for one in text):
        return "has no letter"
    if "--" in text or text.startswith("-") or text.endswith("-"):
        return "has a '-' at an end or two in a row"
    return ""


def key_problem(text: str) -> str:
    """What is wrong with the key of an entry in a ConfigMap or a Secret."""
    if len(text) > KEY_LENGTH:
        return f"is longer than {KEY_LENGTH} characters"
    if not text or not _OF_KEYS.issuperset(text):
        return "has characters other than letters, digits, '-', '_' and '.'"
    return "is '.' or starts with '..'" if text == "." or text.startswith("..") else ""


def variable_name_problem(text: str) -> str:
    """What is wrong with the name of an environment variable."""
    is_printable = text and all(" " <= one <= "~" and one != "=" for one in text)
    return "" if is_printable else "has characters that are not printable, or '='"


port_number = between(1, PORTS_MOST)
port_name = named(port_name_problem)
entry_key = named(key_problem)
variable_name = named(variable_name_problem)


def port_or_name(value: int | str, path: str) -> Problems:
    """A port by its number or by its name."""
    yield from port_name(value, path) if isinstance(value, str) else port_number(value, path)


def address(value: str, path: str) -> Problems:
    """An IP address of either kind."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield invalid(path, value, "must be a valid IP address")


def address_range(value: str, path: str) -> Problems:
    """A range of IP addresses such as 10.0.0.0/8."""
    try:
        ipaddress.ip_network(value, strict=False)
        is_range = "/" in value
    except ValueError:
        is_range = False
    if not is_range:
        yield invalid(path, value, "must be a valid CIDR value, such as 10.9.8.0/24")


@lru_cache(maxsize=4096)
def quantity(text: str) -> Quantity:
    """A quantity that is known to be one; the same few are asked for again and again."""
    return parse_quantity(text)


def amount(value: str, path: str) -> Problems:
    """A quantity that is not below zero."""
    if value.startswith("-") and quantity(value).is_negative:
        yield invalid(path, value, "must be greater than or equal to 0")


def local_path(value: str, path: str) -> Problems:
    """A path that stays below where it starts."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from no_back_steps(value, path)


def no_back_steps(value: str, path: str) -> Problems:
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


# Labels and selectors ------------------------------------------------------------------------------------------------


def labels(value: Mapping[str, str], path: str) -> Problems:
    """The keys and values of labels; the path of both is that of the whole."""
    for key, one in value.items():
        if problem := label_key_problem(key):
            yield invalid(path, key, problem)
        if problem := label_value_problem(one):
            yield invalid(path, one, problem)


def annotation_keys(value: Mapping[str, str], path: str) -> Problems:
    """The keys of annotations."""
    for key in value:
        if problem := label_key_problem(key.lower()):
            yield invalid(path, key, problem)


def label_requirement(value: Object, path: str, *, compares: bool = False, checks_values: bool = True) -> Problems:
    """One requirement of a selector; those of nodes may also compare with a number."""
    values = value.get("values") or ()
    match value.get("operator"):
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be given for In and NotIn")
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden(f"{path}.values", "may not be given for Exists and DoesNotExist")
        case "Gt" | "Lt" if compares:
            if len(values) != 1:
                yield required(f"{path}.values", "must be a single value for Gt and Lt")
        case other:
            yield invalid(f"{path}.operator", other, "is no operator of a selector")
    yield from qualified_name(value.get("key") or "", f"{path}.key")
    for index, one in enumerate(values if checks_values else ()):
        if problem := label_value_problem(one):
            yield invalid(f"{path}.values[{index}]", one, problem)


label_selector = fields("", {"matchLabels": labels, "matchExpressions": each(label_requirement)})


def matches_labels(selector: Object, given: Mapping[str, str]) -> bool:
    """Whether a valid label selector takes these labels."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if given.get(key) != value:
            return False
    for one in selector.get("matchExpressions") or ():
        found, values = given.get(one["key"]), one.get("values") or ()
        is_met = {
            "In": found is not None and found in values,
            "NotIn": found is None or found not in values,
            "Exists": found is not None,
            "DoesNotExist": found is None,
        }
        if not is_met.get(one["operator"], False):
            return False
    return True


# Updates -------------------------------------------------------------------------------------------------------------


def unchanged(new: Object, before: Object, paths: Iterable[str]) -> Problems:
    """Fields that can never change, by their paths such as spec.selector."""
    for path in paths:
        value = at(new, path)
        if value != at(before, path):
            yield invalid(path, value, "field is immutable")


def at(given: Any, path: str) -> Any:
    """The value at a path of field names; `None` where it leads nowhere."""
    for name in path.split("."):
        given = given.get(name) if isinstance(given, dict) else None
    return given
