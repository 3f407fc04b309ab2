"""Service accounts: tokens for them, and whom a token stands for as long as what it is bound to is there.

Tokens are asked for through the subresource `token`; secrets of the type for it hold one without an end, which a
controller fills in. Called by `authentication` and `subresources`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from collections import OrderedDict
from typing import Any, NamedTuple

from muster.apiserver.requests import User
from muster.apiserver.rights.rbac import account_groups, account_name
from muster.apiserver.rights.tokens import Claims, SigningKey
from muster.model.times import parse_moment
from muster.store.clock import Clock
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.objects import decode
from muster.store.port import Store
from muster.store.records import Key, Record

ISSUER = "https://kubernetes.default.svc"
TOKEN_TYPE = "kubernetes.io/service-account-token"
AUTHENTICATED = "system:authenticated"
_LEGACY_ISSUER = "kubernetes/serviceaccount"
_LEGACY = "kubernetes.io/serviceaccount"
_EXTRA = "authentication.kubernetes.io"
_KNOWN = 4_096  # tokens whose signatures need no second look
_LATE_S = 60  # how long something that is being deleted is still trusted, as in Kubernetes
BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class Bound(NamedTuple):
    """What a token is for: an account, and perhaps one more object that has to be there."""

    account: Record
    kind: str = ""
    to: Record | None = None
    node: Record | None = None  # of a pod


class WrongAudience(NamedTuple):
    """A good token, for somebody else."""

    audiences: tuple[str, ...]


class ServiceAccounts:
    """Makes tokens and knows them again."""

    def __init__(self, store: Store, key: SigningKey, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.key = key
        self._known: OrderedDict[bytes, Claims] = OrderedDict()  # by the digest of the token

    # Making ----------------------------------------------------------------------------------------------------------

    def token(self, bound: Bound, audiences: tuple[str, ...], lasting_s: int) -> tuple[str, int]:
        """A token for an account, and when it ends."""
        now_s = int(self._clock.now_s())
        account = bound.account
        about: Object = {"namespace": account.key.namespace, "serviceaccount": _named(account)}
        if bound.to is not None:
            about[bound.kind.lower()] = _named(bound.to)
        if bound.node is not None:
            about["node"] = _named(bound.node)
        claims = {
            "aud": list(audiences),
            "exp": now_s + lasting_s,
            "iat": now_s,
            "nbf": now_s,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "sub": account_name(account.key.namespace, account.key.name),
            "kubernetes.io": about,
        }
        return self.key.signed(claims), now_s + lasting_s

    def lasting_token(self, secret: Key, account: Record) -> str:
        """The token of a secret: it has no end but that of the secret or the account."""
        name = account.key.name
        claims = {
            "iss": _LEGACY_ISSUER,
            "sub": account_name(account.key.namespace, name),
            f"{_LEGACY}/namespace": account.key.namespace,
            f"{_LEGACY}/secret.name": secret.name,
            f"{_LEGACY}/service-account.name": name,
            f"{_LEGACY}/service-account.uid": account.uid,
        }
        return self.key.signed(claims)

    # Knowing again ---------------------------------------------------------------------------------------------------

    def user(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> User | WrongAudience | None:
        """Whose token this is, as long as it is good."""
        claims = self._claims(token)
        if claims is None:
            return None
        try:
            if claims["iss"] == _LEGACY_ISSUER:
                return self._of_secret(token, claims) if ISSUER in audiences else None
            return self._of_claims(claims, audiences)
        except NotFound:
            return None  # what it was for is gone

    def _claims(self, token: str) -> Claims | None:
        digest = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        claims = self._known.get(digest)
        if claims is not None:
            self._known.move_to_end(digest)
            return claims
        claims = self.key.claims(token)
        if claims is not None:  # what is not signed is not worth remembering
            self._known[digest] = claims
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return claims

    def _of_claims(self, claims: Claims, audiences: tuple[str, ...]) -> User | WrongAudience | None:
        if not claims["nbf"] - _LATE_S <= self._clock.now_s() < claims["exp"]:
            return None
        about = claims["kubernetes.io"]
        namespace = about["namespace"]
        account = self._present(Key("serviceaccounts", namespace, about["serviceaccount"]["name"]))
        if account is None or account.uid != about["serviceaccount"]["uid"]:
            return None
        extra = [(f"{_EXTRA}/credential-id", (f"JTI={claims['jti']}",))]
        for kind, resource in BOUND.items():
            bound = about.get(kind.lower())
            if bound is None:
                continue
            if kind != "Node" or "pod" not in about:  # the node of a pod may go: the pod is what counts
                record = self._present(Key(resource, "" if kind == "Node" else namespace, bound["name"]))
                if record is None or record.uid != bound["uid"]:
                    return None
            if kind != "Secret":
                extra += [(f"{_EXTRA}/{kind.lower()}-{part}", (bound[part],)) for part in ("name", "uid")]
        if not set(claims["aud"]) & set(audiences):
            return WrongAudience(tuple(claims["aud"]))
        return _user_of(account, tuple(extra))

    def audiences_of(self, token: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """For which of the wanted audiences a token is good."""
        given = (self._claims(token) or {}).get("aud") or (ISSUER,)
        return tuple(one for one in wanted if one in given)

    def _of_secret(self, token: str, claims: Claims) -> User | None:
        namespace = claims[f"{_LEGACY}/namespace"]
        secret = self._present(Key("secrets", namespace, claims[f"{_LEGACY}/secret.name"]))
        account = self._present(Key("serviceaccounts", namespace, claims[f"{_LEGACY}/service-account.name"]))
        if secret is None or account is None or account.uid != claims[f"{_LEGACY}/service-account.uid"]:
            return None
        kept = (decode(secret).get("data") or {}).get("token") or ""
        is_same = hmac.compare_digest(kept.encode(), base64.b64encode(token.encode()))
        return _user_of(account, ()) if is_same else None

    def _present(self, key: Key) -> Record | None:
        """An object that is not on its way out, or only just."""
        record = self._store.get(key)
        if b'"deletionTimestamp"' not in record.value:
            return record
        found = decode(record)
        if not is_deleting(found):
            return record
        since_s = parse_moment(found["metadata"]["deletionTimestamp"], "metadata.deletionTimestamp")
        return record if since_s + _LATE_S > self._clock.now_s() else None

    def configuration(self, url: str) -> dict[str, Any]:
        """What a party that trusts these tokens has to know."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"{url}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }


def _named(record: Record) -> Object:
    return {"name": record.key.name, "uid": record.uid}


def _user_of(account: Record, extra: tuple[tuple[str, tuple[str, ...]], ...]) -> User:
    namespace = account.key.namespace
    groups = (*account_groups(namespace), AUTHENTICATED)
    return User(account_name(namespace, account.key.name), groups, account.uid, extra)
