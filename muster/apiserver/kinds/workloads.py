"""Workloads that keep a number of equal pods: deployments, replica sets, stateful sets, daemon sets and the like."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from muster.apiserver.kinds.base import is_new, kind_rules
from muster.apiserver.kinds.checks import (
    at_least,
    dns_label,
    fields,
    label_selector,
    matches_labels,
    not_negative,
    one_of,
    unchanged,
)
from muster.apiserver.kinds.pod_defaults import fill, fill_template
from muster.apiserver.kinds.pod_specs import template
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, not_supported, required
from muster.apiserver.kinds.storage import claim_spec, fill_claim
from muster.model.labels import dns1123_label_problem
from muster.store.kinds import Propagation

Object = dict[str, Any]

_PERCENT = re.compile(r"[0-9]{1,9}%", re.ASCII)
ROLLING = "RollingUpdate"
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_COUNTS = fields(
    "",
    {
        "replicas": not_negative,
        "minReadySeconds": not_negative,
        "revisionHistoryLimit": not_negative,
        "progressDeadlineSeconds": not_negative,
    },
)


# What they have in common --------------------------------------------------------------------------------------------


def count_or_percent(value: int | str, path: str) -> Problems:
    """A number of pods, or a share of them."""
    if isinstance(value, int):
        yield from not_negative(value, path)
    elif not _PERCENT.fullmatch(value):
        yield invalid(path, value, "must be a number or a percentage such as 5%")


def at_most_all(value: int | str, path: str) -> Problems:
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def _is_zero(value: Any) -> bool:
    """Whether a count or share is none; a text that is neither counts as none too."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return not (digits.isascii() and digits.isdigit()) or not digits.strip("0")
    return not value


def _selected(spec: Object) -> Problems:
    """The selector and the template that it has to take."""
    if spec.get("selector") is None:
        yield required("spec.selector")
    problems = tuple(_matched(spec))
    yield from problems
    if any(problem.path.startswith("spec.selector") for problem in problems):
        yield invalid("spec.selector", spec["selector"], "invalid label selector")


def _matched(spec: Object) -> Problems:
    selector = spec.get("selector")
    found = spec.get("template") or {}
    given = (found.get("metadata") or {}).get("labels") or {}
    problems = tuple(label_selector(selector or {}, "spec.selector"))
    yield from problems
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, "an empty selector is invalid")
    elif selector is None or (not problems and not matches_labels(selector, given)):
        yield invalid("spec.template.metadata.labels", given, "`selector` does not match template `labels`")


def _always_running(found: Object) -> Problems:
    """Pods of these workloads run for ever."""
    spec = found.get("spec") or {}
    if spec.get("restartPolicy") != "Always":
        yield not_supported("spec.template.spec.restartPolicy", spec.get("restartPolicy"), ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        yield forbidden("spec.template.spec.activeDeadlineSeconds", "pods that run for ever have no deadline")


def _check_common(spec: Object, selected: Callable[[Object], Problems] = _selected) -> Problems:
    yield from _COUNTS(spec, "spec")
    yield from selected(spec)
    found = spec.get("template") or {}
    yield from template(found, "spec.template")
    yield from _always_running(found)


def _selector_stays(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, ("spec.selector",))


# Deployments and replica sets ----------------------------------------------------------------------------------------


def _fill_deployment(deployment: Object) -> None:
    spec = deployment["spec"]
    fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = spec["strategy"]
    strategy.setdefault("type", ROLLING)
    if strategy["type"] == ROLLING:
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})
    fill_template(spec["template"])


def _check_deployment(deployment: Object) -> Problems:
    spec = deployment["spec"]
    yield from _check_common(spec)
    yield from _deployment_strategy(spec["strategy"])
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _change_deployment(new: Object, before: Object) -> Problems:
    """Annotations of a deployment say how it is rolled out, so that a change of them counts as one."""
    if new["metadata"].get("annotations") != before["metadata"].get("annotations"):
        new["metadata"]["generation"] = int(before["metadata"].get("generation") or 0) + 1
    yield from _selector_stays(new, before)


