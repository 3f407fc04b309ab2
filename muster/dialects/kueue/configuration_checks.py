"""What Kueue checks in its Configuration before it starts. Called by `configuration` after defaulting."""

from __future__ import annotations

from collections.abc import Iterator

from muster.dialects.kueue.configuration_frameworks import FRAMEWORKS, is_group_version_kind
from muster.dialects.kueue.configuration_server_checks import server_problems
from muster.dialects.kueue.gates import FeatureGates
from muster.dialects.kueue.rules import selector_problems
from muster.model.durations import duration_ns
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.labels import (
    dns1123_label_problem,
    dns1123_subdomain_problem,
    label_key_problem,
    label_value_problem,
    read_selector,
    selects,
)
from muster.model.texts import nearest

_SHARE_STRATEGIES = (
    ("LessThanOrEqualToFinalShare",),
    ("LessThanInitialShare",),
    ("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
)
_INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
_MAPPINGS_MOST = 16
_CLASSES_MOST = 8
_DRIVER_LENGTH = 63

Problems = Iterator[InvalidObject]


def configuration_problems(fields: Fields, gates: FeatureGates) -> Problems:
    """Everything that Kueue would not start with, all at once."""
    if fields.has("waitForPodsReady") and not gates.is_on("DisableWaitForPodsReady"):
        yield from _wait_for_pods_ready(fields.child("waitForPodsReady"))
    yield from _integrations(fields.child("integrations"))
    yield from _managed_namespaces(fields)
    yield from _multikueue(fields.child("multiKueue"), fields.child("integrations").texts("frameworks"))
    if fields.has("fairSharing"):
        yield from _fair_sharing(fields.child("fairSharing"))
    if fields.has("admissionFairSharing"):
        yield from _admission_fair_sharing(fields.child("admissionFairSharing"))
    yield from _resources(fields.child("resources"), gates)
    retention = fields.child("objectRetentionPolicies").child("workloads")
    yield from _negative_durations(retention, "afterFinished", "afterDeactivatedByKueue")
    yield from server_problems(fields)


def _negative_durations(fields: Fields, *names: str) -> Problems:
    for name in names:
        if fields.has(name) and duration_ns(fields.raw(name), fields.at(name)) < 0:
            yield fields.error(name, f"is {shown(fields.raw(name))}", "give 0 or more")


def _negative_numbers(fields: Fields, *names: str) -> Problems:
    for name in names:
        if fields.has(name) and fields.number(name) < 0:
            yield fields.error(name, f"is {shown(fields.raw(name))}", "give 0 or more")


def _not_one_of(fields: Fields, name: str, choices: tuple[str, ...]) -> Problems:
    value = fields.text(name)
    if value not in choices:
        close = nearest(value, choices)
        hint = f"did you mean {close}?" if close else "give one of " + ", ".join(choices)
        yield fields.error(name, f"is {shown(value)}", hint)


def _wait_for_pods_ready(block: Fields) -> Problems:
    yield from _negative_durations(block, "timeout", "recoveryTimeout")
    requeuing = block.child("requeuingStrategy")
    yield from _not_one_of(requeuing, "timestamp", ("Creation", "Eviction"))
    yield from _negative_numbers(requeuing, "backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds")


# Integrations and other clusters ----------------------------------------------------------------------------------


def _integrations(block: Fields) -> Problems:
    frameworks = block.texts("frameworks")
    for index, name in enumerate(frameworks):
        at = f"frameworks[{index}]"
        if name not in FRAMEWORKS:
            close = nearest(name, FRAMEWORKS)
            hint = f"did you mean {close}?" if close else "give one of " + ", ".join(FRAMEWORKS)
            yield block.error(at, f"is {shown(name)}", hint)
        elif name in frameworks[:index]:
            yield block.error(at, f"repeats {name}", "name it once")
    taken = {FRAMEWORKS[name] for name in frameworks if name in FRAMEWORKS}
    for index, name in enumerate(block.texts("externalFrameworks")):
        yield from _external_framework(block.at(f"externalFrameworks[{index}]"), name, taken)
        taken.add(name)


def _external_framework(path: str, name: str, taken: set[str]) -> Problems:
    if not is_group_version_kind(name):
        yield InvalidObject(path, f"is {shown(name)}", "give kind, version and group, such as Job.v1.batch")
    elif name in taken:
        yield InvalidObject(path, f"repeats {shown(name)}", "name it once, and not where it is built in")


def _managed_namespaces(fields: Fields) -> Problems:
    name = "managedJobsNamespaceSelector"
    problems = list(selector_problems(fields, name))
    yield from problems
    selector = None if problems else read_selector(fields, name)
    if selector is None:
        return  # The default leaves both namespaces out.
    for namespace in ("kube-system", fields.text("namespace")):
        if selects(selector, {_NAMESPACE_LABEL: namespace}):
            yield fields.error(name, f"takes in the namespace {namespace}", f"leave {namespace} out")


def _multikueue(block: Fields, frameworks: tuple[str, ...]) -> Problems:
    yield from _negative_durations(block, "gcInterval", "workerLostTimeout")
    if problem := label_value_problem(block.text("origin")):
        yield block.error("origin", problem, "give the value of a label")
    taken = {FRAMEWORKS[name] for name in frameworks if name in FRAMEWORKS}
    for item in block.children("externalFrameworks"):
        yield from _external_framework(item.at("name"), item.text("name"), taken)
        taken.add(item.text("name"))
    if block.has("incrementalDispatcherConfig"):
        config = block.child("incrementalDispatcherConfig")
        if block.text("dispatcherName") != _INCREMENTAL:
            hint = f"set dispatcherName to {_INCREMENTAL}, or take it out"
            yield block.error("incrementalDispatcherConfig", "is for the incremental dispatcher", hint)
        if config.has("stepSize") and config.integer("stepSize") < 1:
            yield config.error("stepSize", f"is {config.integer('stepSize')}", "give 1 or more")
    profile = block.child("clusterProfile")
    if profile.has("accessProviders") and profile.has("credentialsProviders"):
        yield block.error("clusterProfile", "has both accessProviders and credentialsProviders", "give accessProviders")
    for name in ("accessProviders", "credentialsProviders"):
        for provider in profile.children(name):
            yield from _access_provider(provider)


def _access_provider(provider: Fields) -> Problems:
    execution = provider.child("execConfig")
    for fields, name in ((provider, "name"), (execution, "command"), (execution, "apiVersion")):
        if not fields.text(name):
            yield fields.error(name, "is missing", "give it a value")
    yield from _not_one_of(execution, "interactiveMode", _INTERACTIVE_MODES)
    for variable in execution.children("env"):
        if not variable.text("name"):
            yield variable.error("name", "is missing", "name the variable")


# Sharing ----------------------------------------------------------------------------------------------------------


def _fair_sharing(block: Fields) -> Problems:
    strategies = block.texts("preemptionStrategies")
    if strategies not in _SHARE_STRATEGIES:
        problem = f"is [{', '.join(strategies)}]" if strategies else "is missing"
        choices = " or ".join(f"[{', '.join(choice)}]" for choice in _SHARE_STRATEGIES)
        yield block.error("preemptionStrategies", problem, f"give {choices}")


def _admission_fair_sharing(block: Fields) -> Problems:
    yield from _negative_durations(block, "usageHalfLifeTime", "usageSamplingInterval")
    weights = block.child("resourceWeights")
    yield from _negative_numbers(weights, *weights.values)


# Resources --------------------------------------------------------------------------------------------------------


def _resources(block: Fields, gates: FeatureGates) -> Problems:
    inputs: set[str] = set()
    for item in block.children("transformations"):
        yield from _not_one_of(item, "strategy", ("Retain", "Replace"))
        if item.text("input") in inputs:
            yield item.error("input", f"repeats {item.text('input')}", "give each resource one transformation")
        inputs.add(item.text("input"))
    if block.has("quotaCheckStrategy") and gates.is_on("QuotaCheckStrategy"):
        yield from _not_one_of(block, "quotaCheckStrategy", ("BlockUndeclared", "IgnoreUndeclared"))
        if block.text("quotaCheckStrategy") == "IgnoreUndeclared" and block.texts("excludeResourcePrefixes"):
            hint = "take it out: resources that no queue declares are ignored anyway"
            yield block.error("excludeResourcePrefixes", "is given beside IgnoreUndeclared", hint)
    yield from _device_class_mappings(block, gates)


def _device_class_mappings(block: Fields, gates: FeatureGates) -> Problems:
    mappings = list(block.children("deviceClassMappings"))
    if len(mappings) > _MAPPINGS_MOST:
        yield block.error("deviceClassMappings", f"has {len(mappings)} items", f"give at most {_MAPPINGS_MOST}")
        return
    names: set[str] = set()
    owners: dict[str, Fields] = {}
    for mapping in mappings:
        name = mapping.text("name")
        if problem := label_key_problem(name) or _too_long(name):
            yield mapping.error("name", problem, "give the name of a resource")
        if name in names:
            yield mapping.error("name", f"repeats {shown(name)}", "give each resource one mapping")
        names.add(name)
        yield from _device_classes(mapping, owners)
        yield from _device_sources(mapping, gates)


def _too_long(name: str) -> str:
    return "is longer than 253 characters" if len(name) > 253 else ""


def _device_classes(mapping: Fields, owners: dict[str, Fields]) -> Problems:
    classes = mapping.texts("deviceClassNames")
    if not 1 <= len(classes) <= _CLASSES_MOST:
        yield mapping.error("deviceClassNames", f"has {len(classes)} items", f"give 1 to {_CLASSES_MOST}")
        return
    for index, name in enumerate(classes):
        at = f"deviceClassNames[{index}]"
        if problem := label_key_problem(name) or _too_long(name):
            yield mapping.error(at, problem, "give the name of a device class")
        if name in classes[:index]:
            yield mapping.error(at, f"repeats {shown(name)}", "name it once")
        elif name in owners and not _counts_apart(owners[name], mapping):
            hint = "let both count a counter of their own, or leave the class in one of them"
            yield mapping.error(at, f"is also in the mapping {owners[name].text('name')}", hint)
        owners.setdefault(name, mapping)


def _counts_apart(one: Fields, other: Fields) -> bool:
    """Kueue: two mappings may share a class if each counts another counter of the device."""
    counters = [_first_counter(one), _first_counter(other)]
    return all(counters) and counters[0] != counters[1]


def _first_counter(mapping: Fields) -> str:
    first = next(mapping.children("sources"), None)
    return first.child("counter").text("name") if first is not None else ""


def _device_sources(mapping: Fields, gates: FeatureGates) -> Problems:
    kinds = set()
    for source in mapping.children("sources"):
        if source.has("counter") == source.has("capacity"):
            yield InvalidObject(source.path, "has both or neither of counter and capacity", "give one of them")
            continue
        kind = "counter" if source.has("counter") else "capacity"
        kinds.add(kind)
        yield from _device_source(source.child(kind), kind, gates)
    if len(kinds) > 1:
        yield mapping.error("sources", "mixes counters and capacities", "give one of the two")


def _device_source(part: Fields, kind: str, gates: FeatureGates) -> Problems:
    gate = f"KueueDRAIntegration{'PartitionableDevices' if kind == 'counter' else 'ConsumableCapacity'}"
    if not gates.is_on(gate):
        yield InvalidObject(part.path, f"needs the feature gate {gate}", "turn it on, or take this out")
    name, driver = part.text("name"), part.text("driver")
    problem = dns1123_label_problem(name) if kind == "counter" else _capacity_name_problem(name)
    if problem:
        yield part.error("name", problem, f"give the name of a {kind}")
    problem = dns1123_subdomain_problem(driver)
    if problem or len(driver) > _DRIVER_LENGTH:
        yield part.error("driver", problem or f"is longer than {_DRIVER_LENGTH} characters", "give the driver's name")
    # Whether the expression compiles is seen when devices are counted: this part of Muster runs none.
    if not part.child("deviceSelector").child("cel").text("expression"):
        yield part.error("deviceSelector.cel.expression", "is missing", "say which devices are meant")


def _capacity_name_problem(name: str) -> str:
    """A name in C's form, after a domain where one is given."""
    domain, slash, identifier = name.rpartition("/")
    if slash and dns1123_subdomain_problem(domain):
        return "has a domain that is none"
    if not identifier or len(identifier) > 32 or not identifier.isascii() or not identifier.isidentifier():
        return f"is {shown(name)}"
    return ""
