"""Where Muster's verdict on an object differs from the real server's on purpose, each with the reason. Used by the
differential tests: what is not in these tables has to be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.kubernetes.comparison import NO_ANSWER, Verdict

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference: whether it explains two verdicts, and why there is one."""

    name: str
    reason: str
    explains: Callable[[str, Verdict, Verdict], bool]  # the kind, ours, theirs


def _has_no_answer(_kind: str, _ours: Verdict, theirs: Verdict) -> bool:
    return theirs.code == NO_ANSWER


def _paths_of_taints(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    renamed = {(field.replace("metadata.taints", "spec.taints"), reason) for field, reason in theirs.causes}
    return kind == "Node" and ours.code == theirs.code == 422 and ours.causes == renamed


def _protection(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    if not kind.startswith(("PersistentVolume", "VolumeAttributesClass")) or ours.body is None or theirs.body is None:
        return False
    body = deepcopy(theirs.body)
    finalizers = body["metadata"].get("finalizers") or []
    body["metadata"]["finalizers"] = [one for one in finalizers if not one.endswith("-protection")]
    if not body["metadata"]["finalizers"]:
        del body["metadata"]["finalizers"]
    return ours.body == body


def _address(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    if kind != "Service" or ours.body is None or theirs.body is None or ours.body["spec"].get("clusterIP"):
        return False
    spec = {name: value for name, value in theirs.body["spec"].items() if name not in ("clusterIP", "clusterIPs")}
    return ours.body == {**theirs.body, "spec": spec}


def _empty_lists(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    is_needed = theirs.causes == {("spec.behavior.scaleDown.policies", "FieldValueRequired")}
    return kind == "HorizontalPodAutoscaler" and ours.code in (200, 201) and is_needed


def _generation(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    if kind not in ("PriorityClass", "CSIDriver") or ours.body is None or theirs.body is None:
        return False
    return {**ours.body, "metadata": None} == {**theirs.body, "metadata": None}


def _server_error(_kind: str, ours: Verdict, theirs: Verdict) -> bool:
    return theirs.code == 500 and ours.code == 422


def _masked_key(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    return kind == "PersistentVolume" and ours.causes - theirs.causes == {("nodeAffinity", "FieldValueInvalid")}


def _attached(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    renamed = {(field.replace("attachedRequired", "attachRequired"), reason) for field, reason in theirs.causes}
    return kind == "CSIDriver" and ours.code == theirs.code == 422 and ours.causes == renamed


def _acted_upon(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    if kind not in ("APIService", "FlowSchema") or ours.body is None or theirs.body is None:
        return False
    return {**ours.body, "status": None} == {**theirs.body, "status": None}


def _who_asks(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    if kind != "CertificateSigningRequest" or ours.body is None or theirs.body is None:
        return False
    who = ("username", "uid", "groups", "extra")
    bodies = [
        {**body, "spec": {name: value for name, value in body["spec"].items() if name not in who}}
        for body in (ours.body, theirs.body)
    ]
    return bodies[0] == bodies[1]


def _mutations(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    more = {field for field, _ in theirs.causes - ours.causes}
    is_known = all(
        field == "spec.matchConstraints.resourceRules.operations"
        or (field.startswith("spec.mutations") and field.endswith(".expression"))
        for field in more
    )
    return kind == "MutatingAdmissionPolicy" and theirs.code == 422 and is_known and not ours.causes - theirs.causes


def _data_anew(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    more = {field for field, _ in theirs.causes - ours.causes}
    return kind == "ControllerRevision" and theirs.code == 422 and more == {"data"} and not ours.causes - theirs.causes


def _windows(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    return kind == "Pod" and not ours.causes and {field for field, _ in theirs.causes} <= {"spec", "spec.hostNetwork"}


def _admin_access(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    is_about = theirs.causes and all(field.endswith(".adminAccess") for field, _ in theirs.causes)
    return kind.startswith("ResourceClaim") and ours.code == 201 and bool(is_about)


def _prefixes(kind: str, ours: Verdict, theirs: Verdict) -> bool:
    fields = {field for field, _ in ours.causes ^ theirs.causes}
    return kind in ("APIService", "DeviceClass", "ReplicationController") and fields == {"metadata.generateName"}


DIFFERENCES = (
    Difference("windows", "nodes of Windows are not served, nor what their processes share with a host", _windows),
    Difference("admin access", "whose namespace may look at all devices is not asked", _admin_access),
    Difference("prefixes", "a prefix of names obeys the rule for names in every kind", _prefixes),
    Difference("no answer", "the real server's rules crash on the object, and it hangs up", _has_no_answer),
    Difference("taints", "the real server says metadata.taints, where there is no such field", _paths_of_taints),
    Difference(
        "protection",
        "finalizers of volumes and claims are given before an object's own rules, which alone are compared",
        _protection,
    ),
    Difference("address", "addresses are given out before an object's own rules, which alone are compared", _address),
    Difference("generation", "it counts changes of every kind; the real server leaves some at one", _generation),
    Difference("server error", "a patch that cannot be applied is the client's mistake, never ours", _server_error),
    Difference("masked key", "a volume's node affinity never changes, not even to an empty key", _masked_key),
    Difference("empty list", "a list that is empty is the same as none, and gets the defaults", _empty_lists),
    Difference("attached", "the real server says attachedRequired, where there is no such field", _attached),
    Difference("acted upon", "the real server writes conditions of what has no effect here", _acted_upon),
    Difference("who asks", "who asks for a certificate is known to the routes, not to the rules", _who_asks),
    Difference(
        "data anew", "the real server writes a revision's data anew with each patch, and then refuses it", _data_anew
    ),
    Difference("mutations", "what a policy would change is not evaluated here, nor are its expressions", _mutations),
)


def explanation(kind: str, ours: Verdict, theirs: Verdict) -> str:
    """The name of the difference that explains two verdicts; empty when there is none."""
    return next((one.name for one in DIFFERENCES if one.explains(kind, ours, theirs)), "")
