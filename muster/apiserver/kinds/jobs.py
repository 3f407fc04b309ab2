"""Jobs and cron jobs: their defaults and rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from muster.apiserver.kinds.base import is_new, kind_rules
from muster.apiserver.kinds.checks import (
    both,
    each,
    fields,
    label_selector,
    matches_labels,
    not_negative,
    one_of,
    qualified_name,
    unchanged,
    unique,
)
from muster.apiserver.kinds.pod_defaults import fill, fill_template
from muster.apiserver.kinds.pod_specs import template
from muster.apiserver.kinds.problems import (
    Problems,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from muster.model.fields import INT32_MAX
from muster.model.labels import dns1123_label_problem
from muster.store.kinds import Propagation

Object = dict[str, Any]

UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
OLD_UID_LABEL, OLD_NAME_LABEL = "controller-uid", "job-name"
INDEXED = "Indexed"
CRON_NAME_LENGTH = 52
MANAGED_BY_BYTES = 63
PARALLEL_MOST = 100_000
_RULES_MOST = 20
_CODES_MOST = 255
_NEVER_CHANGES = tuple(
    f"spec.{name}"
    for name in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
)


# Jobs ----------------------------------------------------------------------------------------------------------------


def _fill_job(job: Object) -> None:
    spec = job["spec"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, {"parallelism": 1, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False})
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else INT32_MAX)
    has_policy = spec.get("podFailurePolicy") is not None
    spec.setdefault("podReplacementPolicy", "Failed" if has_policy else "TerminatingOrFailed")
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            if not condition.get("status"):
                condition["status"] = "True"
    fill_template(spec["template"])
    if is_new(job) and not spec["manualSelector"]:
        _select_own_pods(job)
    labels = spec["template"]["metadata"].get("labels") or {}
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _select_own_pods(job: Object) -> None:
    """A job finds its pods by its own uid, unless its author chooses them."""
    uid, name = job["metadata"]["uid"], job["metadata"].get("name", "")
    spec = job["spec"]
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for label, value in ((UID_LABEL, uid), (OLD_UID_LABEL, uid), (NAME_LABEL, name), (OLD_NAME_LABEL, name)):
        labels.setdefault(label, value)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(UID_LABEL, uid)


_NUMBERS = fields(
    "",
    dict.fromkeys(
        (
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ),
        not_negative,
    ),
)


def job_spec(spec: Object, path: str) -> Problems:
    """The rules for a job's spec, apart from its selector: the template of a cron job has none."""
    yield from _NUMBERS(spec, path)
    mode = spec.get("completionMode", "NonIndexed")
    yield from one_of("NonIndexed", INDEXED)(mode, f"{path}.completionMode")
    if len(spec.get("managedBy") or "") > MANAGED_BY_BYTES:
        yield too_long(f"{path}.managedBy", MANAGED_BY_BYTES)
    elif spec.get("managedBy") == "":
        yield required(f"{path}.managedBy")
    elif spec.get("managedBy") is not None:
        yield from _domain_path(spec["managedBy"], f"{path}.managedBy")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if mode == INDEXED:
        yield from _indexed(spec, path)
    else:
        # Of a mode that there is not, only this one is said.
        names = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
        for name in names if mode == "NonIndexed" else names[-1:]:
            if spec.get(name) is not None:
                yield invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
    if spec.get("podFailurePolicy") is not None:
        yield from _failure_policy(spec, f"{path}.podFailurePolicy")
    policies = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if spec.get("podReplacementPolicy") is not None:
        yield from one_of(*policies)(spec["podReplacementPolicy"], f"{path}.podReplacementPolicy")
    yield from template(spec.get("template") or {}, f"{path}.template")
    yield from _restarts(spec, f"{path}.template.spec.restartPolicy")


def _restarts(spec: Object, path: str) -> Problems:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy in ("Always", "", None):
        yield required(path, "valid values: OnFailure, Never")
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid(path, policy, "must be Never when podFailurePolicy is specified")


def _domain_path(value: str, path: str) -> Problems:
    domain, slash, rest = value.partition("/")
    if not slash or not rest:
        yield invalid(path, value, "must be a domain and a path such as example.com/name")
    elif not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", domain):
        yield invalid(path, value, "must start with a domain")


def _indexed(spec: Object, path: str) -> Problems:
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism > PARALLEL_MOST:
        yield invalid(f"{path}.parallelism", parallelism, f"must be at most {PARALLEL_MOST} for indexed jobs")
    if completions is not None and failed is not None and failed > completions:
        yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > PARALLEL_MOST:
        yield invalid(f"{path}.maxFailedIndexes", failed, f"must be at most {PARALLEL_MOST}")
    policy = spec.get("successPolicy")
    if policy is not None:
        rules = policy.get("rules") or []
        if not rules:
            yield required(f"{path}.successPolicy.rules", "at least one rule is needed")
        if len(rules) > _RULES_MOST:
            yield too_many(f"{path}.successPolicy.rules", len(rules), _RULES_MOST)
        for index, rule in enumerate(rules):
            yield from _success_rule(rule, f"{path}.successPolicy.rules[{index}]", completions or 0)


