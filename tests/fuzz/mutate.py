"""Seeded damage to manifests, as bytes and as objects. Used by the fuzz tests; the same number gives the same damage.

Damage to objects knows their shape: it puts the wrong thing in the right place, which is where readers break.
Damage to text does not, which is where parsers break.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from muster.model.documents import parse_documents
from muster.model.errors import InvalidObject

Path = tuple[Any, ...]
Objects = list[Any]

WRONG = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**300, 10**450, 0.5, -0.0, 1e308, 1e-320, 3.0,
    float("nan"), float("inf"), "", " ", "0", "-1", "true", "null", "a/b/c", "/", "..", "x" * 64, "x" * 254,
    "x" * 50_000, "é\u202e\u0000", "１２", "%2e%2e/", "{{ .Values.x }}", [], {}, [None], [[]], [{}], {"": None},
    {"a": {"b": {"c": []}}}, ["x"] * 500, {str(number): number for number in range(300)},
)  # fmt: skip
QUANTITIES = (
    "", "-1", "-1E30", "1 Gi", "1gi", "1GiB", "NaN", "0x10", "1_000", "１", "1e", "--1", "1e999999999", "10E",
    "9" * 350, "0.1m", "1n", ".5", "5.", "+1", "1Ei", "8Ei", "9223372036854775808", "1e-999999999", "1m", "0",
)  # fmt: skip
KINDS = (
    "ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "Workload", "AdmissionCheck", "WorkloadPriorityClass",
    "PriorityClass", "Namespace", "Node", "Pod", "Job", "List", "Topology", "ConfigMap", "", "Nonsense",
)  # fmt: skip
KUEUE = "kueue.x-k8s.io/v1beta2"


@dataclass(frozen=True)
class Case:
    """One damaged text: where it is from, what was done to it."""

    number: int
    source: str
    text: bytes
    damage: tuple[str, ...]

    def __str__(self) -> str:
        return f"case {self.number}: {self.source} after {', '.join(self.damage)}"


def case(number: int, corpus: Sequence[tuple[str, bytes]]) -> Case:
    """The case of a number; the files take turns, and each comes with both kinds of damage."""
    dice = random.Random(f"manifest {number}")
    source, text = corpus[number % len(corpus)]
    objects = parsed(text)
    if objects and dice.random() < 0.7:
        if dice.random() < 0.3:
            objects += parsed(dice.choice(corpus)[1])
        return _damaged_objects(number, source, objects, dice)
    return _damaged_text(number, source, text, dice)


def parsed(text: bytes) -> Objects:
    """The objects of a text; none where it is not YAML, as a few files are on purpose."""
    try:
        return [document.value for document in parse_documents(text, "")]
    except InvalidObject:
        return []


# Objects ----------------------------------------------------------------------------------------------------------


def paths_of(value: Any, before: Path = ()) -> Iterator[Path]:
    """The way to every field and item below a value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*before, key)
        yield from paths_of(value[key], (*before, key))


def holder_of(objects: Objects, path: Path) -> Any:
    holder: Any = objects
    for step in path[:-1]:
        holder = holder[step]
    return holder


def a_path(objects: Objects, dice: random.Random, wanted: Callable[[Path, Any], bool] | None = None) -> Path | None:
    """A place in the objects, any or one that is wanted."""
    found = [path for path in paths_of(objects) if wanted is None or wanted(path, holder_of(objects, path)[path[-1]])]
    return dice.choice(found) if found else None


def put(objects: Objects, path: Path | None, value: Any) -> None:
    if path:
        holder_of(objects, path)[path[-1]] = value


def null(objects: Objects, dice: random.Random) -> None:
    put(objects, a_path(objects, dice), None)


def wrong_value(objects: Objects, dice: random.Random) -> None:
    put(objects, a_path(objects, dice), copy.deepcopy(dice.choice(WRONG)))


def wrong_leaf(objects: Objects, dice: random.Random) -> None:
    path = a_path(objects, dice, lambda _, value: not isinstance(value, (dict, list)))
    put(objects, path, copy.deepcopy(dice.choice(WRONG)))


