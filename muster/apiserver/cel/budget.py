"""How many steps the rules of one object may take. Made by callers of `Program.evaluate`, charged by the evaluator."""

from __future__ import annotations

from muster.apiserver.cel.problems import CostExceeded

RULE_STEPS = 1_000_000  # Kubernetes' limit for one call
OBJECT_STEPS = 3_000_000  # Kubernetes grants ten million; here a million may take half a second of the only process


class Budget:
    """Steps left for the rules of one object; a single rule gets no more than its share of them."""

    __slots__ = ("_rule_steps", "left", "left_to_others")

    def __init__(self, steps: int, *, rule_steps: int = RULE_STEPS) -> None:
        assert steps >= 0 <= rule_steps, f"{steps} steps, {rule_steps} for each rule"
        self._rule_steps = rule_steps
        self.left = 0  # of the rule that runs
        self.left_to_others = steps

    @property
    def steps_left(self) -> int:
        """What the rules that come now may use together."""
        return self.left + self.left_to_others

    def begin_rule(self) -> None:
        """Give the next rule its share; what the one before did not use is there again."""
        total = self.left + self.left_to_others
        self.left = min(total, self._rule_steps)
        self.left_to_others = total - self.left

    def charge(self, steps: int) -> None:
        """Use up steps before the work is done that they stand for."""
        self.left -= steps
        if self.left < 0:
            self.left = 0
            raise CostExceeded(is_budget_spent=self.left_to_others == 0)
