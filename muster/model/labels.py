"""Who may run where: label selectors, node affinity, taints and tolerations, and the rules that names must obey.

Read from manifests once, matched many times by the engine. Every rule here is Kubernetes' own; where Kueue looks
at the labels of a flavor only, `restricted_to` says so.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from muster.model.fields import INT64_MAX, Fields, shown

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
FORBIDDING_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
NODE_NAME_FIELD = "metadata.name"

Labels = Mapping[str, str]


class Operator(Enum):
    """How a requirement compares a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


_LABEL_OPERATORS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
_NAME_OPERATORS = (Operator.IN, Operator.NOT_IN)


# Selectors --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()  # for In and NotIn
    bound: int = 0  # for Gt and Lt

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                # A label that is not there has none of the values.
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        number = None if value is None else _int64(value)
        if number is None:
            return False
        return number > self.bound if self.operator is Operator.GREATER else number < self.bound


@dataclass(frozen=True, slots=True)
class Selector:
    """All of its requirements must hold; one without any selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return not self.requirements or all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = Selector()


def selects(selector: Selector | None, labels: Labels) -> bool:
    """Whether the selector takes these labels; an absent selector takes nothing, an empty one everything."""
    return selector is not None and selector.matches(labels)


def read_selector(parent: Fields, name: str) -> Selector | None:
    """The label selector in a field; `None` when there is none, which is not the same as an empty one."""
    if not parent.has(name):
        return None
    fields = parent.child(name)
    labels = fields.text_map("matchLabels")
    exact = [Requirement(key, Operator.IN, frozenset([value])) for key, value in labels.items()]
    expressions = [_read_requirement(item, _LABEL_OPERATORS) for item in fields.children("matchExpressions")]
    return Selector((*exact, *expressions))


def _read_requirement(fields: Fields, operators: tuple[Operator, ...]) -> Requirement:
    key = fields.text("key")
    if not key:
        raise fields.error("key", "is missing", "give the name of a label")
    written = fields.text("operator")
    operator = next((known for known in operators if known.value == written), None)
    if operator is None:
        choices = ", ".join(known.value for known in operators)
        raise fields.error("operator", f"is {shown(written)}", f"give one of {choices}")
    values = fields.texts("values")
    match operator:
        case Operator.IN | Operator.NOT_IN:
            if not values:
                raise fields.error("values", "is empty", f"give at least one value for {written}")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            if values:
                raise fields.error("values", "is given", f"leave it out for {written}")
        case Operator.GREATER | Operator.LESS:
            return Requirement(key, operator, bound=_read_bound(fields, values))
    return Requirement(key, operator, frozenset(values))


def _read_bound(fields: Fields, values: tuple[str, ...]) -> int:
    """The one number that Gt and Lt compare with."""
    bound = _int64(values[0]) if len(values) == 1 else None
    if bound is None:
        raise fields.error("values", "is not one whole number", 'give one, such as ["4"]')
    return bound


def _int64(text: str) -> int | None:
    """The number that Kubernetes reads in a label; `None` when there is none or it does not fit an int64."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    # Digits only, and of ASCII only: int() would take spaces, underscores and the digits of any script.
    if not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0")
    if len(digits) > len(str(INT64_MAX)):
        return None
    number = int(digits or "0")
    number = -number if text.startswith("-") else number
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


# Node affinity ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Conditions on one node that must all hold; a term without any matches no node."""

    expressions: tuple[Requirement, ...] = ()  # on labels
    names: tuple[Requirement, ...] = ()  # on the node's own name

    def matches(self, labels: Labels, node_name: str = "") -> bool:
        if not self.expressions and not self.names:
            return False
        if not all(requirement.matches(labels) for requirement in self.expressions):
            return False
        # Without a name there is nothing to compare with, and Kubernetes then skips the comparison.
        named = {NODE_NAME_FIELD: node_name}
        return not node_name or all(requirement.matches(named) for requirement in self.names)


