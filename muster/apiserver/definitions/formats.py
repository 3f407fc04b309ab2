"""The formats of texts that schemas can ask for. Used by `schemas` when it compiles, and through it by `validation`.

A format that is not known says nothing about a value, as in Kubernetes. Cost is in proportion to the text.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

Format = Callable[[str], bool]

NUMBER_FORMATS = frozenset({"int32", "int64", "uint32", "uint64", "float", "float32", "float64", "double"})
_LONGEST = 4_096  # characters: longer ones are of no format that has a grammar
_HOST_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?|[^\x00-\x7f]+")
_EMAIL = re.compile(r"[^\s@<>\"(),:;\[\]\\]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{12}")
_HEX_COLOR = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_RGB_COLOR = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_MAC = re.compile(
    r"([0-9a-fA-F]{2}([:-])[0-9a-fA-F]{2}(\2[0-9a-fA-F]{2}){4,18})|([0-9a-fA-F]{4}(\.[0-9a-fA-F]{4}){2,9})"
)
_CARD = re.compile(r"\d{12,19}")
_SSN = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_OBJECT_ID = re.compile(r"[0-9a-fA-F]{24}")
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)", re.ASCII)
_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONG_DURATION = re.compile(
    r"\s*\d+(\.\d+)?\s*(ns|nanos?|us|µs|micros?|ms|millis?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?)",
    re.ASCII | re.IGNORECASE,
)
_LABEL_1123 = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def format_of(name: str) -> Format | None:
    """How to tell whether a text has a format; `None` for one that is not known, or that is for numbers."""
    return _FORMATS.get(name.replace("-", ""))


def _short(check: Format) -> Format:
    return lambda text: len(text) <= _LONGEST and check(text)


def _is_date_time(text: str) -> bool:
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        return False
    try:
        datetime.fromisoformat(f"{found[1]}T{found[2]}")
    except ValueError:
        return False
    return True


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_duration(text: str) -> bool:
    """One of Go's durations such as 1h30m, or words such as `2 days`."""
    if text in ("0", "+0", "-0"):
        return True
    for pattern in (_DURATION, _LONG_DURATION):
        rest = text if pattern is _LONG_DURATION else text.lstrip("+-") if text[:1] in "+-" else text
        place = 0
        while place < len(rest) and (found := pattern.match(rest, place)):
            place = found.end()
        if rest and place == len(rest):
            return True
    return False


def _is_address(version: int) -> Format:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _is_network(text: str) -> bool:
    try:
        return "/" in text and bool(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return False


def _is_host_name(text: str) -> bool:
    if not text or len(text) > 255:
        return False
    labels = text.removesuffix(".").split(".")
    return not labels[-1].isdigit() and all(_HOST_LABEL.fullmatch(label) for label in labels)


def _is_uri(text: str) -> bool:
    """A whole address, or a path from the root."""
    if any(character <= " " or character == "\x7f" for character in text):
        return False
    try:
        return bool(urlsplit(text).scheme) or text.startswith("/")
    except ValueError:
        return False


def _is_uuid(version: str) -> Format:
    def check(text: str) -> bool:
        found = _UUID.fullmatch(text)
        if found is None or not version:
            return found is not None
        return found[1] == version and (version == "3" or found[2].lower() in "89ab")

    return check


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def _is_rgb(text: str) -> bool:
    found = _RGB_COLOR.fullmatch(text)
    return found is not None and all(int(one) < 256 for one in found.groups())


def _is_card(text: str) -> bool:
    digits = re.sub(r"[ -]", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = [int(one) * (1 + place % 2) for place, one in enumerate(reversed(digits))]
    return sum(one - 9 if one > 9 else one for one in doubled) % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    return sum((10 - place) * (10 if one == "X" else int(one)) for place, one in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if not re.fullmatch(r"\d{13}", digits):
        return False
    return sum(int(one) * (1 + 2 * (place % 2)) for place, one in enumerate(digits)) % 10 == 0


def _matches(pattern: re.Pattern[str]) -> Format:
    return lambda text: pattern.fullmatch(text) is not None


_FORMATS: dict[str, Format] = {
    "bsonobjectid": _short(_matches(_OBJECT_ID)),
    "byte": _is_base64,
    "cidr": _short(_is_network),
    "creditcard": _short(_is_card),
    "date": _short(_is_date),
    "datetime": _short(_is_date_time),
    "duration": _short(_is_duration),
    "email": _short(_matches(_EMAIL)),
    "hexcolor": _short(_matches(_HEX_COLOR)),
    "hostname": _short(_is_host_name),
    "ipv4": _short(_is_address(4)),
    "ipv6": _short(_is_address(6)),
    "isbn": _short(lambda text: _is_isbn10(text) or _is_isbn13(text)),
    "isbn10": _short(_is_isbn10),
    "isbn13": _short(_is_isbn13),
    "k8sshortname": _short(_matches(_LABEL_1123)),
    "mac": _short(_matches(_MAC)),
    "rgbcolor": _short(_is_rgb),
    "ssn": _short(_matches(_SSN)),
    "uri": _is_uri,
    "uuid": _short(_is_uuid("")),
    "uuid3": _short(_is_uuid("3")),
    "uuid4": _short(_is_uuid("4")),
    "uuid5": _short(_is_uuid("5")),
}
