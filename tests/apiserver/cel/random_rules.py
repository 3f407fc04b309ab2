"""Random rules and objects for one schema. Used by proofs here and by the comparison with a real API server.

Rules are mostly well typed, with a mistake now and then; objects fit the schema. Divisions, indexes and missing
fields make some rules come to no value.
"""

from __future__ import annotations

from random import Random
from typing import Any

TEXT = {"type": "string", "maxLength": 8}
NUMBER = {"type": "integer"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": NUMBER,
        "m": NUMBER,
        "d": {"type": "number"},
        "s": TEXT,
        "t": TEXT,
        "flag": {"type": "boolean"},
        "either": {"x-kubernetes-int-or-string": True, "maxLength": 8},
        "numbers": {"type": "array", "maxItems": 4, "items": NUMBER},
        "words": {"type": "array", "maxItems": 4, "items": TEXT, "x-kubernetes-list-type": "set"},
        "counts": {"type": "object", "maxProperties": 4, "additionalProperties": NUMBER},
        "inner": {"type": "object", "properties": {"n": NUMBER, "s": TEXT}},
    },
}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def random_object(chance: Random) -> dict[str, Any]:
    """An object that the schema takes; each field may be missing."""
    words = chance.sample(["a", "b", "ab", "B", "é", "1", ""], 3)
    whole = {
        "n": chance.randint(-2, 3),
        "m": chance.choice([0, 1, 2**63 - 1]),
        "d": chance.choice([0, 0.5, -1.5, 2]),
        "s": chance.choice(words),
        "t": chance.choice(["", "x", "a,b", "12"]),
        "flag": chance.random() < 0.5,
        "either": chance.choice([1, 3, "1", "50%"]),
        "numbers": [chance.randint(-1, 3) for _ in range(chance.randint(0, 3))],
        "words": words[: chance.randint(0, 3)],
        "counts": {key: chance.randint(0, 2) for key in "abc"[: chance.randint(0, 3)]},
        "inner": {"n": chance.randint(0, 2)} if chance.random() < 0.7 else {},
    }
    return {name: value for name, value in whole.items() if chance.random() < 0.9}


def random_rule(chance: Random) -> str:
    """A rule about such an object."""
    return _truth(chance, 3)


def _truth(chance: Random, depth: int) -> str:
    if depth == 0:
        return chance.choice(["true", "self.flag", "has(self.n)", "has(self.inner.s)", "self.either == 1"])
    below = depth - 1
    match chance.randrange(11):
        case 0:
            return f"({_truth(chance, below)} && {_truth(chance, below)})"
        case 1:
            return f"({_truth(chance, below)} || {_truth(chance, below)})"
        case 2:
            return f"!{_truth(chance, below)}"
        case 3:
            return f"({_truth(chance, below)} ? {_truth(chance, below)} : {_truth(chance, below)})"
        case 4:
            return f"{_number(chance, below)} {chance.choice(_COMPARISONS)} {_number(chance, below)}"
        case 5:
            return f"{_text(chance, below)} {chance.choice(_COMPARISONS)} {_text(chance, below)}"
        case 6:
            return (
                f"{_list(chance, below)}.{chance.choice(['all', 'exists', 'exists_one'])}(x, x > {_number(chance, 0)})"
            )
        case 7:
            return f"{_text(chance, below)}.{chance.choice(['startsWith', 'contains', 'endsWith'])}({_text(chance, 0)})"
        case 8:
            return f"{_number(chance, below)} in {_list(chance, below)}"
        case 9:
            return chance.choice(
                [
                    "self.words == ['b', 'a']",
                    "self.counts.all(k, v, v > 0)",
                    "self.d > self.n",
                    "self.inner == self.inner",
                    "type(self.either) == string",
                    "self.either > 2",
                    "self.t.matches('^[a-z,]+$')",
                    "self.?inner.?n.orValue(5) > 1",
                    "self.words.exists(w, w in self.counts)",
                    "self.nowhere == 1",  # a mistake
                    "self.n == self.s",  # and another
                ]
            )
    return f"size({_text(chance, below)}) >= {_number(chance, below)}"


def _number(chance: Random, depth: int) -> str:
    if depth == 0:
        return chance.choice(["0", "1", "-1", "self.n", "self.m", "self.inner.n", "self.counts['a']"])
    below = depth - 1
    match chance.randrange(7):
        case 0:
            return f"({_number(chance, below)} {chance.choice('+-*/%')} {_number(chance, below)})"
        case 1:
            return f"size({_list(chance, below)})"
        case 2:
            return f"{_list(chance, below)}[{_number(chance, 0)}]"
        case 3:
            return f"{_list(chance, below)}.{chance.choice(['sum()', 'min()', 'max()', 'indexOf(1)'])}"
        case 4:
            return f"int({_text(chance, 0)})"
        case 5:
            return f"{_text(chance, below)}.{chance.choice(['indexOf', 'lastIndexOf'])}({_text(chance, 0)})"
    return _number(chance, 0)


def _text(chance: Random, depth: int) -> str:
    if depth == 0:
        return chance.choice(["''", "'a'", "self.s", "self.t", "self.inner.s", "self.words[0]"])
    below = depth - 1
    match chance.randrange(6):
        case 0:
            return f"({_text(chance, below)} + {_text(chance, below)})"
        case 1:
            return f"string({_number(chance, below)})"
        case 2:
            return f"{_text(chance, below)}.{chance.choice(['upperAscii()', 'trim()', 'charAt(0)', 'substring(1)'])}"
        case 3:
            return f"{_text(chance, below)}.replace('a', {_text(chance, 0)})"
        case 4:
            return f"'%s-%d'.format([{_text(chance, 0)}, {_number(chance, 0)}])"
    return _text(chance, 0)


def _list(chance: Random, depth: int) -> str:
    if depth == 0:
        return chance.choice(["self.numbers", "[1, 2]", "[0]", "self.numbers"])
    below = depth - 1
    match chance.randrange(5):
        case 0:
            return f"{_list(chance, below)}.filter(x, x != {_number(chance, 0)})"
        case 1:
            return f"{_list(chance, below)}.map(x, x {chance.choice('+-*/')} {_number(chance, 0)})"
        case 2:
            return f"({_list(chance, below)} + {_list(chance, below)})"
        case 3:
            return f"{_list(chance, below)}.{chance.choice(['sort()', 'reverse()', 'distinct()', 'slice(0, 1)'])}"
    return _list(chance, 0)