NodeTerms = tuple[NodeTerm, ...]


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A node that matches is liked that much better."""

    weight: int
    term: NodeTerm


def matches(terms: NodeTerms | None, labels: Labels, *, node_name: str = "") -> bool:
    """Whether a node satisfies required node affinity: one term is enough, `None` asks for nothing."""
    return terms is None or any(term.matches(labels, node_name) for term in terms)


def restricted_to(terms: NodeTerms | None, keys: frozenset[str]) -> NodeTerms | None:
    """What the terms say about these labels alone."""
    if terms is None:
        return None
    kept = tuple(
        NodeTerm(tuple(requirement for requirement in term.expressions if requirement.key in keys)) for term in terms
    )
    # Kueue: one term that says nothing about the flavor is fulfilled by it, and one fulfilled term is enough.
    return kept if kept and all(term.expressions for term in kept) else None


def node_matches(
    labels: Labels,
    *,
    selector: Labels,
    affinity: NodeTerms | None,
    keys: frozenset[str] | None = None,
    node_name: str = "",
) -> bool:
    """Whether a node suits a pod's node selector and required affinity; with keys, only those labels count."""
    for key, value in selector.items():
        if (keys is None or key in keys) and labels.get(key) != value:
            return False
    terms = affinity if keys is None else restricted_to(affinity, keys)
    return matches(terms, labels, node_name=node_name)


def preference(terms: Iterable[PreferredTerm], labels: Labels, *, node_name: str = "") -> int:
    """How much a node is liked: the weights of the preferred terms that it matches."""
    return sum(preferred.weight for preferred in terms if preferred.term.matches(labels, node_name))


def read_required_terms(pod_spec: Fields) -> NodeTerms | None:
    """A pod's required node affinity; `None` when it has none."""
    affinity = pod_spec.child("affinity").child("nodeAffinity")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if not affinity.has(required):
        return None
    return read_node_terms(affinity.child(required))


def read_node_terms(selector: Fields) -> NodeTerms:
    """A node selector: one of its terms is enough."""
    return tuple(_read_term(term) for term in selector.children("nodeSelectorTerms"))


def read_preferred_terms(pod_spec: Fields) -> tuple[PreferredTerm, ...]:
    """A pod's preferred node affinity."""
    affinity = pod_spec.child("affinity").child("nodeAffinity")
    return tuple(
        PreferredTerm(item.integer("weight"), _read_term(item.child("preference")))
        for item in affinity.children("preferredDuringSchedulingIgnoredDuringExecution")
    )


def _read_term(fields: Fields) -> NodeTerm:
    expressions = tuple(_read_requirement(item, tuple(Operator)) for item in fields.children("matchExpressions"))
    return NodeTerm(expressions, tuple(_read_name(item) for item in fields.children("matchFields")))


def _read_name(fields: Fields) -> Requirement:
    requirement = _read_requirement(fields, _NAME_OPERATORS)
    if requirement.key != NODE_NAME_FIELD:
        raise fields.error("key", f"is {shown(requirement.key)}", f"give {NODE_NAME_FIELD}, the only field there is")
    if len(fields.texts("values")) != 1:
        raise fields.error("values", "is more than one name", "give one")
    return requirement


# Taints and tolerations -------------------------------------------------------------------------------------------