def _deployment_strategy(strategy: Object) -> Problems:
    rolling, path = strategy.get("rollingUpdate"), "spec.strategy"
    match strategy.get("type"):
        case "Recreate":
            if rolling is not None:
                yield forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
        case "RollingUpdate":
            update = rolling or {}
            unavailable, surge = update.get("maxUnavailable", 0), update.get("maxSurge", 0)
            yield from count_or_percent(unavailable, f"{path}.rollingUpdate.maxUnavailable")
            yield from count_or_percent(surge, f"{path}.rollingUpdate.maxSurge")
            if _is_zero(unavailable) and _is_zero(surge):
                problem = "may not be 0 when `maxSurge` is 0"
                yield invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, problem)
            yield from at_most_all(unavailable, f"{path}.rollingUpdate.maxUnavailable")
        case _:
            yield not_supported(path, strategy, ("Recreate", ROLLING))


def _fill_replica_set(replica_set: Object) -> None:
    replica_set["spec"].setdefault("replicas", 1)
    fill_template(replica_set["spec"]["template"])


def _check_replica_set(replica_set: Object) -> Problems:
    yield from _check_common(replica_set["spec"])


def _fill_replication_controller(controller: Object) -> None:
    spec = controller["spec"]
    found = spec.get("template") or {}
    given = (found.get("metadata") or {}).get("labels") or {}
    if given:
        spec.setdefault("selector", dict(given))
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(given)
    fill(spec, {"replicas": 1})
    if spec.get("template") is not None:
        fill_template(spec["template"])


def _check_replication_controller(controller: Object) -> Problems:
    spec = controller["spec"]
    yield from _COUNTS(spec, "spec")
    selector, found = spec.get("selector") or {}, spec.get("template")
    if not selector:
        yield required("spec.selector")
    if found is None:
        yield required("spec.template")
        return
    given = found["metadata"].get("labels") or {}
    if any(given.get(key) != value for key, value in selector.items()):
        yield invalid("spec.template.metadata.labels", given, "`selector` does not match template `labels`")
    yield from template(found, "spec.template")
    yield from _always_running(found)


# Stateful sets -------------------------------------------------------------------------------------------------------


def _fill_stateful_set(stateful_set: Object) -> None:
    spec = stateful_set["spec"]
    fill(spec, {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10})
    strategy = spec["updateStrategy"]
    if not strategy.get("type"):
        strategy["type"] = ROLLING
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == ROLLING and strategy.get("rollingUpdate") is not None:
        strategy["rollingUpdate"].setdefault("partition", 0)
    policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    fill(policy, {"whenDeleted": "Retain", "whenScaled": "Retain"})
    fill_template(spec["template"])
    for claim in spec.get("volumeClaimTemplates") or ():
        fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        fill_claim(claim)


_STATEFUL_COUNTS = fields("", {"replicas": not_negative, "minReadySeconds": not_negative})
_RETENTION = fields("", {"whenDeleted": one_of("Retain", "Delete"), "whenScaled": one_of("Retain", "Delete")})
_ORDINALS = fields("", {"start": not_negative})


def _check_stateful_set(stateful_set: Object) -> Problems:
    spec = stateful_set["spec"]
    yield from _STATEFUL_COUNTS(spec, "spec")
    if spec["podManagementPolicy"] not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", spec["podManagementPolicy"], "must be OrderedReady or Parallel")
    yield from _stateful_strategy(spec["updateStrategy"])
    yield from _RETENTION(spec["persistentVolumeClaimRetentionPolicy"], "spec.persistentVolumeClaimRetentionPolicy")
    if spec.get("ordinals"):
        yield from _ORDINALS(spec["ordinals"], "spec.ordinals")
    if spec.get("serviceName") and is_new(stateful_set):
        yield from dns_label(spec["serviceName"], "spec.serviceName")
    # They cannot change later, so that old ones are not judged by new rules.
    for index, claim in enumerate((spec.get("volumeClaimTemplates") or ()) if is_new(stateful_set) else ()):
        yield from claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    yield from _selected(spec)
    found = _with_claims(spec)
    yield from template(found, "spec.template")
    yield from _always_running(found)


