"""The rules for definitions themselves: what they get by default, and what is wrong with them. Called by the store.

`RULES` is what the catalog has for the kind CustomResourceDefinition.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from muster.apiserver.definitions.selectable import selectable_problems
from muster.apiserver.definitions.structure import schema_problems, schemas_in
from muster.apiserver.facts import SCHEMA
from muster.apiserver.field_checks import Mismatch, read
from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, not_supported, required
from muster.apiserver.statuses import bad_request
from muster.model.errors import InvalidObject
from muster.model.labels import dns1035_label_problem, dns1123_subdomain_problem

Json = dict[str, Any]
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_APPROVED = "api-approved.kubernetes.io"
_HOOK = "spec.conversion.webhookClientConfig"
_REVIEWS = "spec.conversion.conversionReviewVersions"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_LONGEST_WARNING = 256


# Defaults ------------------------------------------------------------------------------------------------------------


def _fill(given: Json) -> None:
    spec = given["spec"]
    names = spec["names"]
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)
    for version in spec.get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is not None:
            _settle_schema(schema)
    status = given.setdefault("status", {})
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    if not given["metadata"].get("resourceVersion"):
        status["storedVersions"] = _storage(given)


def _storage(given: Json) -> list[str]:
    """The version that objects are stored in; of several, which will be refused, the first."""
    return [one["name"] for one in given["spec"].get("versions") or () if one.get("storage")][:1]


def _settle_schema(schema: Json) -> None:
    """Bring the schemas that may also be something else into their type, and all below them."""
    for word in ("items", "additionalProperties", "additionalItems"):
        one = schema.get(word)
        if isinstance(one, dict):
            schema[word] = _read_schema(one)
        elif one is not None and not (isinstance(one, bool) or (word == "items" and isinstance(one, list))):
            raise bad_request(f"json: cannot unmarshal {word} of a schema: it is no schema")
    for one in schemas_in(schema):
        _settle_schema(one)


def _read_schema(given: Json) -> Json:
    try:
        return read(given, SCHEMA).value
    except Mismatch as problem:
        raise bad_request(str(problem)) from None


# Problems ------------------------------------------------------------------------------------------------------------


def _check(given: Json) -> Problems:
    spec = given["spec"]
    versions = spec.get("versions") or []
    yield from _name_problems(given)
    yield from _group_problems(given, spec["group"])
    if not spec.get("scope"):
        yield required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, why)
    yield from _version_problems(versions)
    yield from _names_problems(spec["names"])
    yield from _conversion_problems(spec["conversion"])
    yield from _described_problems(versions)
    yield from _stored_problems(given["status"].get("storedVersions") or [], versions)


def _name_problems(given: Json) -> Problems:
    spec, name = given["spec"], given["metadata"].get("name", "")
    if name != f"{spec['names']['plural']}.{spec['group']}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _group_problems(given: Json, group: str) -> Problems:
    if not group:
        yield required("spec.group")
    elif why := dns1123_subdomain_problem(group):
        yield invalid("spec.group", group, why)
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    elif f".{group}".endswith((".k8s.io", ".kubernetes.io")) and _APPROVED not in (
        given["metadata"].get("annotations") or {}
    ):
        see = "see https://github.com/kubernetes/enhancements/pull/1111"
        why = f'protected groups must have approval annotation "{_APPROVED}", {see}'
        yield required(f"metadata.annotations[{_APPROVED}]", why)


def _version_problems(versions: list[Json]) -> Problems:
    names = [one["name"] for one in versions]
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if why := dns1035_label_problem(version["name"]):
            yield invalid(f"{path}.name", version["name"], why)
        yield from _warning_problems(version, f"{path}.deprecationWarning")
        if not (version.get("schema") or {}).get("openAPIV3Schema") and "openAPIV3Schema" not in (
            version.get("schema") or {}
        ):
            yield required(f"{path}.schema.openAPIV3Schema")
    if len(set(names)) < len(names):
        yield invalid("spec.versions", names, "must contain unique version names")
    if sum(bool(one.get("storage")) for one in versions) != 1:
        yield invalid("spec.versions", names, "must have exactly one version marked as storage version")
    if names and names[0] and (why := dns1035_label_problem(names[0])):
        yield invalid("spec.version", names[0], why)


def _warning_problems(version: Json, path: str) -> Problems:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, warning, "can only be set for deprecated versions")
    if len(warning.encode()) > _LONGEST_WARNING:
        yield invalid(path, warning, f"must be <= {_LONGEST_WARNING} characters long")
    elif not warning:
        yield invalid(path, warning, "must not be an empty string")
    elif (place := next((at for at, one in enumerate(warning) if not one.isprintable()), -1)) >= 0:
        why = f"must only contain printable UTF-8 characters; non-printable character found at index {place}"
        yield invalid(path, warning, why)


def _names_problems(names: Json) -> Problems:
    for field, is_mixed in (("plural", False), ("singular", False), ("kind", True), ("listKind", True)):
        value = names.get(field) or ""
        if not value:
            yield required(f"spec.names.{field}")
        elif why := dns1035_label_problem(value.lower() if is_mixed else value):
            start = "may have mixed case, but should otherwise match: " if is_mixed else ""
            yield invalid(f"spec.names.{field}", value, start + why)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            if why := dns1035_label_problem(value):
                yield invalid(f"spec.names.{field}[{index}]", value, why)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _stored_problems(stored: list[str], versions: list[Json]) -> Problems:
    path = "status.storedVersions"
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
    known = {one["name"] for one in versions}
    for index, one in enumerate(stored):
        if one not in known:
            stays = (
                f"{one} was previously a storage version, and must remain in spec.versions until a storage migration"
            )
            why = f"{stays} ensures no data remains persisted in {one} and removes {one} from status.storedVersions"
            yield invalid(f"{path}[{index}]", one, f"missing from spec.versions; {why}")
    for version in versions:
        if version.get("storage") and stored and version["name"] not in stored:
            yield invalid(path, stored, f"must have the storage version {version['name']}")


# Conversion ----------------------------------------------------------------------------------------------------------


def _conversion_problems(conversion: Json) -> Problems:
    strategy, hook = conversion.get("strategy") or "", conversion.get("webhook")
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    client, reviews = (hook or {}).get("clientConfig"), (hook or {}).get("conversionReviewVersions") or []
    if strategy != "Webhook":
        for path, value in ((_HOOK, client), (_REVIEWS, reviews)):
            if value:
                yield forbidden(path, "should not be set when strategy is not set to Webhook")
        return
    if client is None:
        yield required(_HOOK, "required when strategy is set to Webhook")
    else:
        yield from _client_problems(client)
    yield from _review_problems(reviews)


def _client_problems(client: Json) -> Problems:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(_HOOK, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_problems(url)
    elif service is not None:
        yield from _service_problems(service)


def _url_problems(url: str) -> Problems:
    path, form = f"{_HOOK}.url", "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        host = parts.hostname
    except ValueError as problem:
        yield required(path, f"url must be a valid URL: {problem}{form}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not host:
        yield invalid(path, "", f"host must be specified{form}")
    if user:
        yield invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service_problems(service: Json) -> Problems:
    path = f"{_HOOK}.service"
    for field in ("namespace", "name"):
        if not service.get(field):
            yield required(f"{path}.namespace")  # as Kubernetes has it, for the name too
    port = service.get("port")
    if port is not None and not 1 <= port <= 65_535:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if not (where := service.get("path")) or where == "/":
        return
    if not where.startswith("/"):
        yield invalid(f"{path}.path", where, "must start with a '/'")
    steps = where[1:].removesuffix("/").split("/")
    for index, step in enumerate(steps):
        if not step:
            yield invalid(f"{path}.path", where, f"segment[{index}] may not be empty")
        elif why := dns1123_subdomain_problem(step):
            yield invalid(f"{path}.path", where, f"segment[{index}]: {why}")


def _review_problems(reviews: list[str]) -> Problems:
    if not reviews:
        yield required(_REVIEWS)
        return
    for index, one in enumerate(reviews):
        if one in reviews[:index]:
            yield invalid(f"{_REVIEWS}[{index}]", one, "duplicate version")
        elif why := dns1035_label_problem(one):
            yield invalid(f"{_REVIEWS}[{index}]", one, why)
    if "v1" not in reviews and "v1beta1" not in reviews:
        yield invalid(_REVIEWS, reviews, "must include at least one of v1, v1beta1")


# What versions say of their objects ----------------------------------------------------------------------------------


def _described_problems(versions: list[Json]) -> Problems:
    """Kubernetes tells what all versions have alike at the definition itself, and else at each version."""
    for field, path, check in (
        ("schema", "validation", _schema_problems),
        ("subresources", "subresources", _part_problems),
        ("additionalPrinterColumns", "additionalPrinterColumns", _column_problems),
    ):
        if versions and all(one.get(field) == versions[0].get(field) for one in versions):
            yield from check(versions[0].get(field), f"spec.{path}")
        else:
            for index, one in enumerate(versions):
                yield from check(one.get(field), f"spec.versions[{index}].{field}")
    if versions and all(one.get("selectableFields") == versions[0].get("selectableFields") for one in versions):
        yield from selectable_problems(versions[0], "spec.selectableFields")
    else:
        for index, one in enumerate(versions):
            yield from selectable_problems(one, f"spec.versions[{index}].selectableFields")


def _schema_problems(schema: Json | None, path: str) -> list[InvalidObject]:
    given = (schema or {}).get("openAPIV3Schema")
    return schema_problems(given, f"{path}.openAPIV3Schema") if given is not None else []


def _part_problems(parts: Json | None, path: str) -> Problems:
    scale = (parts or {}).get("scale")
    if scale is None:
        return
    for field, start in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value = scale.get(field) or ""
        where = f"{path}.scale.{field}"
        if not value:
            yield required(where)
        elif not value.startswith("."):
            yield invalid(where, value, "must be a simple json path starting with .")
        elif not value.startswith(f"{start}."):
            yield invalid(where, value, f"should be a json path under {start}")
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".spec.", ".status.")):
        is_simple = selector.startswith(".")
        why = "should be a json path under either .spec or .status"
        yield invalid(
            f"{path}.scale.labelSelectorPath",
            selector,
            why if is_simple else "must be a simple json path starting with .",
        )


def _column_problems(columns: list[Json] | None, path: str) -> Problems:
    for index, column in enumerate(columns or ()):
        where = f"{path}[{index}]"
        if not column.get("name"):
            yield required(f"{where}.name")
        kinds = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not column.get("type"):
            yield required(f"{where}.type", kinds)
        elif column["type"] not in _COLUMN_TYPES:
            yield invalid(f"{where}.type", column["type"], kinds)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield invalid(f"{where}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not column.get("jsonPath"):
            yield required(f"{where}.JSONPath")
        elif not column["jsonPath"].startswith("."):
            yield invalid(f"{where}.JSONPath", column["jsonPath"], "must be a simple json path starting with .")


# Changes -------------------------------------------------------------------------------------------------------------


def _change(new: Json, before: Json) -> Problems:
    stored = new["status"].get("storedVersions") or []
    if (now := _storage(new)) != _storage(before):
        new["status"]["storedVersions"] = [*stored, *(one for one in now if one not in stored)]
    fixed = [("spec.group", "group"), ("spec.names.plural", "plural")]
    conditions = (before.get("status") or {}).get("conditions") or ()
    is_established = any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)
    if is_established:
        fixed += [("spec.scope", "scope"), ("spec.names.kind", "kind")]
    for path, field in fixed:
        holder = "names" if "names" in path else ""
        is_value = (new["spec"][holder] if holder else new["spec"]).get(field)
        was_value = (before["spec"][holder] if holder else before["spec"]).get(field)
        if is_value != was_value:
            yield invalid(path, is_value, "field is immutable")


RULES = kind_rules(
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    fill=_fill,
    check=_check,
    change=_change,
    held_by=(CLEANUP,),
)