_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's reason to keep pods away."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a pod does not mind; an empty key or effect stands for all of them."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None  # how long NoExecute is tolerated; None: for ever


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt":
            return _compares(toleration, taint)
        case _:
            return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Whether the taint's number is below (Lt) or above (Gt) the toleration's; what is no number never is."""
    for text in (toleration.value, taint.value):
        # Kubernetes takes no plus and no leading zeros here, unlike in node affinity.
        if not _CANONICAL_INTEGER.fullmatch(text) or _int64(text) is None:
            return False
    tolerated, found = int(toleration.value), int(taint.value)
    return found < tolerated if toleration.operator == "Lt" else found > tolerated


def first_untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: tuple[str, ...] = FORBIDDING_EFFECTS
) -> Taint | None:
    """The first taint of these effects that no toleration covers; `None` when all are covered."""
    known = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in known):
            return taint
    return None


def read_taints(parent: Fields, name: str = "taints") -> tuple[Taint, ...]:
    """The taints in a list."""
    return tuple(_read_taint(item) for item in parent.children(name))


def _read_taint(fields: Fields) -> Taint:
    key = fields.text("key")
    if not key:
        raise fields.error("key", "is missing", "give the name of the taint")
    effect = fields.choice("effect", EFFECTS)
    if not effect:
        raise fields.error("effect", "is missing", "give one of " + ", ".join(EFFECTS))
    return Taint(key, fields.text("value"), effect)


def read_tolerations(parent: Fields, name: str = "tolerations") -> tuple[Toleration, ...]:
    """The tolerations in a list."""
    return tuple(_read_toleration(item) for item in parent.children(name))


def _read_toleration(fields: Fields) -> Toleration:
    operator = fields.choice("operator", ("Equal", "Exists", "Lt", "Gt")) or "Equal"
    key = fields.text("key")
    if not key and operator != "Exists":
        raise fields.error("key", "is missing", "give the name of a taint, or the operator Exists for all of them")
    seconds = None
    if fields.has("tolerationSeconds"):
        seconds = fields.integer("tolerationSeconds", least=-INT64_MAX - 1, most=INT64_MAX)
    return Toleration(key, operator, fields.text("value"), fields.choice("effect", EFFECTS), seconds)


# Names ------------------------------------------------------------------------------------------------------------
# Each helper returns what is wrong with a text, or nothing. Lengths are checked first, so a text of any size is
# refused at once, and sets of characters instead of patterns keep the rest linear.

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253

_LETTERS_AND_DIGITS = frozenset(string.ascii_letters + string.digits)
_SMALL_LETTERS_AND_DIGITS = frozenset(string.ascii_lowercase + string.digits)
_SMALL_LETTERS = frozenset(string.ascii_lowercase)
_OF_NAMES = _LETTERS_AND_DIGITS | frozenset("-_.")
_OF_DNS_LABELS = _SMALL_LETTERS_AND_DIGITS | frozenset("-")


def label_key_problem(text: str) -> str:
    """What is wrong with the key of a label: a name, or a domain and a name as in example.com/name."""
    if len(text) > SUBDOMAIN_LENGTH + 1 + LABEL_LENGTH:
        return f"is longer than {SUBDOMAIN_LENGTH + 1 + LABEL_LENGTH} characters"
    return _short_key_problem(text)


@lru_cache(maxsize=4096)  # the same few keys are on every pod
def _short_key_problem(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    if slash and (problem := dns1123_subdomain_problem(prefix)):
        return f"has a prefix that {problem}"
    return _name_problem(name)


def label_value_problem(text: str) -> str:
    """What is wrong with the value of a label; an empty one is fine."""
    return _name_problem(text) if text else ""


def _name_problem(text: str) -> str:
    if not text:
        return "is empty"
    if len(text) > LABEL_LENGTH:
        return f"is longer than {LABEL_LENGTH} characters"
    if not _OF_NAMES.issuperset(text):
        return "has characters other than letters, digits, '-', '_' and '.'"
    if text[0] not in _LETTERS_AND_DIGITS or text[-1] not in _LETTERS_AND_DIGITS:
        return "does not start and end with a letter or digit"
    return ""


def dns1123_subdomain_problem(text: str) -> str:
    """What is wrong with a DNS name such as gpu.example.com, which most objects are named by."""
    if not text:
        return "is empty"
    if len(text) > SUBDOMAIN_LENGTH:
        return f"is longer than {SUBDOMAIN_LENGTH} characters"
    # Only the whole has a length in Kubernetes; its parts may be longer than a label of their own.
    return next((problem for part in text.split(".") if (problem := _dns_label_problem(part))), "")


def dns1123_label_problem(text: str) -> str:
    """What is wrong with one part of a DNS name, which namespaces and pods' containers are named by."""
    if len(text) > LABEL_LENGTH:
        return f"is longer than {LABEL_LENGTH} characters"
    return _dns_label_problem(text)


def dns1035_label_problem(text: str) -> str:
    """What is wrong with one part of a DNS name of the older kind, which starts with a letter."""
    problem = dns1123_label_problem(text)
    if not problem and text[0] not in _SMALL_LETTERS:
        return "does not start with a small letter"
    return problem


def _dns_label_problem(text: str) -> str:
    if not text:
        return "is empty or has an empty part"
    if not _OF_DNS_LABELS.issuperset(text):
        return "has characters other than small letters, digits and '-'"
    if text.startswith("-") or text.endswith("-"):
        return "does not start and end with a small letter or digit"
    return ""