def bad_quantity(objects: Objects, dice: random.Random) -> None:
    holders = ("requests", "limits", "capability", "overhead", "resourceUsage", "allocatable", "capacity", "resource")
    fields = ("nominalQuota", "borrowingLimit", "lendingLimit", "weight")
    path = a_path(objects, dice, lambda path, _: path[-1] in fields or (len(path) > 1 and path[-2] in holders))
    put(objects, path, dice.choice(QUANTITIES))


def absent(objects: Objects, dice: random.Random) -> None:
    if path := a_path(objects, dice):
        del holder_of(objects, path)[path[-1]]


def doubled(objects: Objects, dice: random.Random) -> None:
    path = a_path(objects, dice, lambda path, _: isinstance(path[-1], int))
    if path:
        items = holder_of(objects, path)
        items += [copy.deepcopy(items[path[-1]]) for _ in range(dice.choice((1, 1, 30, 300)))]


def renamed(objects: Objects, dice: random.Random) -> None:
    path = a_path(objects, dice, lambda path, _: isinstance(path[-1], str))
    if path:
        holder = holder_of(objects, path)
        name = dice.choice(("", "spec", "name", path[-1].upper(), path[-1] + " ", "x" * 300, "a.b/c", "__class__"))
        holder[name] = holder.pop(path[-1])


def swapped(objects: Objects, dice: random.Random) -> None:
    one, other = a_path(objects, dice), a_path(objects, dice)
    if one and other:
        first = copy.deepcopy(holder_of(objects, one)[one[-1]])
        second = copy.deepcopy(holder_of(objects, other)[other[-1]])
        put(objects, one, second)
        try:
            put(objects, other, first)
        except (KeyError, IndexError, TypeError):
            return  # The first swap took the second place away.


def other_kind(objects: Objects, dice: random.Random) -> None:
    one = dice.choice(objects)
    if isinstance(one, dict):
        one["kind"] = dice.choice(KINDS)
        if dice.random() < 0.5:
            one["apiVersion"] = dice.choice((KUEUE, "kueue.x-k8s.io/v1beta1", "v1", "batch/v1", "", "///", "v9"))


def nested(objects: Objects, dice: random.Random) -> None:
    deep: Any = "bottom"
    for _ in range(dice.choice((20, 60, 99, 150))):
        deep = {"a": deep} if dice.random() < 0.5 else [deep]
    put(objects, a_path(objects, dice), deep)


def cohort_circle(objects: Objects, dice: random.Random) -> None:
    length = dice.choice((1, 2, 3, 40))
    for number in range(length):
        spec = {"parentName": f"circle-{(number + 1) % length}"}
        objects.append({"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": f"circle-{number}"}, "spec": spec})
    for one in objects:
        if isinstance(one, dict) and one.get("kind") == "ClusterQueue" and isinstance(one.get("spec"), dict):
            one["spec"]["cohortName"] = one["spec"]["cohort"] = "circle-0"


def cohort_chain(objects: Objects, dice: random.Random) -> None:
    for number in range(dice.choice((10, 300, 1_000))):
        metadata, spec = {"name": f"chain-{number}"}, {"parentName": f"chain-{number + 1}"}
        objects.append({"apiVersion": KUEUE, "kind": "Cohort", "metadata": metadata, "spec": spec})


OBJECT_DAMAGE = (
    null, null, wrong_value, wrong_value, wrong_leaf, wrong_leaf, bad_quantity, bad_quantity, absent, absent, doubled,
    renamed, swapped, other_kind, nested, cohort_circle, cohort_chain,
)  # fmt: skip


def _damaged_objects(number: int, source: str, objects: Objects, dice: random.Random) -> Case:
    done = []
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 8))):
        damage = dice.choice(OBJECT_DAMAGE)
        if objects:
            damage(objects, dice)
            done.append(damage.__name__)
    return Case(number, source, written(objects, dice), tuple(done))


def written(objects: Objects, dice: random.Random) -> bytes:
    """The objects as text: JSON one after the other, a List, or YAML."""
    way = dice.choice(("json", "list", "yaml"))
    if way == "yaml":
        return yaml.safe_dump_all(objects, sort_keys=False).encode()
    if way == "list":
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=1).encode()
    return "\n".join(json.dumps(one) for one in objects).encode()


