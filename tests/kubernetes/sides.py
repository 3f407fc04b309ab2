"""A server that is sent the same requests as another: what it said, less what each makes up. Used by test_sequences."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from http.client import RemoteDisconnected
from itertools import zip_longest
from typing import Any

from tests.kubernetes.client import Answer, Client
from tests.kubernetes.sequences import FAMILIES, MERGE, NAMES, Family, Step

Json = dict[str, Any]
_MARK = re.compile(r"<(revision|first revision|uid|continue|revision of list) of ([^>]*)>|<revision of list ([^>]*)>")
_MADE_UP = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"\b3[0-2]\d{3}\b"), "PORT"),
    (re.compile(r"\(\d+\)"), "(REVISION)"),
)
_STORAGE = re.compile(r"StorageError: .*AdditionalErrorMsg: ")  # how the real server's own store begins
_OWN = ("managedFields", "selfLink")
_VALUE = re.compile(r'((?:Invalid|Unsupported|Duplicate) value: (?:"[^"{]+"|-?\d+|true|false))')
# Where a message of 400 goes on in words of the server's own: how its parser is made, or its libraries.
_OWN_WORDS = (
    (re.compile(r"(cannot be handled as an? \w+).*", re.DOTALL), r"\1"),
    (re.compile(r"(couldn't get version/kind; )?json parse error: .*", re.DOTALL), "PARSE"),
    (re.compile(r"the object provided is unrecognized \(must be of type DeleteOptions\): "), ""),
    (
        re.compile(
            r"(error decoding patch: |json: cannot unmarshal|Invalid JSON Patch|unexpected end of JSON).*", re.DOTALL
        ),
        "PATCH",
    ),
    (re.compile(r"(invalid continue token: ).*"), r"\1"),
    (
        re.compile(
            r"unable to parse requirement: .*|invalid selector: .*|field label not supported: .*|strconv\.ParseInt: .*"
        ),
        "SELECTOR",
    ),
    (re.compile(r"(strict decoding error: ).*", re.DOTALL), r"\1"),
)
# How a real server's own allocators name what they tell of services, whenever they come by.
_OF_RECORDER = re.compile(r".+\.[0-9a-f]{16}")
_AGE = re.compile(r"(\d+[smhd])+|<unknown>|<invalid>")
_END = "zz-end"
_WATCHES = 5


class Side:
    """A server, the namespace of a story on it, and what it has said so far."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self._said: dict[str, str] = {}  # by mark
        self._revisions: dict[str, list[str]] = {}  # of each object, in the order in which they were seen
        client.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self._start = {one.plural: self._list_revision(one) for one in FAMILIES}

    def ask(self, step: Step) -> Json:
        """Send a step, and give what has to be the same in both."""
        path, body = self._placed(step.path), step.body
        if body is not None and not isinstance(body, bytes):
            body = self._placed(body if isinstance(body, str) else json.dumps(body)).encode()
        try:
            answer = self.client.request(step.method, path, body, content_type=step.content_type, accept=step.accept)
        except RemoteDisconnected:
            return {"status": 0}
        return self._without_place(self._told(answer, step))

    def events(self) -> dict[str, list[Json]]:
        """What watches of each kind tell of the story."""
        return self._without_place({one.plural: list(self._events(one)) for one in FAMILIES})

    def leave(self) -> None:
        """Delete what is outside of the namespace."""
        for family in FAMILIES:
            if not family.is_namespaced:
                for name in NAMES:
                    path = self._placed(f"{family.collection}/{{ns}}-{name}")
                    self.client.request("DELETE", path)
                    self.client.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)

    def _events(self, family: Family) -> Iterator[Json]:
        path = self._placed(family.collection)
        end = {"metadata": {"name": f"{self.namespace}-{_END}"}, **json.loads(self._placed(json.dumps(family.sample)))}
        made = self.client.request("POST", path, end)
        assert made.status == 201, made.body
        for event in self._watched(path, self._start[family.plural], end["metadata"]["name"]):
            item = event["object"]
            if item["metadata"]["name"].removeprefix(f"{self.namespace}-") not in NAMES:
                continue  # the real server tells of what it does itself
            del item["metadata"]["resourceVersion"]
            if family.plural in _COUNTED:
                del item["metadata"]["generation"]
            yield {"type": event["type"], "object": _cleaned(item)}
        self.client.request("DELETE", f"{path}/{end['metadata']['name']}", {"gracePeriodSeconds": 0})

    def _watched(self, path: str, revision: str, end: str) -> Iterator[Json]:
        """What happened until an object was made; a server may end a watch, and then it goes on where it was."""
        for _ in range(_WATCHES):
            for event in self.client.watch(f"{path}?watch=true&resourceVersion={revision}"):
                assert event["type"] != "ERROR", event
                if event["object"]["metadata"]["name"] == end:
                    return
                revision = event["object"]["metadata"]["resourceVersion"]
                yield event
        raise AssertionError(f"{_WATCHES} watches of {path} ended before they told of {end}")

    def _without_place(self, told: Json) -> Json:
        """What was said, as if in any namespace."""
        same: Json = json.loads(json.dumps(told).replace(self.namespace, "{ns}"))
        return same

    def _list_revision(self, family: Family) -> str:
        found = self.client.request("GET", f"{self._placed(family.collection)}?limit=1").json
        return str(found["metadata"]["resourceVersion"])

    def _placed(self, text: str) -> str:
        text = text.replace("{ns}", self.namespace)
        return _MARK.sub(lambda found: self._said.get(found[0], "1"), text)

    def _told(self, answer: Answer, step: Step) -> Json:
        told: Json = {"status": answer.status, "warnings": answer.warnings}
        try:
            body = answer.json
        except ValueError:
            return {**told, "text": answer.body.decode()}
        self._remember(body, step)
        if body.get("kind") == "Table":
            names = [one["name"] for one in body["columnDefinitions"]]
            rows = [
                ["AGE" if isinstance(one, str) and _AGE.fullmatch(one) else one for one in row["cells"]]
                for row in body["rows"]
                if not _is_of_recorder(row["object"])
            ]
            return {**told, "columns": names, "rows": _cleaned(rows), "more": "continue" in body["metadata"]}
        if body.get("kind") == "Status":
            return {**told, "body": _refusal(_cleaned(body))}
        return {**told, "body": _cleaned(self._numbered(body))}

    def _remember(self, body: Json, step: Step) -> None:
        metadata = body.get("metadata") or {}
        plural = next((one.plural for one in FAMILIES if f"/{one.plural}" in step.path), "")
        if "items" in body:
            self._said[f"<continue of {plural}>"] = metadata.get("continue", "")
            self._said[f"<revision of list {plural}>"] = metadata["resourceVersion"]
        elif metadata.get("uid") and body.get("kind") != "Scale":
            of = f"{plural}/{metadata['name'].replace(self.namespace, '{ns}')}"
            if "resourceVersion" in metadata:
                self._said[f"<revision of {of}>"] = metadata["resourceVersion"]
                self._said.setdefault(f"<first revision of {of}>", metadata["resourceVersion"])
            self._said[f"<uid of {of}>"] = metadata["uid"]

    def _numbered(self, body: Json) -> Json:
        """The object with its revision as a number in its own history; lists without, since others write too."""
        metadata = dict(body.get("metadata") or {})
        if "items" in body:
            metadata.pop("resourceVersion", None)
            if "continue" in metadata:
                metadata["continue"] = "TOKEN"
            items = [self._numbered(one) for one in body["items"] or () if not _is_of_recorder(one)]
            if body["kind"] != "PartialObjectMetadataList":
                # Muster sends objects as it has stored them, which is with their kinds.
                items = [{**one, "kind": "", "apiVersion": ""} for one in items]
            return {**body, "metadata": metadata, "items": items}
        if "resourceVersion" in metadata:
            seen = self._revisions.setdefault(metadata.get("uid", ""), [])
            if metadata["resourceVersion"] not in seen:
                seen.append(metadata["resourceVersion"])
            metadata["resourceVersion"] = seen.index(metadata["resourceVersion"])
        return {**body, "metadata": metadata}


