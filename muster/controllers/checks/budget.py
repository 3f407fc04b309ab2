"""The check `muster.dev/budget`: a workload starts if its namespace or queue can pay for it. Put together by `app`.

`BudgetKeeper` writes down what is spent, by what runs and by the time that passes; `BudgetJudge` answers by that.
Answers are given one after the other, so that no two workloads are granted the same money. What runs is not stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.controllers.belonging import WORKLOADS, has_condition
from muster.controllers.checks.base import (
    CHECKS,
    PENDING,
    READY,
    REJECTED,
    RETRY,
    Answer,
    Asked,
    states_of,
    waiting_for,
)
from muster.controllers.loop import Turn
from muster.controllers.nodes.pools import PRICE
from muster.controllers.view import Seen, View
from muster.dialects.kueue.budgets import (
    HOUR_S,
    Prices,
    account_of,
    left_s,
    listed_prices,
    priced_nodes,
    spent_of,
)
from muster.dialects.kueue.check_kinds import ACCOUNTS_MOST, BUDGET_CHECKS, MUSTER, WAIT
from muster.dialects.kueue.job_statuses import condition_of
from muster.dialects.kueue.names import GROUP
from muster.model.fields import Fields
from muster.model.times import moment, moment_text
from muster.store.kinds import Object
from muster.store.records import Key

NAME = f"{MUSTER}/budget"
FLAVORS, NODES = f"resourceflavors.{GROUP}", "nodes"
RENEW_S = 60.0  # between two notes of what is spent, while nothing changes
_WAIT_S = 300  # until a workload that waits for money is looked at again


class BudgetJudge:
    """Says who can pay."""

    name = NAME
    parameters = BUDGET_CHECKS
    kind = (MUSTER, "BudgetCheck")
    resources = frozenset((BUDGET_CHECKS, FLAVORS, NODES))
    is_exclusive = True

    def problem(self, parameters: Object) -> str:
        spec = parameters["spec"]
        prices = (one.get("perHour", 0) for one in spec.get("prices") or ())
        return "an amount and prices are at least 0" if min((spec["amount"], *prices)) < 0 else ""

    def concerned(self, _seen: Seen, _view: View) -> Iterable[Key]:
        return ()

    async def judge(self, turn: Turn, asked: Asked) -> Answer | None:
        if asked.state.get("state") != PENDING:
            return None
        books = _Books(Fields(asked.parameters), turn.view, turn.now_s)
        workload = Fields(asked.workload)
        account = account_of(workload, books.scope)
        spent, promised, asks = books.spent(account), books.promised(account, workload), books.expected(workload)
        told = f"{account} has spent {spent:.2f} and promised {promised:.2f} of {books.amount:.2f}"
        if spent + promised + asks <= books.amount:
            return Answer(state=READY, message=f"{told}; {asks:.2f} more is expected")
        message = f"{told}, which leaves too little for {asks:.2f}"
        if books.spec.text("whenExceeded") == WAIT:
            return Answer(state=RETRY, message=message, requeue_after_s=_WAIT_S)
        return Answer(state=REJECTED, message=message)


class BudgetKeeper:
    """Writes down what is spent."""

    name = "budgets"

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == BUDGET_CHECKS:
            yield seen.key
        elif seen.key.resource == WORKLOADS and _runs(seen.before) != _runs(seen.now):
            names = {one["name"] for obj in (seen.before, seen.now) if obj is not None for one in states_of(obj)}
            for name in sorted(names):
                check = view.get(Key(CHECKS, "", name))
                if check is not None and check["spec"].get("controllerName") == NAME:
                    yield Key(BUDGET_CHECKS, "", (check["spec"].get("parameters") or {}).get("name") or "")

    async def reconcile(self, turn: Turn) -> None:
        budget = turn.view.get(turn.key)
        if budget is None:
            return
        books = _Books(Fields(budget), turn.view, turn.now_s)
        rates = {name: f"{rate:.6f}" for name, rate in books.rates().items()}
        if rates or books.is_running:
            turn.look_again(RENEW_S)
        if rates == books.noted_rates and not (books.is_running and books.is_old(RENEW_S)):
            return
        names = sorted(rates.keys() | books.accounts.keys())[:ACCOUNTS_MOST]
        accounts = [
            {
                "name": name,
                "spent": f"{books.spent(name):.6f}",
                "perHour": rates.get(name, f"{0.0:.6f}"),
                "at": moment_text(turn.now_s),
            }
            for name in names
        ]
        await turn.update_status(turn.key, {**budget, "status": {"accounts": accounts}})


@dataclass(frozen=True, slots=True)
class _Account:
    spent: float  # by now
    per_hour: str
    at_s: float


class _Books:
    """What is known of one budget at one moment."""

    def __init__(self, budget: Fields, view: View, now: float) -> None:
        self.spec = budget.child("spec")
        self.scope = self.spec.text("scope", "Namespace")
        self.amount = self.spec.number("amount")
        self._name = budget.child("metadata").text("name")
        self._view = view
        self._now = now
        self._prices = Prices(
            units=listed_prices(self.spec),
            flavor_labels={
                one["metadata"]["name"]: (one.get("spec") or {}).get("nodeLabels") or {} for one in view.all(FLAVORS)
            },
            nodes=priced_nodes(map(Fields, view.all(NODES)), PRICE),
        )
        self.accounts: dict[str, _Account] = {}
        for one in budget.child("status").children("accounts"):
            at_s = moment(one, "at") or now
            self.accounts[one.text("name")] = _Account(spent_of(one, now, at_s), one.text("perHour"), at_s)

    @property
    def noted_rates(self) -> dict[str, str]:
        """What is being spent for an hour, as it was written down."""
        return {name: one.per_hour for name, one in self.accounts.items() if float(one.per_hour)}

    @property
    def is_running(self) -> bool:
        return bool(self.noted_rates)

    def is_old(self, after_s: float) -> bool:
        return any(one.at_s + after_s <= self._now for one in self.accounts.values())

    def spent(self, account: str) -> float:
        return self.accounts[account].spent if account in self.accounts else 0.0

    def rates(self) -> dict[str, float]:
        """What is being spent for an hour now, by account."""
        found: dict[str, float] = {}
        for workload in self._paid():
            if has_condition(dict(workload.values), "Admitted"):
                account = account_of(workload, self.scope)
                found[account] = found.get(account, 0.0) + self._prices.per_hour(workload)
        return {name: rate for name, rate in found.items() if rate >= 1e-6}

    def promised(self, account: str, but: Fields) -> float:
        """What those of an account are expected to spend yet that may run already."""
        uid = but.child("metadata").text("uid")
        others = (one for one in self._paid() if one.child("metadata").text("uid") != uid)
        return sum(self.expected(one) for one in others if account_of(one, self.scope) == account)

    def expected(self, workload: Fields) -> float:
        """What a workload will spend from now on."""
        admitted = condition_of(workload, "Admitted")
        expected_s = self.spec.integer("expectedSeconds", 3600)
        time_s = left_s(workload, expected_s, admitted.at if admitted.is_true else None, self._now)
        return self._prices.per_hour(workload) * time_s / HOUR_S

    def _paid(self) -> Iterator[Fields]:
        """The workloads that were granted money of this budget and have not come to an end."""
        for check in self._view.all(CHECKS):
            spec = check["spec"]
            is_ours = spec.get("controllerName") == NAME and (spec.get("parameters") or {}).get("name") == self._name
            for key in waiting_for(check["metadata"]["name"], self._view) if is_ours else ():
                workload = self._view.get(key)
                if workload is not None and _is_granted(workload, check["metadata"]["name"]):
                    yield Fields(workload)


def _is_granted(workload: Object, check: str) -> bool:
    is_ready = any(one["name"] == check and one.get("state") == READY for one in states_of(workload))
    return is_ready and has_condition(workload, "QuotaReserved") and not has_condition(workload, "Finished")


def _runs(workload: Object | None) -> bool:
    return workload is not None and has_condition(workload, "Admitted") and not has_condition(workload, "Finished")
