"""Devices that pods claim: classes, claims and their templates, and what drivers say is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from muster.apiserver.cel import DYN, CelProblem, compile_expression
from muster.apiserver.kinds.base import is_new, kind_rules
from muster.apiserver.kinds.checks import (
    Check,
    annotation_keys,
    at_least,
    dns_label,
    dns_subdomain,
    each,
    fields,
    labels,
    needed,
    not_negative,
    one_of,
    qualified_name,
    unchanged,
)
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.pod_placing import node_selector
from muster.apiserver.kinds.problems import (
    Problems,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from muster.apiserver.kinds.resources import is_extended
from muster.apiserver.kinds.storage_drivers import driver_name
from muster.model.labels import label_value_problem

Object = dict[str, Any]

_GROUP = "resource.k8s.io"
_MOST = 32  # of most lists
_MOST_DEVICES = 128
_MOST_CHOICES = 8
_MOST_TOLERATIONS = 16
_MOST_CONDITIONS = 4
_PARAMETERS_MOST_BYTES = 10 * 1024
_TEXT_MOST = 64
_MODES = ("All", "ExactCount")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_VERSION = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", re.ASCII
)
_VARIABLES = {"device": DYN}


# What classes and claims share ---------------------------------------------------------------------------------------


def at_most(most: int, check: Check) -> Check:
    """A list of no more than so many items, each of which obeys a check."""
    check_all = each(check)

    def check_list(values: list[Any], path: str) -> Problems:
        if len(values) > most:
            yield too_many(path, len(values), most)
        yield from check_all(values[:most], path)

    return check_list


def _selector(selector: Object, path: str) -> Problems:
    cel = selector.get("cel")
    if cel is None:
        yield required(f"{path}.cel")
        return
    text = cel.get("expression") or ""
    if len(text) > _PARAMETERS_MOST_BYTES:
        yield too_long(f"{path}.cel.expression", _PARAMETERS_MOST_BYTES)
        return
    try:
        compile_expression(text, _VARIABLES)
    except CelProblem as problem:
        yield invalid(f"{path}.cel.expression", text, problem.message)


def _opaque(config: Object, path: str) -> Problems:
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{path}.opaque")
        return
    yield from driver_name(opaque.get("driver") or "", f"{path}.opaque.driver")
    parameters = opaque.get("parameters")
    if parameters is None:
        yield required(f"{path}.opaque.parameters")
    elif not isinstance(parameters, dict):
        yield invalid(f"{path}.opaque.parameters", "<value omitted>", "must be a JSON object")
    elif len(json.dumps(parameters)) > _PARAMETERS_MOST_BYTES:
        yield too_long(f"{path}.opaque.parameters", _PARAMETERS_MOST_BYTES)


_selectors = at_most(_MOST, _selector)


def _toleration(value: Object, path: str) -> Problems:
    """What a request puts up with of a device; unlike a pod's, it may name nothing."""
    key, operator, text, effect = (value.get(name) or "" for name in ("key", "operator", "value", "effect"))
    if key:
        yield from qualified_name(key, f"{path}.key")
    match operator:
        case "Exists":
            if text:
                yield invalid(f"{path}.value", text, "must be empty for operator `Exists`")
        case "Equal":
            if problem := label_value_problem(text):
                yield invalid(f"{path}.value", text, problem)
        case "":
            yield required(f"{path}.operator")
        case other:
            yield not_supported(f"{path}.operator", other, ("Equal", "Exists"))
    if effect:
        yield from _EFFECTS(effect, f"{path}.effect")


_EFFECTS = one_of("NoExecute", "NoSchedule", "None")