def _is_of_recorder(item: Json) -> bool:
    return _OF_RECORDER.fullmatch(item["metadata"]["name"]) is not None


def _cleaned(value: Any) -> Any:
    """A value without what each server makes up, and without nulls, which mean the same as nothing."""
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if one is not None and name not in _OWN}
        return {_without_chance(name): _cleaned(one) for name, one in kept.items() if name != "nodePort"}
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    return _without_chance(value) if isinstance(value, str) else value


def _refusal(status: Json) -> Json:
    """What has to be the same in a refusal: where both have words of their own, the fields to blame and the reasons."""
    details = dict(status.get("details") or {})
    causes = details.pop("causes", [])
    details["causes"] = sorted({(one.get("field", ""), one.get("reason", "")) for one in causes})
    message = _STORAGE.sub("", status.get("message", ""))
    if status.get("code") == 422:
        message = _form_of_invalid(message, causes)
    elif status.get("code") == 400:
        for pattern, form in _OWN_WORDS:
            message = pattern.sub(form, message)
    return {**status, "details": details, "message": message}


def _form_of_invalid(message: str, causes: list[Json]) -> Any:
    """What a refusal of an object says before the sentences that each server has of its own: what, and which values."""
    if any(one.get("field") == "patch" for one in causes) or " is invalid: " not in message:
        return ""
    found = [(one.get("field", ""), _VALUE.match(one.get("message", ""))) for one in causes]
    values = sorted({(field, value[1]) for field, value in found if value is not None})
    return [message.partition(" is invalid: ")[0], values]


