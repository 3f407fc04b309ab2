"""Writes the tables of muster/apiserver/facts/ anew from a real Kubernetes: `python -m tools.kubernetes_facts`.

Types come from the Go program of tests/kubernetes/controlplane, kinds from a control plane that it starts. Only facts
are kept: names, numbers, types and merge rules, never a sentence. The same Kubernetes gives the same files.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.kubernetes.build import kubernetes_version, program
from tests.kubernetes.client import Client
from tests.kubernetes.plane import started
from tests.support import ROOT

FACTS = ROOT / "muster" / "apiserver" / "facts"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SENT_ONLY = ("meta.k8s.io/v1",)  # forms of other kinds' answers; discovery does not list them
HISTORIC_SELECTORS = ("status.successful",)  # of jobs; the name of no field

Json = dict[str, Any]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as plane:
        texts = tables(plane.client)
    for old in (FACTS / "types").glob("*.json"):
        old.unlink()
    for name, text in texts.items():
        (FACTS / name).write_text(text)


def tables(client: Client) -> dict[str, str]:
    """The texts of the tables by the names of their files."""
    known = json.loads(subprocess.run([program(), "types"], check=True, capture_output=True).stdout)
    kinds = [with_answers(kind, known, client) for kind in served_kinds(client)]
    group_versions = list(dict.fromkeys(group_version(kind) for kind in kinds))
    named = known_kinds(known["kinds"], [*group_versions, *SENT_ONLY])
    roots = [f"{one['package']}.{kind}" for one in named["groupVersions"].values() for kind in one["kinds"]]
    roots += [META + kind for kind in named["everywhere"]]
    types = {name: known["types"][name] for name in reachable(roots, known["types"])}
    return {"kinds.json": kinds_text(kinds, named), **types_texts(types)}


# Kinds ---------------------------------------------------------------------------------------------------------------


def group_version(kind: Json) -> str:
    return f"{kind['group']}/{kind['version']}" if kind["group"] else str(kind["version"])


def served_kinds(client: Client) -> Iterator[Json]:
    """The kinds that discovery lists, in its order."""
    for root in ("/api", "/apis"):
        for group in client.request("GET", root, accept=DISCOVERY).json["items"]:
            for version in group["versions"]:
                place = {"group": group["metadata"].get("name", ""), "version": version["version"]}
                yield from (kind_row(place, resource) for resource in version["resources"])


def kind_row(place: Json, resource: Json) -> Json:
    """What discovery says of one kind; lists that are empty are left out."""
    optional = {
        "shortNames": resource.get("shortNames"),
        "categories": resource.get("categories"),
        "subresources": {one["subresource"]: part_row(place, one) for one in resource.get("subresources", ())},
    }
    return {
        **place,
        "kind": resource["responseKind"]["kind"],
        "plural": resource["resource"],
        "singular": resource["singularResource"],
        "namespaced": resource["scope"] == "Namespaced",
        "verbs": sorted(resource["verbs"]),
        **{name: value for name, value in optional.items() if value},
    }


def part_row(place: Json, part: Json) -> Json:
    """What discovery says of a subresource; the group and version only where they are not those of its kind."""
    kind = part["responseKind"]
    # Discovery leaves out what the kind's own group and version already say.
    elsewhere = {name: kind[name] for name in ("group", "version") if kind.get(name, "") not in ("", place[name])}
    return {**elsewhere, "kind": kind["kind"], "verbs": sorted(part["verbs"])}


def with_answers(kind: Json, known: Json, client: Client) -> Json:
    """A kind with what the server tells when its objects are listed: columns, and which fields select."""
    if "list" not in kind["verbs"]:
        return kind
    path = f"/{'apis' if kind['group'] else 'api'}/{group_version(kind)}/{kind['plural']}"
    table = client.request("GET", path, accept=TABLE).json
    columns = [
        {name: one[name] for name in ("name", "type", "format", "priority") if one[name]}
        for one in table["columnDefinitions"]
    ]
    type_name = known["kinds"][f"{group_version(kind)} {kind['kind']}"]
    candidates = sorted({*field_paths(type_name, known["types"], depth=2), *HISTORIC_SELECTORS})
    selectors = [one for one in candidates if is_selector(one, path, client)]
    return {**kind, "fieldSelectors": selectors, "columns": columns}


def is_selector(name: str, path: str, client: Client) -> bool:
    return client.request("GET", f"{path}?limit=1&fieldSelector={quote(name + '=x')}").status == 200


def field_paths(type_name: str, types: Json, depth: int) -> Iterator[str]:
    """The dotted names of the fields of a type, and of the objects in it."""
    for name, field in types[type_name]["fields"].items():
        yield name
        if depth > 1 and field["type"] in types:
            yield from (f"{name}.{inner}" for inner in field_paths(field["type"], types, depth - 1))


def known_kinds(kinds: dict[str, str], group_versions: Iterable[str]) -> Json:
    """The kinds that clients may send, by group and version, and those that every group has."""
    named: Json = {one: {"package": "", "kinds": []} for one in group_versions}
    everywhere = set()
    for key, type_name in sorted(kinds.items()):
        where, kind = key.split(" ")
        package, _, short_name = type_name.rpartition(".")
        if where not in named or short_name == "WatchEvent":  # registered as a kind, but never sent as one
            continue
        if package + "." == META and where != "meta.k8s.io/v1":
            everywhere.add(short_name)
            continue
        assert kind == short_name and named[where]["package"] in ("", package), f"{key} is the type {type_name}"
        named[where]["package"] = package
        named[where]["kinds"].append(kind)
    return {"groupVersions": named, "everywhere": sorted(everywhere)}


def kinds_text(kinds: list[Json], named: Json) -> str:
    """One line for each kind, so that a difference between two versions can be read."""
    places = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in named["groupVersions"].items())
    rows = ",\n".join(json.dumps(kind) for kind in kinds)
    return (
        f'{{"version": "{kubernetes_version()}",\n"everywhere": {json.dumps(named["everywhere"])},\n'
        f'"groupVersions": {{\n{places}}},\n"kinds": [\n{rows}]}}\n'
    )


# Types ---------------------------------------------------------------------------------------------------------------


def reachable(roots: Iterable[str], types: Json) -> list[str]:
    """The named types and all that their fields are made of."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        fields = [*types[name]["fields"].values(), *types[name].get("inlined", {}).values()]
        held = [re.sub(r"^(box |\[\]|map\[string\])*", "", field["type"]) for field in fields]
        waiting += [one for one in held if "." in one]
    return sorted(found)


def types_texts(types: Json) -> dict[str, str]:
    """One file for each package, with a line for each field in the order of the wire."""
    packages: dict[str, list[str]] = {}
    for name, facts in types.items():
        package, _, short_name = name.rpartition(".")
        packages.setdefault(package, []).append(f'"{short_name}": {type_text(facts)}')
    return {f"types/{package}.json": "{\n" + ",\n".join(texts) + "}\n" for package, texts in packages.items()}


def type_text(facts: Json) -> str:
    parts = [f'"{name}": {json.dumps(facts[name])}' for name in ("mapType", "unions") if facts.get(name)]
    parts += [f'"{name}": {{{fields_text(facts[name])}}}' for name in ("inlined", "fields") if name in facts]
    return "{" + ", ".join(parts) + "}"


def fields_text(fields: Json) -> str:
    ordered = sorted(fields.items(), key=lambda item: (item[1].get("number", 0), item[0]))
    for _, field in ordered:
        if "enum" in field:
            field["enum"] = sorted(field["enum"])
    return ",".join(f'\n "{name}": {json.dumps(field)}' for name, field in ordered)


if __name__ == "__main__":
    main()