def _success_rule(rule: Object, path: str, completions: int) -> Problems:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = completions
    if indexes is not None:
        total = _count_of(indexes, completions)
        if total < 0:
            yield invalid(f"{path}.succeededIndexes", indexes, "must be indexes in order, such as 0,2-4")
            total = 0
    if count is not None:
        yield from not_negative(count, f"{path}.succeededCount")
        if count > min(completions, total):
            yield invalid(f"{path}.succeededCount", count, "must not be above the number of indexes")


def _count_of(indexes: str, completions: int) -> int:
    """How many indexes a text such as 0,2-4 names; -1 if it is none."""
    if not indexes:
        return 0
    last, total = -1, 0
    for part in indexes.split(","):
        first_text, dash, end_text = part.partition("-")
        texts = (first_text, end_text) if dash else (first_text, first_text)
        if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts):
            return -1
        first, end = int(texts[0]), int(texts[1])
        if first <= last or end >= completions or (dash and first >= end):
            return -1
        last, total = end, total + end - first + 1
    return total


def _failure_policy(spec: Object, path: str) -> Problems:
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _RULES_MOST:
        yield too_many(f"{path}.rules", len(rules), _RULES_MOST)
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    names = {one.get("name") for one in containers}
    for index, rule in enumerate(rules):
        where = f"{path}.rules[{index}]"
        yield from _failure_action(rule.get("action") or "", f"{where}.action", spec)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            yield from _exit_codes(codes, f"{where}.onExitCodes", names)
        if len(conditions) > _RULES_MOST:
            yield too_many(f"{where}.onPodConditions", len(conditions), _RULES_MOST)
        yield from each(_CONDITION)(conditions, f"{where}.onPodConditions")
        if (codes is None) == (not conditions):
            yield invalid(where, "", "must have one of onExitCodes and onPodConditions")


_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_CONDITION = fields("status", {"type": qualified_name, "status": one_of("True", "False", "Unknown")})