def _check_class(given: Object) -> Problems:
    spec = given["spec"]
    yield from _selectors(spec.get("selectors") or [], "spec.selectors")
    yield from at_most(_MOST, _opaque)(spec.get("config") or [], "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        yield invalid("spec.extendedResourceName", name, "must be a valid extended resource name")


# Claims --------------------------------------------------------------------------------------------------------------


def _fill_requests(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly")
        for one in (*([exactly] if exactly is not None else ()), *(request.get("firstAvailable") or ())):
            if not one.get("allocationMode"):
                one["allocationMode"] = "ExactCount"
            if one["allocationMode"] == "ExactCount" and not one.get("count"):
                one["count"] = 1
            for toleration in one.get("tolerations") or ():
                fill(toleration, {"operator": "Equal"})


def _fill_claim(claim: Object) -> None:
    _fill_requests(claim["spec"])


def _fill_template(template: Object) -> None:
    _fill_requests(template["spec"].get("spec") or {})


def _wanted(request: Object, path: str) -> Problems:
    """What one request, or one of its choices, asks for."""
    yield from needed(dns_subdomain)(request.get("deviceClassName") or "", f"{path}.deviceClassName")
    yield from _selectors(request.get("selectors") or [], f"{path}.selectors")
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode not in _MODES:
        yield not_supported(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        yield invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield invalid(f"{path}.count", count, "must be greater than zero")
    yield from at_most(_MOST_TOLERATIONS, _toleration)(request.get("tolerations") or [], f"{path}.tolerations")


def _choice(choice: Object, path: str) -> Problems:
    yield from dns_label(choice.get("name") or "", f"{path}.name")
    yield from _wanted(choice, path)


def _request(request: Object, path: str) -> Problems:
    yield from dns_label(request.get("name") or "", f"{path}.name")
    exactly, choices = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not choices:
        yield required(path, "exactly one of `exactly` or `firstAvailable` is required")
    if exactly is not None and choices:
        yield invalid(path, "", "exactly one of `exactly` or `firstAvailable` is required")
        return
    if exactly is not None:
        yield from _wanted(exactly, f"{path}.exactly")
    yield from at_most(_MOST_CHOICES, _choice)(choices, f"{path}.firstAvailable")
    yield from _no_name_twice(choices, f"{path}.firstAvailable")


def _no_name_twice(items: Iterable[Object], path: str) -> Problems:
    seen = set()
    for index, item in enumerate(items):
        name = item.get("name") or ""
        if name and name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _known_requests(requests: list[Object]) -> set[str]:
    """The names that constraints and settings may use: of requests, and of their choices as request/choice."""
    known = {one.get("name") or "" for one in requests}
    for request in requests:
        for choice in request.get("firstAvailable") or ():
            known.add(f"{request.get('name')}/{choice.get('name')}")
    return known


def _mentions(names: list[str], path: str, known: set[str]) -> Problems:
    seen = set()
    for index, name in enumerate(names):
        where = f"{path}[{index}]"
        if name not in known or not name:
            yield invalid(where, name, "must be the name of a request in the claim")
        elif name in seen:
            yield duplicate(where, name)
        seen.add(name)


def _qualified(name: str, path: str) -> Problems:
    """A name such as driver.example.com/model, whose domain may be left out."""
    domain, slash, identifier = name.rpartition("/")
    if slash:
        yield from driver_name(domain, path)
    if len(identifier) > _MOST:
        yield too_long(path, _MOST)
    if not _IDENTIFIER.fullmatch(identifier):
        yield invalid(path, name, "must be an identifier as in C")


def _matched(name: str, path: str) -> Problems:
    """A name that has to have a domain."""
    yield from _qualified(name, path)
    if name and "/" not in name:
        yield invalid(path, name, "must include a domain")


def claim_devices(devices: Object, path: str) -> Problems:
    """The rules for the devices that a claim asks for."""
    requests = devices.get("requests") or []
    yield from at_most(_MOST, _request)(requests, f"{path}.requests")
    yield from _no_name_twice(requests, f"{path}.requests")
    known = _known_requests(requests)
    for index, one in enumerate(devices.get("constraints") or ()):
        where = f"{path}.constraints[{index}]"
        yield from _mentions(one.get("requests") or [], f"{where}.requests", known)
        name = next((name for name in ("matchAttribute", "distinctAttribute") if one.get(name) is not None), "")
        if name:
            yield from _matched(one[name], f"{where}.{name}")
        else:
            yield required(where, "one of its forms has to be given")
    for index, one in enumerate(devices.get("config") or ()):
        where = f"{path}.config[{index}]"
        yield from _mentions(one.get("requests") or [], f"{where}.requests", known)
        yield from _opaque(one, where)


def _check_claim(claim: Object) -> Problems:
    if is_new(claim):  # later it cannot change
        yield from claim_devices(claim["spec"].get("devices") or {}, "spec.devices")


def _change_claim(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, ("spec",))


_TEMPLATE_METADATA = fields("", {"labels": labels, "annotations": annotation_keys})
_OF_TEMPLATES = ("labels", "annotations")  # all else is given to the claim when it is made


def _check_template(template: Object) -> Problems:
    spec = template["spec"]
    metadata = spec.get("metadata") or {}
    yield from _TEMPLATE_METADATA(metadata, "spec.metadata")
    for name in metadata:
        if name not in _OF_TEMPLATES and metadata[name] not in (None, "", []):
            yield forbidden(f"spec.metadata.{'uID' if name == 'uid' else name}", "cannot be set")
    yield from claim_devices((spec.get("spec") or {}).get("devices") or {}, "spec.spec.devices")


# What is there -------------------------------------------------------------------------------------------------------

_TEXT = ("string", "version", "bool", "int")
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def _attribute(value: Object, path: str) -> Problems:
    given = [name for name in _TEXT if value.get(name) is not None]
    if len(given) != 1:
        yield invalid(path, ", ".join(given), "exactly one value must be specified")
    for name in ("string", "version"):
        if len(value.get(name) or "") > _TEXT_MOST:
            yield too_long(f"{path}.{name}", _TEXT_MOST)
    version = value.get("version")
    if version is not None and not _VERSION.fullmatch(version):
        yield invalid(f"{path}.version", version, "must be a semantic version such as 1.2.3")


def _device(device: Object, path: str) -> Problems:
    yield from dns_label(device.get("name") or "", f"{path}.name")
    count = 0
    for name, value in (device.get("attributes") or {}).items():
        count += 1
        yield from _qualified(name, f"{path}.attributes")
        yield from _attribute(value, f"{path}.attributes[{name}]")
    for name in device.get("capacity") or {}:
        count += 1
        yield from _qualified(name, f"{path}.capacity")
    for name, value in (device.get("capacity") or {}).items():
        if value.get("requestPolicy") is not None and not device.get("allowMultipleAllocations"):
            yield forbidden(f"{path}.capacity[{name}].requestPolicy", "allowMultipleAllocations must be true")
    if count > _MOST:
        yield invalid(path, count, f"the total number of attributes and capacities must not exceed {_MOST}")
    yield from at_most(_MOST_TOLERATIONS, _taint)(device.get("taints") or [], f"{path}.taints")
    yield from each(_consumed)(device.get("consumesCounters") or [], f"{path}.consumesCounters")
    yield from _binding_conditions(device, path)


def _taint(value: Object, path: str) -> Problems:
    yield from qualified_name(value.get("key") or "", f"{path}.key")
    if problem := label_value_problem(value.get("value") or ""):
        yield invalid(f"{path}.value", value["value"], problem)
    yield from needed(_EFFECTS)(value.get("effect") or "", f"{path}.effect")


def _consumed(value: Object, path: str) -> Problems:
    if not value.get("counters"):
        yield required(f"{path}.counters")
    yield from needed(dns_label)(value.get("counterSet") or "", f"{path}.counterSet")


def _binding_conditions(device: Object, path: str) -> Problems:
    """Conditions that a device waits for before a pod is bound; those that say it failed come with them."""
    given = {name: device.get(name) or [] for name in ("bindingConditions", "bindingFailureConditions")}
    for name, conditions in given.items():
        if len(conditions) > _MOST_CONDITIONS:
            yield too_many(f"{path}.{name}", len(conditions), _MOST_CONDITIONS)
        yield from each(qualified_name)(conditions[:_MOST_CONDITIONS], f"{path}.{name}")
    first, second = given
    for name, other in ((first, second), (second, first)):
        if given[name] and not given[other]:
            yield invalid(f"{path}.{other}", None, f"{other} are required to use {name}")


def _fill_slice(given: Object) -> None:
    """What features that are off would add is left out; a taint gets the time at which it came."""
    for device in given["spec"].get("devices") or ():
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in (device.get("attributes") or {}).values():
            for name in ("ints", "bools", "strings", "versions"):
                attribute.pop(name, None)
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", given["metadata"]["creationTimestamp"])


def _pool(pool: Object, path: str) -> Problems:
    name = pool.get("name") or ""
    if not name:
        yield required(f"{path}.name")
    else:
        for part in name.split("/"):
            yield from dns_subdomain(part, f"{path}.name")
    yield from not_negative(pool.get("generation") or 0, f"{path}.generation")
    yield from at_least(1)(pool.get("resourceSliceCount") or 0, f"{path}.resourceSliceCount")


def _check_slice(given: Object) -> Problems:
    spec = given["spec"]
    yield from driver_name(spec.get("driver") or "", "spec.driver")
    yield from _pool(spec.get("pool") or {}, "spec.pool")
    if spec.get("nodeName") is not None:
        yield from dns_subdomain(spec["nodeName"], "spec.nodeName")
    if spec.get("nodeSelector") is not None:
        yield from node_selector(spec["nodeSelector"], "spec.nodeSelector")
        if len(spec["nodeSelector"].get("nodeSelectorTerms") or ()) != 1:
            yield invalid("spec.nodeSelector.nodeSelectorTerms", "", "must have exactly one node selector term")
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            yield invalid(f"spec.{name}", False, "must be either unset or set to true")
    places = [name for name in _PLACES if spec.get(name) not in (None, False)]
    if not places:
        yield required("spec", f"exactly one of {', '.join(_PLACES)} is required")
    elif len(places) > 1:
        yield invalid("spec", ", ".join(places), f"exactly one of {', '.join(_PLACES)} is required")
    devices = spec.get("devices") or []
    yield from at_most(_MOST_DEVICES, _device)(devices, "spec.devices")
    yield from _no_name_twice(devices, "spec.devices")
    yield from _places_of_devices(spec, devices)
    if spec.get("sharedCounters") and devices:
        yield invalid("spec", "", "only one of `sharedCounters` and `devices` may be given")
    for index, counters in enumerate(spec.get("sharedCounters") or ()):
        where = f"spec.sharedCounters[{index}]"
        yield from needed(dns_label)(counters.get("name") or "", f"{where}.name")
        if not counters.get("counters"):
            yield required(f"{where}.counters")


def _places_of_devices(spec: Object, devices: list[Object]) -> Problems:
    """Where each device is, if the slice leaves that to them."""
    for index, device in enumerate(devices):
        given = [name for name in _PLACES[:3] if device.get(name) is not None]
        if spec.get("perDeviceNodeSelection"):
            if not given:
                yield required(f"spec.devices[{index}]", f"exactly one of {', '.join(_PLACES[:3])} is required")
        elif given:
            problem = "a place of its own needs `perDeviceNodeSelection` of the slice"
            yield invalid(f"spec.devices[{index}]", None, problem)


def _change_slice(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, ("spec.driver", "spec.pool.name", "spec.nodeName"))


KINDS = (
    kind_rules((_GROUP, "v1", "DeviceClass"), check=_check_class),
    kind_rules(
        (_GROUP, "v1", "ResourceClaim"),
        fill=_fill_claim,
        check=_check_claim,
        change=_change_claim,
        has_generation=False,
        status_metadata=(),
    ),
    kind_rules(
        (_GROUP, "v1", "ResourceClaimTemplate"),
        fill=_fill_template,
        check=_check_template,
        change=_change_claim,
        has_generation=False,
    ),
    kind_rules((_GROUP, "v1", "ResourceSlice"), fill=_fill_slice, check=_check_slice, change=_change_slice),
)
