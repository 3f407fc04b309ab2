"""Asking another server in the middle of a session: a port that `app` fills, for policies that let others decide.

Nothing here opens a connection. A session that was given no port asks nobody, and its policies are told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# An address, what is sent there as JSON, and how many seconds the answer may take; raises `NoAnswer`.
Ask = Callable[[str, Mapping[str, Any], float], Mapping[str, Any]]


class NoAnswer(Exception):
    """A server that was asked did not answer, or not with an object; the text says why."""


def ask_nobody(address: str, _sent: Mapping[str, Any], _timeout_s: float) -> Mapping[str, Any]:
    """The port of a session that may not ask anybody."""
    raise NoAnswer(f"{address} may not be asked here")
