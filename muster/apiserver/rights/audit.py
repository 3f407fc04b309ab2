"""The record of what was done: one line of JSON for each request, in Kubernetes' audit format. Fed by `asgi`.

Who, what, when, from where and with which result; never a body, a header of credentials or the data of an object. Lines
are written by a thread of their own, some at a time, and all that is left when the server stops.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from muster.apiserver.requests import User
from muster.apiserver.rights.rbac import Question

log = logging.getLogger(__name__)
FILE_NAME = "audit.log"
FILE_BYTES = 32 * 2**20
FILES = 8  # the newest has no number
_FLUSH_S = 0.25
_MOST_WAITING = 100_000  # lines; a disk that is slower than that loses some, and the log says how many
_SHOWN = 1_024  # characters of what a client chose
_encode = msgspec.json.Encoder().encode


class Entry(NamedTuple):
    """One request that was answered."""

    user: User
    acting_as: User | None
    asked: Question
    uri: str
    agent: str
    address: str
    code: int
    received_s: float
    answered_s: float
    reason: str = ""  # why it was allowed or not
    annotations: tuple[tuple[str, str], ...] = ()  # what policies have to say


class AuditLog:
    """Lines on their way to a file that others cannot read."""

    def __init__(self, folder: Path, *, file_bytes: int = FILE_BYTES) -> None:
        self._path = folder / FILE_NAME
        self._file_bytes = file_bytes
        self._entries: list[Entry] = []
        self._lost = 0
        self._writer = ThreadPoolExecutor(1, "audit")
        self._writing: Future[None] | None = None
        self._is_due = False

    def add(self, entry: Entry) -> None:
        """Note a request; it is written soon."""
        if len(self._entries) >= _MOST_WAITING:
            self._lost += 1
            return
        self._entries.append(entry)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(_FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._is_due = False
        if self._writing is not None and not self._writing.done():
            self._is_due = True
            asyncio.get_running_loop().call_later(_FLUSH_S, self._flush)
            return
        if self._lost:
            log.warning("the audit log is too slow, %d lines were lost", self._lost)
            self._lost = 0
        entries, self._entries = self._entries, []
        if entries:
            self._writing = self._writer.submit(self._write, entries)

    def close(self) -> None:
        """Write what is left."""
        entries, self._entries = self._entries, []
        self._writer.submit(self._write, entries)
        self._writer.shutdown()

    def _write(self, entries: list[Entry]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            handle = os.open(self._path, flags, 0o600)
            with os.fdopen(handle, "ab") as file:
                os.fchmod(handle, 0o600)
                file.write(b"".join(_encode(event_of(entry)) + b"\n" for entry in entries))
                size = file.tell()
            if size >= self._file_bytes:
                self._rotate()
        except OSError as problem:
            log.warning("the audit log cannot be written, %d lines are lost: %s", len(entries), problem)

    def _rotate(self) -> None:
        for number in range(FILES - 1, 0, -1):
            older = self._path.with_name(f"{FILE_NAME}.{number}")
            newer = self._path.with_name(f"{FILE_NAME}.{number - 1}") if number > 1 else self._path
            if newer.exists():
                os.replace(newer, older)


def event_of(entry: Entry) -> dict[str, Any]:
    """The audit event of a request."""
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": str(uuid.uuid4()),
        "stage": "ResponseComplete",
        "requestURI": entry.uri[:_SHOWN],
        "verb": entry.asked.verb,
        "user": user_info(entry.user),
    }
    if entry.acting_as is not None:
        event["impersonatedUser"] = user_info(entry.acting_as)
    event["sourceIPs"] = [entry.address] if entry.address else []
    event["userAgent"] = entry.agent[:_SHOWN]
    if entry.asked.resource:
        event["objectRef"] = _object(entry.asked)
    event["responseStatus"] = {"metadata": {}, "code": entry.code}
    event["requestReceivedTimestamp"] = _moment(entry.received_s)
    event["stageTimestamp"] = _moment(entry.answered_s)
    decision = "forbid" if entry.code == 403 else "allow"
    told = {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": entry.reason}
    event["annotations"] = {**dict(entry.annotations), **told}
    return event


def user_info(user: User) -> dict[str, Any]:
    """A user as the API shows one."""
    info: dict[str, Any] = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra}
    return info


def _object(asked: Question) -> dict[str, str]:
    about = {
        "resource": asked.resource,
        "namespace": asked.namespace,
        "name": asked.name,
        "apiGroup": asked.group,
        "subresource": asked.subresource,
    }
    return {name: value[:_SHOWN] for name, value in about.items() if value}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
