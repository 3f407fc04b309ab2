"""The check `muster.dev/http`: a server of the user's says whether a workload may start. Put together by `app`.

It is sent the workload and answers with a state, for a security scan, a validation or somebody's approval. What is sent
is signed where there is a secret, and sent again where there is no answer; every question has its time limit.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from muster.controllers.checks.base import PENDING, READY, REJECTED, RETRY, Answer, Asked
from muster.controllers.loop import Turn
from muster.controllers.view import Seen, View
from muster.dialects.kueue.check_kinds import HTTP_CHECKS, MUSTER
from muster.model.fields import INT32_MAX
from muster.store.kinds import Object
from muster.store.records import Key

AT_ONCE = 4  # questions; others wait for their turn
SIGNATURE = "Muster-Signature"
SECRET_ENTRY = "key"
_AGAIN_S = 30.0  # after which a server is asked again that has said "Pending", unless it says when
_GIVEN_UP_S = 60  # until a workload comes back whose check got no answer
_PAUSE_MOST_S = 30.0
_KNOWN_MOST = 10_000
_STATES = (PENDING, READY, RETRY, REJECTED)
_Place = tuple[str, str, str]  # the workload, the check, and since when it is pending


class NoAnswer(Exception):
    """A server did not say anything that can be used; the text says why."""


# Send a body with headers to an address: gives the status and the body of the answer. Raises `NoAnswer`.
Post = Callable[[str, bytes, Mapping[str, str], float], Awaitable[tuple[int, bytes]]]
Secret = Callable[[str], Awaitable[Object | None]]  # a Secret of Muster's own namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """How other servers are reached, and where the secrets are that they know."""

    post: Post
    secret: Secret


class HttpJudge:
    """Asks servers."""

    name = f"{MUSTER}/http"
    parameters = HTTP_CHECKS
    kind = (MUSTER, "HttpCheck")
    resources = frozenset((HTTP_CHECKS,))
    is_exclusive = False

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._free = asyncio.Semaphore(AT_ONCE)
        self._tried: OrderedDict[_Place, tuple[int, float]] = OrderedDict()  # failures in a row, and when it is time

    def problem(self, parameters: Object) -> str:
        try:
            place = urlsplit(parameters["spec"]["url"])
            is_known = place.scheme in ("http", "https") and bool(place.hostname) and place.port != 0
        except ValueError:
            is_known = False
        return "" if is_known else "spec.url is no address of http or https"

    def concerned(self, _seen: Seen, _view: View) -> Iterable[Key]:
        return ()

    async def judge(self, turn: Turn, asked: Asked) -> Answer | None:
        if asked.state.get("state") != PENDING:
            return None
        place = (asked.workload["metadata"]["uid"], asked.check, str(asked.state.get("lastTransitionTime")))
        failures, next_s = self._tried.pop(place, (0, 0.0))
        if turn.monotonic_s < next_s:
            self._remember(turn, place, failures, next_s - turn.monotonic_s)
            return None
        spec = asked.parameters["spec"]
        try:
            async with self._free:
                said = await self._answer(turn, asked, spec)
            answer = _read(said)
        except NoAnswer as problem:
            if failures >= spec.get("retries", 3):
                message = f"no answer after {failures + 1} tries: {problem}"
                return Answer(state=RETRY, message=message, requeue_after_s=_GIVEN_UP_S)
            self._remember(turn, place, failures + 1, min(_PAUSE_MOST_S, 2.0**failures))
            return None
        if answer.state == PENDING:
            self._remember(turn, place, 0, float(answer.requeue_after_s) or _AGAIN_S)
        return answer

    def _remember(self, turn: Turn, place: _Place, failures: int, wait_s: float) -> None:
        """Ask again after a while, and not before, whatever else changes in the workload."""
        self._tried[place] = (failures, turn.monotonic_s + wait_s)
        if len(self._tried) > _KNOWN_MOST:
            self._tried.popitem(last=False)
        turn.look_again(wait_s)

    async def _answer(self, turn: Turn, asked: Asked, spec: Mapping[str, Any]) -> Any:
        body = json.dumps(_question(asked), separators=(",", ":"), sort_keys=True).encode()
        headers = {"Content-Type": "application/json"}
        if name := spec.get("secretName"):
            headers[SIGNATURE] = signature(await self._key(name), body, int(turn.now_s))
        status, text = await self._outside.post(spec["url"], body, headers, float(spec.get("timeoutSeconds", 10)))
        if status != 200:
            raise NoAnswer(f"it answers {status}")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise NoAnswer("its answer is no JSON") from None

    async def _key(self, name: str) -> bytes:
        secret = await self._outside.secret(name)
        data = (secret or {}).get("data") or {}
        if SECRET_ENTRY not in data:
            raise NoAnswer(f"there is no Secret {name} with the entry {SECRET_ENTRY}")
        return base64.b64decode(data[SECRET_ENTRY])


def signature(key: bytes, body: bytes, at_s: int) -> str:
    """What proves that a question comes from whoever knows a key, and when it was asked."""
    signed = hmac.new(key, f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={signed}"


def _question(asked: Asked) -> Object:
    metadata, status = asked.workload["metadata"], asked.workload["status"]
    kept = ("name", "namespace", "uid", "labels", "annotations", "creationTimestamp", "ownerReferences")
    return {
        "apiVersion": f"{MUSTER}/v1",
        "kind": "AdmissionCheckReview",
        "check": asked.check,
        "attempt": asked.attempt,
        "workload": {
            "metadata": {name: metadata[name] for name in kept if name in metadata},
            "spec": asked.workload["spec"],
            "admission": status.get("admission") or {},
        },
    }


def _read(said: Any) -> Answer:
    """An answer as it came; anybody may have written it."""
    if not isinstance(said, dict) or said.get("state") not in _STATES:
        raise NoAnswer(f"its answer has no state of {', '.join(_STATES)}")
    after_s, updates = said.get("requeueAfterSeconds", 0), said.get("podSetUpdates", [])
    if not isinstance(after_s, int) or not 0 <= after_s <= INT32_MAX:
        raise NoAnswer("its requeueAfterSeconds is no number of seconds")
    if not isinstance(updates, list) or not all(isinstance(one, dict) for one in updates):
        raise NoAnswer("its podSetUpdates is no list of objects")
    is_ready = said["state"] == READY
    message = str(said.get("message") or "")
    return Answer(
        state=said["state"],
        message=message,
        requeue_after_s=after_s,
        pod_set_updates=tuple(updates) if is_ready else (),
    )
