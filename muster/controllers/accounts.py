"""What every namespace has: its default service account, the authority's certificate, and tokens in secrets.

A part of `following`. How a token is made comes from `app`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator

from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.objects import NAMESPACES, Objects, decode
from muster.store.port import Change, Store, Transaction
from muster.store.records import Action, Event, Key, Record, Scope

ACCOUNTS, SECRETS, CONFIGS = "serviceaccounts", "secrets", "configmaps"
DEFAULT, AUTHORITY = "default", "kube-root-ca.crt"
_TOKEN_TYPE = "kubernetes.io/service-account-token"
_NAME, _UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_SECRETS_A_STEP = 10_000
TokenFor = Callable[[Key, Record], str]  # the token in a secret, for an account


class Accounts:
    """Makes what is missing, and takes away tokens whose account is gone."""

    def __init__(self, objects: Objects, *, authority: str, token_for: TokenFor) -> None:
        self._objects = objects
        self._authority = authority
        self._token_for = token_for

    def first(self, store: Store) -> Iterator[Key]:
        for record in store.page(Scope(NAMESPACES)).records:
            yield record.key
        for record in store.page(Scope(SECRETS)).records:
            if _may_be_token(record):
                yield record.key

    def after(self, event: Event) -> Iterable[Key]:
        key = event.record.key
        if key.resource == NAMESPACES and event.action is not Action.DELETED:
            return (key,)
        if key.resource == ACCOUNTS and event.action is Action.DELETED:
            return (Key(NAMESPACES, "", key.namespace), key)
        if key.resource == ACCOUNTS and event.action is Action.ADDED:
            return (key,)
        if key.resource == CONFIGS and key.name == AUTHORITY:
            return (Key(NAMESPACES, "", key.namespace),)
        if key.resource == SECRETS and event.action is not Action.DELETED and _may_be_token(event.record):
            return (key,)
        return ()

    def change(self, key: Key) -> Change[None]:
        steps = {NAMESPACES: self._complete, ACCOUNTS: self._look_at_tokens, SECRETS: self._fill}
        return lambda write: steps[key.resource](write, key)

    def _complete(self, write: Transaction, key: Key) -> None:
        """Give a namespace what it has to have."""
        namespace = write.get(key)
        if namespace is None or is_deleting(decode(namespace)):
            return
        if write.get(Key(ACCOUNTS, key.name, DEFAULT)) is None:
            self._objects.create(ACCOUNTS, _object("ServiceAccount", key.name, DEFAULT))(write)
        place = Key(CONFIGS, key.name, AUTHORITY)
        data = {"ca.crt": self._authority}
        found = write.get(place)
        if found is None:
            self._objects.create(CONFIGS, {**_object("ConfigMap", key.name, AUTHORITY), "data": data})(write)
        elif (kept := decode(found)).get("data") != data and not is_deleting(kept):
            self._objects.modify(place, lambda before: {**before, "data": data})(write)

    def _look_at_tokens(self, write: Transaction, key: Key) -> None:
        """Settle the tokens of an account that is new or gone."""
        for record in write.page(Scope(SECRETS, key.namespace), _SECRETS_A_STEP):
            if _may_be_token(record) and (decode(record)["metadata"].get("annotations") or {}).get(_NAME) == key.name:
                self._fill(write, record.key)

    def _fill(self, write: Transaction, key: Key) -> None:
        """Put the token into a secret for one; a secret whose account is not there goes."""
        record = write.get(key)
        secret = decode(record) if record is not None else {}
        if not secret or secret.get("type") != _TOKEN_TYPE or is_deleting(secret):
            return
        annotations = secret["metadata"].get("annotations") or {}
        account = write.get(Key(ACCOUNTS, key.namespace, annotations.get(_NAME) or ""))
        if account is None or annotations.get(_UID, account.uid) != account.uid:
            self._objects.delete(key)(write)
            return
        data = secret.get("data") or {}
        wanted = {"ca.crt": _encoded(self._authority), "namespace": _encoded(key.namespace), **data}
        if not data.get("token"):
            wanted["token"] = _encoded(self._token_for(key, account))
        filled = {**annotations, _UID: account.uid}
        if wanted != data or filled != annotations:
            metadata = {**secret["metadata"], "annotations": filled}
            self._objects.update(key, {**secret, "metadata": metadata, "data": wanted})(write)


def _may_be_token(record: Record) -> bool:
    """Whether the word is there at all: much cheaper than reading the secret."""
    return b'"kubernetes.io/service-account-token"' in record.value


def _object(kind: str, namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
