"""Asking another server over HTTP, for policies that leave decisions to others. Given to sessions by `app`.

A question is one POST with JSON, on a connection of its own: no redirect is followed, no answer may be longer than a
bound, and whatever goes wrong is a `NoAnswer`.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from muster.engine.outside import NoAnswer

ANSWER_MOST = 4 * 2**20  # bytes
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


def post_json(address: str, sent: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
    """What a server answers to an object; an empty answer is an empty object."""
    try:
        place = urlsplit(address)
        connect = _CONNECTIONS.get(place.scheme)
        if connect is None or not place.hostname:
            raise NoAnswer(f"{address[:200]} is no address of HTTP")
        connection = connect(place.hostname, place.port, timeout=timeout_s)
    except ValueError as problem:
        raise NoAnswer(f"{address[:200]}: {problem}") from None
    try:
        connection.request("POST", place.path or "/", json.dumps(sent), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read(ANSWER_MOST + 1)
        if answer.status != http.client.OK:
            raise NoAnswer(f"{address} answers {answer.status}")
        if len(text) > ANSWER_MOST:
            raise NoAnswer(f"{address} answers with more than {ANSWER_MOST} bytes")
        said = json.loads(text) if text.strip() else {}
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as problem:
        raise NoAnswer(f"{address}: {str(problem) or type(problem).__name__}") from None
    finally:
        connection.close()
    if not isinstance(said, dict):
        raise NoAnswer(f"{address} answers with no object")
    return said
