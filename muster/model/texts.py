"""The forms that Kubernetes wants names to have, each checked in one pass over the text, and the nearest known name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_ALPHANUMERIC = _LOWER | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LETTERS = _ALPHANUMERIC - frozenset("0123456789")
_PATH = _ALPHANUMERIC | frozenset("/-._~%!$&'()*+,;=:")
_COMPARED_CHARACTERS = 80  # Longer names are not compared with known ones: no known one is that long.


def is_dns_label(text: str) -> bool:
    """Lower-case letters, digits and inner dashes."""
    return bool(text) and text[0] in _LOWER and text[-1] in _LOWER and all(c in _LOWER or c == "-" for c in text)


def is_dns_subdomain(text: str) -> bool:
    """DNS labels joined by dots."""
    return all(is_dns_label(part) for part in text.split("."))


def is_qualified_name(text: str) -> bool:
    """A name such as example.com/tier: an optional subdomain, then letters, digits and inner - _ . characters."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return (
        bool(name)
        and name[0] in _ALPHANUMERIC
        and name[-1] in _ALPHANUMERIC
        and all(c in _ALPHANUMERIC or c in "-_." for c in name)
    )


def is_kind_name(text: str) -> bool:
    """Letters, digits and inner dashes, a letter first."""
    return bool(text) and text[0] in _LETTERS and is_dns_label(text.lower()) and text.isascii()


def is_condition_reason(text: str) -> bool:
    """A word in CamelCase; inner _ , and : are allowed too."""
    if not text or text[0] not in _LETTERS or not (text[-1] in _ALPHANUMERIC or text[-1] == "_"):
        return False
    return all(c in _ALPHANUMERIC or c in "_,:" for c in text)


def is_domain_prefixed_path(text: str) -> bool:
    """A domain, a slash and a path, such as example.com/gate; Kubernetes wants this of names of controllers."""
    domain, slash, path = text.partition("/")
    return bool(slash and path) and len(domain) <= 253 and is_dns_subdomain(domain) and all(c in _PATH for c in path)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of text: whether a text has it, what it is called, and its pattern in a schema."""

    holds: Callable[[str], bool]
    called: str
    pattern: str


_LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_PATTERN = rf"{_LABEL_PATTERN}(\.{_LABEL_PATTERN})*"

DNS_LABEL = Form(is_dns_label, "a name of lower-case letters, digits and inner dashes", f"^{_LABEL_PATTERN}$")
DNS_SUBDOMAIN = Form(
    is_dns_subdomain, "a name of lower-case letters, digits, inner dashes and dots", f"^{_SUBDOMAIN_PATTERN}$"
)
QUALIFIED_NAME = Form(
    is_qualified_name,
    "a label key such as example.com/tier",
    rf"^({_SUBDOMAIN_PATTERN}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
)
KIND_NAME = Form(is_kind_name, "the name of a kind", "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$")
CONDITION_REASON = Form(is_condition_reason, "a reason in CamelCase", "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that the user most likely meant; empty when none is close."""
    if len(name) > _COMPARED_CHARACTERS:
        return ""
    candidates = sorted(known)
    lowered: dict[str, str] = {}
    for candidate in candidates:
        lowered.setdefault(candidate.lower(), candidate)
    matches = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[matches[0]] if matches else ""