def _with_claims(spec: Object) -> Object:
    """The template with the volumes that the claims' templates become."""
    found = dict(spec["template"])
    claims = dict.fromkeys(claim["metadata"].get("name") for claim in spec.get("volumeClaimTemplates") or ())
    if claims:
        pod = dict(found["spec"])
        kept = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
        pod["volumes"] = kept + [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
        found["spec"] = pod
    return found


def _stateful_strategy(strategy: Object) -> Problems:
    rolling, path = strategy.get("rollingUpdate"), "spec.updateStrategy"
    match strategy.get("type"):
        case "OnDelete":
            if rolling is not None:
                yield invalid(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy RollingUpdate")
        case "RollingUpdate":
            yield from fields("", {"partition": not_negative, "maxUnavailable": at_least_one})(
                rolling or {}, f"{path}.rollingUpdate"
            )
        case _:
            yield invalid(path, strategy, "must be RollingUpdate or OnDelete")


def at_least_one(value: int | str, path: str) -> Problems:
    """A number of pods, or a share, that is not none."""
    yield from count_or_percent(value, path)
    if _is_zero(value):
        yield invalid(path, value, "cannot be 0")
    yield from at_most_all(value, path)


_STATEFUL_CHANGES = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)


def _change_stateful_set(new: Object, before: Object) -> Problems:
    if _fixed(new["spec"], _STATEFUL_CHANGES) != _fixed(before["spec"], _STATEFUL_CHANGES):
        kept = ", ".join(f"'{name}'" for name in sorted(_STATEFUL_CHANGES))
        yield forbidden("spec", f"updates to statefulset spec for fields other than {kept} are forbidden")


def _fixed(spec: Object, free: Iterable[str]) -> Object:
    return {name: value for name, value in spec.items() if name not in free}


# Daemon sets ---------------------------------------------------------------------------------------------------------


def _fill_daemon_set(daemon_set: Object) -> None:
    spec = daemon_set["spec"]
    if is_new(daemon_set):
        daemon_set["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", ROLLING)
    if strategy["type"] == ROLLING:
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": 1, "maxSurge": 0})
    spec.setdefault("revisionHistoryLimit", 10)
    fill_template(spec["template"])


def _check_daemon_set(daemon_set: Object) -> Problems:
    spec = daemon_set["spec"]
    yield from _check_common(spec, _matched)
    strategy, path = spec["updateStrategy"], "spec.updateStrategy"
    if strategy.get("type") == ROLLING:
        rolling = strategy.get("rollingUpdate") or {}
        unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
        for name, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
            yield from count_or_percent(value, f"{path}.rollingUpdate.{name}")
            yield from at_most_all(value, f"{path}.rollingUpdate.{name}")
        if _is_zero(unavailable) and _is_zero(surge):
            yield required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0")
        elif not _is_zero(unavailable) and not _is_zero(surge):
            yield invalid(f"{path}.rollingUpdate.maxSurge", surge, "may not be set when maxUnavailable is not 0")
    elif strategy.get("type") != "OnDelete":
        yield not_supported(path, strategy, ("OnDelete", ROLLING))


def _change_daemon_set(new: Object, before: Object) -> Problems:
    """The template is counted in an annotation, which is how an older field lives on."""
    counted = (before["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
    if new["spec"]["template"] != before["spec"]["template"] and counted.isdigit():
        counted = str(int(counted) + 1)
    new["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = counted
    yield from _selector_stays(new, before)


def _check_revision(revision: Object) -> Problems:
    yield from at_least(0)(revision.get("revision") or 0, "revision")
    if is_new(revision) and not isinstance(revision.get("data"), dict):
        yield required("data", "data is mandatory")


def _change_revision(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, ("data",))


KINDS = (
    kind_rules(
        ("apps", "v1", "Deployment"),
        fill=_fill_deployment,
        check=_check_deployment,
        change=_change_deployment,
        status_metadata=("annotations", "finalizers", "ownerReferences"),
    ),
    kind_rules(("apps", "v1", "ReplicaSet"), fill=_fill_replica_set, check=_check_replica_set, change=_selector_stays),
    kind_rules(
        ("apps", "v1", "StatefulSet"),
        fill=_fill_stateful_set,
        check=_check_stateful_set,
        change=_change_stateful_set,
        name_problem=dns1123_label_problem,
    ),
    kind_rules(("apps", "v1", "DaemonSet"), fill=_fill_daemon_set, check=_check_daemon_set, change=_change_daemon_set),
    kind_rules(
        ("apps", "v1", "ControllerRevision"), check=_check_revision, change=_change_revision, has_generation=False
    ),
    kind_rules(
        ("", "v1", "ReplicationController"),
        fill=_fill_replication_controller,
        check=_check_replication_controller,
        propagation=Propagation.ORPHAN,
    ),
)
