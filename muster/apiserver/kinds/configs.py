"""Config maps, secrets and service accounts."""

from __future__ import annotations

import base64
import json
from typing import Any

from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import entry_key, unchanged
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, required, too_long

Object = dict[str, Any]

MOST_BYTES = 1 << 20
ACCOUNT_NAME = "kubernetes.io/service-account.name"
# What a secret of a type must hold; of the entries in one group, one is enough.
_NEEDED = {
    "kubernetes.io/ssh-auth": (("ssh-privatekey",),),
    "kubernetes.io/tls": (("tls.crt",), ("tls.key",)),
    "kubernetes.io/basic-auth": (("username", "password"),),
    "kubernetes.io/dockercfg": ((".dockercfg",),),
    "kubernetes.io/dockerconfigjson": ((".dockerconfigjson",),),
}
_JSON_ENTRIES = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def _check_config_map(config_map: Object) -> Problems:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for key in data:
        yield from entry_key(key, f"data[{key}]")
        if key in binary:
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        yield from entry_key(key, f"binaryData[{key}]")
    size = sum(len(value.encode()) for value in data.values()) + sum(map(_size_of, binary.values()))
    if size > MOST_BYTES:
        yield too_long("", MOST_BYTES)


def _size_of(text: str) -> int:
    """How many bytes an entry in base64 stands for."""
    return len(text) * 3 // 4 - text[-2:].count("=")


def _fixed_forever(new: Object, before: Object, names: tuple[str, ...]) -> Problems:
    if not before.get("immutable"):
        return
    if not new.get("immutable"):
        yield forbidden("immutable", "field is immutable when `immutable` is set")
    for name in names:
        if new.get(name) != before.get(name):
            yield forbidden(name, "field is immutable when `immutable` is set")


def _change_config_map(new: Object, before: Object) -> Problems:
    yield from _fixed_forever(new, before, ("data", "binaryData"))


def _fill_secret(secret: Object) -> None:
    secret.setdefault("type", "Opaque")
    for key, text in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def _check_secret(secret: Object) -> Problems:
    data = secret.get("data") or {}
    for key in data:
        yield from entry_key(key, f"data[{key}]")
    if sum(map(_size_of, data.values())) > MOST_BYTES:
        yield too_long("data", MOST_BYTES)
    kind = secret["type"]
    annotations = secret["metadata"].get("annotations") or {}
    if kind == "kubernetes.io/service-account-token" and not annotations.get(ACCOUNT_NAME):
        yield required(f"metadata.annotations[{ACCOUNT_NAME}]")
    for group in _NEEDED.get(kind, ()):
        if not any(key in data for key in group):
            yield from (required(f"data[{key}]") for key in group)
    entry = _JSON_ENTRIES.get(kind)
    if entry in data and not _is_json_object(data[entry]):
        yield invalid(f"data[{entry}]", "<secret contents redacted>", "must be a JSON object")


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(base64.b64decode(text)), dict)
    except (ValueError, RecursionError):
        return False


def _change_secret(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, ("type",))
    yield from _fixed_forever(new, before, ("data",))


def _fill_account(account: Object) -> None:
    """Of a secret that an account refers to only the name is kept."""
    for secret in account.get("secrets") or ():
        for name in [one for one in secret if one != "name"]:
            del secret[name]


KINDS = (
    kind_rules(("", "v1", "ConfigMap"), check=_check_config_map, change=_change_config_map, has_generation=False),
    kind_rules(
        ("", "v1", "Secret"), fill=_fill_secret, check=_check_secret, change=_change_secret, has_generation=False
    ),
    kind_rules(("", "v1", "ServiceAccount"), fill=_fill_account, has_generation=False),
)
