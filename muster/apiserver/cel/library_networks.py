"""URLs, addresses and ranges of them. Collected by `functions`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote, unquote, unquote_plus

from muster.apiserver.cel.comparing import text_steps
from muster.apiserver.cel.problems import EvaluationProblem
from muster.apiserver.cel.signatures import overload
from muster.apiserver.cel.values import Opaque

# URLs -----------------------------------------------------------------------------------------------------------------

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST = re.compile(r"(?:\[[^\[\]@/ ]+\]|[^\x00-\x20\[\]:@/?#\\^`{|}\x7f]*)(?::[0-9]*)?")
_PATH = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]%]*")
_IN_PATHS = "/$&+,:;=@"


@dataclass(frozen=True, slots=True)
class UrlValue(Opaque):
    """A URL taken apart; equal if it is written the same."""

    type_name: ClassVar[str] = "kubernetes.URL"
    text: str
    scheme: str = ""
    host: str = ""
    path: str = ""
    query: str = ""

    def hostname(self) -> str:
        """The host without its port and brackets."""
        if self.host.startswith("["):
            return self.host[1 : self.host.index("]")]
        return self.host.rpartition(":")[0] if ":" in self.host else self.host

    def port(self) -> str:
        """The port as it is written, or nothing."""
        after = self.host.rpartition("]")[2]
        return after.rpartition(":")[2] if ":" in after else ""

    def escaped_path(self) -> str:
        """The path with everything escaped that has to be."""
        return self.path if _PATH.fullmatch(self.path) else quote(unquote(self.path), safe=_IN_PATHS)

    def values(self) -> dict[str, list[str]]:
        """The parameters after the question mark; those that are malformed are left out."""
        found: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            name, _, value = part.partition("=")
            if part and ";" not in part and not _BAD_ESCAPE.search(part):
                found.setdefault(unquote_plus(name), []).append(unquote_plus(value))
        return found


def _url(text: str) -> UrlValue:
    found = _taken_apart(text)
    if isinstance(found, str):
        raise EvaluationProblem(f'URL parse error during conversion from string: parse "{text[:100]}": {found}')
    return found


def url_problem(text: str) -> str:
    """What keeps a text from being an absolute URL or path, or nothing."""
    found = _taken_apart(text)
    return f'parse "{text[:100]}": {found}' if isinstance(found, str) else ""


def _taken_apart(text: str) -> UrlValue | str:
    """The URL, or what is wrong with it."""
    if not text:
        return "empty url"
    if _CONTROL.search(text):
        return "net/url: invalid control character in URL"
    if text == "*":
        return UrlValue(text, path="*")
    before, _, _ = text.partition("#")
    scheme, rest = "", before
    if matched := _SCHEME.fullmatch(before):
        scheme, rest = matched[1].lower(), matched[2]
    elif before.startswith(":"):
        return "missing protocol scheme"
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        return UrlValue(text, scheme, query=query) if scheme else "invalid URI for request"
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, _, host = authority.rpartition("@")
        if not _USER.fullmatch(user):
            return "net/url: invalid userinfo"
        if not _HOST.fullmatch(host) or _BAD_ESCAPE.search(host):
            return f'invalid character or port in host name "{host[:100]}"'
    if escape := _BAD_ESCAPE.search(rest):
        return f'invalid URL escape "{rest[escape.start() : escape.start() + 3]}"'
    return UrlValue(text, scheme, host, rest, query)


_URLS = [
    overload("url(string) -> url", _url, text_steps),
    overload("isURL(string) -> bool", lambda text: not url_problem(text), text_steps),
    overload("url.getScheme() -> string", lambda url: url.scheme),
    overload("url.getHost() -> string", lambda url: url.host),
    overload("url.getHostname() -> string", UrlValue.hostname),
    overload("url.getPort() -> string", UrlValue.port),
    overload("url.getEscapedPath() -> string", UrlValue.escaped_path, lambda url: text_steps(url.path)),
    overload("url.getQuery() -> map(string, list(string))", UrlValue.values, lambda url: len(url.query)),
]

# Addresses ------------------------------------------------------------------------------------------------------------

ADDRESS_MOST = 64  # characters
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_PREFIX = re.compile(r"(.*)/(0|[1-9][0-9]{0,2})")
_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


@dataclass(frozen=True, slots=True)
class IpValue(Opaque):
    """An address."""

    type_name: ClassVar[str] = "net.IP"
    address: _Address


@dataclass(frozen=True, slots=True)
class CidrValue(Opaque):
    """A range of addresses, with the address that it was written with."""

    type_name: ClassVar[str] = "net.CIDR"
    address: _Address
    bits: int

    def masked(self) -> CidrValue:
        """The range with its first address."""
        network = ipaddress.ip_network(f"{self.address}/{self.bits}", strict=False)
        return CidrValue(network.network_address, self.bits)

    def contains_address(self, other: _Address) -> bool:
        """Whether an address lies in the range."""
        hidden = self.address.max_prefixlen - self.bits
        return self.address.version == other.version and int(self.address) >> hidden == int(other) >> hidden

    def contains_range(self, other: CidrValue) -> bool:
        """Whether all of another range lies in this one."""
        return self.bits <= other.bits and self.contains_address(other.address)


def _address(text: str) -> _Address:
    try:
        if len(text) > ADDRESS_MOST:
            raise ValueError("too long")
        address = ipaddress.ip_address(text)
    except ValueError:
        shown = text[:ADDRESS_MOST]
        raise EvaluationProblem(f'IP Address "{shown}" parse error during conversion from string') from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise EvaluationProblem(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise EvaluationProblem(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _ip(text: str) -> IpValue:
    return IpValue(_address(text))


def _cidr(text: str) -> CidrValue:
    found = _PREFIX.fullmatch(text[: 2 * ADDRESS_MOST])
    address = _address(found[1]) if found else None
    if found is None or address is None or int(found[2]) > address.max_prefixlen:
        raise EvaluationProblem(f'network address parse error during conversion from string: "{text[:ADDRESS_MOST]}"')
    return CidrValue(address, int(found[2]))


def _is_ip(text: str) -> bool:
    try:
        _address(text)
    except EvaluationProblem:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        _cidr(text)
    except EvaluationProblem:
        return False
    return True


def _is_link_local_multicast(value: IpValue) -> bool:
    return any(value.address in one for one in _LINK_LOCAL_MULTICAST)


def _is_global_unicast(value: IpValue) -> bool:
    address = value.address
    is_special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not is_special and str(address) != "255.255.255.255"


_ADDRESSES = [
    overload("ip(string) -> ip", _ip, text_steps),
    overload("isIP(string) -> bool", _is_ip, text_steps),
    overload("ip:isCanonical(string) -> bool", lambda text: str(_address(text)) == text, text_steps),
    overload("ip.family() -> int", lambda value: value.address.version),
    overload("ip.isUnspecified() -> bool", lambda value: value.address.is_unspecified),
    overload("ip.isLoopback() -> bool", lambda value: value.address.is_loopback),
    overload("ip.isLinkLocalMulticast() -> bool", _is_link_local_multicast),
    overload("ip.isLinkLocalUnicast() -> bool", lambda value: value.address.is_link_local),
    overload("ip.isGlobalUnicast() -> bool", _is_global_unicast),
    overload("string(ip) -> string", lambda value: str(value.address)),
    overload("cidr(string) -> cidr", _cidr, text_steps),
    overload("isCIDR(string) -> bool", _is_cidr, text_steps),
    overload("cidr.containsIP(string) -> bool", lambda value, text: value.contains_address(_address(text))),
    overload("cidr.containsIP(ip) -> bool", lambda value, other: value.contains_address(other.address)),
    overload("cidr.containsCIDR(string) -> bool", lambda value, text: value.contains_range(_cidr(text))),
    overload("cidr.containsCIDR(cidr) -> bool", CidrValue.contains_range),
    overload("cidr.ip() -> ip", lambda value: IpValue(value.address)),
    overload("cidr.prefixLength() -> int", lambda value: value.bits),
    overload("cidr.masked() -> cidr", CidrValue.masked),
    overload("string(cidr) -> string", lambda value: f"{value.address}/{value.bits}"),
]

OVERLOADS = [*_URLS, *_ADDRESSES]
