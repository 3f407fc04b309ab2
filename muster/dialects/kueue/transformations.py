"""What quota counts of a pod's requests: prefixes left out, and resources rewritten into others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from muster.model.resources import AMOUNT_MAX, CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """Each unit of the input yields the outputs, times the amount of another resource where one is named."""

    input: str
    outputs: Mapping[str, int]  # per unit of the input, in the outputs' own units
    replaces: bool = False  # the input itself is no longer counted
    multiplied_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRules:
    """How a pod's requests become what quota counts."""

    excluded_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()

    def counted(self, requests: Mapping[str, int]) -> dict[str, int]:
        """The requests of one pod as quota counts them."""
        kept = {
            name: amount for name, amount in requests.items() if not name.startswith(self.excluded_prefixes or ("\0",))
        }
        if not self.transformations:
            return {name: max(0, amount) for name, amount in kept.items()}
        result: dict[str, int] = {}
        rules = {rule.input: rule for rule in self.transformations}
        for name, amount in kept.items():
            rule = rules.get(name)
            if rule is None or not rule.replaces:
                result[name] = result.get(name, 0) + amount
            if rule is not None:
                for output, each in rule.outputs.items():
                    result[output] = result.get(output, 0) + _yield(rule, each, kept)
        return {name: min(AMOUNT_MAX, max(0, amount)) for name, amount in result.items()}


def _yield(rule: Transformation, each: int, requests: Mapping[str, int]) -> int:
    """What one output gets, rounded up: quota is never undercounted."""
    amount = each * _units(rule.input, requests.get(rule.input, 0))
    if rule.multiplied_by:
        amount *= _units(rule.multiplied_by, requests.get(rule.multiplied_by, 0))
    return ceil(amount)


def _units(resource: str, amount: int) -> Fraction:
    return Fraction(amount, 1000) if resource == CPU else Fraction(amount)