def _without_chance(text: str) -> str:
    for pattern, name in _MADE_UP:
        text = pattern.sub(name, text)
    return text


def unlike(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """The first places in which two answers differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        names = sorted(ours.keys() | theirs.keys())
        return [one for name in names for one in unlike(ours.get(name), theirs.get(name), f"{path}.{name}")][:6]
    if isinstance(ours, list) and isinstance(theirs, list):
        pairs = enumerate(zip_longest(ours, theirs))
        return [one for place, (our, their) in pairs for one in unlike(our, their, f"{path}[{place}]")][:6]
    return [] if ours == theirs else [f"{path}: {str(ours)[:300]} instead of {str(theirs)[:300]}"]


def explained(step: Step, ours: Json, theirs: Json) -> str:
    """The reason why two answers differ on purpose; empty where they should not."""
    return next((why for why, is_so in _ON_PURPOSE.items() if is_so(step, ours, theirs)), "")


def _names_the_object(step: Step, ours: Json, theirs: Json) -> bool:
    if step.method != "PATCH" or (ours["status"], theirs["status"]) != (422, 422):
        return False
    return bool(ours["body"]["details"]["causes"] == theirs["body"]["details"]["causes"] == [_OF_PATCH])


def _counts_changes(step: Step, ours: Json, theirs: Json) -> bool:
    is_counted = any(f"/{one}" in step.path for one in _COUNTED)
    return is_counted and all(".generation:" in one for one in unlike(ours, theirs))


def _makes_no_status(step: Step, ours: Json, _theirs: Json) -> bool:
    return bool(step.method == "PUT" and step.path.partition("?")[0].endswith("/status") and ours["status"] == 404)


def _remembers_more(_step: Step, ours: Json, theirs: Json) -> bool:
    return (ours["status"], theirs["status"]) == (200, 410)


def _blames_the_client(_step: Step, ours: Json, theirs: Json) -> bool:
    return bool(theirs["status"] in (0, 500) and 400 <= ours["status"] < 500)


def _keeps_the_limit(step: Step, ours: Json, _theirs: Json) -> bool:
    return "limit=" in step.path and "resourceVersion=0" in step.path and ours["status"] == 200


_COUNTED = ("priorityclasses",)
_OF_PATCH = ["patch", "FieldValueInvalid"]
_ON_PURPOSE: dict[str, Callable[[Step, Json, Json], bool]] = {
    "a patch that makes no object of its kind is refused with the name of the object": _names_the_object,
    "the generation counts changes of every kind": _counts_changes,
    "a write to the status makes no object where there is none, not even a service": _makes_no_status,
    "the real server forgets what was before its last compaction": _remembers_more,
    "a limit holds even where any revision will do": _keeps_the_limit,
    "what is wrong with a request is the client's mistake": _blames_the_client,
}