def _failure_action(action: str, path: str, spec: Object) -> Problems:
    if not action:
        yield required(path, f"valid values: {', '.join(_ACTIONS)}")
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield invalid(path, action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        yield not_supported(path, action, _ACTIONS)


def _exit_codes(value: Object, path: str, names: set[str | None]) -> Problems:
    operator, values = value.get("operator") or "", value.get("values") or []
    if not operator:
        yield required(f"{path}.operator", "valid values: In, NotIn")
    elif operator not in ("In", "NotIn"):
        yield not_supported(f"{path}.operator", operator, ("In", "NotIn"))
    if value.get("containerName") is not None and value["containerName"] not in names:
        yield invalid(f"{path}.containerName", value["containerName"], "must be a container of the template")
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _CODES_MOST:
        yield too_many(f"{path}.values", len(values), _CODES_MOST)
    for index, code in enumerate(values):
        if operator == "In" and code == 0:
            yield invalid(f"{path}.values[{index}]", code, "must not be 0 for the In operator")
    yield from unique()(values, f"{path}.values")
    if sorted(values) != values:
        yield invalid(f"{path}.values", values, "must be ordered")


def _check_job(job: Object) -> Problems:
    spec = job["spec"]
    yield from job_spec(spec, "spec")
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels") or {}
    if selector is None:
        yield required("spec.selector")
        yield invalid("spec.template.metadata.labels", labels, "no `selector` takes them")
    else:
        problems = tuple(label_selector(selector, "spec.selector"))
        yield from problems
        if not problems and not matches_labels(selector, labels):
            yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
        if is_new(job) and not spec.get("manualSelector"):
            yield from _generated(job, _OWN_LABELS)
    if spec.get("completionMode") == INDEXED and (spec.get("completions") or 0) > 0:
        longest = f"{job['metadata']['name']}-{spec['completions'] - 1}"
        if dns1123_label_problem(longest):
            yield invalid("metadata.name", job["metadata"]["name"], "is too long for the names of its pods")


_OWN_LABELS = {OLD_UID_LABEL: "uid", OLD_NAME_LABEL: "name", UID_LABEL: "uid", NAME_LABEL: "name"}


def _generated(job: Object, own: Mapping[str, str]) -> Problems:
    """Whoever does not choose the pods may not choose the labels either."""
    wanted = {label: job["metadata"].get(field, "") for label, field in own.items()}
    labels, selector = job["spec"]["template"]["metadata"].get("labels") or {}, job["spec"]["selector"]
    for label, value in wanted.items():
        if label not in labels:
            yield required(f"spec.template.metadata.labels[{label}]", f"must be '{value}'")
        elif labels[label] != value:
            yield invalid(f"spec.template.metadata.labels[{label}]", labels.get(label), f"must be '{value}'")
    if not matches_labels(selector, wanted):
        yield invalid("spec.selector", selector, "`selector` not auto-generated")


def _change_job(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, _NEVER_CHANGES)
    spec, old = new["spec"], before["spec"]
    if spec.get("completions") != old.get("completions"):
        is_indexed = spec.get("completionMode") == INDEXED
        if not is_indexed or spec.get("completions") is None:
            yield invalid("spec.completions", spec.get("completions"), "field is immutable")
        elif spec["completions"] != spec.get("parallelism"):
            yield invalid("spec.completions", spec["completions"], "can only be modified in tandem with parallelism")
    if spec.get("selector") is not None and not spec.get("manualSelector"):
        # A job from before there were labels with a prefix need not have them.
        known = (old["template"]["metadata"].get("labels") or {}).keys()
        yield from _generated(
            new, {label: of for label, of in _OWN_LABELS.items() if "/" not in label or label in known}
        )
    template_now, template_before = spec["template"], old["template"]
    if not old.get("suspend"):
        if template_now != template_before:
            yield invalid("spec.template", "", "field is immutable")
    elif _fixed_pod(template_now["spec"], before) != _fixed_pod(template_before["spec"], before):
        yield invalid("spec.template.spec", "", "field is immutable")


_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


def _fixed_pod(spec: Object, before: Object) -> Object:
    """What may not change of the pods of a suspended job: their resources may, and before it starts their place."""
    fixed = dict(spec)
    if not (before.get("status") or {}).get("startTime"):
        fixed = {name: value for name, value in spec.items() if name not in _SCHEDULING}
        fixed["affinity"] = {**(spec.get("affinity") or {}), "nodeAffinity": None}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            fixed[kind] = [{**one, "resources": {}} for one in spec[kind]]
    return fixed


# Cron jobs -----------------------------------------------------------------------------------------------------------


def _fill_cron_job(cron_job: Object) -> None:
    spec = cron_job["spec"]
    fill(spec, {"concurrencyPolicy": "Allow", "suspend": False})
    fill(spec, {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})
    fill_template(spec["jobTemplate"]["spec"]["template"])


_CRON_SPEC = both(
    fields(
        "schedule",
        {
            "concurrencyPolicy": one_of("Allow", "Forbid", "Replace"),
            "startingDeadlineSeconds": not_negative,
            "successfulJobsHistoryLimit": not_negative,
            "failedJobsHistoryLimit": not_negative,
        },
    )
)


def _check_cron_job(cron_job: Object) -> Problems:
    spec = cron_job["spec"]
    if len(cron_job["metadata"].get("name") or "") > CRON_NAME_LENGTH and is_new(cron_job):
        yield invalid("metadata.name", cron_job["metadata"]["name"], f"must be at most {CRON_NAME_LENGTH} characters")
    yield from _CRON_SPEC(spec, "spec")
    schedule = spec.get("schedule") or ""
    if schedule and not is_schedule(schedule):
        yield invalid("spec.schedule", schedule, "must be five fields such as */5 * * * *, or a word such as @daily")
    if "TZ" in schedule:
        yield invalid("spec.schedule", schedule, "cannot name a time zone, use timeZone instead")
    if spec.get("timeZone") is not None and not _is_time_zone(spec["timeZone"]):
        yield invalid("spec.timeZone", spec["timeZone"], "unknown time zone")
    job = spec["jobTemplate"]["spec"]
    yield from job_spec(job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        yield invalid("spec.jobTemplate.spec.selector", job["selector"], "`selector` will be auto-generated")
    if job.get("manualSelector"):
        yield not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))


def _is_time_zone(name: str) -> bool:
    if not name or name.lower() == "local" or len(name) > 64:
        return False
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


_WORDS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_BOUNDS = ((0, 59, ""), (0, 23, ""), (1, 31, ""), (1, 12, "month"), (0, 6, "day"))
_EVERY = re.compile(r"@every (?:[0-9]+(?:\.[0-9]+)?(?:h|m|s|ms|us|ns))+")


def is_schedule(text: str) -> bool:
    """Whether a text is a schedule: five fields, or a word."""
    if len(text) > 1000:
        return False
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        return text in _WORDS or bool(_EVERY.fullmatch(text))
    parts = text.split()
    return len(parts) == len(_BOUNDS) and all(
        _is_cron_part(one, *bounds) for part, bounds in zip(parts, _BOUNDS, strict=True) for one in part.split(",")
    )


def _is_cron_part(text: str, least: int, most: int, names: str) -> bool:
    span, slash, step = text.partition("/")
    if slash and not (step.isascii() and step.isdigit() and int(step[:9]) > 0):
        return False
    if span in ("*", "?"):
        return True
    first_text, dash, last_text = span.partition("-")
    first = _cron_number(first_text, names, least)
    last = _cron_number(last_text, names, least) if dash else first
    return first is not None and last is not None and least <= first <= last <= most


def _cron_number(text: str, names: str, least: int) -> int | None:
    known = _NAMES.get(names, ())
    if text.lower() in known:
        return known.index(text.lower()) + least
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else None


JOBS = kind_rules(
    ("batch", "v1", "Job"), fill=_fill_job, check=_check_job, change=_change_job, propagation=Propagation.ORPHAN
)
CRON_JOBS = kind_rules(("batch", "v1", "CronJob"), fill=_fill_cron_job, check=_check_cron_job)
KINDS = (JOBS, CRON_JOBS)