# Text -------------------------------------------------------------------------------------------------------------


def flip(text: bytes, dice: random.Random) -> bytes:
    changed = bytearray(text or b"x")
    for _ in range(dice.choice((1, 1, 3, 20))):
        changed[dice.randrange(len(changed))] = dice.choice((dice.randrange(256), *b"\0\t\n :-[]{}&*!|>'\"%@`#?,\\"))
    return bytes(changed)


def truncate(text: bytes, dice: random.Random) -> bytes:
    return text[: dice.randrange(len(text) + 1)]


def a_line(text: bytes, dice: random.Random) -> tuple[list[bytes], int]:
    lines = text.split(b"\n")
    return lines, dice.randrange(len(lines))


def indent(text: bytes, dice: random.Random) -> bytes:
    lines, at = a_line(text, dice)
    lines[at] = dice.choice((b" ", b"  ", b"\t", b"        ", b"- ")) + lines[at]
    return b"\n".join(lines)


def outdent(text: bytes, dice: random.Random) -> bytes:
    lines, at = a_line(text, dice)
    lines[at] = lines[at][dice.choice((1, 2, 4)) :]
    return b"\n".join(lines)


def repeat_line(text: bytes, dice: random.Random) -> bytes:
    lines, at = a_line(text, dice)
    lines[at:at] = [lines[at]] * dice.choice((1, 1, 50))
    return b"\n".join(lines)


def drop_line(text: bytes, dice: random.Random) -> bytes:
    lines, at = a_line(text, dice)
    del lines[at]
    return b"\n".join(lines)


def swap_lines(text: bytes, dice: random.Random) -> bytes:
    lines, at = a_line(text, dice)
    other = dice.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def odd_value(text: bytes, dice: random.Random) -> bytes:
    """Something that YAML has a meaning for, in place of a value."""
    values = (
        b"&a [*a]", b"*a", b"&a x", b"{<<: *a}", b"!!python/object:os.system x", b"!x y", b".inf", b".nan", b"1e999",
        b"0o17", b"0x" + b"f" * 500, b"9" * 500, b"~", b"yes", b"2001-01-01", b"1:30", b"|", b">-", b"[", b"{", b"'",
        b'"', b'"\\0"', b'"\\ud800"', b"[" * 2_000, b"- " * 500, b"? x", b"<<", b"\xff\xfe", b"\xed\xa0\x80", b"%",
    )  # fmt: skip
    lines, at = a_line(text, dice)
    key, colon, _ = lines[at].partition(b":")
    lines[at] = key + (colon or b":") + b" " + dice.choice(values)
    return b"\n".join(lines)


def bomb(text: bytes, dice: random.Random) -> bytes:
    wide, deep = dice.choice((2, 10)), dice.choice((3, 9, 20))
    lines = ["b0: &b0 [x, x]"]
    lines += [f"b{one}: &b{one} [{', '.join([f'*b{one - 1}'] * wide)}]" for one in range(1, deep)]
    return text + b"\n" + "\n".join(lines).encode()


def merged(text: bytes, dice: random.Random) -> bytes:
    """The whole document merged into itself, or into a copy."""
    if dice.random() < 0.5:
        return b"&all\n" + text + b"\n<<: *all\n"
    lines = [b"  " + line for line in text.split(b"\n") if not line.startswith(b"---")]
    return b"base: &base\n" + b"\n".join(lines) + b"\n<<: *base\n"


def glued(text: bytes, dice: random.Random) -> bytes:
    return text + dice.choice((b"", b"\n---\n", b"\n...\n", b"\n%YAML 1.9\n---\n", b"{", b"\xef\xbb\xbf")) + text


TEXT_DAMAGE = (
    flip, flip, flip, truncate, truncate, indent, indent, outdent, outdent, repeat_line, drop_line, swap_lines,
    odd_value, odd_value, odd_value, bomb, merged, glued,
)  # fmt: skip


def _damaged_text(number: int, source: str, text: bytes, dice: random.Random) -> Case:
    done = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        damage = dice.choice(TEXT_DAMAGE)
        text = damage(text, dice)
        done.append(damage.__name__)
    return Case(number, source, text, tuple(done))
