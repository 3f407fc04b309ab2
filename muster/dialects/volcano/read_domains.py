"""HyperNodes: domains of the network by their members. Called by `read`.

Members are named, or chosen by their labels or by a pattern of their names, as Go understands patterns: the time that
one takes grows with the names alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import re2  # type: ignore[import-untyped]

from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.groups import NetworkDomain
from muster.model.labels import read_selector, selects
from muster.model.topology import Node

PATTERN_MOST = 200
MEMBERS_MOST = 10_000


def read_domains(
    objects: Iterable[Fields], nodes: Mapping[str, Node], refused: list[tuple[str, InvalidObject]]
) -> dict[str, NetworkDomain]:
    """All HyperNode objects that can be read."""
    given = list(objects)
    names = [obj.child("metadata").text("name") for obj in given]
    found: dict[str, NetworkDomain] = {}
    for obj in given:
        try:
            domain = read_domain(obj, nodes, names)
            found[domain.name] = domain
        except InvalidObject as problem:
            refused.append((f"HyperNode {obj.child('metadata').text('name')}", problem))
    return found


def read_domain(obj: Fields, nodes: Mapping[str, Node], names: Iterable[str]) -> NetworkDomain:
    """One HyperNode object."""
    spec = obj.child("spec")
    members: dict[str, list[str]] = {"Node": [], "HyperNode": []}
    if len(spec.items("members")) > MEMBERS_MOST:
        raise spec.error("members", f"holds {len(spec.items('members'))} entries", f"give at most {MEMBERS_MOST}")
    for member in spec.children("members"):
        kind = member.choice("type", ("Node", "HyperNode"))
        if not kind:
            raise member.error("type", "is missing", "give Node or HyperNode")
        known = nodes if kind == "Node" else dict.fromkeys(names)
        members[kind].extend(_chosen(member.child("selector"), known, nodes if kind == "Node" else {}))
    return NetworkDomain(
        name=obj.child("metadata").text("name"),
        tier=spec.integer("tier", least=0),
        tier_name=spec.text("tierName"),
        domains=tuple(dict.fromkeys(members["HyperNode"])),
        nodes=tuple(dict.fromkeys(members["Node"])),
    )


def _chosen(selector: Fields, names: Iterable[str], nodes: Mapping[str, Node]) -> list[str]:
    """The names that a selector chooses."""
    ways = [way for way in ("exactMatch", "regexMatch", "labelMatch") if selector.has(way)]
    if len(ways) != 1:
        problem = f"has {' and '.join(ways) or 'no way to match'}"
        raise InvalidObject(selector.path, problem, "give one of exactMatch, regexMatch and labelMatch")
    if ways == ["exactMatch"]:
        return [selector.child("exactMatch").text("name")]
    if ways == ["regexMatch"]:
        pattern = _pattern(selector.child("regexMatch"))
        return [name for name in names if pattern.search(name)]
    by_label = read_selector(selector, "labelMatch")
    return [name for name, node in nodes.items() if selects(by_label, node.labels)]


def _pattern(fields: Fields) -> Any:
    text = fields.text("pattern")
    if not text or len(text) > PATTERN_MOST:
        raise fields.error("pattern", f"has {len(text)} characters", f"give 1 to {PATTERN_MOST}")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options=options)
    except re2.error as problem:
        raise fields.error("pattern", f"is no regular expression: {problem}") from None
