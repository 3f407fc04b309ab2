"""What tables show of events, of rights, and of the kinds that set up an API server. Part of `table_cells`."""

from __future__ import annotations

from collections.abc import Callable

from muster.apiserver.table_texts import (
    NONE,
    UNSET,
    Cell,
    Cells,
    Object,
    at,
    condition,
    count,
    field,
    filled,
    human_duration,
    reference,
    selector_text,
    since_text,
)

# Events --------------------------------------------------------------------------------------------------------------
# The two groups that serve events have other names for the same fields.


def _either(item: Object, path: str, newer: str) -> object:
    value = at(item, path)
    return at(item, newer) if value is None else value


def _first_seen(event: Object, now_s: float) -> str:
    first = _either(event, "firstTimestamp", "deprecatedFirstTimestamp")
    return since_text(first or event.get("eventTime"), now_s)


def _last_seen(event: Object, now_s: float) -> str:
    if event.get("series"):
        return since_text(at(event, "series.lastObservedTime"), now_s)
    last = _either(event, "lastTimestamp", "deprecatedLastTimestamp")
    return since_text(last, now_s) if last else _first_seen(event, now_s)


def _event_count(event: Object, _: float) -> object:
    if event.get("series"):
        return at(event, "series.count") or 0
    return _either(event, "count", "deprecatedCount") or 1


def _event_object(event: Object, _: float) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return "/".join(filter(None, (about.get("kind", "").lower(), about.get("name"))))


def _event_source(event: Object, _: float) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or _either(event, "reportingComponent", "reportingController") or ""
    host = source.get("host") or event.get("reportingInstance")
    return f"{component}, {host}" if host else str(component)


EVENT: Cells = {
    "Last Seen": _last_seen,
    "Type": field("type"),
    "Reason": field("reason"),
    "Object": _event_object,
    "Subobject": lambda event, _: _either(event, "involvedObject.fieldPath", "regarding.fieldPath") or "",
    "Source": _event_source,
    "Message": lambda event, _: str(_either(event, "message", "note") or "").strip(),
    "First Seen": _first_seen,
    "Count": _event_count,
}


# Rights --------------------------------------------------------------------------------------------------------------


def _subjects(kind: str, text: Callable[[Object], str] = lambda subject: str(subject["name"])) -> Cell:
    def cell(binding: Object, _: float) -> str:
        return ", ".join(text(one) for one in binding.get("subjects") or () if one.get("kind") == kind)

    return cell


def _request_status(request: Object, _: float) -> str:
    verdict = next((name for name in ("Denied", "Approved") if condition(request, name)), "Pending")
    failed = "Failed" if condition(request, "Failed") else ""
    issued = "Issued" if at(request, "status.certificate") else ""
    return ",".join(filter(None, (verdict, failed, issued)))


def _requested_duration(request: Object, _: float) -> str:
    seconds = at(request, "spec.expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


ROLE_BINDING: Cells = {
    "Role": reference("roleRef.kind", "roleRef.name"),
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount", lambda subject: f"{subject.get('namespace', '')}/{subject['name']}"),
}
CERTIFICATE_SIGNING_REQUEST: Cells = {
    "SignerName": filled("spec.signerName", NONE),
    "Requestor": field("spec.username"),
    "RequestedDuration": _requested_duration,
    "Condition": _request_status,
}


# The API server ------------------------------------------------------------------------------------------------------


def _parameter_kind(policy: Object, now_s: float) -> str:
    given = at(policy, "spec.paramKind")
    return str(reference("spec.paramKind.apiVersion", "spec.paramKind.kind")(policy, now_s)) if given else UNSET


def _parameter(binding: Object, _: float) -> str:
    given = at(binding, "spec.paramRef") or {}
    if name := given.get("name"):
        return f"{given.get('namespace') or '*'}/{name}"
    return selector_text(given.get("selector")) or UNSET


def _service(api_service: Object, now_s: float) -> str:
    given = at(api_service, "spec.service")
    return str(reference("spec.service.namespace", "spec.service.name")(api_service, now_s)) if given else "Local"


def _availability(api_service: Object, _: float) -> str:
    found = condition(api_service, "Available") or {"status": "Unknown"}
    reason = found.get("reason") if found["status"] != "True" else ""
    return f"{found['status']} ({reason})" if reason else str(found["status"])


def _missing_level(flow: Object, _: float) -> str:
    return str((condition(flow, "Dangling") or {"status": "?"})["status"])


API_SERVICE: Cells = {"Service": _service, "Available": _availability}
WEBHOOK_CONFIGURATION: Cells = {"Webhooks": count("webhooks")}
MUTATING_POLICY: Cells = {"Mutations": count("spec.mutations"), "ParamKind": _parameter_kind}
VALIDATING_POLICY: Cells = {"Validations": count("spec.validations"), "ParamKind": _parameter_kind}
ADMISSION_POLICY_BINDING: Cells = {"PolicyName": field("spec.policyName"), "ParamRef": _parameter}
FLOW_SCHEMA: Cells = {
    "PriorityLevel": field("spec.priorityLevelConfiguration.name"),
    "MatchingPrecedence": field("spec.matchingPrecedence", 0),
    "DistinguisherMethod": field("spec.distinguisherMethod.type", NONE),
    "MissingPL": _missing_level,
}
_QUEUING = "spec.limited.limitResponse.queuing"
PRIORITY_LEVEL_CONFIGURATION: Cells = {
    "Type": field("spec.type"),
    "NominalConcurrencyShares": field("spec.limited.nominalConcurrencyShares", NONE),
    "Queues": field(f"{_QUEUING}.queues", NONE),
    "HandSize": field(f"{_QUEUING}.handSize", NONE),
    "QueueLengthLimit": field(f"{_QUEUING}.queueLengthLimit", NONE),
}
